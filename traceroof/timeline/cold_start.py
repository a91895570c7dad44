"""Cold start: what a process does once, before its work is steady.

The first launch of a kernel loads its code, the first use of a library creates its handles and
streams, the first steps fill the memory cache. A profiler names no such thing; it shows as a runtime
call that is slow once: the first of its kernel, or of its name at the very start.
"""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline import intervals
from traceroof.timeline.intervals import Intervals, Times
from traceroof.timeline.lanes import Lane, Mask

if TYPE_CHECKING:
    from traceroof.timeline.host import HostView

# No runtime call takes this long that neither waits nor sets something up.
SLOW_NS = 1_000_000
# The very start: before this share of the launches.
_EARLY = 0.1
# Where no call of the host was recorded, a start shows by its gaps alone: so many activities follow,
# and so much of the time of all long gaps lies before them. A judgement.
_FOLLOW = 1_000
_NEARLY_ALL = 0.8
# The start lasts while slow first calls take this share of it.
_DENSE = 0.25

#: Calls of the runtime or driver of any vendor, unlike operators and ranges.
_RUNTIME = regex.compile(
    r"\s*(cuda|cu|hip|hsa_?|hsaKmt|ur|ze|nvrtc|hiprtc|cublas|cudnn|nccl)[A-Z_]\w*\s*"
)


def cold_start(lane: Lane, view: "HostView") -> Intervals:
    """Where the host of a timeline did what it does once: host times, a union."""
    first = _slow_first_launches(lane)
    slow = view.slow_calls(SLOW_NS, _RUNTIME)
    start, end = slow.start, slow.end
    launches = lane.launches
    early = launches[int(_EARLY * len(launches))] if len(launches) else np.int64(0)
    is_sync = slow.kind == "sync"
    evidence = slow.once & (start <= early) & ~is_sync | (slow.kind == "load")
    sure = intervals.joined(first, intervals.union(start[evidence], end[evidence]))
    if not len(sure):
        return sure
    begin = min(int(sure.starts[0]), int(launches[0]) if len(launches) else int(sure.starts[0]))
    until = _lasts(sure, begin)
    inside = (start < until) & ~is_sync
    set_up = view.union("allocate", "load")
    phase = Intervals(np.array([begin], dtype=np.int64), np.array([until], dtype=np.int64))
    return intervals.joined(
        sure,
        intervals.union(start[inside], end[inside]),
        intervals.intersection(set_up, phase),
    )


def _lasts(sure: Intervals, begin: int) -> int:
    """Until when set-up makes up a quarter of the time since ``begin``."""
    covered = np.cumsum(sure.ends - sure.starts)
    dense = np.flatnonzero(covered >= _DENSE * (sure.ends - begin))
    return int(sure.ends[dense[-1]]) if len(dense) else begin


def silent_start(lane: Lane, following: npt.NDArray[np.int64], duration: Times) -> Mask:
    """Which gaps of a recording without host calls are its start: those of 1 ms or longer before the
    first kernel, in long recordings before a tenth of the activities, where nearly all of the time in
    such gaps lies there.

    following, duration: of each gap the activity after it, by position, and its length in ns.
    """
    none = np.zeros(len(duration), dtype=bool)
    if (lane.launch != UNKNOWN).any():
        return none
    long = duration >= SLOW_NS
    before = first_kernel(lane)
    if len(lane.at) >= _FOLLOW:
        before = max(before, int(_EARLY * len(lane.at)) - 1)
    early = long & (following <= before)
    return early if duration[early].sum() >= _NEARLY_ALL * duration[long].sum() else none


def first_kernel(lane: Lane) -> int:
    """The place of the first kernel, copies and fills apart; -1 without any."""
    kernels = np.flatnonzero(lane.is_kernel & ~lane.is_memcpy & ~lane.is_memset)
    return int(kernels[0]) if len(kernels) else -1


def _slow_first_launches(lane: Lane) -> Intervals:
    """Launch calls over 1 ms that are the first of their kernel, where no other one of it is."""
    timed = (lane.launch != UNKNOWN) & (lane.launch_duration != UNKNOWN)
    is_slow = np.zeros(len(lane.rows.names) + 1, dtype=bool)  # the last: without a name
    is_slow[lane.name[timed & (lane.launch_duration >= SLOW_NS)]] = True
    at = np.flatnonzero(timed & is_slow[lane.name])
    if not len(at):
        return intervals.NONE
    at = at[np.argsort(lane.launch[at], kind="stable")]
    name, duration = lane.name[at], lane.launch_duration[at]
    _, first, of_name = np.unique(name, return_index=True, return_inverse=True)
    slow = duration >= SLOW_NS
    number = np.bincount(of_name, weights=slow)
    # Kernels of one graph share its call; a copy that waits is no first use of anything.
    chosen = first[slow[first] & (number == 1)]
    chosen = chosen[lane.is_kernel[at[chosen]]]
    start: Times = lane.launch[at[chosen]]
    return intervals.union(start, start + duration[chosen])
