"""Interval algebra on int64 nanoseconds, vectorised.

Intervals are half-open, [start, end), held as two arrays of one length. A *union* is a set of
intervals that are sorted, disjoint and not touching; every function here takes any intervals and
returns unions, or says that it needs one. Empty intervals (end <= start) count for nothing.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Intervals:
    """n intervals [starts, ends) in ns; both int64 of length n."""

    starts: Times
    ends: Times

    def __len__(self) -> int:
        return len(self.starts)


NONE = Intervals(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def union(starts: Times, ends: Times) -> Intervals:
    """Where at least one of the intervals is: sorted, disjoint, touching ones joined."""
    kept = ends > starts
    if not kept.all():
        starts, ends = starts[kept], ends[kept]
    if not len(starts):
        return NONE
    if np.any(starts[1:] < starts[:-1]):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.concatenate(([True], starts[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return Intervals(starts[opens], reach[closes])


def length(intervals: Intervals) -> int:
    """Sum of the lengths; of a union, the time that it covers. ns."""
    return int(np.maximum(intervals.ends - intervals.starts, 0).sum())


def joined(*parts: Intervals) -> Intervals:
    """The union of several sets of intervals."""
    return union(
        np.concatenate([part.starts for part in parts]),
        np.concatenate([part.ends for part in parts]),
    )


def _bounds(one: Intervals, other: Intervals) -> Times:
    """The bounds of two unions in order."""
    # Each column is: they are merged.
    return np.sort(np.concatenate((one.starts, one.ends, other.starts, other.ends)), kind="stable")


def intersection(one: Intervals, other: Intervals) -> Intervals:
    """Where both unions are."""
    if not len(one) or not len(other):
        return NONE
    bounds = _bounds(one, other)
    inside = _contains(one, bounds[:-1]) & _contains(other, bounds[:-1])
    return union(bounds[:-1][inside], bounds[1:][inside])


def subtraction(one: Intervals, other: Intervals) -> Intervals:
    """Where the union ``one`` is and the union ``other`` is not."""
    other = _meeting(other, one)
    if not len(one) or not len(other):
        return one
    bounds = _bounds(one, other)
    inside = _contains(one, bounds[:-1]) & ~_contains(other, bounds[:-1])
    return union(bounds[:-1][inside], bounds[1:][inside])


def _meeting(one: Intervals, other: Intervals) -> Intervals:
    """The intervals of a union that meet another one, which may be far fewer."""
    if not len(one) or not len(other):
        return NONE
    at = np.searchsorted(other.ends, one.starts, side="right")
    meets = other.starts[np.minimum(at, len(other) - 1)] < one.ends
    meets &= at < len(other)
    return one if meets.all() else Intervals(one.starts[meets], one.ends[meets])


def gaps(busy: Intervals, start: int, end: int) -> Intervals:
    """The holes that a union leaves in [start, end), which holds all of it."""
    starts = np.concatenate((np.array([start], dtype=np.int64), busy.ends))
    ends = np.concatenate((busy.starts, np.array([end], dtype=np.int64)))
    kept = ends > starts
    return Intervals(starts[kept], ends[kept])


def covered(busy: Intervals, starts: Times, ends: Times) -> Times:
    """How much of each interval [starts, ends) the union covers. ns."""
    part = np.zeros(len(starts), dtype=np.int64)
    if not len(busy):
        return part
    total = np.concatenate(([0], np.cumsum(busy.ends - busy.starts)))
    # Block by block, so that the intermediate arrays stay small.
    for low in range(0, len(starts), _BLOCK):
        here = slice(low, low + _BLOCK)
        part[here] = _before(busy, total, ends[here]) - _before(busy, total, starts[here])
    return np.maximum(part, 0, out=part)


_BLOCK = 1 << 16


def _before(busy: Intervals, total: Times, times: Times) -> Times:
    """Time that the union, which is not empty, covers before each of ``times``. total: before each of
    its intervals, and in all."""
    at = np.searchsorted(busy.starts, times, side="right")
    # Of the last interval that has started, the part after ``times`` has not passed yet.
    over = np.where(at > 0, np.maximum(busy.ends[np.maximum(at - 1, 0)] - times, 0), 0)
    return np.asarray(total[at] - over, dtype=np.int64)


def _contains(busy: Intervals, times: Times) -> npt.NDArray[np.bool_]:
    at = np.searchsorted(busy.starts, times, side="right")
    return np.asarray((at > 0) & (busy.ends[np.maximum(at - 1, 0)] > times))


def holding(busy: Intervals, times: Times) -> Times:
    """For each time the index of the union's interval [start, end] that holds it, its start
    excluded and its end included (what ended just then still held it); -1 where none does."""
    if not len(busy):
        return np.full(len(times), -1, dtype=np.int64)
    at = np.searchsorted(busy.starts, times, side="left") - 1
    held = (at >= 0) & (busy.ends[np.maximum(at, 0)] >= times)
    return np.where(held, at, -1).astype(np.int64)
