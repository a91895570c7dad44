"""How much of a nominal peak good code reaches: the two figures behind every saving."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.facts import Column, Facts, Mask
from traceroof.roofline import DEFAULT_BANDWIDTH_SHARE, DEFAULT_FLOPS_SHARE
from traceroof.units import digits, quantity


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

# What compute_pct is measured against where a FLOP rate is its numerator.
_RATES = ("peak FLOP rate", "model, nominal peak")

# Columns of the kernel groups that the functions below read.
_COLUMNS = (
    "dram_attainable", "flop_attainable", "flop_pct", "compute_basis", "compute_pct", "memory_pct",
    "calibrated_dram_bytes_per_s",
)  # fmt: skip


def of_groups(facts: Facts) -> tuple[Attainable, Mask]:
    """What each of n kernel groups can attain, and where that was measured, not assumed.

    A rate measured on the device counts where the file has one (``roofline.csv`` of
    rocprof-compute), the usual share elsewhere. A measured FLOP rate says nothing about the use
    of a pipe, and no ceiling lies below what the group itself reached. The mask holds where the
    ceiling of the group's busier side was measured.
    """
    see = facts.only(_COLUMNS)
    by_bytes, by_rate = ~np.isnan(see.dram_attainable), _by_rate(see)
    if not (by_bytes | by_rate).any():
        return UNCALIBRATED, by_bytes
    memory = np.where(by_bytes, see.dram_attainable, UNCALIBRATED.memory)
    reached = np.fmax(see.flop_attainable, see.flop_pct / 100)
    compute = np.where(by_rate, reached, UNCALIBRATED.compute)
    computes = see.compute_pct / compute > see.memory_pct / memory
    attainable = Attainable(np.minimum(memory, 1.0), np.minimum(compute, 1.0))
    return attainable, np.where(computes, by_rate, by_bytes)


def _by_rate(see: Facts) -> Mask:
    rate = np.array([basis in _RATES for basis in see.compute_basis], dtype=bool)
    return rate & ~np.isnan(see.flop_attainable)


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


def describe(facts: Facts) -> str:
    """What the two figures of a saving stand for, in one line."""
    see = facts.only(_COLUMNS)
    bandwidth = f"{_percent(DEFAULT_BANDWIDTH_SHARE)} of nominal bandwidth"
    rate = f"{_percent(DEFAULT_FLOPS_SHARE)} of nominal FLOP rate"
    known = ~np.isnan(see.dram_attainable)
    if known.any():
        measured = quantity(float(np.median(see.calibrated_dram_bytes_per_s[known])), "byte/s")
        share = _percent(float(np.median(see.dram_attainable[known])))
        elsewhere = "" if known.all() else f" ({bandwidth} where it was not)"
        bandwidth = f"{measured} of DRAM as measured on this device ({share} of nominal){elsewhere}"
    used = _by_rate(see)
    if used.any():
        elsewhere = "" if used.all() else f" ({rate} where they were not)"
        rate = f"FLOP rates as measured on it{elsewhere}"
    return f"at most: nominal dense peaks; likely: {bandwidth} and {rate}"


def _percent(share: float) -> str:
    return f"{digits(round(share * 100, 1))} %"
