"""Peaks of GPUs: what each device can do at most, and which device a profiler means.

The table is ``devices.toml`` beside this module: dense rates, one device as software sees it, a
source for every row. Profilers name devices loosely ("NVIDIA H100", "AMD Radeon Graphics", a MIG
slice, nothing at all), so :func:`find` decides by every hint that the file gives and returns None
rather than the nearest guess.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from traceroof.core import regex
from traceroof.core.toml_tables import toml_table
from traceroof.errors import TraceroofError

#: The rates that a row may have. ``fp64`` and ``fp32`` are vector rates, ``fp64_tensor`` and
#: ``fp32_tensor`` the matrix rates; the others are the fastest dense path for that type.
DTYPES = (
    "fp64",
    "fp64_tensor",
    "fp32",
    "fp32_tensor",
    "tf32",
    "fp16",
    "bf16",
    "fp8",
    "fp4",
    "int8",
)

#: Vendors whose GPUs AMD's tools and words fit.
AMD = ("amd", "hygon")

_GIB = 2**30
_MIB = 2**20

# Drivers reserve part of the memory, and ECC on GDDR6 takes 1/16 of it. Lowest share seen: Tesla
# T4, 14.58 of 16 GiB. No driver reports more than is installed; 95.07 GiB on a card of 94 GB (H100
# NVL) is another card.
_MEMORY_SHARE = (0.90, 1.005)

# What every vendor prints around the name that tells devices apart.
_VENDOR_WORDS = frozenset(
    [
        *("nvidia", "geforce", "tesla"),
        *("amd", "advanced", "micro", "devices", "ati", "instinct", "accelerator"),
        *("hygon", "corporation", "inc", "tm", "r"),
    ]
)

# Names that drivers print when they do not know the product.
_NO_NAME = frozenset({"", "graphics", "radeon graphics", "graphics device", "gpu", "unknown"})

_GFX = regex.compile(r"gfx[0-9a-f]{3,}", re.IGNORECASE)
_ORDINAL = regex.compile(r"\s*\(\d+\)\s*$")
# "MIG 1g.10gb", "MIG 1c.3g.20gb" (a compute instance in a GPU instance), "MIG 1g.10gb+me".
_MIG = regex.compile(r"\bMIG\s+(?:\d+c\.)?\d+g\.(\d+)gb(?:\+\S+)?", re.IGNORECASE)
# A MIG memory slice is one eighth of capacity and bandwidth (a quarter on cards with four).
# Source: NVIDIA Multi-Instance GPU user guide, "GPU memory slice".
_MIG_SLICES = 8

# How the name of what differing cards have in common ends.
_SEVERAL = " cards)"


@dataclass(frozen=True)
class Device:
    """One GPU as software sees it: a card, one GCD of a card, or a partition.

    Unknown figures are None, and unknown rates are absent from ``flops_per_s``. Rates are dense:
    never with sparsity. For GeForce and Radeon cards they are those of the reference card; boards
    with a higher boost clock exceed them by a few percent.
    """

    name: str  #: canonical, for example "A100-SXM4-80GB"
    vendor: str  #: "nvidia", "amd" or "hygon"
    architecture: str  #: "Ampere", "CDNA 3", ...
    compute_capability: str | None  #: "8.0"; NVIDIA only
    gfx_target: str | None  #: "gfx942"; AMD and Hygon only
    sm_count: int | None  #: streaming multiprocessors, or compute units
    boost_clock_hz: float | None  #: the clock of the rating
    memory_bytes: int | None  #: installed; drivers report a little less
    dram_bandwidth_bytes_per_s: float | None
    l2_bytes: int | None
    flops_per_s: Mapping[str, float] = field(hash=False)  #: key of ``DTYPES`` -> FLOP/s or OP/s
    wavefront: int  #: threads in a warp or wavefront: 32 or 64
    source: str  #: where the figures come from
    grade: str  #: "A" two agreeing sources, "B" one, or some arithmetic, "C" not confirmed
    remark: str | None = None  #: what is suspect or easily misread
    aliases: tuple[str, ...] = ()  #: names that only this device has
    shared_names: tuple[str, ...] = ()  #: names that several devices print
    pci_device_ids: tuple[int, ...] = ()
    xcd_count: int | None = None  #: accelerator dies, each of which can be a partition
    #: The last cache before DRAM: L2, or AMD's Infinity Cache behind it. Of a partition that of the
    #: whole, which it has at most.
    last_cache_bytes: int | None = None
    #: Published measurements: key of ``DTYPES`` -> FLOP/s, and "read", "write", "copy" -> byte/s.
    attainable_flops_per_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    attainable_bytes_per_s: Mapping[str, float] = field(default_factory=dict, hash=False)
    attainable_source: str | None = None

    @property
    def is_several(self) -> bool:
        """Whether it stands for cards that differ, of which nobody knows which it was."""
        return self.name.endswith(_SEVERAL)

    def peak(self, dtype: str) -> float | None:
        """Dense FLOP/s (OP/s for int8) for a key of ``DTYPES``; None where unknown."""
        return self.flops_per_s.get(dtype)


# The user's own GPUs, while a command runs with them. Parsers, combine and the diagnosis all look
# devices up, so the table itself knows them, for the time of a ``with``.
_OWN: ContextVar[tuple[Device, ...]] = ContextVar("own devices", default=())


@contextmanager
def knowing(own: Iterable[Device]) -> Iterator[None]:
    """Within the block the table has these devices too; they go before rows of equal name."""
    before = _OWN.set(tuple(own))
    try:
        yield
    finally:
        _OWN.reset(before)


def own_devices() -> tuple[Device, ...]:
    """The user's own rows (``knowing``)."""
    return _OWN.get()


