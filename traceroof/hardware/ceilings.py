"""How much of a nominal peak good code reaches: the two figures behind every saving."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.units import digits, quantity
from traceroof.hardware.roofline import DEFAULT_BANDWIDTH_SHARE, DEFAULT_FLOPS_SHARE

#: Where an attainable rate comes from: measured by the profiler on the device of this very file,
#: by ``traceroof calibrate`` on a device of this kind, or nobody measured it.
From = Literal["measured", "calibrated", "assumed"]

#: The bandwidths that a calibration tells apart; ``dram`` is one whose mix of reads and writes the
#: tool does not tell. Every other rate is the FLOP rate of a key of ``devices.DTYPES``.
BANDWIDTHS = ("read", "write", "copy", "dram")

#: From which share of its bytes on a kernel counts as reading (or writing) alone: at four reads a
#: write and more. Bandwidth with equal reads and writes is up to 20 points lower on one card
#: (RRZE-HPC/gpu-benches, gpu-stream: 79 % against 98 % on GH200), with three reads a write within
#: 8 % of it.
MOSTLY = 0.8


@dataclass(frozen=True)
class Attainable:
    """The share of the nominal peak that is attainable, 0-1, one number or one a subject.

    Physics caps a bound at the nominal peak (1, 1); what is likely stops earlier.
    """

    memory: float | Column
    compute: float | Column


NOMINAL = Attainable(memory=1.0, compute=1.0)

#: Where the device was not calibrated (sources: ``roofline.DEFAULT_*_SHARE``).
UNCALIBRATED = Attainable(memory=DEFAULT_BANDWIDTH_SHARE, compute=DEFAULT_FLOPS_SHARE)


@dataclass(frozen=True)
class MeasuredRate:
    """One ceiling of one kind of device, as a probe reached it.

    device: row of the device table, a partition's name included. time_basis: of the recording.
    rate: a name of ``BANDWIDTHS`` or a key of ``devices.DTYPES``. per_s: byte/s or FLOP/s.
    nominal_per_s: the peak that it was held against. probe: kernel or file. launches and
    launch_size (bytes or FLOP of one launch): of the probe, None where a tool measured by itself.
    measured: when it was calibrated, UTC, ISO 8601.
    """

    device: str
    time_basis: str
    rate: str
    per_s: float
    nominal_per_s: float
    probe: str
    launches: int | None = None
    launch_size: float | None = None
    measured: str = ""

    @property
    def share(self) -> float:
        """Of the nominal peak, 0-1."""
        return self.per_s / self.nominal_per_s

    @property
    def unit(self) -> str:
        """``byte/s`` or ``FLOP/s``."""
        return "byte/s" if self.rate in BANDWIDTHS else "FLOP/s"


# Which bandwidth stands for which mix of reads and writes, best first.
_STAND_INS: Mapping[str, Sequence[str]] = {
    "read": ("read", "dram", "copy", "write"),
    "write": ("write", "dram", "copy", "read"),
    "copy": ("copy", "dram", "write", "read"),
}

# What compute_pct is measured against where a FLOP rate is its numerator.
_RATES = ("peak FLOP rate", "model, nominal peak")

# Columns of the kernel groups that the functions below read.
_COLUMNS = (
    "dram_attainable", "flop_attainable", "flop_pct", "compute_basis", "compute_pct", "memory_pct",
    "calibrated_dram_bytes_per_s", "dram_peak_bytes_per_s", "roof_flops_per_s", "roof_dtype",
    "dram_from", "dram_ceiling", "flop_from",
)  # fmt: skip
_TRAFFIC = ("dram_read_bytes", "dram_write_bytes", "model", "model_bytes", "model_weight_bytes")


def applicable(
    calibration: Iterable[MeasuredRate], device: str | None, time_basis: str
) -> dict[str, MeasuredRate]:
    """The stored rates that hold for a device in a recording with such times, by name.

    A counter tool measures kernels one at a time, often at a lower clock: its FLOP rates say
    nothing about a timeline, nor the other way round. Memory keeps its clock, so a bandwidth counts
    where there is none with times of the same kind. Devices that a file cannot tell apart ("MI210
    or MI250-GCD") share theirs.
    """
    found: dict[str, MeasuredRate] = {}
    if device is None:
        return found
    names = set(device.split(" or "))
    # The best match last, so that it stays.
    ranked = sorted(
        calibration, key=lambda one: (one.device == device, one.time_basis == time_basis)
    )
    for one in ranked:
        same_times = one.time_basis == time_basis
        if names & set(one.device.split(" or ")) and (same_times or one.rate in BANDWIDTHS):
            found[one.rate] = one
    if any(one.time_basis == time_basis for one in found.values() if one.rate in BANDWIDTHS):
        found = {name: one for name, one in found.items() if one.time_basis == time_basis}
    return found


def traffic_of(facts: Facts) -> npt.NDArray[np.object_]:
    """What each group does with device memory: ``read``, ``write`` or ``copy`` (both, or unknown).

    By the bytes counted, else by what its operator's model says: a fill writes, a reduction reads,
    and so does a product of few rows, whose bytes are weights.
    """
    see = facts.only(_TRAFFIC)
    with np.errstate(divide="ignore", invalid="ignore"):
        reads = see.dram_read_bytes / (see.dram_read_bytes + see.dram_write_bytes)
        weights = see.model_weight_bytes / see.model_bytes
    modelled = np.array([_MODELLED.get(name, np.nan) for name in see.model.tolist()])
    modelled = np.where(np.isnan(modelled) & (weights >= MOSTLY), 1.0, modelled)
    reads = np.where(np.isnan(reads), modelled, reads)
    found = np.full(len(facts), "copy", dtype=object)
    found[reads >= MOSTLY] = "read"
    found[reads <= 1 - MOSTLY] = "write"
    return found


# The share of its bytes that a modelled operator reads, where that is all or nothing.
_MODELLED = {"fill": 0.0, "reduction": 1.0}


def with_calibration(
    facts: Facts,
    devices: Sequence[str | None],
    calibration: Sequence[MeasuredRate],
    time_basis: str,
) -> Facts:
    """The facts of n kernel groups with the calibrated ceilings of their devices in them.

    devices: row of the device table per group. What a file itself measured on its device stays: it
    was in the same state. Fills ``dram_attainable`` and ``flop_attainable``, and says in
    ``dram_from`` and ``flop_from`` where each comes from (``From``), in ``dram_ceiling`` which
    bandwidth it is.
    """
    see = facts.only(_COLUMNS)
    memory, compute = see.dram_attainable.copy(), see.flop_attainable.copy()
    by_rate = _is_rate(see)
    dram_from = np.where(np.isnan(memory), "assumed", "measured").astype(object)
    flop_from = np.where(by_rate & ~np.isnan(compute), "measured", "assumed").astype(object)
    ceiling = np.full(len(facts), None, dtype=object)
    ceiling[~np.isnan(memory)] = "dram"
    traffic = traffic_of(facts) if calibration else ()
    for device in set(devices) if calibration else ():
        rates = applicable(calibration, device, time_basis)
        here = np.array([one == device for one in devices], dtype=bool)
        for kind, stand_ins in _STAND_INS.items():
            rate = next((rates[name] for name in stand_ins if name in rates), None)
            mine = here & (traffic == kind) & (dram_from == "assumed")
            mine &= ~np.isnan(see.dram_peak_bytes_per_s)
            if rate is not None:
                memory[mine] = rate.per_s / see.dram_peak_bytes_per_s[mine]
                dram_from[mine], ceiling[mine] = "calibrated", rate.rate
        for name, rate in rates.items():
            mine = here & by_rate & (see.roof_dtype == name) & (flop_from == "assumed")
            compute[mine] = rate.per_s / see.roof_flops_per_s[mine]
            flop_from[mine & ~np.isnan(compute)] = "calibrated"
    known = {name: getattr(facts, name) for name in facts.names()}
    more = {
        "dram_attainable": memory, "flop_attainable": compute, "dram_from": dram_from,
        "flop_from": flop_from, "dram_ceiling": ceiling,
    }  # fmt: skip
    return Facts({**known, **more}, len(facts))


def _is_rate(see: Facts) -> Mask:
    return np.array([basis in _RATES for basis in see.compute_basis], dtype=bool)


def of_groups(facts: Facts) -> tuple[Attainable, Mask]:
    """What each of n kernel groups can attain, and where that was measured, not assumed.

    A rate measured on the device counts where there is one (``with_calibration``), the usual share
    elsewhere. A measured FLOP rate says nothing about the use of a pipe, and no ceiling lies below
    what the group itself reached. The mask holds where the ceiling of the group's busier side was
    measured.
    """
    see = facts.only(_COLUMNS)
    by_bytes, by_rate = ~np.isnan(see.dram_attainable), _by_rate(see)
    if not (by_bytes | by_rate).any():
        return UNCALIBRATED, by_bytes
    memory = np.where(by_bytes, see.dram_attainable, UNCALIBRATED.memory)
    modelled = np.where(np.isnan(see.flop_pct), see.compute_pct, see.flop_pct)
    reached = np.fmax(see.flop_attainable, modelled / 100)
    compute = np.where(by_rate, reached, UNCALIBRATED.compute)
    computes = see.compute_pct / compute > see.memory_pct / memory
    attainable = Attainable(np.minimum(memory, 1.0), np.minimum(compute, 1.0))
    return attainable, np.where(computes, by_rate, by_bytes)


def _by_rate(see: Facts) -> Mask:
    return _is_rate(see) & ~np.isnan(see.flop_attainable)


def overall(attainable: Attainable, time_ns: npt.NDArray[np.float64]) -> Attainable:
    """One pair of shares for the whole run: the mean over its groups, weighted by their time."""
    time = np.nan_to_num(time_ns)
    if not time.sum():
        return UNCALIBRATED
    memory, compute = (
        float(np.average(np.broadcast_to(share, time.shape), weights=time))
        for share in (attainable.memory, attainable.compute)
    )
    return Attainable(memory, compute)


@dataclass(frozen=True)
class Likely:
    """The attainable rates of one kernel group, per second, each with where it comes from.

    dram_ceiling: which bandwidth it is, a name of ``BANDWIDTHS``; None where it was assumed.
    """

    bytes_per_s: float | None
    bytes_from: From
    dram_ceiling: str | None
    flops_per_s: float | None
    flops_from: From


def likely(facts: Facts, row: int, peak_flops_per_s: float | None) -> Likely:
    """What one group can attain of its nominal peaks; ``peak_flops_per_s`` is its FLOP rate's."""
    see = facts.only(_COLUMNS)
    bandwidth, share = float(see.dram_peak_bytes_per_s[row]), float(see.dram_attainable[row])
    known = not np.isnan(share)
    share = share if known else DEFAULT_BANDWIDTH_SHARE
    flops: float | None = None
    flops_from: From = "assumed"
    if peak_flops_per_s is not None:
        of_peak = DEFAULT_FLOPS_SHARE
        # The measured share is of the precision nearest its peak; another one's says nothing.
        same = np.isclose(see.roof_flops_per_s[row], peak_flops_per_s, rtol=1e-6)
        is_rate = see.compute_basis[row] in _RATES and not np.isnan(see.flop_attainable[row])
        if same and is_rate:
            of_peak, flops_from = float(see.flop_attainable[row]), _from(see.flop_from[row])
        flops = peak_flops_per_s * min(of_peak, 1.0)
    return Likely(
        bytes_per_s=None if np.isnan(bandwidth) else bandwidth * min(share, 1.0),
        bytes_from=_from(see.dram_from[row]) if known else "assumed",
        dram_ceiling=see.dram_ceiling[row]
        if known and isinstance(see.dram_ceiling[row], str)
        else None,
        flops_per_s=flops,
        flops_from=flops_from,
    )


def _from(value: Any) -> From:
    return "calibrated" if value == "calibrated" else "measured"


def describe(facts: Facts) -> str:
    """What the two figures of a saving stand for, in one line."""
    see = facts.only(_COLUMNS)
    memory, compute = _memory(see), _compute(see)
    if memory.endswith(_ASSUMED) and compute.endswith(_ASSUMED):
        both = f"{memory.removesuffix(_ASSUMED)} and {compute.removesuffix(_ASSUMED)}"
        if _ELSEWHERE not in both:
            return f"at most: nominal dense peaks; likely: {both}, both assumed"
    return f"at most: nominal dense peaks; likely: {memory} and {compute}"


_ASSUMED = " (assumed)"
_ELSEWHERE = ", elsewhere "


def _memory(see: Facts) -> str:
    assumed = f"{_percent(DEFAULT_BANDWIDTH_SHARE)} of nominal bandwidth{_ASSUMED}"
    known = ~np.isnan(see.dram_attainable)
    calibrated = known & (see.dram_from == "calibrated")
    measured = known & ~calibrated
    parts = []
    if measured.any():
        rate = quantity(float(np.median(see.calibrated_dram_bytes_per_s[measured])), "byte/s")
        share = _percent(float(np.median(see.dram_attainable[measured])))
        parts.append(f"{rate} of DRAM as measured on this device ({share} of nominal)")
    if calibrated.any():
        rates = see.dram_attainable * see.dram_peak_bytes_per_s
        listed = [
            f"{name} {quantity(float(np.median(rates[here])), 'byte/s')}, "
            f"{_percent(float(np.median(see.dram_attainable[here])))} of nominal"
            for name in BANDWIDTHS
            if (here := calibrated & (see.dram_ceiling == name)).any()
        ]
        parts.append(f"bandwidth as calibrated ({'; '.join(listed)})")
    if parts and not known.all():
        parts[-1] += f"{_ELSEWHERE}{assumed}"
    return " and ".join(parts) or assumed


def _compute(see: Facts) -> str:
    assumed = f"{_percent(DEFAULT_FLOPS_SHARE)} of nominal FLOP rate{_ASSUMED}"
    known = _by_rate(see)
    calibrated = known & (see.flop_from == "calibrated")
    parts = []
    if (known & ~calibrated).any():
        parts.append("FLOP rates as measured on this device")
    if calibrated.any():
        listed = [
            f"{name} {quantity(float(np.median(rate)), 'FLOP/s')}"
            for name in sorted({str(one) for one in see.roof_dtype[calibrated]})
            if len(
                rate := (see.flop_attainable * see.roof_flops_per_s)[
                    calibrated & (see.roof_dtype == name)
                ]
            )
        ]
        parts.append(f"FLOP rates as calibrated ({'; '.join(listed)})")
    if parts and not known.all():
        parts[-1] += f"{_ELSEWHERE}{assumed}"
    return " and ".join(parts) or assumed


def _percent(share: float) -> str:
    return f"{digits(round(share * 100, 1))} %"
