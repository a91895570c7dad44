"""How the ranks of a run differ: who is slow and at what, which group of ranks communicates slowly,
who is missing.

A rank is slow by what it does itself: its time outside exposed communication. Ranks that merely
wait beside a slow one are late for the next collective as well, and are none.
Definitions: ``docs/timeline.md``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import factorized, together
from traceroof.core.groups import Groups
from traceroof.timeline.collectives import Group
from traceroof.timeline.process_groups import Meetings
from traceroof.timeline.timeline import Timeline

Reals = npt.NDArray[np.float64]

# Fewer ranks show no usual time, fewer groups of one kind no usual speed.
_FEWEST_RANKS, _FEWEST_GROUPS = 4, 3
# Out of the ordinary: so many standard deviations (by the MAD) and this share above the median.
_SIGMAS, _SIGMA, _SHARE = 5.0, 1.4826, 0.03
# Where more ranks than this share are slower than the rest, they have other work.
_MOST = 0.1
# A link is slow when a collective takes so many times as long as on its like.
_SLOW = 1.5
# What makes up this share of what a rank takes longer is named.
_NAMED_SHARE, _MOST_CAUSES = 0.1, 4
# Ranks that are missing are named where at least this share of the job is there.
_MOSTLY = 0.5


@dataclass(frozen=True)
class Spread:
    """GPU time of an operator category over ranks, ns. rank: the one with the most."""

    category: str
    least_ns: int
    median_ns: float
    most_ns: int
    rank: int


@dataclass(frozen=True)
class Cause:
    """What a slow rank spends more time with than the median rank: an operator category (``time``),
    or waiting (``idle``), by its cause. ns."""

    kind: str
    name: str
    more_ns: int


@dataclass(frozen=True)
class Straggler:
    """A rank that takes longer outside exposed communication than the median rank does. ns.

    share: how much longer, of the median, 0-1. caused_ns: what others waited for it; None where
    the clocks do not agree.
    """

    rank: int
    own_ns: int
    more_ns: int
    share: float
    caused_ns: int | None
    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class GroupKind:
    """All process groups of one kind (data, tensor, pipeline parallel): their communication over all
    ranks. ns. name: as the framework describes them, '' where it does not; size: ranks of one."""

    name: str
    size: int | None
    groups: int
    ranks: int
    time_ns: int
    exposed_ns: int


@dataclass(frozen=True)
class SlowGroup:
    """Ranks whose collectives take longer than those of groups like theirs, waiting left out.

    median_ns: of a collective, from the last rank's start. usual_ns: the same, over the groups of
    the same kind and size. excess_ns: what all its slow collectives take beyond the usual time. For
    two ranks it is the link between them.
    """

    name: str
    ranks: tuple[int, ...]
    collective: str
    message_bytes: int | None
    median_ns: float
    usual_ns: float
    among: int
    excess_ns: int = 0


@dataclass(frozen=True)
class Short:
    """A rank that lacks steps which nearly all others have: it fell out, or joined late."""

    rank: int
    steps: int
    of_steps: int


def category_times(
    found: Sequence[Timeline], by_step: Sequence[Mapping[str, Mapping[str, int]]]
) -> list[dict[str, int]]:
    """GPU time of each rank by category, ns: in the steps that all have, warm-up left out; in all
    of its timeline where there are none. by_step: of each rank by step."""
    shared = _shared_steps(found)
    made = []
    for each in by_step:
        sums: dict[str, int] = {}
        for step, times in each.items():
            if not shared or step in shared:
                for name, time in times.items():
                    sums[name] = sums.get(name, 0) + time
        made.append(sums)
    return made


def category_spread(
    order: Sequence[int], categories: Sequence[Mapping[str, int]]
) -> tuple[Spread, ...]:
    """Every category over the ranks, most time first. categories: ns by category of each rank."""
    names = sorted({name for one in categories for name in one})
    times = {name: np.array([one.get(name, 0) for one in categories]) for name in names}
    ranked = sorted(names, key=lambda name: (-int(times[name].sum()), name))
    return tuple(
        Spread(
            name,
            int(times[name].min()),
            float(np.median(times[name])),
            int(times[name].max()),
            order[int(times[name].argmax())],
        )
        for name in ranked
    )


def stragglers(
    order: Sequence[int],
    found: Sequence[Timeline],
    categories: Sequence[Mapping[str, int]],
    caused: Sequence[int | None],
) -> tuple[Straggler, ...]:
    """The slow ranks, the slowest first. found: the timeline of each rank. caused: what others
    waited for it."""
    own = np.array([_own(one) for one in _comparable(found)], dtype=np.float64)
    slow = _outliers(own)
    if not len(slow):
        return ()
    usual = float(np.median(own))
    made = [
        Straggler(
            rank=order[at],
            own_ns=int(own[at]),
            more_ns=round(own[at] - usual),
            share=float(own[at] / usual - 1),
            caused_ns=caused[at],
            causes=_causes(at, found, categories, own[at] - usual),
        )
        for at in slow
    ]
    return tuple(sorted(made, key=lambda one: -one.more_ns))


def _comparable(found: Sequence[Timeline]) -> list[Sequence[Any]]:
    """Of each timeline the steps that all have, warm-up left out; itself where there are none."""
    shared = _shared_steps(found)
    if not shared:
        return [[one] for one in found]
    return [[step for step in one.steady_steps if step.name in shared] for one in found]


def _shared_steps(found: Sequence[Timeline]) -> set[str]:
    names = [{step.name for step in one.steady_steps} for one in found]
    return set.intersection(*names) if names else set()


def _own(parts: Sequence[Any]) -> int:
    return sum(one.span_ns - one.exposed_communication_ns for one in parts)


def _outliers(values: Reals) -> npt.NDArray[np.int64]:
    """Which values lie far above the median; none where they are too many to be an exception."""
    nothing = np.zeros(0, dtype=np.int64)
    if len(values) < _FEWEST_RANKS:
        return nothing
    usual = float(np.median(values))
    scatter = _SIGMA * float(np.median(np.abs(values - usual)))
    found = np.flatnonzero(values > usual + max(_SIGMAS * scatter, _SHARE * usual))
    return found if len(found) <= max(1, _MOST * len(values)) else nothing


def _causes(
    at: int, found: Sequence[Timeline], categories: Sequence[Mapping[str, int]], more: float
) -> tuple[Cause, ...]:
    """What a rank spends more time with than the median rank, most first."""
    tables = (
        ("time", categories, "communication"),
        ("idle", [one.idle_by_cause for one in found], "communication"),
    )
    causes = [
        Cause(kind, name, round(each[at].get(name, 0) - _median(each, name)))
        for kind, each, left_out in tables
        for name in each[at]
        if name != left_out
    ]
    worth = [one for one in causes if one.more_ns >= _NAMED_SHARE * more and one.more_ns > 0]
    return tuple(sorted(worth, key=lambda one: (-one.more_ns, one.name))[:_MOST_CAUSES])


def _median(each: Sequence[Mapping[str, int]], name: str) -> float:
    return float(np.median([one.get(name, 0) for one in each]))


# What a framework numbers its groups with: "TENSOR_MODEL_PARALLEL_GROUP 3", "mesh_dp_12".
_NUMBERED = regex.compile(r"[\s_:#-]*\d+\s*$")


def kind_of(name: str) -> str:
    """What kind of group a name is of: the name without its number."""
    return _NUMBERED.sub("", name)


def group_kinds(found: Sequence[Timeline]) -> tuple[GroupKind, ...]:
    """The communication of all ranks by kind of process group, most exposed first."""
    seen: dict[tuple[str, int | None], dict[str, Any]] = {}
    for one in found:
        for exchange in one.exchanges:
            key = (kind_of(exchange.process_group), exchange.size)
            entry = seen.setdefault(key, {"groups": set(), "ranks": set(), "time": 0, "exposed": 0})
            entry["groups"].add((exchange.process_group, exchange.ranks))
            entry["ranks"].add(one.rank)
            entry["time"] += exchange.time_ns
            entry["exposed"] += exchange.exposed_ns
    made = [
        GroupKind(name, size, len(one["groups"]), len(one["ranks"]), one["time"], one["exposed"])
        for (name, size), one in seen.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.exposed_ns, one.name, one.size or 0)))


def slow_groups(found: Sequence[Meetings], order: Sequence[int]) -> tuple[SlowGroup, ...]:
    """The groups that communicate more slowly than others of their kind, the slowest first."""
    made = []
    for (_, _, operation, size), times_of in sorted(_usual_times(found).items()):
        if len(times_of) < _FEWEST_GROUPS:
            continue
        times = np.array([median for _, median, _ in times_of])
        usual = float(np.median(times))
        for at in _outliers(times):
            if times[at] < _SLOW * usual:
                continue
            meeting, median, count = times_of[at]
            made.append(
                SlowGroup(
                    meeting.name,
                    tuple(order[member] for member in meeting.members),
                    operation,
                    int(size) if size >= 0 else None,
                    median,
                    usual,
                    len(times),
                    round((median - usual) * count),
                )
            )
    # Of one group the collective that loses most.
    made.sort(key=lambda one: (-(one.median_ns - one.usual_ns), one.ranks))
    first: dict[tuple[int, ...], SlowGroup] = {}
    excess: dict[tuple[int, ...], int] = {}
    for each in made:
        first.setdefault(each.ranks, each)
        excess[each.ranks] = excess.get(each.ranks, 0) + each.excess_ns
    return tuple(replace(one, excess_ns=excess[one.ranks]) for one in first.values())


#: Kind of group, members, operation and payload.
_Like = tuple[str, int, str, float]


def _usual_times(found: Sequence[Meetings]) -> dict[_Like, list[tuple[Meetings, float, int]]]:
    """Of what is alike the median time that each group takes, ns, and how often. The time of a
    collective is the shortest of its members, which waits for nobody: from the last one's start on."""
    times: dict[_Like, list[tuple[Meetings, float, int]]] = {}
    for one in found:
        what, first = together((_numbers(one.operation), _numbers(one.payload)))
        alike = Groups(what)
        medians = alike.medians((one.end - one.start).min(axis=1))
        kind = (kind_of(one.name), len(one.members))
        for at, median, count in zip(first, medians.tolist(), alike.sizes.tolist(), strict=True):
            like = (*kind, one.operation[at], one.payload[at])
            times.setdefault(like, []).append((one, median, count))
    return times


