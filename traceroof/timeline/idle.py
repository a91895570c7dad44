"""Why a GPU was idle: every gap of a timeline with one cause (docs/timeline.md)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.timeline import intervals
from traceroof.timeline.host import HostView
from traceroof.timeline.hostcalls import HostKind
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import UNKNOWN, Lane, Mask, Unions

#: Why a GPU was idle, each gap for one reason, in the order in which reasons are tried.
CAUSES: Mapping[str, str] = {
    "back_to_back": "shorter than 2 µs: what the hardware needs between two kernels",
    "copy": "a copy was queued, or the host was still preparing it",
    "data_loader": "the host waited for or prepared the next batch",
    "load": "the host loaded, compiled or tuned code",
    "collect": "the host collected garbage",
    "allocate": "the host asked for memory or gave it back",
    "sync": "the host had waited for the GPU to finish and launched on within 1 ms after that",
    "communication": "work was queued behind, or the host was in, a collective: other ranks",
    "profiler": "the profiler was at work on the host",
    "host": "the host launched the next work late, none of the above",
    "launch": "the launch was under way: what a launch or a graph node costs",
    "dependency": "work was queued but waited for an event or another device",
    "unknown": "the launch of the next work is not in the file",
}

# A gap below this is back-to-back execution (idle accounting of the rule reference).
BACK_TO_BACK_NS = 2_000
# From the end of a launch call to the start on an empty queue: 2-6 µs measured in eager traces
# (docs/timeline.md); a queued kernel that starts within this is only being launched.
LAUNCH_LATENCY_NS = 10_000
# A launch call that takes longer is no ordinary launch (HTA: 50 µs).
SLOW_LAUNCH_NS = 50_000
# A late launch that leaves the GPU idle for longer is no matter of launching: an operator takes the
# host 10-100 us, so ten of them and more went by without one.
PAUSE_NS = 1_000_000
# A host activity that fills half of the wait is its cause.
_CAUSE_SHARE = 0.5
# µs clocks and two time sources: the end of a wait and the end of the work may cross by this.
_CLOCK_SLACK_NS = 2_000

LONGEST_GAPS = 10


@dataclass(frozen=True)
class Gap:
    """One time that the GPU was idle.

    after, before: the activity that ended it and the one that began then. host: the host call or
    range that took most of the wait, None where nothing was recorded.
    """

    start_ns: int
    duration_ns: int
    cause: str
    after: str
    before: str
    host: str | None


class Idle:
    """The gaps of a timeline, each with its cause (docs/timeline.md has the order and why).

    Most gaps are back to back, as many as there are launches: these are only added up, unless
    they are among the longest.
    """

    def __init__(self, lane: Lane, unions: Unions, view: HostView, start: int, end: int) -> None:
        self._lane, self._view = lane, view
        holes = intervals.gaps(unions.busy, start, end)
        duration = holes.ends - holes.starts
        self.longest_ns = int(duration.max(initial=0))
        self.count_apart = int((duration >= BACK_TO_BACK_NS).sum())
        kept = duration >= min(BACK_TO_BACK_NS, _nth_longest(duration, LONGEST_GAPS))
        self._back_to_back_ns = int(duration[~kept].sum())
        self.start, self.end, self.duration = holes.starts[kept], holes.ends[kept], duration[kept]
        # The work that ends a gap: the first row that starts there; before it, the row that ran
        # last (rows are by start, so its end is looked up in end order).
        self.next = np.searchsorted(lane.start, self.end, side="left")
        by_end = np.argsort(lane.end, kind="stable")
        self.previous = by_end[np.searchsorted(lane.end[by_end], self.start, side="left")]
        launch, launch_duration = lane.launch[self.next], lane.launch_duration[self.next]
        self.is_launch_known = launch != UNKNOWN
        self.launch = np.where(self.is_launch_known, launch, self.end)
        known_duration = np.where(launch_duration == UNKNOWN, 0, launch_duration)
        self.launched = self.launch + np.maximum(known_duration, 0)
        # A launch call that began before the gap and hangs in it: the host is late all the same.
        in_call = np.minimum(self.launched, self.end) - self.start
        self.is_slow_launch = (self.launch < self.start) & (in_call > SLOW_LAUNCH_NS)
        # The host made the GPU wait from the gap's start to here.
        host_end = np.where(self.is_slow_launch, self.launched, self.launch)
        self.host_end = np.minimum(host_end, self.end)
        self.cause = self._causes()

    def _causes(self) -> npt.NDArray[np.int64]:
        number = {cause: index for index, cause in enumerate(CAUSES)}
        late = self.is_launch_known & ((self.launch >= self.start) | self.is_slow_launch)
        queued = self.is_launch_known & ~late
        lane = self._lane
        near_communication = lane.is_communication[self.next] | lane.is_communication[self.previous]
        same_graph = self._same_graph()
        launching = (
            same_graph
            | (self.launched >= self.start)
            | (self.end - self.launched <= LAUNCH_LATENCY_NS)
        )
        next_is_copy = lane.is_memcpy[self.next]
        staging = next_is_copy & (self.launch < self.start) & (self.launched >= self.start)
        tests = [
            ("back_to_back", self.duration < BACK_TO_BACK_NS),
            ("unknown", ~self.is_launch_known),
            ("copy", staging),
            ("data_loader", late & self._fills("data-loader")),
            ("load", late & self._fills("load")),
            ("collect", late & self._fills("collect")),
            ("allocate", late & self._fills("allocate")),
            ("sync", late & self._after_wait()),
            ("communication", late & self._fills("collective")),
            ("profiler", late & self._fills("profiler")),
            ("host", late),
            ("launch", queued & launching),
            ("communication", queued & near_communication),
            ("copy", queued & next_is_copy),
        ]
        return np.select(
            [test for _, test in tests],
            [number[cause] for cause, _ in tests],
            default=number["dependency"],
        ).astype(np.int64)

    def _same_graph(self) -> Mask:
        """Whether the work on both sides of the gap was launched by one call (a graph)."""
        correlation = self._lane.correlation
        one, other = correlation[self.previous], correlation[self.next]
        return np.asarray((one == other) & (one != UNKNOWN) & (one != 0))

    def _fills(self, kind: HostKind) -> Mask:
        """Whether host activity of a kind takes half of the wait for the launch."""
        busy = self._view.union(kind)
        part = intervals.covered(busy, self.start, self.host_end)
        return np.asarray((part > 0) & (part >= _CAUSE_SHARE * (self.host_end - self.start)))

    def _after_wait(self) -> Mask:
        """Whether the host was waiting for the GPU when it ran dry, and launched soon after that;
        what it did for longer in between is its own."""
        view = self._view
        at = view.of_kind("sync", "copy")
        # A copy that was asked for asynchronously but returned only when it was done waited too
        # (pageable memory).
        lane = self._lane
        returned = lane.launch + np.where(lane.launch_duration == UNKNOWN, 0, lane.launch_duration)
        staged = lane.is_memcpy & (lane.launch != UNKNOWN) & (returned >= lane.end)
        waits = intervals.union(
            np.concatenate((view.start[at], lane.launch[staged])),
            np.concatenate((view.end[at], returned[staged])) + _CLOCK_SLACK_NS,
        )
        held = intervals.holding(waits, self.start)
        ended = np.where(held >= 0, waits.ends[np.maximum(held, 0)], 0) if len(waits) else held
        ended = ended - _CLOCK_SLACK_NS
        soon = self.launch - np.maximum(ended, self.start) < PAUSE_NS
        return np.asarray((held >= 0) & (ended <= self.launch) & soon)

    def by_cause(self) -> dict[str, int]:
        """Idle time of each cause, ns; they add up to all of it."""
        totals = np.zeros(len(CAUSES), dtype=np.int64)
        np.add.at(totals, self.cause, self.duration)
        totals[list(CAUSES).index("back_to_back")] += self._back_to_back_ns
        return {cause: int(total) for cause, total in zip(CAUSES, totals, strict=True)}

    def count(self, cause: str) -> int:
        """How many gaps have this cause."""
        return int((self.cause == list(CAUSES).index(cause)).sum())

    def pauses(self) -> Times:
        """The gaps of 1 ms or longer that a late launch ended. ns."""
        late = self.cause == list(CAUSES).index("host")
        found: Times = self.duration[late & (self.duration >= PAUSE_NS)]
        return found

    def longest(self) -> tuple[Gap, ...]:
        """The longest gaps, longest first."""
        order = np.argsort(-self.duration, kind="stable")[:LONGEST_GAPS]
        causes, lane = list(CAUSES), self._lane
        return tuple(
            Gap(
                start_ns=int(self.start[gap]),
                duration_ns=int(self.duration[gap]),
                cause=causes[self.cause[gap]],
                after=str(lane.rows.names[lane.name[self.previous[gap]]]),
                before=str(lane.rows.names[lane.name[self.next[gap]]]),
                host=self._view.during(int(self.start[gap]), int(self.host_end[gap])),
            )
            for gap in order
        )


def _nth_longest(duration: Times, place: int) -> int:
    """The place-th longest, 0 where there are fewer."""
    if len(duration) < place:
        return 0
    return int(np.partition(duration, len(duration) - place)[len(duration) - place])