def all_devices() -> tuple[Device, ...]:
    """Every row of the table, in its order; the user's own first."""
    return (*_OWN.get(), *_shipped())


@cache
def _shipped() -> tuple[Device, ...]:
    # Decimals, so that 989.4 TFLOP/s is 989.4e12 to the last bit.
    rows = toml_table("traceroof.hardware", "devices.toml", exact=True)["device"]
    return tuple(map(device_of, rows))


#: The columns of a row: what ``device_of`` reads.
COLUMNS = (
    "name", "vendor", "architecture", "compute_capability", "gfx_target", "sm_count", "boost_mhz",
    "memory_gib", "bandwidth_gb_per_s", "l2_mib", "last_cache_mib", "tflops", "wavefront", "source",
    "grade", "remark", "aliases", "shared_names", "pci_device_ids", "xcd_count",
    "attainable_tflops", "attainable_gb_per_s", "attainable_source",
)  # fmt: skip


def device_of(row: Mapping[str, Any]) -> Device:
    """A row of the table, with the keys of ``COLUMNS``, as a device."""

    def scaled_to(key: str, unit: int) -> float | None:
        return float(row[key] * unit) if key in row else None

    def whole(key: str, unit: int) -> int | None:
        return int(row[key] * unit) if key in row else None

    def rates(key: str, unit: int) -> dict[str, float]:
        return {name: float(rate * unit) for name, rate in row.get(key, {}).items()}

    return Device(
        name=row["name"],
        vendor=row["vendor"],
        architecture=row["architecture"],
        compute_capability=row.get("compute_capability"),
        gfx_target=row.get("gfx_target"),
        sm_count=row.get("sm_count"),
        boost_clock_hz=scaled_to("boost_mhz", 10**6),
        memory_bytes=whole("memory_gib", _GIB),
        dram_bandwidth_bytes_per_s=scaled_to("bandwidth_gb_per_s", 10**9),
        l2_bytes=whole("l2_mib", _MIB),
        flops_per_s=rates("tflops", 10**12),
        wavefront=row.get("wavefront", 32),
        source=row["source"],
        grade=row["grade"],
        remark=row.get("remark"),
        aliases=tuple(row.get("aliases", ())),
        shared_names=tuple(row.get("shared_names", ())),
        pci_device_ids=tuple(row.get("pci_device_ids", ())),
        xcd_count=row.get("xcd_count"),
        last_cache_bytes=whole("last_cache_mib" if "last_cache_mib" in row else "l2_mib", _MIB),
        attainable_flops_per_s=rates("attainable_tflops", 10**12),
        attainable_bytes_per_s=rates("attainable_gb_per_s", 10**9),
        attainable_source=row.get("attainable_source"),
    )


