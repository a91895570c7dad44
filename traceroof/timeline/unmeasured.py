"""Where activities ran whose time is unknown: what looks idle there is not known to be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceroof.timeline import intervals
from traceroof.timeline.intervals import Intervals, Times

if TYPE_CHECKING:
    from traceroof.timeline.lanes import Lane, Mask

_UNKNOWN = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Unmeasured:
    """Single activities without a start or a duration; ``_UNKNOWN`` where not known. Times in ns."""

    start: Times
    launch: Times
    rank: Times
    process: Times
    device: Times

    def of(self, lane: "Lane") -> "Mask":
        """Which of them may have run on the GPU of a lane."""
        mine = np.ones(len(self.start), dtype=bool)
        for values, own in (
            (self.rank, lane.rank),
            (self.process, lane.process),
            (self.device, lane.device),
        ):
            if own is not None:
                mine &= (values == own) | (values == _UNKNOWN)
        return mine


def unmeasured_in(lane: "Lane", busy: Intervals) -> Intervals:
    """The parts of a lane's gaps in which an activity of unknown duration may have run.

    From its start, or else from the call that launched it, to the end of the gap; of activities
    with neither, one may fill each of the longest gaps whose end nobody was seen to launch.
    """
    found = lane.rows.unmeasured
    mine = found.of(lane)
    if not mine.any() or not len(busy):
        return intervals.NONE
    holes = intervals.gaps(busy, int(busy.starts[0]), int(busy.ends[-1]))
    start, launch = found.start[mine], found.launch[mine]
    place = np.where(start != _UNKNOWN, start, launch)
    placed = place[place != _UNKNOWN]
    at = np.searchsorted(holes.ends, placed, side="right")
    # A start lies in its gap; a launch may lie before it.
    inside = at < len(holes)
    inside &= (start[place != _UNKNOWN] == _UNKNOWN) | (
        holes.starts[np.minimum(at, max(len(holes) - 1, 0))] <= placed if len(holes) else False
    )
    at, placed = at[inside], placed[inside]
    begins = np.maximum(holes.starts[at], placed)
    ends = holes.ends[at]
    nowhere = int((place == _UNKNOWN).sum())
    if nowhere and len(holes):
        following = np.searchsorted(lane.start, holes.ends, side="left")
        open_ends = np.flatnonzero(lane.launch[following] == _UNKNOWN)
        length = (holes.ends - holes.starts)[open_ends]
        longest = open_ends[np.argsort(-length, kind="stable")[:nowhere]]
        begins = np.concatenate((begins, holes.starts[longest]))
        ends = np.concatenate((ends, holes.ends[longest]))
    return intervals.union(begins, ends)
