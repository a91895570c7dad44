"""Collectives matched across ranks, group by group, and the clocks that follow from them.

A collective runs in a group of ranks (tensor, data, pipeline parallel: a rank is in several). Only
members meet in it, so collectives are matched within a group, and clocks are aligned along the
groups: ranks that share one directly, others through ranks between them. Definitions:
``docs/timeline.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline.lanes import Lane

if TYPE_CHECKING:
    import pandas as pd

Whole = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

# A list of all ranks; torch elides long ones: "[0, 1, ..., 63]".
_ALL_RANKS = regex.compile(r"\[?\s*\d+(\s*,\s*\d+)*\s*,?\s*\]?")
_NUMBER = regex.compile(r"\d+")


@dataclass(frozen=True)
class Group:
    """What identifies a group. Its ranks where the trace lists them all and the rank that says so
    is among them; else its name, the ranks as written (part of them) and its size, as far as they
    are known: '' and UNKNOWN where not."""

    ranks: tuple[int, ...] = ()
    name: str = ""
    written: str = ""
    size: int = UNKNOWN


@dataclass(frozen=True)
class Meetings:
    """The matched collectives of one group: one row a collective, one column a member.

    name: the group's, '' where unknown. members: positions in the list of compared ranks. start,
    end: ns, each on its rank's own clock. operation, payload (bytes, -1: unknown): of each row.
    """

    name: str
    size: int
    members: Whole
    start: Whole
    end: Whole
    operation: Sequence[str] = ()
    payload: Sequence[float] = ()


@dataclass(frozen=True)
class Waits:
    """What the members of a group waited, once their clocks agree.

    residual: median disagreement of the collectives' ends, ns. waiting: ns by collective and
    member. last: position of the member that entered last. skew: ns by member that it waited for
    one whose recording had not begun, no part of ``waiting``.
    """

    meetings: Meetings
    residual: float
    waiting: Reals
    last: Whole
    skew: Reals

    def caused(self) -> Reals:
        """What the others waited in the collectives that a member entered last. ns by member."""
        columns = len(self.meetings.members)
        caused = np.bincount(self.last, weights=self.waiting.sum(axis=1), minlength=columns)
        return caused.astype(np.float64)

    def last_entries(self) -> Whole:
        """Collectives that a member entered last."""
        return np.bincount(self.last, minlength=len(self.meetings.members))


@dataclass(frozen=True)
class Alignment:
    """The clocks of ranks, by position.

    offset: ns to add to a clock to agree with that of ``anchor``, the first rank that collectives
    connect it with; -1 for a rank without a matched collective. residual: median disagreement, ns.
    groups: the waits of each group.
    """

    offset: Whole
    anchor: Whole
    residual: float
    groups: tuple[Waits, ...]

    @property
    def sets(self) -> int:
        """Sets of ranks that no collective connects with each other."""
        alone = int((self.anchor < 0).sum())
        return alone + len(np.unique(self.anchor[self.anchor >= 0]))


#: The communication kernels of timelines. timeline: position of the timeline. rank: UNKNOWN where not
#: known. size: payload in bytes, -1 where not known. start, end: ns on the rank's own clock.
#: group_name, group_ranks, group_size: as written, '' and UNKNOWN where not known.
COLLECTIVES: pa.Schema = pa.schema(
    [
        ("timeline", pa.int64()),
        ("rank", pa.int64()),
        ("operation", pa.string()),
        ("size", pa.float64()),
        ("step", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("group_name", pa.string()),
        ("group_ranks", pa.string()),
        ("group_size", pa.int64()),
    ]
)


def collectives_of(lane: Lane, timeline: int) -> pa.Table:
    """``COLLECTIVES`` of one timeline."""
    if not lane.is_communication.any():
        return COLLECTIVES.empty_table()
    frame = of_lane(lane)
    columns = {name: frame[name].to_numpy() for name in COLLECTIVES.names if name in frame}
    columns |= {
        "timeline": np.full(len(frame), timeline, dtype=np.int64),
        "rank": np.full(len(frame), UNKNOWN if lane.rank is None else lane.rank, dtype=np.int64),
    }
    return pa.table({name: columns[name] for name in COLLECTIVES.names}, schema=COLLECTIVES)


def with_groups(collectives: pa.Table) -> "pd.DataFrame":
    """``COLLECTIVES`` as a frame with what identifies the group of each, a ``Group``."""
    frame: pd.DataFrame = collectives.to_pandas()
    key = ["group_name", "group_ranks", "group_size", "rank"]
    which = frame.groupby(key, sort=False).ngroup().to_numpy()
    distinct = frame.drop_duplicates(key)
    made = [
        _group(name, written, int(size), int(rank))
        for name, written, size, rank in distinct[key].itertuples(index=False, name=None)
    ]
    # The members of one group share one object: a list of a thousand ranks is there once.
    shared = {one: one for one in made}
    frame["group"] = _objects([shared[one] for one in made])[which]
    return frame


def of_lane(lane: Lane) -> "pd.DataFrame":
    """The communication kernels of a timeline: operation, payload (-1: unknown), step, times and
    group. ``group`` is a ``Group``; ``group_name``, ``group_ranks`` ('' where not known) and
    ``group_size`` (UNKNOWN) are as written."""
    import pandas as pd

    at = lane.at[lane.is_communication]
    rows = lane.rows
    names = np.array([*rows.names, ""], dtype=object)[rows.name[at]]
    number, texts = rows.text("collective", at)
    operation = np.where(number >= 0, np.array([*texts, ""], dtype=object)[number], names)
    step_names = np.array([*rows.step_names, ""], dtype=object)
    frame = pd.DataFrame(
        {
            "rank": lane.rank,
            "operation": operation.astype(str),
            "size": np.nan_to_num(rows.reals("message_bytes", at), nan=-1.0),
            "step": step_names[rows.step[at]].astype(str),
            "start": rows.start[at],
            "end": rows.end[at],
        }
    )
    name, group_names = rows.text("process_group", at)
    written, lists = rows.text("group_ranks", at)
    size = rows.wholes("group_size", at)
    which = frame.groupby([name, written, size], sort=False).ngroup().to_numpy()
    _, first = np.unique(which, return_index=True)
    called = [str([*group_names, ""][name[one]]) for one in first]
    listed = [str([*lists, ""][written[one]]) for one in first]
    sizes = [int(size[one]) for one in first]
    groups = [_group(*one, lane.rank) for one in zip(called, listed, sizes, strict=True)]
    frame["group"], frame["group_name"], frame["group_ranks"] = (
        _objects(values)[which] for values in (groups, called, listed)
    )
    return frame.assign(group_size=size)


def _group(name: str, written: str, size: int, rank: int | None) -> Group:
    if _ALL_RANKS.fullmatch(written.strip()):
        ranks = tuple(sorted({int(text) for text in _NUMBER.findall(written)}))
        if rank in ranks:
            return Group(ranks)
        # Numbered within the group: the list says nothing.
        return Group(name=name, size=size)
    return Group(name=name, written=written, size=size)


def _objects(values: Sequence[object]) -> npt.NDArray[np.object_]:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def matched(frame: "pd.DataFrame", order: Sequence[int]) -> list[Meetings]:
    """The collectives that all members of a group have: the same operation and message at the same
    place among its kind, within the step where steps are known. Kinds of which one member saw more
    than another (windows cut differently) are left out.

    frame: rows of ``of_lane``. order: the compared ranks; members without a file are not missed.
    Most collectives first.
    """
    if frame.empty:
        return []
    import pandas as pd

    number, groups = pd.factorize(frame["group"])
    frame = frame.assign(group=number, whole=frame["group"])
    carriers = frame.groupby("group")["rank"].nunique().to_numpy()
    members = np.array(
        [_members(one, int(count), order) for one, count in zip(groups, carriers, strict=True)]
    )
    key = ["group", "step", "operation", "size"]
    seen = frame.groupby([*key, "rank"]).size().groupby(level=key).agg(["size", "min", "max"])
    of_kind = members[seen.index.get_level_values("group")]
    whole = seen.index[(seen["size"] == of_kind) & (of_kind > 1) & (seen["min"] == seen["max"])]
    frame = frame[pd.MultiIndex.from_frame(frame[key]).isin(whole)]
    place = frame.sort_values("start", kind="stable").groupby([*key, "rank"]).cumcount()
    frame = frame.assign(turn=place).sort_values(
        ["group", "step", "operation", "size", "turn", "rank"], kind="stable"
    )
    bounds = np.flatnonzero(np.diff(frame["group"].to_numpy(), prepend=-1, append=-1))
    found = [_meetings(frame.iloc[low:high], order) for low, high in pairwise(bounds.tolist())]
    return sorted(found, key=lambda one: -len(one.end))


def _members(group: Group, carriers: int, order: Sequence[int]) -> int:
    """How many of the compared ranks are members; 0 where it cannot be told who they are."""
    if group.ranks:
        return len({*group.ranks} & {*order})
    # A name that more ranks use than the group has stands for several groups.
    if 0 <= group.size < carriers:
        return 0
    is_part = bool(group.name or group.written) or 0 <= group.size < len(order)
    return carriers if is_part else len(order)


def _meetings(part: "pd.DataFrame", order: Sequence[int]) -> Meetings:
    """part: the rows of a group, by collective and then rank; every member has every collective."""
    ranks = np.unique(part["rank"].to_numpy())
    # int64 throughout: nanoseconds since an epoch do not fit a double.
    start, end = (
        part[what].to_numpy(dtype=np.int64).reshape(-1, len(ranks)) for what in ("start", "end")
    )
    group: Group = part["whole"].iloc[0]
    first = part.iloc[:: len(ranks)]
    return Meetings(
        name=str(part["group_name"].iloc[0]),
        size=len(group.ranks) or group.size,
        members=np.searchsorted(np.asarray(order), ranks),
        start=start,
        end=end,
        operation=first["operation"].tolist(),
        payload=first["size"].tolist(),
    )


def aligned(found: Sequence[Meetings], begin: Whole) -> Alignment | None:
    """Align the clocks of ranks; None where nothing was matched.

    begin: when the recording of each rank begins, ns on its own clock.

    Each rank not yet aligned takes the median difference of ends to one that is, of the group with
    most collectives that holds both.
    """
    if not found:
        return None
    count = len(begin)
    offset = np.zeros(count, dtype=np.int64)
    anchor = np.full(count, -1, dtype=np.int64)
    for root in sorted({int(one) for each in found for one in each.members}):
        if anchor[root] >= 0:
            continue
        anchor[root] = root
        while (one := _next(found, anchor, root)) is not None:
            base = int(np.argmax(anchor[one.members] == root))
            apart = one.end - one.end[:, [base]]
            # Medians are doubles: take them of what is left beside the first difference.
            shift = apart[0] + np.round(np.median(apart - apart[0], axis=0)).astype(np.int64)
            new = anchor[one.members] < 0
            offset[one.members[new]] = offset[one.members[base]] - shift[new]
            anchor[one.members[new]] = root
    first = np.full(count, np.iinfo(np.int64).max)
    for one in found:
        np.minimum.at(first, one.members, one.start.min(axis=0))
    groups = tuple(
        _waits(one, offset[one.members], begin[one.members], first[one.members]) for one in found
    )
    apart = np.concatenate([_disagreement(one, offset[one.members]) for one in found])
    return Alignment(offset, anchor, float(np.median(apart)), groups)


def _next(found: Sequence[Meetings], anchor: Whole, root: int) -> Meetings | None:
    """The first group that connects ranks aligned with ``root`` and ranks not aligned yet."""
    for one in found:
        known = anchor[one.members]
        if np.any(known == root) and np.any(known < 0):
            return one
    return None


def _disagreement(one: Meetings, offset: Whole) -> Whole:
    """By how much the ends of each collective are apart, from the first member's. ns."""
    end = one.end + offset
    widest: Whole = np.abs(end - end[:, :1]).max(axis=1)
    return widest


def _waits(one: Meetings, offset: Whole, begin: Whole, first: Whole) -> Waits:
    """begin: when each member's recording begins. first: when it enters the first of all its
    collectives. Both on its own clock."""
    entered = one.start + offset
    waiting = np.clip(entered.max(axis=1, keepdims=True) - entered, 0, one.end - one.start)
    last = np.argmax(entered, axis=1)
    residual = float(np.median(_disagreement(one, offset)))
    # A member that began to record later enters its first collective later by as much.
    began = begin + offset
    later = began[last][:, None] - began[None, :]
    at_start = (one.start == first) | (entered < began[last][:, None])
    skew = np.where(at_start, np.clip(later, 0, waiting), 0)
    return Waits(
        one,
        residual,
        (waiting - skew).astype(np.float64),
        last,
        skew.sum(axis=0).astype(np.float64),
    )
