"""How a calibration is applied: the measured rates of a device become the ceilings of its kernels."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.ceilings import (
    BANDWIDTHS,
    COLUMNS,
    From,
    MeasuredRate,
    is_flop_rate,
    published,
)

#: From which share of its bytes on a kernel counts as reading (or writing) alone: at four reads a
#: write and more. Bandwidth with equal reads and writes is up to 20 points lower on one card
#: (RRZE-HPC/gpu-benches, gpu-stream: 79 % against 98 % on GH200), with three reads a write within
#: 8 % of it.
MOSTLY = 0.8

# Where a ceiling is from, by whether it was measured.
_ORIGINS = np.array(["assumed", "measured"], dtype=object)


# Which bandwidth stands for which mix of reads and writes, best first.
_STAND_INS: Mapping[str, Sequence[str]] = {
    "read": ("read", "dram", "copy", "write"),
    "write": ("write", "dram", "copy", "read"),
    "copy": ("copy", "dram", "write", "read"),
}

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
        by_rate = is_flop_rate(see)
        ceiling = np.full(len(see), None, dtype=object)
        ceiling[~np.isnan(memory)] = "dram"
        return _Found(
            memory=memory,
            compute=compute,
            by_rate=by_rate,
            dram_from=_ORIGINS[(~np.isnan(memory)).astype(int)],
            flop_from=_ORIGINS[(by_rate & ~np.isnan(compute)).astype(int)],
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
