"""How the time of each GPU went by: busy, waiting and for what, overlapped, step by step.

One ``Timeline`` per rank, process and device. Everything is interval algebra over all streams
together (``intervals.py``), so that two kernels at once count once. Definitions, causes of idleness
and where other tools differ: ``docs/timeline.md``.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from traceroof.core.dictionary import coded
from traceroof.core.facts import Facts
from traceroof.timeline import intervals
from traceroof.timeline.communication import Exchange, exchanges
from traceroof.timeline.host import Host
from traceroof.timeline.idle import CAUSES, Gap, Idle
from traceroof.timeline.lanes import Lane, Rows, known, lanes, unions_of
from traceroof.timeline.metrics import (
    TIMELINE_COLUMNS,
    communication_facts,
    copy_facts,
    host_facts,
    launch_facts,
    shares,
    step_facts,
)
from traceroof.timeline.steps import Step, step_spans, steps_of

if TYPE_CHECKING:
    from traceroof.core.recording import Recording

__all__ = [
    "CAUSES",
    "TIMELINE_COLUMNS",
    "Exchange",
    "Gap",
    "Step",
    "Timeline",
    "facts_of",
    "timelines",
]


@dataclass(frozen=True)
class Timeline:
    """What one GPU did, seen from one process of one rank. Times in ns.

    sources: the run's files that it comes from. idle_by_cause: cause -> ns, adding up to idle_ns.
    gaps: the longest, longest first. exchanges: the communication by collective and process group,
    most time first. facts: TIMELINE_COLUMNS -> value; what is unknown is absent.
    """

    rank: int | None
    process: int | None
    device: int | None
    sources: tuple[int, ...]
    start_ns: int
    span_ns: int
    busy_ns: int
    idle_ns: int
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    memcpy_ns: int
    exposed_memcpy_ns: int
    idle_by_cause: Mapping[str, int]
    gaps: tuple[Gap, ...] = ()
    steps: tuple[Step, ...] = ()
    exchanges: tuple[Exchange, ...] = ()
    facts: Mapping[str, float] = field(default_factory=dict)

    @property
    def overlapped_communication_ns(self) -> int:
        """Communication while something computes."""
        return self.communication_ns - self.exposed_communication_ns

    @property
    def steady_steps(self) -> tuple[Step, ...]:
        """The steps that are not warm-up."""
        return tuple(step for step in self.steps if not step.warm_up)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form (DESIGN §6 and what goes beyond it)."""
        return asdict(self)


def timelines(recording: "Recording", categories: Sequence[str]) -> list[Timeline]:
    """The timelines of a recording, by rank, process and device.

    categories: the category of every row of the kernel table. Only activities with a known start
    and duration count; a counter tool's recording (serialised replays) has no timeline, and
    summaries have none either. Nor has one of copies alone: its kernels were not recorded, so when
    the GPU was busy is unknown.
    """
    if recording.time_basis != "timeline":
        return []
    if not coded(recording.kernels["kind"]).is_("kernel").any():
        return []
    rows = Rows(recording.kernels, categories)
    host = Host(recording)
    spans = step_spans(recording)
    stacks = {index for index, one in enumerate(recording.sources) if one.stacks}
    return [_timeline(lane, host, spans, stacks) for lane in lanes(rows)]


def facts_of(found: Sequence[Timeline]) -> Facts:
    """What rules of scope ``timeline`` read: one subject a timeline, columns TIMELINE_COLUMNS."""
    columns = {
        entry.name: np.array([one.facts.get(entry.name, np.nan) for one in found], dtype=np.float64)
        for entry in TIMELINE_COLUMNS
    }
    return Facts(columns, len(found))


def _timeline(
    lane: Lane, host: Host, spans: Mapping[tuple[int, str], int], stacks: AbstractSet[int]
) -> Timeline:
    start, end = int(lane.start.min()), int(lane.end.max())
    unions = unions_of(lane)
    view = host.of(lane, int(min([start, *known(lane.launch)[:1]])), end)
    idle = _idle(Idle(lane, unions, view, start, end))
    found = steps_of(lane, unions, spans)
    busy = intervals.length(unions.busy)
    numbers = {
        "span_ns": end - start,
        "busy_ns": busy,
        "idle_ns": end - start - busy,
        "compute_ns": intervals.length(unions.compute),
        "communication_ns": intervals.length(unions.communication),
        "exposed_communication_ns": intervals.length(unions.exposed_communication),
        "memcpy_ns": intervals.length(unions.memcpy),
        "exposed_memcpy_ns": intervals.length(unions.exposed_memcpy),
    }
    facts: dict[str, float] = {
        **numbers,
        "overlapped_communication_ns": numbers["communication_ns"]
        - numbers["exposed_communication_ns"],
        **shares(numbers),
        **idle.facts,
        **launch_facts(lane),
        **host_facts(lane, view, found, end),
        **copy_facts(lane, unions),
        **communication_facts(lane, unions),
    }
    facts |= step_facts(lane, found, facts)
    if stacked := stacks & {*lane.sources}:
        facts["stack_files"] = len(stacked)
    return Timeline(
        rank=lane.rank,
        process=lane.process,
        device=lane.device,
        sources=lane.sources,
        start_ns=start,
        idle_by_cause=idle.by_cause,
        gaps=idle.longest,
        steps=found,
        exchanges=exchanges(lane, unions),
        facts={name: float(value) for name, value in facts.items()},
        **numbers,
    )


@dataclass(frozen=True)
class _Summary:
    """What is kept of the idle time: its gaps are as many as the launches."""

    by_cause: Mapping[str, int]
    longest: tuple[Gap, ...]
    facts: Mapping[str, float]


def _idle(idle: Idle) -> _Summary:
    causes, pauses = idle.by_cause(), idle.pauses()
    facts = {
        **{f"idle_{cause}_ns": value for cause, value in causes.items()},
        "gaps": idle.count_apart,
        "longest_gap_ns": idle.longest_ns,
        "gaps_after_sync": idle.count("sync"),
        "pauses": len(pauses),
        "pause_time_ns": int(pauses.sum()),
        "late_launch_ns": causes["host"] - int(pauses.sum()),
    }
    return _Summary(causes, idle.longest(), facts)
