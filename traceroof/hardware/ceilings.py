"""How much of a nominal peak good code reaches: the two figures behind every saving."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.devices import all_devices
from traceroof.hardware.roofline import DEFAULT_BANDWIDTH_SHARE, DEFAULT_FLOPS_SHARE

#: Where an attainable rate comes from: measured by the profiler on the device of this very file,
#: by ``traceroof calibrate`` on a device of this kind, published for it (the device table), or
#: nobody measured it.
From = Literal["measured", "calibrated", "published", "assumed"]

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

#: Columns of the kernel groups that the functions below read.
COLUMNS = (
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
    see = facts.only(COLUMNS)
    found = _Found.of(see)
    traffic = traffic_of(facts)
    for device in {name for name in devices if name is not None}:
        here = np.array([one == device for one in devices], dtype=bool)
        # Rates of this very site go before what others published.
        found.take(see, traffic, here, applicable(calibration, device, time_basis), "calibrated")
        known = applicable(published(device), device, time_basis)
        found.take(see, traffic, here, known, "published")
    kept = {name: getattr(facts, name) for name in facts.names()}
    more = {
        "dram_attainable": found.memory, "flop_attainable": found.compute,
        "dram_from": found.dram_from, "flop_from": found.flop_from, "dram_ceiling": found.ceiling,
    }  # fmt: skip
    return Facts({**kept, **more}, len(facts))


@dataclass(frozen=True)
class _Found:
    """The attainable shares of n groups, filled in place; where they come from; which bandwidth."""

    memory: Column
    compute: Column
    by_rate: Mask
    dram_from: Column
    flop_from: Column
    ceiling: Column

    @staticmethod
    def of(see: Facts) -> "_Found":
        """What the file itself measured."""
        memory, compute = see.dram_attainable.copy(), see.flop_attainable.copy()
        by_rate = _is_rate(see)
        ceiling = np.full(len(see), None, dtype=object)
        ceiling[~np.isnan(memory)] = "dram"
        return _Found(
            memory=memory,
            compute=compute,
            by_rate=by_rate,
            dram_from=np.where(np.isnan(memory), "assumed", "measured").astype(object),
            flop_from=np.where(by_rate & ~np.isnan(compute), "measured", "assumed").astype(object),
            ceiling=ceiling,
        )

    def take(
        self,
        see: Facts,
        traffic: npt.NDArray[np.object_],
        here: Mask,
        rates: Mapping[str, MeasuredRate],
        origin: From,
    ) -> None:
        """Rates of one device (``here``: its groups) for what has none yet."""
        for kind, stand_ins in _STAND_INS.items():
            rate = next((rates[name] for name in stand_ins if name in rates), None)
            mine = here & (traffic == kind) & (self.dram_from == "assumed")
            mine &= ~np.isnan(see.dram_peak_bytes_per_s)
            if rate is not None:
                self.memory[mine] = rate.per_s / see.dram_peak_bytes_per_s[mine]
                self.dram_from[mine], self.ceiling[mine] = origin, rate.rate
        for name, rate in rates.items():
            mine = here & self.by_rate & (see.roof_dtype == name) & (self.flop_from == "assumed")
            self.compute[mine] = rate.per_s / see.roof_flops_per_s[mine]
            self.flop_from[mine & ~np.isnan(self.compute)] = origin


def published(device: str) -> tuple[MeasuredRate, ...]:
    """The published rates of a row of the device table; none for partitions, whose share of them
    nobody measured. FLOP rates are those of a timeline: a counter tool may lock the clock."""
    names = device.split(" or ")
    row = next((one for one in all_devices() if one.name in names and one.attainable_source), None)
    if row is None:
        return ()
    nominal = {
        **dict.fromkeys(BANDWIDTHS, row.dram_bandwidth_bytes_per_s or float("nan")),
        **row.flops_per_s,
    }
    return tuple(
        MeasuredRate(
            device=row.name,
            time_basis="timeline",
            rate=name,
            per_s=rate,
            nominal_per_s=nominal[name],
            probe=row.attainable_source or "",
        )
        for name, rate in {**row.attainable_bytes_per_s, **row.attainable_flops_per_s}.items()
    )


def _is_rate(see: Facts) -> Mask:
    return np.array([basis in _RATES for basis in see.compute_basis], dtype=bool)


def of_groups(facts: Facts) -> tuple[Attainable, Mask]:
    """What each of n kernel groups can attain, and where that was measured, not assumed.

    A rate measured on the device counts where there is one, else a published one
    (``with_calibration``), the usual share elsewhere. A FLOP rate says nothing about the use of a
    pipe, and no ceiling lies below what the group itself reached. The mask holds where the ceiling
    of the group's busier side was measured, on this device or by calibration.
    """
    see = facts.only(COLUMNS)
    by_bytes, by_rate = ~np.isnan(see.dram_attainable), by_flop_rate(see)
    if not (by_bytes | by_rate).any():
        return UNCALIBRATED, by_bytes
    memory = np.where(by_bytes, see.dram_attainable, UNCALIBRATED.memory)
    modelled = np.where(np.isnan(see.flop_pct), see.compute_pct, see.flop_pct)
    reached = np.fmax(see.flop_attainable, modelled / 100)
    compute = np.where(by_rate, reached, UNCALIBRATED.compute)
    computes = see.compute_pct / compute > see.memory_pct / memory
    attainable = Attainable(np.minimum(memory, 1.0), np.minimum(compute, 1.0))
    ours_bytes = by_bytes & (see.dram_from != "published")
    ours_rate = by_rate & (see.flop_from != "published")
    return attainable, np.where(computes, ours_rate, ours_bytes)


def by_flop_rate(see: Facts) -> Mask:
    """Groups whose compute use is a FLOP rate with a known ceiling."""
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
    see = facts.only(COLUMNS)
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
    return value if value in ("calibrated", "published") else "measured"
