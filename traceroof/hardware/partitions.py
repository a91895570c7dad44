"""Parts of a GPU: a MIG slice, some of the dies of an AMD card, some of the SMs."""

import re
from dataclasses import replace

from traceroof.core import regex
from traceroof.errors import TraceroofError
from traceroof.hardware.devices import GIB, Device

# "MIG 1g.10gb", "MIG 1c.3g.20gb" (a compute instance in a GPU instance), "MIG 1g.10gb+me".
MIG = regex.compile(r"\bMIG\s+(?:\d+c\.)?\d+g\.(\d+)gb(?:\+\S+)?", re.IGNORECASE)

# A MIG memory slice is one eighth of capacity and bandwidth (a quarter on cards with four).
# Source: NVIDIA Multi-Instance GPU user guide, "GPU memory slice".
_MIG_SLICES = 8


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


def mig_slice(device: Device, mig: re.Match[str], sm_count: int | None) -> Device | None:
    """The MIG slice; None where the device cannot have it. Without SM count, only memory is known.

    The SM count does not follow from the profile: "2g" is 28 SMs on an A30 and 32 on an H100.
    """
    if device.memory_bytes is None or device.sm_count is None:
        return None
    if sm_count is not None and sm_count > device.sm_count:
        return None
    slices = int(mig.group(1)) * GIB / device.memory_bytes * _MIG_SLICES
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


def is_xcd_share(device: Device, sm_count: int) -> bool:
    """Whether the count is a partition mode: DPX, TPX, QPX or CPX split the XCDs evenly."""
    if device.sm_count is None or device.xcd_count is None:
        return False
    xcds, rest = divmod(sm_count * device.xcd_count, device.sm_count)
    return rest == 0 and 0 < xcds < device.xcd_count and device.xcd_count % xcds == 0
