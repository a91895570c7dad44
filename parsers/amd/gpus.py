"""Which AMD GPU a file means and what it can do: from sysinfo, agent lists, rocminfo, ceilings.

AMD's files describe the device in many ways and often badly: product names like "AMD Radeon
Graphics", 128 compute units for 256, a clock of 0. The PCI device id decides where there is one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from traceroof.core.recording import DeviceInfo, Note
from traceroof.core.units import quantity
from traceroof.hardware import device_lookup, devices
from traceroof.parsers.amd.counter_book import Architecture, architecture
from traceroof.parsers.amd.fields import NO_VALUE, gfx, gfx_of_version, read_real, read_whole
from traceroof.parsers.amd.memory_bus import bus_bytes_per_s
from traceroof.parsers.amd.text import TextTable

# A measured ceiling is believed between these shares of the theoretical one. Seen outside it:
# FP64 at 128 % on an MI300X.
_BELIEVABLE = (0.3, 1.05)
# HBM bytes per memory clock and channel (rocprofiler-compute, hbm bandwidth in mspec).
_HBM_BYTES_PER_CLOCK = 32
# Of every card of MI300 and MI350: eight stacks of 16.
_MI300_CHANNELS = 128
# Into how many parts the modes of MI300 and MI350 split the memory and the dies (CPX: one each).
_MEMORY_PARTS = {"NPS2": 2, "NPS4": 4, "NPS8": 8}
_COMPUTE_PARTS = {"DPX": 2, "TPX": 3, "QPX": 4}
# Channels of the L2 of one die (MI200 and MI300).
_L2_CHANNELS_OF_DIE = 16
#: Stands for an architecture of Hygon that the file does not tell.
HYGON = "hygon"
_HYGON = frozenset({HYGON, "gfx926", "gfx928", "gfx936", "gfx938"})


@dataclass(frozen=True)
class Gpu:
    """One GPU as a file describes it; None where it does not.

    index: ordinal among the GPUs. arch: "gfx942". cu, xcd, se: compute units, dies, shader
    engines. Clocks in MHz. dram_bytes_per_s: theoretical. told_by: what the figures come from.
    calibrated: measured rates in byte/s ("dram") and FLOP/s (matrix type or "fp32", "fp64").
    refused: those that cannot be believed. uid: the driver's number of the GPU in its machine.
    """

    index: int | None = None
    name: str | None = None
    arch: str | None = None
    pci_device_id: int | None = None
    cu: int | None = None
    xcd: int | None = None
    se: int | None = None
    max_waves: int | None = None
    lds_banks: int | None = None
    sclk_mhz: float | None = None
    mclk_mhz: float | None = None
    l2_channels: int | None = None
    dram_bytes_per_s: float | None = None
    memory_bytes: int | None = None
    told_by: str = ""
    calibrated: tuple[tuple[str, float], ...] = ()
    calibrated_by: str = ""
    refused: tuple[tuple[str, float], ...] = ()
    driver: str | None = None
    uid: int | None = None

    @property
    def architecture(self) -> Architecture | None:
        return architecture(self.arch)

    def known(self) -> devices.Device | None:
        """The row of the device table, scaled where this is a partition."""
        return device_lookup.find(
            self.name, gfx_target=self.arch, sm_count=self.cu, pci_device_id=self.pci_device_id
        )

    def facts(self) -> dict[str, float | None]:
        """What formulas may ask for by name (see amd_counters.toml)."""
        arch = self.architecture or Architecture()
        table = self.known()
        clock = self.sclk_mhz
        if clock is None and table is not None and table.boost_clock_hz:
            clock = table.boost_clock_hz / 1e6
        # Before MI300 a device had one die.
        one_die = self.arch is not None and not self.arch.startswith(("gfx94", "gfx95"))
        return {
            "cu": self.cu or (table.sm_count if table else None),
            "xcd": self.xcd or (1 if one_die else table.xcd_count if table else None),
            "se": self.se,
            "wave": arch.wave,
            "max_waves": self.max_waves or arch.max_waves,
            "lds_banks": self.lds_banks or arch.lds_banks,
            "l1_line": arch.l1_line,
            "l2_line": arch.l2_line,
            "sclk_mhz": clock,
            "l2_channels": self.l2_channels,
            "peak_dram": self.dram_bytes_per_s
            or (table.dram_bandwidth_bytes_per_s if table else None),
        }

    def peak_flops_per_s(self, kind: str) -> float | None:
        """Theoretical dense FLOP/s for "fp64", "fp32" or a matrix type ("F16", "I8", …)."""
        arch = self.architecture
        rate = arch.flop.get(kind) if arch else None
        facts = self.facts()
        cu, clock = facts["cu"], facts["sclk_mhz"]
        return rate * cu * clock * 1e6 if rate and cu and clock else None

    def info(self) -> DeviceInfo:
        """The same for the recording."""
        return DeviceInfo(
            index=self.index,
            name=self.name,
            gfx_target=None if self.arch == HYGON else self.arch,
            pci_device_id=self.pci_device_id,
            sm_count=self.cu,
            memory_bytes=self.memory_bytes,
            sm_clock_hz=self.sclk_mhz * 1e6 if self.sclk_mhz else None,
            dram_clock_hz=self.mclk_mhz * 1e6 if self.mclk_mhz else None,
            vendor="hygon" if self.arch in _HYGON else "amd",
            driver=self.driver,
            measured=tuple((_RATES[kind], rate) for kind, rate in self.calibrated),
            refused=tuple((_RATES[kind], rate) for kind, rate in self.refused),
        )

    def completed(self, other: "Gpu | None") -> "Gpu":
        """This GPU, with what its file does not say from another description of the same kind."""
        if other is None or (self.arch in _HYGON) != (other.arch in _HYGON):
            return self
        if self.arch not in (None, HYGON, other.arch):
            return self
        mine = {name: value for name, value in vars(self).items() if value not in (None, "", ())}
        return replace(other, **{**mine, "arch": other.arch})


def of_name(name: str | None) -> Gpu | None:
    """The GPU of the device table that the user names; None when it has no such AMD GPU."""
    row = device_lookup.find(name) if name else None
    if row is None or row.gfx_target is None:
        return None
    return Gpu(
        name=row.name,
        arch=row.gfx_target,
        cu=row.sm_count,
        xcd=row.xcd_count,
        told_by="the device table",
    )


def of_agent(fields: Mapping[str, Any], index: int | None) -> Gpu:
    """A GPU from the entry of an agent list (rocprofv3 CSV and JSON, rocpd), names squashed."""
    product = str(fields.get("productname") or "").strip()
    name = str(fields.get("name") or "").strip()
    arch = gfx(name) or gfx_of_version(fields.get("gfxtargetversion"))
    return Gpu(
        index=index,
        name=product or name or None,
        arch=arch,
        pci_device_id=read_whole(fields.get("deviceid")),
        cu=read_whole(fields.get("cucount")),
        xcd=read_whole(fields.get("numxcc")),
        se=read_whole(fields.get("numshaderbanks")),
        max_waves=read_whole(fields.get("maxwavespercu")),
        sclk_mhz=read_real(fields.get("maxengineclkfcompute")),
        memory_bytes=read_whole(fields.get("localmemsize")),
        dram_bytes_per_s=bus_bytes_per_s(arch, fields.get("membanks")),
        told_by="agent list",
        uid=read_whole(fields.get("gpuid")),
    )


@dataclass(frozen=True)
class AgentList:
    """The GPUs of a machine by the numbers that the tool may call them.

    by_node: by the driver's node (``--agent-index absolute``, and the bare numbers of ROCm 6).
    by_position: by their place among all agents, processors included (``relative``, the default).
    """

    by_node: Mapping[int, Gpu] = field(default_factory=dict)
    by_position: Mapping[int, Gpu] = field(default_factory=dict)

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """In the order of the list."""
        return tuple(self.by_node.values())


def of_agent_table(table: TextTable) -> AgentList:
    """The GPUs of a list of agents, ordinals counted over them in the order of the list."""
    by_node: dict[int, Gpu] = {}
    by_position: dict[int, Gpu] = {}
    for place, fields in enumerate(_rows(table)):
        node = _number_in(fields, "nodeid")
        if fields.get("agenttype", "").strip().upper() == "GPU" and node is not None:
            by_node[node] = of_agent(fields, len(by_node))
            position = _number_in(fields, "logicalnodeid")
            by_position[place if position is None else position] = by_node[node]
    return AgentList(by_node, by_position)


def _number_in(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "").strip()
    return int(text) if text.isdigit() else None


def _rows(table: TextTable) -> list[dict[str, str]]:
    columns = [
        (name, cells.to_pylist()) for name, cells in zip(table.names, table.cells, strict=True)
    ]
    return [
        {name: str(values[row]) for name, values in reversed(columns)}
        for row in range(table.num_rows)
    ]


def of_sysinfo(table: TextTable) -> tuple[Gpu | None, list[Note]]:
    """The GPU of a profile folder, from its ``sysinfo.csv`` of any age."""
    rows = _rows(table)
    if not rows:
        return None, []
    fields = rows[0]

    def of(*names: str) -> str | None:
        return next((fields[name] for name in names if name in fields), None)

    mclk, channels = read_real(of("maxmclk", "mclk")), read_whole(of("numhbmchannels"))
    bandwidth = read_real(of("hbmbw"))
    told = bandwidth * 1e9 if bandwidth else None
    arch = gfx(of("gpuarch", "gpusoc"))
    # The formula is of HBM, which only the cards for computing have.
    if told is None and mclk and channels and (arch or "gfx9").startswith("gfx9"):
        told = mclk * 1e6 * _HBM_BYTES_PER_CLOCK * channels
    gpu = Gpu(
        name=(of("gpumodel", "name") or "").strip() or None,
        arch=arch,
        pci_device_id=read_whole(of("gpuchipid")),
        cu=read_whole(of("cupergpu", "numcu")),
        xcd=read_whole(of("numxcd")),
        se=read_whole(of("sepergpu", "numse")),
        max_waves=read_whole(of("maxwavespercu")),
        lds_banks=read_whole(of("ldsbankspercu")),
        sclk_mhz=read_real(of("maxsclk", "sclk")),
        mclk_mhz=mclk,
        l2_channels=read_whole(of("totall2chan", "l2banks")),
        dram_bytes_per_s=told,
        told_by="sysinfo.csv",
        driver=_driver(fields),
    )
    gpu = _part_of_memory(gpu, of("memorypartition"))
    return _part_of_device(gpu, of("computepartition"))


def _driver(fields: Mapping[str, str]) -> str | None:
    """The kernel module's version where the file has it, else that of the ROCm release."""
    for name, title in (("amdgpukernelversion", "amdgpu"), ("rocmversion", "ROCm"),
                        ("hostrocmver", "ROCm")):  # fmt: skip
        version = fields.get(name, "").strip()
        if version.lower() not in NO_VALUE:
            return f"{title} {version}"
    return None


