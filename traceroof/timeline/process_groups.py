"""Collectives matched across ranks, group by group, and the clocks that follow from them.

A collective runs in a group of ranks (tensor, data, pipeline parallel: a rank is in several). Only
members meet in it, so collectives are matched within a group, and clocks are aligned along the
groups: ranks that share one directly, others through ranks between them. Definitions:
``docs/timeline.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from traceroof.core.dictionary import factorized, together
from traceroof.core.groups import Groups
from traceroof.timeline.collectives import Collectives, Group

Whole = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


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


def matched(sent: Collectives, order: Sequence[int]) -> list[Meetings]:
    """The collectives that all members of a group have: the same operation and message at the same
    place among its kind, within the step where steps are known. Kinds of which one member saw more
    than another (windows cut differently) are left out.

    order: the compared ranks; members without a file are not missed. Most collectives first.
    """
    if not len(sent.start):
        return []
    code, distinct = factorized(sent.group)
    number: dict[Group, int] = {}
    numbers = [number.setdefault(sent.groups[one].group, len(number)) for one in distinct]
    group = np.array(numbers, dtype=np.int64)[code]
    _, carrying = together((group, sent.rank))
    carriers = np.bincount(group[carrying])
    members = np.array(
        [_members(one, int(count), order) for one, count in zip(number, carriers, strict=True)]
    )
    kind, of_kind = together((group, sent.step, sent.operation, factorized(sent.size)[0]))
    of_rank, first = together((kind, sent.rank))
    seen = Groups(kind[first])
    often = np.bincount(of_rank)
    least, most = (seen.reduced(how, often) for how in (np.minimum, np.maximum))
    everybody = members[group[of_kind]]
    whole = (seen.sizes == everybody) & (everybody > 1) & (least == most)
    by_start = np.argsort(sent.start, kind="stable")
    turn = np.empty(len(by_start), dtype=np.int64)
    turn[by_start] = Groups(of_rank[by_start]).places()
    ordered = np.lexsort((sent.rank, turn, sent.size, sent.operation, sent.step, group))
    ordered = ordered[whole[kind[ordered]]]
    bounds = np.flatnonzero(np.diff(group[ordered], prepend=-1, append=-1))
    found = [_meetings(sent.some(ordered[low:high]), order) for low, high in pairwise(bounds)]
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


def _meetings(part: Collectives, order: Sequence[int]) -> Meetings:
    """part: those of a group, by collective and then rank; every member has every collective."""
    ranks = np.unique(part.rank)
    called = part.groups[part.group[0]]
    return Meetings(
        name=called.name,
        size=len(called.group.ranks) or called.group.size,
        members=np.searchsorted(np.asarray(order), ranks),
        start=part.start.reshape(-1, len(ranks)),
        end=part.end.reshape(-1, len(ranks)),
        operation=[part.operations[one] for one in part.operation[:: len(ranks)]],
        payload=part.size[:: len(ranks)].tolist(),
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
