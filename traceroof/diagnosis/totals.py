"""Sums over a run, and the time that savings are taken from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from traceroof.core.topics import LATE_RANK, SLOW_LINK
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Totals
from traceroof.diagnosis.savings import Pool, longest, pool_of
from traceroof.kernels.groups import Groups, kernel_rows
from traceroof.kernels.variants import Variants, summed
from traceroof.timeline import Timeline
from traceroof.timeline.ranks import Ranks


def run_totals(variants: Variants, lines: Sequence[Timeline]) -> Totals:
    """Sums over the kernels, and over the timelines of all GPUs where there are any."""
    rows, sums = kernel_rows(variants.kernels), variants.sums
    launches, timed, time = (
        int(one[rows].sum()) for one in (sums.launches, sums.timed, sums.time_ns)
    )
    totals = Totals(launches=launches, kernel_time_ns=time, unknown_durations=launches - timed)
    if not lines:
        return totals
    return replace(
        totals,
        wall_ns=max(one.span_ns for one in lines),
        span_ns=sum(one.span_ns for one in lines),
        gpu_busy_ns=sum(one.busy_ns for one in lines),
        gpu_idle_ns=sum(one.idle_ns for one in lines),
        exposed_communication_ns=sum(one.exposed_communication_ns for one in lines),
    )


def with_savings(totals: Totals, advice: Sequence[Entry]) -> Totals:
    """Add what all advice together saves; what passes once per process is no part of it."""
    counted = [one for one in advice if one.bound_ns is not None and not one.once]
    if not counted:
        return totals
    return replace(
        totals,
        time_saved_bound_ns=sum(one.bound_ns or 0 for one in counted),
        time_saved_likely_ns=sum(one.likely_ns or one.bound_ns or 0 for one in counted),
    )


def pool_of_run(
    variants: Variants, grouped: Groups, lines: Sequence[Timeline], across: Ranks | None = None
) -> Pool:
    """The time of the run that advice takes its savings from."""
    see = grouped.facts.only(("time_ns", "category"))
    part = None
    if len(lines) > 1:
        group = grouped.of_row[variants.by_step["variant"]]
        on = _on(variants.by_step, lines[longest(lines)]) & (group >= 0)
        counted = summed(group[on], variants.by_step["time_ns"][on], len(grouped))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.clip(np.nan_to_num(counted / see.time_ns), 0.0, 1.0)
    return pool_of(see.time_ns, see.category.tolist(), lines, part, _apart(across))


def _apart(across: Ranks | None) -> dict[str, float]:
    """What the slowest link and the slowest rank cost, ns."""
    found: dict[str, float] = {}
    if across and across.slow_groups:
        found[SLOW_LINK] = float(max(one.excess_ns for one in across.slow_groups))
    if across and across.stragglers:
        found[LATE_RANK] = float(across.stragglers[0].more_ns)
    return found


def _on(by_step: Mapping[str, npt.NDArray[np.int64]], line: Timeline) -> npt.NDArray[np.bool_]:
    """Which entries are launches of one timeline: those of its files, on its GPU."""
    on = np.isin(by_step["source"], line.sources)
    for column, value in (
        ("rank", line.rank),
        ("process_id", line.process),
        ("device", line.device),
    ):
        if value is not None:
            on &= by_step[column] == value
    return on
