"""Which of many intervals contains another one: call trees from plain times, by array.

Intervals need not be nested properly: clocks that count whole microseconds cut both starts and
lengths, so a call can seem to outlast the operator that made it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
# Places in arrays, of which none has 2^31 entries.
Places = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Lane = npt.NDArray[np.signedinteger[Any]]

# A pass over everything per lane pays while there are few.
_MOST_LANES = 64
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Containers:
    """Intervals to look things up in, by lane (thread) and start.

    order: position of each in the arrays they were made from. ``start`` and ``end`` are in
    this order; ``outer`` is the nearest one before it, in its lane, that ends no earlier, or -1.
    ``lanes`` are the numbers of the lanes and ``first`` where each begins.
    """

    order: Places
    start: Whole
    end: Whole
    outer: Places
    lanes: Lane
    first: Whole

    def innermost(self, lane: Lane, start: Whole, end: Whole, slack: int = 0) -> Places:
        """For each query the latest-starting interval of its lane that contains it whole, as a
        position in this object's arrays; -1 where there is none.

        slack: how much later than the interval's end a query may end, if more of it lies before
        that end than behind it.
        """
        found = self._last_started(lane, start)
        self._outwards(found, start, end, slack)
        return found

    def parents(self, slack: int = 0) -> Places:
        """For each interval the one that contains it; -1 for outermost ones."""
        found = np.arange(-1, len(self.start) - 1, dtype=np.int32)
        found[self.first] = -1
        self._outwards(found, self.start, self.end, slack)
        return found

    def _outwards(self, found: Places, start: Whole, end: Whole, slack: int) -> None:
        """Move each position outwards until the interval there contains the query, or to -1."""
        for low in range(0, len(found), _BLOCK):
            part = found[low : low + _BLOCK]
            starts, ends = start[low : low + _BLOCK], end[low : low + _BLOCK]
            open_queries = np.flatnonzero(part >= 0)
            while len(open_queries):
                at = part[open_queries]
                reach, query_end = self.end[at], ends[open_queries]
                inside = reach >= query_end
                if slack:
                    mostly = reach - starts[open_queries] > query_end - reach
                    inside |= mostly & (reach + slack >= query_end)
                # What does not contain the query ends too early, and so does everything between
                # it and the next one before it that ends later.
                missed = open_queries[~inside]
                part[missed] = self.outer[at[~inside]]
                open_queries = missed[part[missed] >= 0]

    def _last_started(self, lane: Lane, start: Whole) -> Places:
        """The last interval of the query's lane that starts no later than it; -1 for none."""
        found = np.full(len(start), -1, dtype=np.int32)
        if not len(self.lanes):
            return found
        ends = np.append(self.first[1:], len(self.start))
        of_lane: Iterable[Whole]
        if len(self.lanes) <= _MOST_LANES:
            of_lane = (np.flatnonzero(lane == one) for one in self.lanes)
        else:
            order = np.argsort(lane, kind="stable")
            bounds = np.searchsorted(lane[order], [self.lanes, self.lanes + 1])
            of_lane = [order[low:high] for low, high in bounds.T]
        for queries, low, high in zip(of_lane, self.first, ends, strict=True):
            at = np.searchsorted(self.start[low:high], start[queries], side="right") - 1
            found[queries] = np.where(at >= 0, at + low, -1)
        return found


def containers(lane: Lane, start: Whole, end: Whole, rows: Whole | None = None) -> Containers:
    """Make intervals ready to be looked up in; rows: these only. The other arrays have the same
    length."""
    # Of two that start together the longer one comes first, so that it can contain the other.
    if rows is None:
        order = np.lexsort((-end, start, lane))
    else:
        order = rows[np.lexsort((-end[rows], start[rows], lane[rows]))]
    lane = lane[order]
    new_lane = np.concatenate((np.ones(min(len(lane), 1), dtype=bool), lane[1:] != lane[:-1]))
    first = np.flatnonzero(new_lane)
    lanes = lane[first]
    del lane, new_lane  # so that nothing is there twice
    start, end = start[order], end[order]
    places: Places = order.astype(np.int32)
    del order
    return Containers(places, start, end, _outer(end, first), lanes, first)


def holding(lane: Lane, start: Whole, end: Whole, points: tuple[Lane, Whole]) -> Mask:
    """For each interval whether one of the points (lanes, times) of its lane lies in it."""
    lanes = np.unique(points[0])
    if len(lanes) > _MOST_LANES:
        return np.ones(len(lane), dtype=bool)
    times = [np.sort(points[1][points[0] == one]) for one in lanes]
    result = np.zeros(len(lane), dtype=bool)
    # Block by block, so that the intermediate arrays stay small.
    for low in range(0, len(lane), _BLOCK):
        for one, at in zip(lanes, times, strict=True):
            mine = low + np.flatnonzero(lane[low : low + _BLOCK] == one)
            first = np.searchsorted(at, start[mine], side="left")
            result[mine] = np.searchsorted(at, end[mine], side="right") > first
    return result


def _outer(end: Whole, first: Whole) -> Places:
    """The nearest earlier interval of the lane that ends no earlier, by pointer jumping: whoever
    is shorter than me is shorter than nobody that I need to look at before its own outer one."""
    outer = np.arange(-1, len(end) - 1, dtype=np.int32)
    # Nothing is around what ends later than all before it: most of what a thread does.
    for low, high in pairwise((*first, len(end))):
        reach = np.maximum.accumulate(end[low:high])
        outer[low + 1 : high][end[low + 1 : high] > reach[:-1]] = -1
    outer[first] = -1
    for low in range(0, len(end), _BLOCK):
        active = low + np.flatnonzero(outer[low : low + _BLOCK] >= 0)
        while len(active):
            active = active[end[outer[active]] < end[active]]
            outer[active] = outer[outer[active]]
            active = active[outer[active] >= 0]
    return outer