def find(
    name: str | None = None,
    *,
    compute_capability: str | None = None,
    sm_count: int | None = None,
    memory_bytes: int | None = None,
    pci_device_id: int | None = None,
    gfx_target: str | None = None,
    wavefront: int | None = None,
    dram_bytes_per_s: float | None = None,
) -> Device | None:
    """The device that a profiler means, or None when the hints do not decide.

    name: as printed ("NVIDIA A100-SXM4-80GB", "Tesla T4", "gfx942"); vendor words, case and
      separators do not matter, and names that say nothing ("AMD Radeon Graphics") are ignored.
    compute_capability: "9.0"; for AMD also the pair that HIP prints ("9.4" is gfx942).
    sm_count: SMs or compute units as reported. Fewer than the device has mean a partition: a MIG
      slice when the name says so, a share of the XCDs of an AMD card. Then the returned device is
      scaled (see :func:`scaled`) and its name says it. Pass it only when the profiler means the
      device: rocprof-compute writes 128 for the 256 CUs of an MI350X.
    memory_bytes: as reported; tells cards of one name apart.
    dram_bytes_per_s: the bandwidth peak that the file itself shows, right within 8 % (the memory
      clock of a profiled device); tells apart what is left.

    A name that several devices print decides only together with SM count or memory. A name that
    the table does not have gives None unless the PCI device id is known, and hints that contradict
    each other give None. Without name and id, architecture (compute capability or gfx target) and
    SM count decide together, if exactly one device has both. Devices that differ in name only
    (MI210 and one GCD of an MI250) are returned as "A or B".
    """
    return _only(
        _candidates(
            name, compute_capability, sm_count, memory_bytes, pci_device_id, gfx_target, wavefront,
            dram_bytes_per_s,
        )
    )  # fmt: skip


# Where a program prints its GPU: a maker's or a family's word, then up to six more words.
_PRINTED = re.compile(r"\b(?:NVIDIA|GeForce|Tesla|Quadro|RTX|GTX)(?:[ -][A-Za-z0-9]+){1,6}")


def printed_in(line: str) -> str | None:
    """The name of a GPU of the table that a line of a program's output holds; None without one."""
    for found in _PRINTED.finditer(line[:400]):
        words = found.group().split()
        for count in range(len(words), 0, -1):
            name = " ".join(words[:count])
            if matches(name):
                return name
    return None


def of_capability(compute_capability: str) -> Device | None:
    """What all devices of a compute capability have in common; None where the table has none."""
    rows = [row for row in _shipped() if row.compute_capability == compute_capability]
    if len(rows) < 2:
        return rows[0] if rows else None
    rates = set(rows[0].flops_per_s).intersection(*(row.flops_per_s for row in rows))
    return replace(
        _shared(rows, f"compute capability {compute_capability}"),
        flops_per_s={
            rate: rows[0].flops_per_s[rate]
            for rate in rates
            if len({row.flops_per_s[rate] for row in rows}) == 1
        },
    )


def fastest(compute_capability: str) -> tuple[float, float]:
    """The most that any device of a compute capability can do: byte/s of its memory, FP32 FLOP/s.

    Holds for a GPU that nobody named, as a ceiling: no least time computed from it is too long.
    Unknown (NaN) where the table has no such device.
    """
    return _most(_OWN.get(), "compute_capability", compute_capability)


def fastest_of(vendor: str) -> tuple[float, float]:
    """``fastest`` of all devices of a vendor, for a GPU of which nothing else is known."""
    return _most(_OWN.get(), "vendor", vendor)


@cache
def _most(own: tuple[Device, ...], figure: str, value: str) -> tuple[float, float]:
    rows = [row for row in (*own, *_shipped()) if getattr(row, figure) == value]
    memory = [row.dram_bandwidth_bytes_per_s for row in rows if row.dram_bandwidth_bytes_per_s]
    fp32 = [row.flops_per_s["fp32"] for row in rows if "fp32" in row.flops_per_s]
    return max(memory, default=float("nan")), max(fp32, default=float("nan"))


