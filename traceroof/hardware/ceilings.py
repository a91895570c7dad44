"""How much of a nominal peak good code reaches: the two figures behind every saving."""

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


# What compute_pct is measured against where a FLOP rate is its numerator.
_RATES = ("peak FLOP rate", "model, nominal peak")

#: Columns of the kernel groups that the functions below read.
COLUMNS = (
    "dram_attainable", "flop_attainable", "flop_pct", "compute_basis", "compute_pct", "memory_pct",
    "calibrated_dram_bytes_per_s", "dram_peak_bytes_per_s", "roof_flops_per_s", "roof_dtype",
    "dram_from", "dram_ceiling", "flop_from",
)  # fmt: skip


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


def is_flop_rate(see: Facts) -> Mask:
    """Groups whose compute use is a FLOP rate."""
    return np.array([basis in _RATES for basis in see.compute_basis], dtype=bool)


def of_groups(facts: Facts) -> tuple[Attainable, Mask]:
    """What each of n kernel groups can attain, and where that was measured, not assumed.

    A rate measured on the device counts where there is one, else a published one
    (``calibration.apply``), the usual share elsewhere. A FLOP rate says nothing about the use of a
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
    return is_flop_rate(see) & ~np.isnan(see.flop_attainable)


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
