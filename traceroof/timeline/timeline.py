"""The timeline of one GPU: everything that is computed from the rows of one lane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from traceroof.core.memory import give_back
from traceroof.timeline.communication import Exchange, exchanges
from traceroof.timeline.host import Host
from traceroof.timeline.idle import Gap
from traceroof.timeline.lanes import Lane, unions_of
from traceroof.timeline.lost_records import launched
from traceroof.timeline.measured import Shared, measured, steady_facts
from traceroof.timeline.steps import Step, step_spans, steps_of

if TYPE_CHECKING:
    from traceroof.core.recording import Recording


@dataclass(frozen=True)
class Timeline:
    """What one GPU did, seen from one process of one rank. Times in ns.

    sources: the run's files that it comes from. idle_by_cause: cause -> ns, adding up to idle_ns.
    gaps: the longest, longest first. exchanges: the communication by collective and process group,
    most time first. sync_operator: whose copies the host waits for where synchronisations cost time;
    None where no one has half of it. facts: TIMELINE_COLUMNS -> value; what is unknown is absent. steady_facts: the
    same of the part that is judged, where that is not all of it: the steps after warm-up, or what
    follows a first collective that waited for most of the time.
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
    steady_facts: Mapping[str, float] = field(default_factory=dict)
    sync_operator: str | None = None

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
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def lane_timelines(recording: "Recording", found: Sequence[Lane]) -> list[Timeline]:
    """The timelines of lanes of a recording, in their order."""
    shared = Shared(
        host=Host(recording),
        spans=step_spans(recording),
        stacks={index for index, one in enumerate(recording.sources) if one.stacks},
        launched=launched(recording.host_calls, recording.kernels),
    )
    give_back()
    return [_timeline(lane, shared) for lane in found]


def _timeline(lane: Lane, shared: Shared) -> Timeline:
    unions = unions_of(lane)
    steps = steps_of(lane, unions, shared.spans)
    whole = measured(lane, unions, steps, shared)
    judged = steady_facts(lane, whole, steps, shared)
    return Timeline(
        rank=lane.rank,
        process=lane.process,
        device=lane.device,
        sources=lane.sources,
        start_ns=whole.start_ns,
        idle_by_cause=whole.idle.by_cause(),
        gaps=whole.idle.longest(),
        steps=steps,
        sync_operator=whole.idle.sync_operator(),
        exchanges=exchanges(lane, unions),
        facts={name: float(value) for name, value in whole.facts.items()},
        steady_facts={name: float(value) for name, value in judged.items()},
        **{name: whole.numbers[name] for name in _FIELDS},
    )


_FIELDS = (
    "span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns", "exposed_communication_ns",
    "memcpy_ns", "exposed_memcpy_ns",
)  # fmt: skip
