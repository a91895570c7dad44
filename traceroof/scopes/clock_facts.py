"""Clocks while the kernels ran: how far below their rating, and how far they spread."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.kernel_table import as_reals
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.hardware.devices import Device
from traceroof.kernels.groups import Groups, device_of_group
from traceroof.scopes.logged_clocks import LEAST_TO_FALL, GpuClocks

Reals = npt.NDArray[np.float64]


#: Nsight Compute finds the SM clock of a launch from cycles over time, which counts the start: of
#: 78 launches on one card those from 100 µs on agree within 1 %, those of 4 µs lie up to 20 % low.
SETTLED_NS = 100_000


def all_clocks(
    recording: Recording,
    grouped: Groups,
    gpus: Sequence[tuple[DeviceInfo, Device | None]],
    logged: Sequence[GpuClocks],
) -> dict[str, float | str]:
    """Clocks by the launches, else by a log beside them; what held them down, by the log."""
    values = _clocks(recording, grouped, gpus)
    told = [one for one in logged if one.throttled is not None]
    if told:
        worst = max(told, key=lambda one: one.throttled or 0.0)
        values["throttled_pct"] = (worst.throttled or 0.0) * 100
        values["throttled_by"] = worst.main_reason or np.nan
    if "fast_clock_hz" in values or recording.time_basis != "timeline":
        return values  # a counter tool sets the clocks itself, launch by launch
    listed = {-1 if info.index is None else info.index: device for info, device in gpus}
    found = []
    for one in logged:
        if one.sm_clock_hz is None:
            continue
        clock = (one.sm_clock_hz.p5, one.sm_clock_hz.p50, one.sm_clock_hz.p95)
        ordinal = np.nan if one.gpu is None else float(one.gpu)
        device = device_of_group(np.array([ordinal]), listed)[0]
        if device is None and len({row for _, row in gpus}) == 1:
            device = gpus[0][1]
        core = _core(clock, device, locked=False)
        if (one.loaded or 0) < LEAST_TO_FALL:
            del core["clock_fall_pct"]
        found.append((core, ordinal))
    if found:
        core, at = max(
            found, key=lambda one: max(_shortfall(one[0]), 100 - one[0].get("boost_share_pct", 100))
        )
        values |= {**core, "clock_gpu": at}
    return values


def _clocks(
    recording: Recording, grouped: Groups, gpus: Sequence[tuple[DeviceInfo, Device | None]]
) -> dict[str, float | str]:
    """Clocks of every GPU by itself, each figure of the one where it says most: cards of several
    kinds, each steady, have clocks far apart."""
    kernels = recording.kernels
    # A row of a summary counts once per launch.
    weight = np.nan_to_num(as_reals(kernels["duration_ns"]) * as_reals(kernels["launch_count"]))
    settled = (grouped.of_row >= 0) & (as_reals(kernels["duration_ns"]) >= SETTLED_NS)
    ordinals = as_reals(kernels["device"])
    each = np.unique(ordinals[settled])  # NaN is one of them, once
    listed = {-1 if info.index is None else info.index: device for info, device in gpus}
    found = []
    for ordinal, device in zip(each.tolist(), device_of_group(each, listed), strict=True):
        here = settled & (np.isnan(ordinals) if np.isnan(ordinal) else ordinals == ordinal)
        clock, of_memory, peak = (
            _by_time(as_reals(kernels[name])[here], weight[here])
            for name in ("sm_clock_hz", "dram_clock_hz", "peak_dram_bytes_per_s")
        )
        if clock and of_memory and _one_factor(kernels, here, weight):
            clock, of_memory = (clock[1],) * 3, (of_memory[1],) * 3
        # Nsight Compute locks the clock at its base by default: that is no throttling.
        locked = recording.time_basis != "timeline"
        found.append((_core(clock, device, locked), _memory(of_memory, peak, device), ordinal))
    values: dict[str, float | str] = {}
    if found:
        # Both shares are in doubt from 10 % below: the larger shortfall counts.
        core, _, at = max(found, key=lambda one: _shortfall(one[0]))
        values |= core
        if "fast_clock_hz" in core:
            values["clock_gpu"] = at
        _, memory, at = max(found, key=lambda one: one[1].get("dram_clock_fall_pct", -1.0))
        values |= {name: one for name, one in memory.items() if name != "dram_rated_pct"}
        if "fast_dram_clock_hz" in memory:
            values["dram_clock_gpu"] = at
        rated = [one["dram_rated_pct"] for _, one, _ in found if "dram_rated_pct" in one]
        if rated:
            values["dram_rated_pct"] = min(rated)
    return values


# Clocks of two domains do not move by one factor to a thousandth.
_ONE_FACTOR = 0.001


def _one_factor(kernels: pa.Table, here: npt.NDArray[np.bool_], weight: Reals) -> bool:
    """Whether core and memory clock move together. Both are cycles over time: then it is the time of
    the pass that was longer (as where a kernel is preempted), and neither clock moved."""
    core, memory = (as_reals(kernels[name])[here] for name in ("sm_clock_hz", "dram_clock_hz"))
    known = (core > 0) & (memory > 0)
    ratio = _by_time(core[known] / memory[known], weight[here][known])
    return bool(known.all()) and ratio is not None and 1 - ratio[0] / ratio[2] < _ONE_FACTOR


def _by_time(value: Reals, weight: Reals) -> tuple[float, float, float] | None:
    """Value at 5, 50 and 95 % of the time: one odd launch of many says nothing."""
    known = value > 0
    value, weight = value[known], weight[known]
    if not weight.sum():
        return None
    order = np.argsort(value)
    reached = np.cumsum(weight[order])
    parts = np.searchsorted(reached, reached[-1] * np.array([0.05, 0.5, 0.95]))
    low, middle, high = value[order][parts].tolist()
    return low, middle, high


# No GPU's base clock, at which Nsight Compute locks it, is a smaller part of its boost clock: an
# L40's is 735 of 2,490 MHz, 29.5 %. Lower is no lock but a limit of power or of the user.
_BELOW_ANY_BASE_PCT = 29


def _core(
    clock: tuple[float, float, float] | None, device: Device | None, locked: bool
) -> dict[str, float]:
    """What the core clock of one GPU says."""
    values: dict[str, float] = {}
    if clock:
        values["slow_clock_hz"], _, values["fast_clock_hz"] = clock
        values["clock_fall_pct"] = (1 - clock[0] / clock[2]) * 100
    if device and device.boost_clock_hz:
        values["boost_clock_hz"] = device.boost_clock_hz
        share = clock[1] / device.boost_clock_hz * 100 if clock else np.nan
        if share < _BELOW_ANY_BASE_PCT or (not locked and not np.isnan(share)):
            values["boost_share_pct"] = share
    return values


def _memory(
    clock: tuple[float, float, float] | None,
    peak: tuple[float, float, float] | None,
    device: Device | None,
) -> dict[str, float]:
    """What the memory clock of one GPU says."""
    values: dict[str, float] = {}
    if clock:
        values["fast_dram_clock_hz"] = clock[2]
        values["dram_clock_fall_pct"] = (1 - clock[0] / clock[2]) * 100
    if peak and device and device.dram_bandwidth_bytes_per_s:
        values["dram_rated_pct"] = peak[1] / device.dram_bandwidth_bytes_per_s * 100
    return values


def _shortfall(core: Mapping[str, float]) -> float:
    if "clock_fall_pct" not in core:
        return -1.0
    return max(core["clock_fall_pct"], 100 - core.get("boost_share_pct", 100.0))
