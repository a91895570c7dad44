"""The GPUs of a run: what the files say of them, with their rows of the device table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from traceroof.core.recording import (
    DeviceInfo,
    Recording,
)
from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import find, in_common, matches, of_capability
from traceroof.hardware.devices import Device


@dataclass(frozen=True)
class RunDevice:
    """A GPU of the run: what the file says and the device-table row it was matched with."""

    info: DeviceInfo
    known: Device | None

    @property
    def name(self) -> str | None:
        """The name to show: the device table's where the file's alone would not tell."""
        if self.known is None or self.info.name is None:
            return self.info.name or (self.known.name if self.known else None)
        return self.info.name if matches(self.info.name) else self.known.name

    @property
    def vendor(self) -> str | None:
        """Whose GPU it is, where that is known."""
        if self.known is not None:
            return self.known.vendor
        return self.info.vendor or ("amd" if self.info.gfx_target else None)


def vendor_of(devices: Iterable[RunDevice]) -> str | None:
    """Whose GPUs the run used, where a file or the device table says it."""
    return next((one.vendor for one in devices if one.vendor), None)


def devices_of(
    recording: Recording, name: str | None = None, peaks: Mapping[str, float] | None = None
) -> tuple[RunDevice, ...]:
    """The GPUs of a recording with their rows of the device table.

    name: the GPU as the user names it; raises TraceroofError where the table has no such one.
    peaks: rates that the user gives for this once, in place of the table's.
    """
    found = _devices_of(recording, name)
    if not peaks:
        return found
    return tuple(
        RunDevice(one.info, with_peaks(one.known, one.name, peaks))
        for one in found or (RunDevice(DeviceInfo(), None),)
    )


def _bare(name: str | None, capability: str | None) -> Device:
    """A GPU of which nothing is known but these."""
    return Device(
        name=name or "GPU", vendor="nvidia", architecture="unknown", compute_capability=capability,
        gfx_target=None, sm_count=None, boost_clock_hz=None, memory_bytes=None,
        dram_bandwidth_bytes_per_s=None, l2_bytes=None, flops_per_s={}, wavefront=32,
        source="--peak", grade="C",
    )  # fmt: skip


def with_peaks(device: Device | None, name: str | None, peaks: Mapping[str, float]) -> Device:
    """A device with these peaks in place of its own; one of which nothing else is known for None.

    What others measured on its model says nothing of other peaks.
    """
    base = device or _bare(name, None)
    rates = {key: rate for key, rate in peaks.items() if key != "bandwidth"}
    return replace(
        base,
        name=f"{base.name} (peaks given)",
        dram_bandwidth_bytes_per_s=peaks.get("bandwidth", base.dram_bandwidth_bytes_per_s),
        flops_per_s={**base.flops_per_s, **rates},
        attainable_flops_per_s={}, attainable_bytes_per_s={}, attainable_source=None,
    )  # fmt: skip


def named_by(devices: Sequence[RunDevice], others: Sequence[RunDevice]) -> str | None:
    """The GPU by the name that another recording of the program gives it: where ``devices`` say no
    more than its compute capability, and the other names one card of it. None otherwise."""
    named = {one.known for one in others if one.known and not one.known.is_several}
    if len(named) != 1:
        return None
    (card,) = named
    open_ones = [one for one in devices if one.info.name is None]
    alike = all(
        one.known is None
        or (one.known.is_several and one.known.compute_capability == card.compute_capability)
        for one in open_ones
    )
    return card.name if alike and len(open_ones) == len(devices) else None


def without_reported(recording: Recording, peaks: Mapping[str, float]) -> Recording:
    """The recording without the peaks that its file reports where the user gives others."""
    gone = {_REPORTED.get(name, "peak_tensor_flops_per_s") for name in peaks}
    kernels = recording.kernels
    for name in gone:
        column = kernels.schema.get_field_index(name)
        unknown = pa.nulls(kernels.num_rows, kernels.schema.field(column).type)
        kernels = kernels.set_column(column, kernels.schema.field(column), unknown)
    return replace(recording, kernels=kernels) if gone else recording


# Peak that may be given -> column of the kernel table in which files report it; the others are
# rates of tensor cores.
_REPORTED = {
    "bandwidth": "peak_dram_bytes_per_s",
    "fp64": "peak_fp64_flops_per_s",
    "fp32": "peak_fp32_flops_per_s",
}


def _devices_of(recording: Recording, name: str | None) -> tuple[RunDevice, ...]:
    if name is not None:
        known = find(name)
        if known is None:
            several = ", ".join(one.name for one in matches(name))
            raise TraceroofError(
                f"{name} is not one GPU of the device table",
                f"say which: {several}" if several else "`traceroof devices` lists the names",
            )
        infos = recording.devices or (DeviceInfo(),)
        return tuple(RunDevice(info, known) for info in infos)
    peaks = _dram_peaks(recording.kernels)
    only = next(iter(peaks.values())) if len(recording.devices) == 1 and len(peaks) == 1 else None
    return tuple(
        RunDevice(info, _known_device(info, peaks.get(info.index, only)))
        for info in recording.devices
    )


def _known_device(info: DeviceInfo, dram_bytes_per_s: float | None) -> Device | None:
    """The row of the device table; what its candidates have in common where several remain."""
    known = find(
        info.name,
        compute_capability=info.compute_capability,
        sm_count=info.sm_count,
        memory_bytes=info.memory_bytes,
        pci_device_id=info.pci_device_id,
        gfx_target=info.gfx_target,
        wavefront=info.wavefront,
        dram_bytes_per_s=dram_bytes_per_s,
    )
    if known is not None or info.name:
        return known
    shared = in_common(
        compute_capability=info.compute_capability,
        sm_count=info.sm_count,
        dram_bytes_per_s=dram_bytes_per_s,
    )
    if shared is not None or not info.compute_capability:
        return shared
    return of_capability(info.compute_capability)


def _dram_peaks(kernels: pa.Table) -> dict[int | None, float]:
    """Device ordinal -> median of the bandwidth peaks that its launches show, byte/s."""
    if kernels["peak_dram_bytes_per_s"].null_count == kernels.num_rows:
        return {}
    part = kernels.select(["device", "peak_dram_bytes_per_s"]).drop_null()
    device, peak = (column.to_numpy() for column in part.columns)
    return {int(one): float(np.median(peak[device == one])) for one in np.unique(device)}


def by_ordinal(devices: Iterable[RunDevice], unlisted: bool = False) -> dict[int, Device | None]:
    """Device ordinal -> row of the device table, None where it has none; -1 stands for rows
    without an ordinal.

    unlisted: a GPU that the table does not have stands with its compute capability, which the file
    tells, and without peaks.
    """
    found: dict[int, Device | None] = {}
    for device in devices:
        index = device.info.index
        if device.known is not None:
            found[-1 if index is None else index] = device.known
        elif index is not None or device.info.name:
            # A GPU that nobody knows is another one all the same: it must not get these peaks.
            bare = _unlisted(device.info) if unlisted else None
            found.setdefault(-1 if index is None else index, bare)
    return found


def _unlisted(info: DeviceInfo) -> Device | None:
    """A GPU of NVIDIA that the table does not have: no more than its compute capability is known."""
    capability = info.compute_capability
    if info.vendor not in (None, "nvidia") or info.gfx_target or not capability:
        return None
    if of_capability(capability) is None:
        return None
    return _bare(info.name, capability)
