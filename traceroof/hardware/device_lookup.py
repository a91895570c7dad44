"""Which GPU a profiler means: by its name, its PCI id, its SMs, its memory.

Profilers name devices loosely ("NVIDIA H100", "AMD Radeon Graphics", a MIG slice, nothing at all),
so :func:`find` decides by every hint that the file gives and returns None rather than the nearest
guess.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from traceroof.core import regex
from traceroof.hardware.devices import SEVERAL, Device, own_devices, shipped_devices
from traceroof.hardware.partitions import MIG, is_xcd_share, mig_slice, scaled

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
      scaled (see ``partitions.scaled``) and its name says it. Pass it only when the profiler means
      the device: rocprof-compute writes 128 for the 256 CUs of an MI350X.
    memory_bytes: as reported; tells cards of one name apart.
    dram_bytes_per_s: the bandwidth peak that the file itself shows, right within 8 % (the memory
      clock of a profiled device); tells apart what is left.

    A name that several devices print decides only together with SM count or memory. A name that
    the table does not have gives None unless the PCI device id is known, and hints that contradict
    each other give None. Without name and id, architecture (compute capability or gfx target) and
    SM count decide together, if exactly one device has both. Devices that differ in name only
    (MI210 and one GCD of an MI250) are returned as "A or B".
    """
    hints = _Hints(
        name, compute_capability, sm_count, memory_bytes, pci_device_id, gfx_target, wavefront,
        dram_bytes_per_s,
    )  # fmt: skip
    return _only(_candidates(hints))


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
    rows = [row for row in shipped_devices() if row.compute_capability == compute_capability]
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
    return _most(own_devices(), "compute_capability", compute_capability)


def fastest_of(vendor: str) -> tuple[float, float]:
    """``fastest`` of all devices of a vendor, for a GPU of which nothing else is known."""
    return _most(own_devices(), "vendor", vendor)


@cache
def _most(own: tuple[Device, ...], figure: str, value: str) -> tuple[float, float]:
    rows = [row for row in (*own, *shipped_devices()) if getattr(row, figure) == value]
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
    rows = _candidates(
        _Hints(
            compute_capability=compute_capability,
            sm_count=sm_count,
            dram_bytes_per_s=dram_bytes_per_s,
        )
    )
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
    return replace(_merged(rows), name=f"{name} (one of {len(rows)}{SEVERAL}", **differing)


@dataclass(frozen=True)
class _Hints:
    """What a profiler says of a device; as the arguments of ``find``."""

    name: str | None = None
    compute_capability: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    pci_device_id: int | None = None
    gfx_target: str | None = None
    wavefront: int | None = None
    dram_bytes_per_s: float | None = None


def _candidates(hints: _Hints) -> list[Device]:
    """The devices that fit every hint."""
    name, gfx_target, dram_bytes_per_s = hints.name, hints.gfx_target, hints.dram_bytes_per_s
    compute_capability, wavefront = hints.compute_capability, hints.wavefront
    pci_device_id = hints.pci_device_id
    # Drivers and converters write 0 for what they do not know.
    sm_count, memory_bytes = hints.sm_count or None, hints.memory_bytes or None
    mig = MIG.search(name) if name else None
    key = _key(MIG.sub(" ", name)) if name else ""
    gfx = _GFX.match(gfx_target or key)
    if _GFX.match(key) or key in _NO_NAME:
        key = ""

    # Who describes a GPU by its name decides: no other hint outweighs that.
    mine = [row for row in _by_name().get(key, ()) if row in own_devices()]
    if mine:
        return [part for row in mine if (part := mig_slice(row, mig, sm_count) if mig else row)]
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
        rows = [row for row in shipped_devices() if pci_device_id is None or not row.pci_device_ids]
    else:
        return []

    if gfx:
        rows = [row for row in rows if row.gfx_target == gfx.group().lower()]
    if compute_capability:
        rows = [row for row in rows if compute_capability in _capabilities(row)]
    if wavefront is not None:
        rows = [row for row in rows if row.wavefront == wavefront]

    if mig:
        return _near(filter(None, (mig_slice(row, mig, sm_count) for row in rows)), None)
    if sm_count is None:
        return _near((row for row in rows if _has_memory(row, memory_bytes)), dram_bytes_per_s)
    # A row whose SM count is unknown does not match a count, but it does match name, id or target.
    single = bool(key or by_id or gfx)
    whole = [row for row in rows if _has_sms(row, sm_count) or (single and not row.sm_count)]
    if whole:
        return _near((row for row in whole if _has_memory(row, memory_bytes)), dram_bytes_per_s)
    return [scaled(row, sm_count) for row in rows if is_xcd_share(row, sm_count)]


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
    return _by_name().get(_key(MIG.sub(" ", name)), ())


def _key(name: str) -> str:
    """A name without vendor words, case and separators: "NVIDIA H100 80GB HBM3" is "h100 80gb hbm3".

    nvprof and nsys append the ordinal: "Tesla T4 (0)".
    """
    words = re.split(r"[^a-z0-9.]+", _ORDINAL.sub("", name).lower())
    return " ".join(word for word in words if word and word not in _VENDOR_WORDS)


def _by_name() -> Mapping[str, tuple[Device, ...]]:
    return _index(own_devices())


@cache
def _index(own: tuple[Device, ...]) -> Mapping[str, tuple[Device, ...]]:
    """Every name with the rows that it may mean; a name of the user's means theirs alone."""
    result: dict[str, tuple[Device, ...]] = {}
    for rows in (shipped_devices(), own):
        found: dict[str, dict[str, Device]] = {}
        for device in rows:
            for name in (device.name, *device.aliases, *device.shared_names):
                found.setdefault(_key(name), {})[device.name] = device
        result |= {key: tuple(devices.values()) for key, devices in found.items()}
    return result


def _own_keys(device: Device) -> set[str]:
    return {_key(name) for name in (device.name, *device.aliases)}


def _with_pci_id(pci_device_id: int | None) -> list[Device]:
    return [device for device in shipped_devices() if pci_device_id in device.pci_device_ids]


def _capabilities(device: Device) -> tuple[str, ...]:
    """NVIDIA's compute capability, or the pair that HIP makes of the gfx target: gfx90a is 9.0."""
    if device.compute_capability is not None:
        return (device.compute_capability,)
    digits = (device.gfx_target or "").removeprefix("gfx")
    return (f"{digits[:-2]}.{digits[-2]}",) if len(digits) > 2 else ()


def gfx_of_pair(pair: str) -> str | None:
    """AMD's target by the pair that HIP makes of it ("9.5" is gfx950); None where several have it."""
    rows = [row for row in shipped_devices() if row.gfx_target and pair in _capabilities(row)]
    targets = {row.gfx_target for row in rows}
    return targets.pop() if len(targets) == 1 else None


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
