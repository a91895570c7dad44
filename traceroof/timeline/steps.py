"""The steps of a timeline: GPU time from one step's first activity to the next step's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from traceroof.core.groups import Groups
from traceroof.timeline import intervals
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import Lane, Unions

if TYPE_CHECKING:
    from traceroof.core.recording import Recording

# The first step counts as warm-up when it takes this many times the median of the others.
WARM_UP_RATIO = 1.5


@dataclass(frozen=True)
class Step:
    """One step on one GPU: the time from its first start to the next step's first start.

    Work belongs to the step that launched it. host_ns: duration of the step on the host.
    """

    name: str
    start_ns: int
    span_ns: int
    busy_ns: int
    idle_ns: int
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    memcpy_ns: int
    kernels: int
    host_ns: int | None
    warm_up: bool


def step_spans(recording: "Recording") -> Mapping[tuple[int, str], int]:
    """Host duration of each step: (source, name) -> ns."""
    spans = recording.spans.filter(pc.equal(recording.spans["kind"], "step"))
    rows = zip(
        spans["source"].to_pylist(),
        spans["name"].to_pylist(),
        spans["duration_ns"].to_pylist(),
        strict=True,
    )
    return {(source, name): duration for source, name, duration in rows if duration is not None}


def steps_of(lane: Lane, unions: Unions, spans: Mapping[tuple[int, str], int]) -> tuple[Step, ...]:
    member = np.flatnonzero(lane.step >= 0)
    if not len(member):
        return ()
    codes, number = np.unique(lane.step[member], return_inverse=True)
    of_step = Groups(number)
    starts = of_step.reduced(np.minimum, lane.start[member])
    order = np.argsort(starts, kind="stable")
    starts, last = starts[order], order[-1]
    kernels = np.bincount(number, weights=lane.is_kernel[member])[order]
    # Steps tile the timeline: each lasts until the next begins, the last until its work ends.
    ends = np.append(starts[1:], of_step.reduced(np.maximum, lane.end[member])[last])
    parts = {
        "busy_ns": unions.busy,
        "compute_ns": unions.compute,
        "communication_ns": unions.communication,
        "exposed_communication_ns": unions.exposed_communication,
        "memcpy_ns": unions.memcpy,
    }
    inside = {name: intervals.covered(part, starts, ends) for name, part in parts.items()}
    warm_up = _warm_up(ends - starts)
    columns = {
        "start_ns": starts,
        "span_ns": ends - starts,
        "idle_ns": ends - starts - inside["busy_ns"],
        "kernels": kernels.astype(np.int64),
        **inside,
    }
    names = [str(lane.rows.step_names[code]) for code in codes[order].tolist()]
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return tuple(
        Step(
            name=name,
            host_ns=next(
                (spans[source, name] for source in lane.sources if (source, name) in spans), None
            ),
            warm_up=at < warm_up,
            **dict(zip(columns, row, strict=True)),
        )
        for at, (name, row) in enumerate(zip(names, rows, strict=True))
    )


def _warm_up(durations: Times) -> int:
    """How many leading steps are warm-up: each longer than 1.5 times the median of those after
    it, at most half of the steps."""
    count = 0
    while count < len(durations) // 2:
        rest = durations[count + 1 :]
        if durations[count] <= WARM_UP_RATIO * np.median(rest):
            break
        count += 1
    return count


# Fewer steps show no trend.
_TREND_STEPS = 6
#: A step that takes so many times the median is uneven (nsys-ai).
UNEVEN = 1.5


def step_facts(found: Sequence[Step], facts: Mapping[str, float]) -> dict[str, float]:
    """What a step takes, after warm-up."""
    steady = [step for step in found if not step.warm_up]
    result: dict[str, float] = {
        "steps": len(steady),
        "warm_up_steps": len(found) - len(steady),
        "warm_up_ns": sum(step.span_ns for step in found if step.warm_up),
    }
    if not steady:
        return result
    spans = np.array([step.span_ns for step in steady], dtype=np.int64)
    result["median_step_ns"] = float(np.median(spans))
    result["median_step_busy_ns"] = float(np.median([step.busy_ns for step in steady]))
    result["kernels_per_step"] = float(np.median([step.kernels for step in steady]))
    busy = np.array([step.busy_ns for step in steady], dtype=np.int64)
    result |= _unevenness(spans, busy)
    for name, count in (
        ("syncs_per_step", "sync_calls"),
        ("copies_per_step", "copies"),
        ("collectives_per_step", "collectives"),
    ):
        if count in facts:
            result[name] = facts[count] / len(steady)
    return result


def _unevenness(spans: Times, busy: Times) -> dict[str, float]:
    """How steps differ. The last one is left out: nothing was queued behind it, so it holds the
    drain of the queue, or lacks the end of its work."""
    if len(spans) < 3:
        return {}
    spans, busy = spans[:-1], busy[:-1]
    usual, usually_busy = (float(np.sort(one)[(len(one) - 1) // 2]) for one in (spans, busy))
    if usual <= 0:
        return {}
    long = spans > UNEVEN * usual
    result = {
        "slowest_step": float(spans.max()) / usual,
        "uneven_ns": float((spans[long] - usual).sum()),
        "uneven_busy_ns": float(np.maximum(busy[long] - usually_busy, 0).sum()),
    }
    if len(spans) < _TREND_STEPS:
        return result
    quarter = max(len(spans) // 4, 2)
    first, last = (float(np.median(part)) for part in (spans[:quarter], spans[-quarter:]))
    place = np.argsort(np.argsort(spans, kind="stable"), kind="stable")
    trend = np.corrcoef(place, np.arange(len(spans)))[0, 1]
    return {
        **result,
        "step_trend": float(trend),
        "step_growth_pct": (last / first - 1) * 100,
        "step_growth_ns": float(np.maximum(spans - first, 0).sum()),
    }
