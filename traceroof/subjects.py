"""What rules judge: the subjects of each scope, as tables of facts.

Kernel groups come from ``groups``, timelines from ``timeline``; here are the categories, the run,
and the one list of what a rule of each scope may read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof import groups, ranks, timeline
from traceroof.facts import Facts
from traceroof.groups import Groups
from traceroof.ranks import Ranks
from traceroof.rule import Scope
from traceroof.table import Column
from traceroof.timeline import Timeline

#: Columns of the facts of scope ``category``: one subject a category.
CATEGORY_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64() if unit else pa.string(), unit, meaning, "category", basis)
    for name, unit, meaning, basis in (
        ("category", "", "operator category", ""),
        ("launches", "launch", "launches (copies and fills included)", ""),
        ("time_ns", "ns", "GPU time", ""),
        ("share_pct", "%", "share of all GPU time", "GPU time"),
        ("median_ns", "ns", "median time of a launch", ""),
    )
)

#: Columns of the facts of scope ``run``: one subject, the run.
RUN_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64(), unit, meaning, "run", basis)
    for name, unit, meaning, basis in (
        ("launches", "launch", "kernel launches", ""),
        ("kernel_time_ns", "ns", "time of all kernels", ""),
        ("time_ns", "ns", "time that savings are measured against", ""),
        ("busiest_pct", "%", "time-weighted larger of compute and memory use", "kernel time"),
        ("judged_pct", "%", "kernel time with a class", "kernel time"),
        ("other_pct", "%", "kernel time without a category", "kernel time"),
        ("over_peak_pct", "%", "largest utilisation of any kernel", "row"),
        ("gpu_busy_pct", "%", "time in which any kernel or copy ran", "span of the run"),
    )
)


#: Columns of the facts of scope ``timeline``, and the one that savings are measured against.
TIMELINE_COLUMNS: tuple[Column, ...] = (
    *timeline.TIMELINE_COLUMNS,
    Column("time_ns", pa.float64(), "ns", "span: what savings are measured against", "time"),
)


@dataclass(frozen=True)
class Subjects:
    """The subjects of one scope: their facts and what they are called."""

    facts: Facts
    names: Sequence[str]


def vocabulary(scope: Scope) -> Mapping[str, Column]:
    """Every column that a rule of this scope may read."""
    return {entry.name: entry for entry in _COLUMNS[scope]}


_COLUMNS: Mapping[Scope, Sequence[Column]] = {
    "kernel": tuple(groups.VOCABULARY.values()),
    "category": CATEGORY_COLUMNS,
    "timeline": TIMELINE_COLUMNS,
    "run": (*RUN_COLUMNS, *ranks.RANK_COLUMNS),
    "compare": (),
}


def of_categories(kernels: pa.Table, categories: Sequence[str]) -> Subjects:
    """One subject per category, most time first; copies and fills are categories too."""
    import pandas as pd

    frame = pd.DataFrame(
        {
            "category": categories,
            "launches": kernels["launch_count"].to_numpy(zero_copy_only=False),
            "duration": kernels["duration_ns"].to_numpy(zero_copy_only=False).astype(float),
        }
    )
    frame["time"] = frame["launches"] * frame["duration"].fillna(0.0)
    by_category = frame.groupby("category", sort=True)
    summed = by_category[["launches", "time"]].sum()
    summed["median"] = by_category["duration"].median()
    summed = summed.sort_values("time", ascending=False, kind="stable")
    total = float(summed["time"].sum())
    names = [str(name) for name in summed.index]
    columns: dict[str, npt.NDArray[np.float64] | npt.NDArray[np.object_]] = {
        "category": np.array(names, dtype=object),
        "launches": summed["launches"].to_numpy(dtype=float),
        "time_ns": summed["time"].to_numpy(dtype=float),
        "share_pct": summed["time"].to_numpy(dtype=float) / total * 100
        if total
        else np.full(len(names), np.nan),
        "median_ns": summed["median"].to_numpy(dtype=float),
    }
    return Subjects(Facts(columns, len(names)), names)


def of_timelines(found: Sequence[Timeline]) -> Subjects:
    """One subject per timeline, called by rank, process and device where they differ."""
    facts = timeline.facts_of(found)
    columns = {name: getattr(facts, name) for name in facts.names()}
    columns["time_ns"] = columns["span_ns"]
    return Subjects(Facts(columns, len(found)), [timeline_name(one, found) for one in found])


def timeline_name(one: Timeline, among: Sequence[Timeline]) -> str:
    """'rank 3, GPU 0': only what tells the timelines of a run apart."""
    parts: list[str] = []
    for label, name in (("rank", "rank"), ("process", "process"), ("GPU", "device")):
        values = {getattr(other, name) for other in among}
        if len(values) > 1 or (name == "device" and not parts):
            parts.append(f"{label} {getattr(one, name)}")
    return ", ".join(parts)


def of_run(
    grouped: Groups,
    *,
    launches: int,
    kernel_time_ns: int,
    span_ns: int | None,
    busy_ns: int | None,
    across: Ranks | None,
) -> Subjects:
    """The run as one subject; what its ranks show together is part of it."""
    facts = grouped.facts.only(
        ("time_ns", "busiest_pct", "primary_class", "category", "compute_pct", "memory_pct",
         "dram_pct")
    )  # fmt: skip
    time = np.nan_to_num(facts.time_ns)
    total = float(time.sum())

    def share(mask: npt.NDArray[np.bool_]) -> float:
        return float(time[mask].sum() / total * 100) if total else float("nan")

    known = ~np.isnan(facts.busiest_pct)
    weight = float(time[known].sum())
    busiest = float((time * np.nan_to_num(facts.busiest_pct)).sum() / weight) if weight else np.nan
    peaks = np.concatenate([facts.compute_pct, facts.memory_pct, facts.dram_pct])
    values = {
        "launches": float(launches),
        "kernel_time_ns": float(kernel_time_ns),
        "time_ns": float(span_ns or kernel_time_ns),
        "busiest_pct": busiest,
        "judged_pct": share(facts.primary_class != "not-evaluable"),
        "other_pct": share(facts.category == "other"),
        "over_peak_pct": float(np.nanmax(peaks)) if (~np.isnan(peaks)).any() else np.nan,
        "gpu_busy_pct": busy_ns / span_ns * 100 if span_ns and busy_ns is not None else np.nan,
    }
    columns = {name: np.array([value]) for name, value in values.items()}
    of_ranks = ranks.facts_of(across)
    columns |= {name: getattr(of_ranks, name) for name in of_ranks.names()}
    return Subjects(Facts(columns, 1), ["run"])