def _card(gpu: Gpu) -> devices.Device | None:
    """The whole card that a GPU is, or is a part of: by its id, else by its name."""
    by_id = device_lookup.find(pci_device_id=gpu.pci_device_id) if gpu.pci_device_id else None
    return by_id or (device_lookup.find(gpu.name, gfx_target=gpu.arch) if gpu.name else None)


def _part_of_memory(gpu: Gpu, mode: str | None) -> Gpu:
    """The GPU with the bandwidth of its part of the memory.

    Some releases count the channels of the part, others those of the card: what is above the part's
    share is of the card.
    """
    parts = _MEMORY_PARTS.get((mode or "").strip().upper(), 1)
    card, told = _card(gpu), gpu.dram_bytes_per_s
    whole = card.dram_bandwidth_bytes_per_s if card is not None else None
    if whole is None and gpu.mclk_mhz and (gpu.arch or "").startswith(("gfx94", "gfx95")):
        whole = gpu.mclk_mhz * 1e6 * _HBM_BYTES_PER_CLOCK * _MI300_CHANNELS
    if told is None and whole is not None and parts > 1:
        return replace(gpu, dram_bytes_per_s=whole / parts)
    if told is None or parts == 1 or (whole is not None and told < 1.5 * whole / parts):
        return gpu
    return replace(gpu, dram_bytes_per_s=told / parts)