def in_common(
    *, compute_capability: str | None, sm_count: int | None, dram_bytes_per_s: float | None
) -> Device | None:
    """What all devices of this architecture and SM count have in common, where no hint tells more.

    Figures in which they differ (memory, bandwidth) are unknown. None where the hints fit no
    device, or where the devices differ in their rates: those decide verdicts.
    """
    rows = _candidates(None, compute_capability, sm_count, None, None, None, None, dram_bytes_per_s)
    if not rows or any(row.flops_per_s != rows[0].flops_per_s for row in rows):
        return None
    if len(rows) == 1:
        return rows[0]
    return _shared(rows, " or ".join(dict.fromkeys(row.name.split("-")[0] for row in rows)))


def _shared(rows: Sequence[Device], name: str) -> Device:
    """Several devices as one, without the figures in which they differ."""
    figures = (
        "sm_count", "boost_clock_hz", "memory_bytes", "dram_bandwidth_bytes_per_s", "l2_bytes",
        "last_cache_bytes", "xcd_count",
    )  # fmt: skip
    differing: dict[str, Any] = {
        figure: None for figure in figures if len({getattr(row, figure) for row in rows}) > 1
    }
    return replace(_merged(rows), name=f"{name} (one of {len(rows)}{_SEVERAL}", **differing)


def _candidates(
    name: str | None,
    compute_capability: str | None,
    sm_count: int | None,
    memory_bytes: int | None,
    pci_device_id: int | None,
    gfx_target: str | None,
    wavefront: int | None,
    dram_bytes_per_s: float | None,
) -> list[Device]:
    """The devices that fit every hint; the arguments are those of ``find``."""
    # Drivers and converters write 0 for what they do not know.
    sm_count, memory_bytes = sm_count or None, memory_bytes or None
    mig = _MIG.search(name) if name else None
    key = _key(_MIG.sub(" ", name)) if name else ""
    gfx = _GFX.match(gfx_target or key)
    if _GFX.match(key) or key in _NO_NAME:
        key = ""

    # Who describes a GPU by its name decides: no other hint outweighs that.
    mine = [row for row in _by_name().get(key, ()) if row in _OWN.get()]
    if mine:
        return [part for row in mine if (part := _mig_slice(row, mig, sm_count) if mig else row)]
    by_id = _with_pci_id(pci_device_id)
    rows: Iterable[Device]
    if key in _by_name():
        # An id of another row contradicts the name; an id that no row has says nothing.
        rows = [row for row in _by_name()[key] if not by_id or row in by_id]
        if sm_count is None and memory_bytes is None and not by_id:
            rows = [row for row in rows if key in _own_keys(row)]
    elif by_id:
        rows = by_id
    elif not key and sm_count and (gfx or compute_capability):
        # A file without a name cannot mean a GPU that only its name tells from another; one whose
        # id is in no row cannot mean a row that has others.
        rows = [row for row in _shipped() if pci_device_id is None or not row.pci_device_ids]
    else:
        return []

    if gfx:
        rows = [row for row in rows if row.gfx_target == gfx.group().lower()]
    if compute_capability:
        rows = [row for row in rows if compute_capability in _capabilities(row)]
    if wavefront is not None:
        rows = [row for row in rows if row.wavefront == wavefront]

    if mig:
        return _near(filter(None, (_mig_slice(row, mig, sm_count) for row in rows)), None)
    if sm_count is None:
        return _near((row for row in rows if _has_memory(row, memory_bytes)), dram_bytes_per_s)
    # A row whose SM count is unknown does not match a count, but it does match name, id or target.
    single = bool(key or by_id or gfx)
    whole = [row for row in rows if _has_sms(row, sm_count) or (single and not row.sm_count)]
    if whole:
        return _near((row for row in whole if _has_memory(row, memory_bytes)), dram_bytes_per_s)
    return [scaled(row, sm_count) for row in rows if _is_xcd_share(row, sm_count)]


