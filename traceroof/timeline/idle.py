"""Why a GPU was idle: every gap of a timeline, part by part (docs/timeline.md).

A gap has a host part, until the call that launched the next work, and a queued part, from that call
to the start. The host part is charged to what the host did in it, the queued part to what held the
work back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline import intervals
from traceroof.timeline.cold_start import cold_start, first_kernel, silent_start
from traceroof.timeline.host import HostView
from traceroof.timeline.hostcalls import HostKind
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import Lane, Mask, Unions

#: Why a GPU was idle. The host part of a gap is charged in the order from ``cold`` to ``host``.
CAUSES: Mapping[str, str] = {
    "back_to_back": "shorter than 2 µs: what the hardware needs between two kernels",
    "cold": "one-time set-up on the host: loading code, first use of a library, first "
    "allocations; where such calls were recorded, all idle time before the first kernel",
    "data_loader": "the host waited for or prepared the next batch",
    "load": "the host loaded, compiled or tuned code after the start",
    "collect": "the host collected garbage",
    "allocate": "the host allocated or freed memory",
    "profiler": "the profiler itself ran on the host",
    "communication": "the next work was queued behind a collective, or the host was in one: "
    "waiting for other ranks",
    "sync": "the host had waited for the GPU and launched the next work within 1 ms after that; "
    "counted up to the length of that wait, the launch included",
    "host": "the host had not launched the next work, for none of the reasons above",
    "copy": "a copy was queued, or the host was still preparing it",
    "launch": "launch overhead: the launch or graph node had been issued and had not started",
    "dependency": "work was queued but waited for an event, another stream or another device",
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
# Python that waits for something before a copy to the GPU waits for its data.
_WAIT_SHARE = 0.5
# µs clocks and two time sources: the end of a wait and the end of the work may cross by this.
_CLOCK_SLACK_NS = 2_000

# The very first part of the activities of a recording.
_FIRST = 0.05

LONGEST_GAPS = 10

#: What the host part is charged to before the rest, by what the host was doing.
_BY_KIND: Mapping[str, HostKind] = {
    "data_loader": "data-loader",
    "load": "load",
    "collect": "collect",
    "allocate": "allocate",
    "profiler": "profiler",
    "communication": "collective",
}


@dataclass(frozen=True)
class Gap:
    """One time that the GPU was idle.

    cause: of its longest part. parts: cause -> ns, adding up to the duration. after, before: the
    activity that ended it and the one that began then. host: what filled the host part, None where
    nothing was recorded that does. host_part_ns: the time until the host launched the next work.
    """

    start_ns: int
    duration_ns: int
    cause: str
    after: str
    before: str
    host: str | None
    host_part_ns: int = 0
    parts: Mapping[str, int] = field(default_factory=dict)

    @property
    def end_ns(self) -> int:
        """When the next work started."""
        return self.start_ns + self.duration_ns


class Idle:
    """The gaps of a timeline, each divided among causes (docs/timeline.md has the order and why).

    Most gaps are back to back, as many as there are launches: these are only added up, unless
    they are among the longest. ``parts``: cause -> ns of each gap, only causes that occur.
    """

    def __init__(self, lane: Lane, unions: Unions, view: HostView, start: int, end: int) -> None:
        self._lane, self._view = lane, view
        holes = intervals.gaps(intervals.joined(unions.busy, unions.unmeasured), start, end)
        duration = holes.ends - holes.starts
        self.longest_ns = int(duration.max(initial=0))
        self.count_apart = int((duration >= BACK_TO_BACK_NS).sum())
        shortest = BACK_TO_BACK_NS
        if self.count_apart < LONGEST_GAPS:
            shortest = min(shortest, _nth_longest(duration, LONGEST_GAPS))
        kept = duration >= shortest
        self._back_to_back_ns = int(duration[~kept].sum())
        self.start, self.end, self.duration = holes.starts[kept], holes.ends[kept], duration[kept]
        # The work that ends a gap: the first row that starts there; before it, the row that ran
        # last (rows are by start, so its end is looked up in end order).
        self.next = np.searchsorted(lane.start, self.end, side="left")
        by_end = np.argsort(lane.end, kind="stable")
        self.previous = by_end[np.searchsorted(lane.end[by_end], self.start, side="left")]
        del holes, duration, kept, by_end
        launch, launch_duration = lane.launch[self.next], lane.launch_duration[self.next]
        launch = np.where(self._from_before(launch), self.start, launch)
        self.is_launch_known = launch != UNKNOWN
        self.launch = np.where(self.is_launch_known, launch, self.end)
        known_duration = np.where(launch_duration == UNKNOWN, 0, launch_duration)
        self.launched = self.launch + np.maximum(known_duration, 0)
        self.cold = cold_start(lane, view)
        # Until the launch call began, until it returned, until the work started.
        called = np.clip(self.launch, self.start, self.end)
        returned = np.clip(self.launched, self.start, self.end)
        # A launch call that hangs in the gap: the host is late all the same.
        hangs = (returned - called > SLOW_LAUNCH_NS) & ~lane.is_memcpy[self.next]
        self.host_end = np.where(hangs, returned, called)
        self._waited = self._after_wait()
        self.parts = self._parts()

    def _from_before(self, launch: Times) -> Mask:
        """Gaps in a recording of the host that end with work launched before it: what nobody recorded
        launching, and runs before all that somebody did, was queued when the gap began."""
        linked = np.flatnonzero(self._lane.launch != UNKNOWN)
        if not len(linked):
            return np.zeros(len(launch), dtype=bool)
        began = int(self._lane.launch[linked].min())
        early = (self.next < linked[0]) & (self.start >= began)
        return np.asarray((launch == UNKNOWN) & early)

    def _parts(self) -> dict[str, Times]:
        parts: dict[str, Times] = {}

        def charge(cause: str, amount: Times, where: Mask | None = None) -> None:
            taken = amount if where is None else np.where(where, amount, 0)
            if taken.any():
                parts[cause] = parts.get(cause, 0) + taken

        apart = self.duration >= BACK_TO_BACK_NS
        known = apart & self.is_launch_known
        charge("back_to_back", self.duration, ~apart)
        starting = apart & silent_start(self._lane, self.next, self.duration)
        charge("cold", self.duration, starting)
        charge("unknown", self.duration, apart & ~self.is_launch_known & ~starting)
        by_host = self._host_parts(known)
        for cause, amount in by_host.items():
            charge(cause, amount)
        # A full queue hides the launch: where the wait emptied it, the launch is its cost as well.
        emptied = 2 * by_host["sync"] >= self.host_end - self.start
        left = np.where(emptied, self._waited - by_host["sync"], 0)
        for cause, amount, where in self._queued_parts(left):
            charge(cause, amount, known & where)
        return parts

    def _host_parts(self, known: Mask) -> dict[str, Times]:
        """The host part of each gap by what the host did in it."""
        end = np.where(known, self.host_end, self.start)
        left = end - self.start
        found: dict[str, Times] = {}
        taken = self.cold
        found["cold"] = intervals.covered(taken, self.start, end)
        for cause, kind in _BY_KIND.items():
            mine = self._view.union(kind)
            if len(mine):
                own = intervals.subtraction(mine, taken)
                found[cause] = intervals.covered(own, self.start, end)
                taken = intervals.joined(taken, mine)
        for amount in found.values():
            left = left - amount
        first = self._before_first_kernel()
        found["cold"] = found["cold"] + np.where(first, left, 0)
        left = np.where(first, 0, left)
        batch = self._waits_for_batch(end)
        found["data_loader"] = found.get("data_loader", 0) + np.where(batch, left, 0)
        left = np.where(batch, 0, left)
        # Without the wait the host is earlier by as long as it lasted, and by no more.
        found["sync"] = np.minimum(left, self._waited)
        found["host"] = left - found["sync"]
        return found

    def _before_first_kernel(self) -> Mask:
        """Which gaps lie before the very first kernel of a process that is only starting up: what
        the host does there comes once, recorded or not."""
        first = first_kernel(self._lane)
        if not len(self.cold) or first < 0:
            return np.zeros(len(self.start), dtype=bool)
        return np.asarray(self.end <= self._lane.start[first])

    def _waits_for_batch(self, end: Times) -> Mask:
        """Whether Python waited (a queue, a pipe, a file) for most of a pause that a copy to the
        GPU ended: the batch was not ready, whatever loads it."""
        lane, waits = self._lane, self._view.union("wait")
        found = np.zeros(len(self.start), dtype=bool)
        if not len(waits):
            return found
        length = end - self.start
        found = (length >= PAUSE_NS) & lane.is_memcpy[self.next]
        found &= intervals.covered(waits, self.start, end) >= _WAIT_SHARE * length
        at = np.flatnonzero(found)
        found[at] = lane.is_to_device(self.next[at])
        return np.asarray(found)

    def _queued_parts(self, waited: Times) -> list[tuple[str, Times, Mask]]:
        """What held the next work back once the host had launched it: (cause, ns, where). waited:
        how much of the launch a wait of the host that emptied the queue accounts for."""
        lane = self._lane
        queued = self.end - self.host_end
        is_copy = lane.is_memcpy[self.next]
        # A copy of pageable memory is prepared within its call.
        staged = np.clip(self.launched, self.host_end, self.end) - self.host_end
        staging = is_copy & (staged > SLOW_LAUNCH_NS)
        ready = np.where(staging, self.host_end + staged, self.launched)
        launching = np.clip(ready + LAUNCH_LATENCY_NS, self.host_end, self.end) - self.host_end
        launching = np.where(staging, np.maximum(launching - staged, 0), launching)
        same_graph = self._same_graph() & (queued <= SLOW_LAUNCH_NS)
        launching = np.where(same_graph, queued, launching)
        by_wait = np.minimum(launching, waited)
        held = queued - launching - np.where(staging, staged, 0)
        everywhere = np.ones(len(queued), dtype=bool)
        by_ranks = lane.is_communication[self.next] | lane.is_communication[self.previous]
        return [
            ("copy", staged, staging),
            ("sync", by_wait, everywhere),
            ("launch", launching - by_wait, everywhere),
            ("communication", held, by_ranks),
            ("copy", held, ~by_ranks & is_copy),
            ("dependency", held, ~by_ranks & ~is_copy),
        ]

    def _same_graph(self) -> Mask:
        """Whether the work on both sides of the gap was launched by one call (a graph)."""
        correlation = self._lane.correlation
        one, other = correlation[self.previous], correlation[self.next]
        return np.asarray((one == other) & (one != UNKNOWN) & (one != 0))

    def _after_wait(self) -> Times:
        """How long the host had been waiting for the GPU when it ran dry, where it launched soon after
        that; what it did for longer in between is its own. ns, 0 elsewhere."""
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
        counts = (held >= 0) & (ended <= self.launch) & soon
        began = waits.starts[np.maximum(held, 0)] if len(waits) else ended
        return np.where(counts, ended - began, 0)

    def of(self, cause: str) -> Times:
        """ns of each gap that a cause takes."""
        return self.parts.get(cause, np.zeros(len(self.start), dtype=np.int64))

    def by_cause(self) -> dict[str, int]:
        """Idle time of each cause, ns; they add up to all of it."""
        totals = {cause: int(self.of(cause).sum()) for cause in CAUSES}
        totals["back_to_back"] += self._back_to_back_ns
        return totals

    def count(self, cause: str) -> int:
        """How many gaps have a part of this cause."""
        return int((self.of(cause) > 0).sum())

    def pauses(self) -> Times:
        """The waits of 1 ms or longer for the host to launch. ns."""
        host = self.of("host")
        found: Times = host[host >= PAUSE_NS]
        return found

    def long_unknown(self) -> int:
        """Time of gaps of 1 ms or longer whose launch is not in the file. ns."""
        unknown = self.of("unknown")
        return int(unknown[unknown >= PAUSE_NS].sum())

    def sync_operator(self) -> str | None:
        """The operator whose copies the host waited for before most of what synchronisations cost;
        None where no one operator has half of it."""
        cost = self.of("sync")
        at = np.flatnonzero(cost)
        before = self.previous[at]
        code, paths = self._lane.rows.text("operator_path", self._lane.at[before])
        told = (code >= 0) & self._lane.is_memcpy[before]
        if not told.any():
            return None
        of_path = np.bincount(code[told], weights=cost[at][told])
        most = int(np.argmax(of_path))
        return str(paths[most]) if 2 * of_path[most] >= cost.sum() else None

    def start_wait(self) -> int:
        """How long the longest gap was held by an event, where it lies before nearly all of the
        work and is most of such waiting: what it waited for was launched before the recording
        began. ns."""
        held = self.of("dependency")
        if not len(held):
            return 0
        longest = int(np.argmax(held))
        before = int(self.next[longest])
        is_start = before <= _FIRST * len(self._lane.at) and 2 * held[longest] > held.sum()
        return int(held[longest]) if is_start else 0

    def longest(self) -> tuple[Gap, ...]:
        """The longest gaps, longest first."""
        order = np.argsort(-self.duration, kind="stable")[:LONGEST_GAPS]
        return tuple(self._gap(int(gap)) for gap in order)

    def _gap(self, gap: int) -> Gap:
        lane = self._lane
        parts = {cause: int(self.parts[cause][gap]) for cause in CAUSES if cause in self.parts}
        parts = {cause: amount for cause, amount in parts.items() if amount}
        start, host_end = int(self.start[gap]), int(self.host_end[gap])
        has_host_part = bool(self.is_launch_known[gap]) and self.duration[gap] >= BACK_TO_BACK_NS
        return Gap(
            start_ns=start,
            duration_ns=int(self.duration[gap]),
            cause=max(parts, key=lambda cause: parts[cause]),
            after=lane.rows.named(lane.name[self.previous[gap]]),
            before=lane.rows.named(lane.name[self.next[gap]]),
            host=self._view.during(start, host_end),
            host_part_ns=host_end - start if has_host_part else 0,
            parts=parts,
        )


def _nth_longest(duration: Times, place: int) -> int:
    """The place-th longest, 0 where there are fewer."""
    if len(duration) < place:
        return 0
    return int(np.partition(duration, len(duration) - place)[len(duration) - place])