def _part_of_device(gpu: Gpu, mode: str | None) -> tuple[Gpu, list[Note]]:
    """The GPU with the size of the part that its mode makes: of the card where that is what the
    file gives, of the part where it was divided already."""
    card, mode = _card(gpu), (mode or "").strip().upper()
    if mode in ("", "SPX") or card is None or not card.xcd_count or not card.sm_count:
        return _whole_device(gpu, card, mode)
    parts = card.xcd_count if mode == "CPX" else _COMPUTE_PARTS.get(mode, 1)
    whole = {
        "cu": card.sm_count,
        "xcd": card.xcd_count,
        "l2_channels": card.xcd_count * _L2_CHANNELS_OF_DIE,
    }
    divided: dict[str, Any] = {
        name: full // parts for name, full in whole.items() if getattr(gpu, name) == full
    }
    if gpu.se and gpu.xcd == card.xcd_count:
        divided["se"] = max(gpu.se // parts, 1)
    return (replace(gpu, **divided) if parts > 1 else gpu), []


def _whole_device(gpu: Gpu, card: devices.Device | None, partition: str) -> tuple[Gpu, list[Note]]:
    """Correct the size of a device that is known to be unpartitioned (mode SPX)."""
    if card is None or card.sm_count in (None, gpu.cu) or partition != "SPX":
        return gpu, []
    text = (
        f"sysinfo.csv says {gpu.cu} compute units, but PCI device id {gpu.pci_device_id} in mode "
        f"SPX is {card.name} with {card.sm_count}, which was used"
    )
    # Dies and compute units shrink together in that file, so both are replaced.
    whole = replace(gpu, cu=card.sm_count, xcd=card.xcd_count or gpu.xcd)
    return whole, [Note(text, severe=False)]


# Columns of roofline.csv -> what they measure, and its factor (GB/s, GFLOP/s).
_CEILINGS = {
    "hbmbw": "dram",
    "fp32flops": "fp32",
    "fp64flops": "fp64",
    "mfmaf8flops": "F8",
    "mfmaf6flops": "F6F4",
    "mfmaf16flops": "F16",
    "mfmabf16flops": "BF16",
    "mfmaf32flops": "F32",
    "mfmaf64flops": "F64",
    "mfmai8ops": "I8",
}

# What they measure, as the device table calls it.
_RATES = {
    "dram": "dram", "fp32": "fp32", "fp64": "fp64", "F8": "fp8", "F6F4": "fp4", "F16": "fp16",
    "BF16": "bf16", "F32": "fp32_tensor", "F64": "fp64_tensor", "I8": "int8",
}  # fmt: skip


def with_ceilings(gpu: Gpu, table: TextTable) -> tuple[Gpu, list[Note]]:
    """Add the rates that the tool measured, where they are believable.

    The table has one row per device of the machine; their median stands for the one profiled, which
    the file does not name. A zero means that the type is not supported.
    """
    believed: list[tuple[str, float]] = []
    refused: list[tuple[str, float]] = []
    notes: list[Note] = []
    for column, kind in _CEILINGS.items():
        values = table.reals(column)
        measured = values[values > 0] * 1e9 if values is not None else np.empty(0)
        nominal = gpu.facts()["peak_dram"] if kind == "dram" else gpu.peak_flops_per_s(kind)
        if not len(measured) or nominal is None:
            continue
        rate = float(np.median(measured))
        if _BELIEVABLE[0] <= rate / nominal <= _BELIEVABLE[1]:
            believed.append((kind, rate))
        else:
            refused.append((kind, rate))
            unit = "byte/s" if kind == "dram" else "FLOP/s"
            text = (
                f"roofline.csv measured {quantity(rate, unit)} for {kind}, "
                f"{rate / nominal:.0%} of the theoretical {quantity(nominal, unit)}: not used"
            )
            notes.append(Note(text, severe=False))
    with_rates = replace(
        gpu, calibrated=tuple(believed), calibrated_by="roofline.csv", refused=tuple(refused)
    )
    return with_rates, notes


def only(gpus: Sequence[Gpu]) -> Gpu | None:
    """The one kind of GPU in a list: its entry without an ordinal; None when they differ."""
    kinds = {replace(gpu, index=None, uid=None) for gpu in gpus}
    return kinds.pop() if len(kinds) == 1 else None