# A profiled memory clock lies within this of the rated one (29 reports, V100 to RTX 50 series).
_BANDWIDTH_TOLERANCE = 0.08
_RATED_TOLERANCE = 0.002


def _near(rows: Iterable[Device], dram_bytes_per_s: float | None) -> list[Device]:
    """Of several devices those whose bandwidth is the one that the file shows."""
    found = list(rows)
    if len(found) < 2 or not dram_bytes_per_s:
        return found
    # The rated clock itself is no coincidence: then the cards beside it are not meant.
    for tolerance in (_RATED_TOLERANCE, _BANDWIDTH_TOLERANCE):
        near = [
            row
            for row in found
            if row.dram_bandwidth_bytes_per_s
            and abs(dram_bytes_per_s / row.dram_bandwidth_bytes_per_s - 1) <= tolerance
        ]
        if near:
            return near
    return found


def matches(name: str) -> tuple[Device, ...]:
    """Every row that a name may mean, for listings and for messages about ambiguous names."""
    return _by_name().get(_key(_MIG.sub(" ", name)), ())


def scaled(
    device: Device, sm_count: int, *, memory_share: float | None = None, label: str = ""
) -> Device:
    """A partition of a device that has ``sm_count`` of its SMs (compute units).

    Peaks scale with the share of the SMs. Bandwidth and memory scale with ``memory_share`` (0 to
    1), and are unknown when it is not given: partitions may share the memory or own a part. What
    a partition owns of the L2 is unknown.

    Raises TraceroofError when the device cannot have such a partition.
    """
    if device.sm_count is None or not 0 < sm_count <= device.sm_count:
        raise TraceroofError(
            f"{device.name} has {device.sm_count or 'an unknown number of'} SMs, "
            f"so it has no partition of {sm_count}",
            "Give the SM count of the partition, at most that of the device",
        )
    unit = "SMs" if device.vendor == "nvidia" else "CUs"
    name = label or f"{device.name} ({sm_count} of {device.sm_count} {unit})"
    return _part(device, name, sm_count, sm_count / device.sm_count, memory_share)


def _part(
    device: Device,
    name: str,
    sm_count: int | None,
    sm_share: float | None,
    memory_share: float | None,
) -> Device:
    """A part of a device; what has no share given is unknown."""
    rates = device.flops_per_s.items() if sm_share is not None else ()
    memory = _times(device.memory_bytes, memory_share)
    return replace(
        device,
        name=name,
        sm_count=sm_count,
        memory_bytes=int(memory) if memory is not None else None,
        dram_bandwidth_bytes_per_s=_times(device.dram_bandwidth_bytes_per_s, memory_share),
        l2_bytes=None,
        flops_per_s={dtype: rate * (sm_share or 0.0) for dtype, rate in rates},
        aliases=(),
        shared_names=(),
        pci_device_ids=(),
        xcd_count=None,
        # What a part attains nobody measured.
        attainable_flops_per_s={},
        attainable_bytes_per_s={},
        attainable_source=None,
    )


def _times(figure: float | None, share: float | None) -> float | None:
    return figure * share if figure is not None and share is not None else None


def _mig_slice(device: Device, mig: re.Match[str], sm_count: int | None) -> Device | None:
    """The MIG slice; None where the device cannot have it. Without SM count, only memory is known.

    The SM count does not follow from the profile: "2g" is 28 SMs on an A30 and 32 on an H100.
    """
    if device.memory_bytes is None or device.sm_count is None:
        return None
    if sm_count is not None and sm_count > device.sm_count:
        return None
    slices = int(mig.group(1)) * _GIB / device.memory_bytes * _MIG_SLICES
    whole = round(slices)
    # The profile rounds its gigabytes: 18 of 141 is 1.02 slices of eight, so one.
    is_slice = 1 <= whole <= _MIG_SLICES and abs(slices - whole) < 0.1
    return _part(
        device,
        f"{device.name} {mig.group()}",
        sm_count,
        sm_count / device.sm_count if sm_count is not None else None,
        whole / _MIG_SLICES if is_slice else None,
    )


