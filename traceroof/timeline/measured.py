"""Every figure of one timeline, or of the part of it that is judged."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline import intervals
from traceroof.timeline.communication import communication_facts
from traceroof.timeline.drift import drift_facts
from traceroof.timeline.host import Host
from traceroof.timeline.idle import Idle
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import Lane, Unions, unions_of
from traceroof.timeline.lost_records import Launched
from traceroof.timeline.metrics import (
    copy_facts,
    host_facts,
    launch_facts,
    shares,
    steady_from,
)
from traceroof.timeline.steps import Step, step_facts

# A wait at the start that takes this share of the recording is left out of what is judged.
_MUCH = 0.25
# The same for a first collective: the host may launch meanwhile, so that more of it is worth judging.
_HALF = 0.5


@dataclass(frozen=True)
class Shared:
    """What the timelines of a recording share. spans: host duration of steps by (source, name).
    stacks: the sources with Python stacks. launched: launch calls by (source, process)."""

    host: Host
    spans: Mapping[tuple[int, str], int]
    stacks: AbstractSet[int]
    launched: Mapping[tuple[int, int], Launched]


@dataclass(frozen=True)
class Measured:
    """The figures of some rows of a lane. numbers: lengths of unions, ns. facts: TIMELINE_COLUMNS
    -> value, ``numbers`` among them; what is unknown is absent."""

    start_ns: int
    unions: Unions
    idle: Idle
    numbers: Mapping[str, int]
    facts: Mapping[str, float]


def measured(lane: Lane, unions: Unions, steps: Sequence[Step], shared: Shared) -> Measured:
    """Measure the rows of a lane. unions: theirs. steps: those that lie in it."""
    start, end = int(lane.start.min()), int(lane.end.max())
    view = shared.host.of(lane, int(min([start, *lane.launches[:1]])), end)
    idle = Idle(lane, unions, view, start, end)
    numbers = _numbers(unions, start, end)
    steady = steady_from(lane, steps, idle.cold, end)
    facts: dict[str, float] = {
        **numbers,
        **shares(numbers),
        **_idle_facts(idle, steady),
        **launch_facts(lane),
        **drift_facts(lane),
        **host_facts(lane, view, steps, steady, end, idle.cold),
        **copy_facts(lane, unions),
        **communication_facts(lane, unions),
        **_launched_facts(lane, shared.launched),
    }
    facts |= step_facts(steps, facts)
    if stacked := shared.stacks & {*lane.sources}:
        facts["stack_files"] = len(stacked)
    facts |= {"cold_ns": idle.by_cause()["cold"], "whole_span_ns": end - start}
    return Measured(start, unions, idle, numbers, facts)


#: Figures that are those of the whole recording, whatever part of it is judged.
_OF_ALL = (
    "cold_ns", "whole_span_ns", "warm_up_steps", "warm_up_ns", "warm_up_set_up_ns", "start_skew_ns",
    "start_wait_ns",
)  # fmt: skip


def steady_facts(
    lane: Lane, whole: Measured, steps: Sequence[Step], shared: Shared
) -> dict[str, float]:
    """The facts of the part of a lane that is judged: its steps after warm-up, and what follows a
    first collective that waited for most of the recording. Empty where that is all of it."""
    facts = whole.facts
    begins = [step.start_ns for step in steps if not step.warm_up][:1]
    if not any(step.warm_up for step in steps):
        begins = []
    # Nor is a wait for work from before the recording.
    if facts["start_wait_ns"] > _MUCH * facts["span_ns"]:
        begins.append(whole.idle.longest()[0].end_ns)
    if facts.get("start_skew_ns", 0.0) > _HALF * facts["span_ns"]:
        begins.append(int(lane.end[np.flatnonzero(lane.is_communication)[0]]))
    if not begins:
        return {}
    at = np.flatnonzero(lane.start >= max(begins))
    if not 0 < len(at) < len(lane.at):
        return {}
    part = Lane(lane.rank, lane.process, lane.device, lane.sources, lane.rows, lane.at[at])
    inside = [step for step in steps if step.start_ns >= max(begins)]
    found = dict(measured(part, unions_of(part), inside, shared).facts)
    return found | {name: facts[name] for name in _OF_ALL if name in facts}


def _numbers(unions: Unions, start: int, end: int) -> dict[str, int]:
    busy = intervals.length(unions.busy)
    unmeasured = intervals.length(unions.unmeasured)
    communication = intervals.length(unions.communication)
    exposed = intervals.length(unions.exposed_communication)
    return {
        "span_ns": end - start,
        "busy_ns": busy,
        "idle_ns": end - start - busy - unmeasured,
        "unmeasured_ns": unmeasured,
        "compute_ns": intervals.length(unions.compute),
        "communication_ns": communication,
        "exposed_communication_ns": exposed,
        "overlapped_communication_ns": communication - exposed,
        "memcpy_ns": intervals.length(unions.memcpy),
        "exposed_memcpy_ns": intervals.length(unions.exposed_memcpy),
    }


def _idle_facts(idle: Idle, steady: int) -> dict[str, float]:
    """Idle time by cause. steady: when warm-up is over on the host."""
    causes, pauses = idle.by_cause(), idle.pauses()
    paused, short = int(pauses.sum()), causes["host"] - int(pauses.sum())
    late: Times = idle.of("allocate")[idle.start >= steady]
    return {
        **{f"idle_{cause}_ns": value for cause, value in causes.items()},
        "start_wait_ns": idle.start_wait(),
        "host_part_ns": int((idle.host_end - idle.start)[idle.is_launch_known].sum()),
        "gaps": idle.count_apart,
        "longest_gap_ns": idle.longest_ns,
        "gaps_after_sync": idle.count("sync"),
        "pauses": len(pauses),
        "pause_time_ns": paused,
        "late_launch_ns": short,
        # Where short waits are most of what the host takes, long ones are more of the same.
        **({"launch_pauses_ns": paused} if 0 < paused <= short else {}),
        "late_idle_allocate_ns": int(late.sum()),
        "long_idle_unknown_ns": idle.long_unknown(),
    }


def _launched_facts(lane: Lane, launched: Mapping[tuple[int, int], Launched]) -> dict[str, float]:
    """The launch calls of the lane's process, and how many of them left no record."""
    process = UNKNOWN if lane.process is None else lane.process
    found = [launched[source, process] for source in lane.sources if (source, process) in launched]
    if not found:
        return {}
    share = max(one.lost_share for one in found)
    facts: dict[str, float] = {
        "launches_called": sum(one.calls + one.graphs for one in found),
        "lost_launches": sum(one.lost for one in found),
        "lost_pct": 100 * share,
    }
    if any(one.graphs for one in found):
        facts["lost_graphs"] = sum(one.lost_graphs for one in found)
    densities = [one.density for one in found if one.density is not None]
    if densities:
        facts["call_id_density_pct"] = 100 * min(densities)
    return facts