def _numbers(values: Sequence[object]) -> npt.NDArray[np.int64]:
    return factorized(np.array(values, dtype=object))[0]


def excess_of_ranks(slow: Sequence[SlowGroup]) -> dict[int, int]:
    """By rank, what the collectives of its slow groups take beyond the usual time, ns."""
    found: dict[int, int] = {}
    for one in slow:
        for rank in one.ranks:
            found[rank] = found.get(rank, 0) + one.excess_ns
    return found


def missing(groups: Sequence[Group], order: Sequence[int]) -> tuple[int, ...]:
    """Ranks that process groups name and that have no timeline, where most of the job is there."""
    named = {rank for one in groups for rank in one.ranks}
    gone = named - {*order}
    return tuple(sorted(gone)) if len(gone) <= (1 - _MOSTLY) * len(named) else ()


def short(order: Sequence[int], found: Sequence[Timeline]) -> tuple[Short, ...]:
    """The ranks that lack steps which nine in ten ranks have."""
    names = [{step.name for step in one.steps} for one in found]
    count: dict[str, int] = {}
    for each in names:
        for name in each:
            count[name] = count.get(name, 0) + 1
    usual = {name for name, number in count.items() if number >= (1 - _MOST) * len(found)}
    if len(found) < _FEWEST_RANKS:
        return ()
    return tuple(
        Short(rank, len(each & usual), len(usual))
        for rank, each in zip(order, names, strict=True)
        if usual - each
    )