def _key(name: str) -> str:
    """A name without vendor words, case and separators: "NVIDIA H100 80GB HBM3" is "h100 80gb hbm3".

    nvprof and nsys append the ordinal: "Tesla T4 (0)".
    """
    words = re.split(r"[^a-z0-9.]+", _ORDINAL.sub("", name).lower())
    return " ".join(word for word in words if word and word not in _VENDOR_WORDS)


def _by_name() -> Mapping[str, tuple[Device, ...]]:
    return _index(_OWN.get())


@cache
def _index(own: tuple[Device, ...]) -> Mapping[str, tuple[Device, ...]]:
    """Every name with the rows that it may mean; a name of the user's means theirs alone."""
    result: dict[str, tuple[Device, ...]] = {}
    for rows in (_shipped(), own):
        found: dict[str, dict[str, Device]] = {}
        for device in rows:
            for name in (device.name, *device.aliases, *device.shared_names):
                found.setdefault(_key(name), {})[device.name] = device
        result |= {key: tuple(devices.values()) for key, devices in found.items()}
    return result


def _own_keys(device: Device) -> set[str]:
    return {_key(name) for name in (device.name, *device.aliases)}


def _with_pci_id(pci_device_id: int | None) -> list[Device]:
    return [device for device in _shipped() if pci_device_id in device.pci_device_ids]


def _capabilities(device: Device) -> tuple[str, ...]:
    """NVIDIA's compute capability, or the pair that HIP makes of the gfx target: gfx90a is 9.0."""
    if device.compute_capability is not None:
        return (device.compute_capability,)
    digits = (device.gfx_target or "").removeprefix("gfx")
    return (f"{digits[:-2]}.{digits[-2]}",) if len(digits) > 2 else ()


def _has_memory(device: Device, memory_bytes: int | None) -> bool:
    if memory_bytes is None or device.memory_bytes is None:
        return True
    low, high = _MEMORY_SHARE
    return low <= memory_bytes / device.memory_bytes <= high


def _has_sms(device: Device, sm_count: int) -> bool:
    if sm_count == device.sm_count:
        return True
    # On RDNA, HIP counts work-group processors of two compute units: 48 on an RX 7900 XTX.
    return device.vendor == "amd" and device.wavefront == 32 and 2 * sm_count == device.sm_count


def _is_xcd_share(device: Device, sm_count: int) -> bool:
    """Whether the count is a partition mode: DPX, TPX, QPX or CPX split the XCDs evenly."""
    if device.sm_count is None or device.xcd_count is None:
        return False
    xcds, rest = divmod(sm_count * device.xcd_count, device.sm_count)
    return rest == 0 and 0 < xcds < device.xcd_count and device.xcd_count % xcds == 0


def _figures(device: Device) -> tuple[object, ...]:
    return (
        device.vendor,
        device.architecture,
        device.compute_capability,
        device.gfx_target,
        device.sm_count,
        device.boost_clock_hz,
        device.dram_bandwidth_bytes_per_s,
        device.l2_bytes,
        device.last_cache_bytes,
        dict(device.flops_per_s),
        device.wavefront,
    )


def _only(rows: Sequence[Device]) -> Device | None:
    """The one candidate, or what several have in common when they differ in name only."""
    if not rows or any(_figures(row) != _figures(rows[0]) for row in rows):
        return None
    return rows[0] if len(rows) == 1 else _merged(rows)


def _merged(rows: Sequence[Device]) -> Device:
    """Several devices as one, named "A or B"; figures are those of the first."""
    memory = {row.memory_bytes for row in rows}
    return replace(
        rows[0],
        name=" or ".join(row.name for row in rows),
        memory_bytes=memory.pop() if len(memory) == 1 else None,
        source="; ".join(dict.fromkeys(row.source for row in rows)),
        grade=max(row.grade for row in rows),
        remark=" ".join(dict.fromkeys(row.remark for row in rows if row.remark)) or None,
        aliases=(),
        shared_names=(),
        pci_device_ids=(),
    )
