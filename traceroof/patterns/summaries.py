"""Launches in a summary: a table of kernels with counts and times, without a timeline.

Such a file does not show when the GPU was idle. That kernels end sooner than they can be launched
shows all the same.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from traceroof.core.kernel_table import Column, sourced
from traceroof.kernels.groups import Groups
from traceroof.timeline import Timeline

#: Columns of the facts of scope ``run`` that come from here; absent where there is a timeline, or
#: where a counter tool ran the kernels.
SUMMARY_COLUMNS: tuple[Column, ...] = sourced(
    (
        Column(name, pa.float64(), unit, meaning, "run", "")
        for name, unit, meaning in (
            ("summary_launches", "launch", "kernel launches of a summary, copies and fills apart"),
            ("summary_mean_ns", "ns", "mean time of these launches"),
            ("summary_shortest_ns", "ns", "mean time of the kernel with the shortest launches"),
        )
    ),
    launch="summary_launches",
    clock="summary_mean_ns summary_shortest_ns",
)  # fmt: skip


def summaries(grouped: Groups, lines: Sequence[Timeline]) -> Mapping[str, float]:
    """Values by the names of SUMMARY_COLUMNS; empty where the run is no summary."""
    see = grouped.facts.only(("by_counters", "primary_class", "time_ns", "launches"))
    timed = (see.time_ns > 0) & (see.launches > 0) & (see.primary_class != "copy")
    if lines or (see.by_counters == 1).any() or not timed.any():
        return {}
    time, launches = see.time_ns[timed], see.launches[timed]
    return {
        "summary_launches": float(launches.sum()),
        "summary_mean_ns": float(time.sum() / launches.sum()),
        "summary_shortest_ns": float((time / launches).min()),
    }
