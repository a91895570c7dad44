"""Which recorded times cannot be: durations over the next work of a stream, starts of another clock."""

from typing import Final

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Work on one stream runs in order; programmatic dependent launches overlap by up to 4 µs.
_OVERLAP_NS: Final = 10_000
_OVERLAP_SHARE: Final = 0.01
# A launch this much longer than the median of its kernel, and in the way of the next, is broken.
_FAR_LONGER: Final = 3
_FEWEST: Final = 3
# A stream with more overlaps than this among its activities has no order.
_DISORDER: Final = 0.02
# No kernel runs for a minute and a hundred times as long as all the rest of its recording.
_LONG_NS: Final = 60_000_000_000
_TIMES_THE_REST: Final = 100
# In the first second after its clock began a machine runs no kernels of a minute later.
_FIRST_NS: Final = 1_000_000_000

#: As a note calls what ``broken_durations`` finds.
REACHING: Final = "durations that reach far over the next work on their stream: unknown"


def overlapping(start: Whole, duration: Whole, lane: Whole) -> Whole:
    """Activities that end after the start of the next one on their stream, by more than 10 µs and
    1 % of the stream's busy time: sign of a broken duration."""
    if not len(start):
        return np.empty(0, dtype=np.int64)
    order = np.lexsort((start, lane))
    lane, start, duration = lane[order], start[order], duration[order]
    # As reals: a broken duration may be near the largest whole number.
    busy = np.bincount(lane, weights=duration)
    beyond = start[:-1].astype(np.float64)
    beyond += duration[:-1]
    beyond -= start[1:]
    allowed = np.maximum(_OVERLAP_NS, np.minimum(busy, _LONG_NS) * _OVERLAP_SHARE)[lane[:-1]]
    found: Whole = order[:-1][(lane[1:] == lane[:-1]) & (beyond > allowed)]
    return found


def broken_durations(start: Whole, duration: Whole, lane: Whole, name: Whole) -> Mask:
    """Which durations reach far over the work behind them on their stream: their end was not
    recorded, or its high digits are wrong (ROCm).

    lane, name: a number for the stream and for the kernel of each activity, from 0. Such a duration
    is far longer than the others of its kernel; of a kernel that ran once or twice, several
    activities began before it ends, or it lasts a hundred times as long as all the rest there. A
    stream that is not in order without them has no such order.
    """
    broken = np.zeros(len(start), dtype=bool)
    reaching = overlapping(start, duration, lane)
    if not len(reaching):
        return broken
    often = np.bincount(name)[name[reaching]] >= _FEWEST
    middle = _medians(name, duration, np.unique(name[reaching[often]]))
    far = reaching[often]
    broken[far[duration[far] > _FAR_LONGER * middle[name[far]]]] = True
    alone = reaching[~often]
    rest = np.bincount(lane, weights=duration)[lane[alone]] - duration[alone]
    beyond = _over_two(start, duration, lane)[alone] | (duration[alone] > _TIMES_THE_REST * rest)
    broken[alone[beyond]] = True
    return broken & ~_disordered(start, duration, lane, ~broken)[lane]


def _disordered(start: Whole, duration: Whole, lane: Whole, rest: Mask) -> Mask:
    """Which streams have overlaps among the rest of their activities: several that share a number."""
    late = overlapping(start[rest], duration[rest], lane[rest])
    count = int(lane.max()) + 1
    overlaps = np.bincount(lane[rest][late], minlength=count)
    return overlaps > _DISORDER * np.bincount(lane[rest], minlength=count)


def _medians(name: Whole, duration: Whole, wanted: Whole) -> npt.NDArray[np.float64]:
    """The median duration of each wanted kernel, by its number; NaN elsewhere."""
    middle = np.full(int(name.max()) + 1, np.nan)
    mine = np.isin(name, wanted)
    order = np.lexsort((duration[mine], name[mine]))
    kernel, sorted_duration = name[mine][order], duration[mine][order]
    first = np.searchsorted(kernel, wanted, side="left")
    last = np.searchsorted(kernel, wanted, side="right") - 1
    middle[wanted] = (
        sorted_duration[(first + last) // 2] / 2 + sorted_duration[(first + last + 1) // 2] / 2
    )
    return middle


def _over_two(start: Whole, duration: Whole, lane: Whole) -> Mask:
    """Which activities end after the two behind them on their stream began."""
    over = np.zeros(len(start), dtype=bool)
    order = np.lexsort((start, lane))
    same = lane[order][2:] == lane[order][:-2]
    end = start[order].astype(np.float64) + duration[order]
    over[order[:-2]] = same & (end[:-2] > start[order][2:])
    return over


def impossible(start: Whole, duration: Whole, lane: Whole, name: Whole) -> tuple[Mask, Mask, Mask]:
    """Starts and durations of another clock (``strays``), and among the rest the durations that
    reach far over the work behind them (``broken_durations``)."""
    no_start, no_duration = strays(start, duration)
    if no_duration.any():
        broken, good = np.zeros(len(start), dtype=bool), ~no_duration
        broken[good] = broken_durations(start[good], duration[good], lane[good], name[good])
    else:
        broken = broken_durations(start, duration, lane, name)
    return no_start, no_duration | _overflown(duration, name), broken


# The low half of a time; what a damaged upper half adds to a duration is a multiple of it.
_HALF: Final = 1 << 32


def _overflown(duration: Whole, name: Whole) -> Mask:
    """Durations that are a multiple of 2^32 ns over the usual one of their kernel, which is far
    shorter: the upper half of a time is wrong."""
    found: Mask = duration >= _HALF
    if not found.any():
        return found
    many = np.flatnonzero(found)
    middle = _medians(name, duration, np.unique(name[many]))[name[many]]
    often = np.bincount(name)[name[many]] >= _FEWEST
    rest = duration[many] % _HALF
    found[many] = (
        often & (middle * _TIMES_THE_REST < _HALF) & (rest > middle / 2) & (rest < middle * 2)
    )
    return found


def strays(start: Whole, duration: Whole) -> tuple[Mask, Mask]:
    """Which starts and which durations are of another clock than the rest of a recording.

    A start in the first second of the clock where the rest is a minute later, before its zero, or at
    it where the rest is a second later; an activity of over a minute that lasts a hundred times as
    long as all the rest. Of such a one the start is doubted too where the end lies among the rest.
    """
    before, reaching = at_zero(start, duration)
    if len(start) < _FEWEST:
        return before, reaching
    early, late = _of_other_clock(start, duration)
    return before | early, reaching | late


def at_zero(start: Whole, duration: Whole) -> tuple[Mask, Mask]:
    """Activities at the zero of the clock or before, and which of them last until the first other
    one: their durations were computed from that start."""
    first = int(np.min(start, where=start > 0, initial=np.iinfo(np.int64).max))
    before = (start < 0) | ((start == 0) & (first > _FIRST_NS) & (len(start) > 1))
    return before, before & (duration > first - np.minimum(start, 0))


def _of_other_clock(start: Whole, duration: Whole) -> tuple[Mask, Mask]:
    early = (start < _FIRST_NS) & (np.median(start) > _FIRST_NS + _LONG_NS)
    long = ~early & (duration > _LONG_NS)
    rest = ~early & ~long
    if not long.any() or rest.sum() < _FEWEST:
        return early, early
    first = int(start[rest].min())
    last = int((start[rest] + duration[rest]).max())
    long &= duration > _TIMES_THE_REST * (last - first)
    return early | (long & (start < first - _LONG_NS)), early | long
