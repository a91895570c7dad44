"""Several ranks side by side: who waits for whom, once their clocks agree.

A collective ends on all ranks of its group together, so matched collectives are the common clock:
each rank's times are shifted by the median difference of their ends. What remains tells how far the
ranks may be compared (``residual_ns``). A rank that enters a collective early only waits in it;
the one that enters last keeps the others waiting. Definitions: ``docs/timeline.md``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import Column
from traceroof.timeline import Timeline, rank_spread
from traceroof.timeline.collectives import Collectives, with_groups
from traceroof.timeline.partial import Partial
from traceroof.timeline.process_groups import (
    Alignment,
    Waits,
    aligned,
    matched,
)
from traceroof.timeline.rank_spread import GroupKind, Short, SlowGroup, Spread, Straggler

# Clocks that still differ by more after alignment do not allow gaps across ranks.
RESIDUAL_LIMIT_NS = 100_000

# Collectives whose ranks leave together. Point-to-point transfers and broadcasts need not.
_TOGETHER = regex.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.IGNORECASE
)

#: What is known of a run of several ranks, for rules of scope ``run``.
RANK_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64(), unit, meaning, "ranks", source="clock")
    for name, unit, meaning in (
        ("ranks", "rank", "ranks with a timeline"),
        ("matched_collectives", "launch", "collectives found on all ranks of their group"),
        ("clock_sets", "", "sets of ranks that no matched collective connects with each other"),
        ("clock_residual_ns", "ns", "median disagreement of the ranks' clocks after alignment"),
        ("slowest_rank", "", "rank that keeps the others waiting most"),
        ("slowest_share", "", "its share of all waiting in collectives, 0-1"),
        ("slowest_last_share", "", "share of collectives that it enters last, 0-1"),
        ("slowest_compute_ratio", "", "its compute time over the median of its groups"),
        ("slowest_own_ratio", "", "its time outside communication over the median of its groups"),
        ("compute_imbalance", "", "(largest - mean) / mean of the ranks' compute time"),
        ("step_imbalance", "", "(largest - mean) / mean of compute time, step by step"),
        ("compute_excess_ns", "ns", "largest minus median compute time, per step added up"),
        ("compute_over_mean_ns", "ns", "largest minus mean compute time, per step added up"),
        ("slowest_changes", "", "share of steps in which the slowest rank is another, 0-1"),
        ("waiting_ns", "ns", "time that ranks wait in collectives for the last one, mean of ranks"),
        ("waiting_share", "", "of the ranks' communication time, 0-1"),
        ("skew_ns", "ns", "time that ranks wait for one that does not record yet, most of a rank"),
        ("longest_span_ns", "ns", "time of the rank that takes longest"),
        ("stragglers", "rank", "ranks that take far longer outside exposed communication"),
        ("straggler_more_ns", "ns", "how much longer than the median rank the slowest takes"),
        ("straggler_share", "", "the same, of the median rank's time, 0-1"),
        (
            "slow_groups",
            "",
            "groups whose collectives take far longer than those of groups like them",
        ),
        ("slow_group_excess_ns", "ns", "what the collectives of the slowest take beyond the usual"),
        ("slow_group_ratio", "", "time of a collective of the slowest, over the usual time"),
        ("slow_group_size", "rank", "ranks of the slowest"),
    )
) + tuple(
    Column(name, pa.string(), "", meaning, "ranks", source="clock")
    for name, meaning in (
        ("straggler_ranks", "those ranks, the slowest first"),
        ("slow_group_ranks", "the ranks of the slowest group"),
        ("slow_group_collective", "its collective that loses most"),
    )
)


@dataclass(frozen=True)
class RankTimes:
    """One rank beside the others. Times in ns.

    offset_ns: what is added to its clock to agree with that of rank ``aligned_to``, the first one
    that collectives connect it with; None where no collective was matched. waiting_ns: its time in
    matched collectives before the last rank came. skew_ns: the same for a rank that did not record
    yet, no part of it. caused_ns: what the others waited where it came
    last. last_share: share of its matched collectives that it entered last, 0-1. own_ns: its span
    outside communication, idle time included.
    """

    rank: int
    compute_ns: int
    communication_ns: int
    exposed_communication_ns: int
    idle_ns: int
    own_ns: int
    offset_ns: int | None
    aligned_to: int | None
    waiting_ns: int | None
    caused_ns: int | None
    skew_ns: int | None
    last_share: float | None
    step_compute_ns: tuple[int, ...]


@dataclass(frozen=True)
class GroupTimes:
    """The compared ranks of one process group. Times in ns.

    name: as the profiler calls it, '' where it does not. ranks: the members that were compared.
    size: ranks of the group, recorded or not. waiting_ns: time in its collectives before the last
    member came, all members together; None where their clocks do not agree. slowest_rank: the one
    that causes most of it; slowest_share: how much, 0-1.
    """

    name: str
    ranks: tuple[int, ...]
    size: int | None
    matched_collectives: int
    clock_residual_ns: float
    waiting_ns: int | None
    slowest_rank: int | None
    slowest_share: float | None


@dataclass(frozen=True)
class Ranks:
    """The ranks of a run. facts: RANK_COLUMNS -> value; what is unknown is absent.

    comparable: whether the clocks agree well enough for gaps across ranks; where not, nothing is
    said of waiting. groups: the process groups in which collectives were matched, most first.
    categories to short: how the ranks differ (``rank_spread``). missing: ranks of the job without a
    timeline.
    """

    ranks: tuple[RankTimes, ...]
    facts: Mapping[str, float]
    comparable: bool
    groups: tuple[GroupTimes, ...] = ()
    categories: tuple[Spread, ...] = ()
    stragglers: tuple[Straggler, ...] = ()
    group_kinds: tuple[GroupKind, ...] = ()
    slow_groups: tuple[SlowGroup, ...] = ()
    missing: tuple[int, ...] = ()
    short: tuple[Short, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        made: dict[str, Any] = msgspec.to_builtins(self)
        return made


def ranks(partial: Partial) -> Ranks | None:
    """Compare the ranks of a run; None where it has fewer than two.

    partial: of the whole run; a rank with several GPUs or windows counts with the one that
    computes most.
    """
    place = _place_of_ranks(partial)
    if len(place) < 2:
        return None
    order = sorted(place)
    by_rank = {rank: partial.timelines[place[rank]] for rank in order}
    sent = _collectives(partial, [place[rank] for rank in order])
    leave_together = np.array(
        [bool(_TOGETHER.search(text)) for text in sent.operations], dtype=bool
    )
    together = sent.some(leave_together[sent.operation])
    # An all-to-all made of transfers goes by their name.
    meetings = matched(together, order) or matched(sent, order)
    begin = np.array([by_rank[rank].start_ns for rank in order], dtype=np.int64)
    alignment = aligned(meetings, begin)
    comparable = alignment is not None and alignment.residual <= RESIDUAL_LIMIT_NS
    waits = _Waiting(alignment, len(order)) if alignment is not None and comparable else None
    computes = _step_computes([by_rank[rank] for rank in order])
    facts = _facts(order, by_rank, waits, computes)
    if alignment is not None:
        facts["matched_collectives"] = float(sum(len(one.last) for one in alignment.groups))
        facts["clock_residual_ns"] = alignment.residual
        facts["clock_sets"] = float(alignment.sets)
    lines = [by_rank[rank] for rank in order]
    by_category = rank_spread.category_times(
        lines, [partial.categories[place[rank]] for rank in order]
    )
    caused = [
        int(waits.caused[at]) if waits and waits.entered[at] else None for at in range(len(order))
    ]
    return Ranks(
        categories=rank_spread.category_spread(order, by_category),
        stragglers=rank_spread.stragglers(order, lines, by_category, caused),
        group_kinds=rank_spread.group_kinds(lines),
        slow_groups=rank_spread.slow_groups(meetings, order),
        missing=rank_spread.missing([one.group for one in sent.groups], order),
        short=rank_spread.short(order, lines),
        ranks=tuple(
            _rank_times(line, order, at, alignment, waits, caused[at], computes)
            for at, line in enumerate(lines)
        ),
        facts=facts,
        comparable=comparable,
        groups=tuple(
            _group_times(one, order, comparable) for one in (alignment.groups if alignment else ())
        ),
    )


def _place_of_ranks(partial: Partial) -> dict[int, int]:
    """The timeline of each rank: of several that which computes most."""
    place: dict[int, int] = {}
    for at, one in enumerate(partial.timelines):
        if one.rank is not None:
            known = place.get(one.rank)
            if known is None or one.compute_ns > partial.timelines[known].compute_ns:
                place[one.rank] = at
    return place


def _rank_times(
    line: Timeline,
    order: Sequence[int],
    at: int,
    alignment: Alignment | None,
    waits: "_Waiting | None",
    caused_ns: int | None,
    computes: npt.NDArray[np.int64],
) -> RankTimes:
    """The times of the rank at one place of the order."""
    waited = waits if waits and waits.entered[at] else None
    return RankTimes(
        rank=order[at],
        compute_ns=line.compute_ns,
        communication_ns=line.communication_ns,
        exposed_communication_ns=line.exposed_communication_ns,
        idle_ns=line.idle_ns,
        own_ns=_own(line),
        **_clock(alignment, order, at),
        waiting_ns=int(waited.waiting[at]) if waited else None,
        caused_ns=caused_ns,
        skew_ns=int(waited.skew[at]) if waited else None,
        last_share=waits.last_share(at) if waits else None,
        step_compute_ns=tuple(int(step) for step in computes[:, at]),
    )


def _clock(alignment: Alignment | None, order: Sequence[int], at: int) -> dict[str, Any]:
    if alignment is None or alignment.anchor[at] < 0:
        return {"offset_ns": None, "aligned_to": None}
    return {
        "offset_ns": int(alignment.offset[at]),
        "aligned_to": order[int(alignment.anchor[at])],
    }


def _group_times(one: Waits, order: Sequence[int], comparable: bool) -> GroupTimes:
    ranks, caused = [order[at] for at in one.meetings.members], one.caused()
    total = float(caused.sum())
    agree = comparable and one.residual <= RESIDUAL_LIMIT_NS
    slow = agree and total > 0
    return GroupTimes(
        name=one.meetings.name,
        ranks=tuple(ranks),
        size=one.meetings.size if one.meetings.size >= 0 else None,
        matched_collectives=len(one.last),
        clock_residual_ns=one.residual,
        waiting_ns=int(total) if agree else None,
        slowest_rank=ranks[int(caused.argmax())] if slow else None,
        slowest_share=float(caused.max() / total) if slow else None,
    )


def facts_of(found: Ranks | None) -> Facts:
    """What rules of scope ``run`` read of the ranks: one subject, columns RANK_COLUMNS."""
    values: dict[str, Any] = {**found.facts, **_exceptions(found)} if found else {}
    columns = {
        entry.name: np.array([values.get(entry.name)], dtype=object)
        if entry.type == pa.string()
        else np.array([values.get(entry.name, np.nan)], dtype=np.float64)
        for entry in RANK_COLUMNS
    }
    return Facts(columns, 1)


def _exceptions(found: Ranks) -> dict[str, Any]:
    """The ranks and the groups that are slower than their like; nothing of what there is none. And
    what they are held against."""
    spans = [one.own_ns + one.communication_ns for one in found.ranks]
    facts: dict[str, Any] = {"longest_span_ns": float(max(spans))}
    if found.stragglers:
        most = found.stragglers[0]
        facts |= {
            "stragglers": float(len(found.stragglers)),
            "straggler_more_ns": float(most.more_ns),
            "straggler_share": most.share,
            "straggler_ranks": _listed([one.rank for one in found.stragglers]),
        }
    if found.slow_groups:
        slow = max(found.slow_groups, key=lambda one: one.excess_ns)
        facts |= {
            "slow_groups": float(len(found.slow_groups)),
            "slow_group_excess_ns": float(slow.excess_ns),
            "slow_group_ratio": slow.median_ns / slow.usual_ns if slow.usual_ns else np.nan,
            "slow_group_size": float(len(slow.ranks)),
            "slow_group_ranks": _listed(slow.ranks),
            "slow_group_collective": slow.collective,
        }
    return facts


# So many ranks are named one by one.
_LISTED = 8


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    return ", ".join(map(str, numbers[:_LISTED])) + more


class _Waiting:
    """What ranks wait and cause in all of their groups, by position: waiting, caused in ns;
    entered, last: collectives in all and those entered last. peers: which ranks meet which.
    Groups whose clocks do not agree are left out."""

    def __init__(self, alignment: Alignment, count: int) -> None:
        self.waiting, self.caused, self.skew = (np.zeros(count) for _ in range(3))
        self.entered, self.last = (np.zeros(count, dtype=np.int64) for _ in range(2))
        self.peers = np.zeros((count, count), dtype=bool)
        for one in alignment.groups:
            if one.residual > RESIDUAL_LIMIT_NS:
                continue
            at = one.meetings.members
            self.waiting[at] += one.waiting.sum(axis=0)
            self.skew[at] += one.skew
            self.caused[at] += one.caused()
            self.entered[at] += len(one.last)
            self.last[at] += one.last_entries()
            self.peers[np.ix_(at, at)] = True

    def last_share(self, at: int) -> float | None:
        """Share of a rank's collectives that it entered last."""
        return float(self.last[at] / self.entered[at]) if self.entered[at] else None


def _collectives(partial: Partial, places: Sequence[int]) -> Collectives:
    """The collectives of some timelines, in order, with what identifies them."""
    chosen = pc.is_in(partial.collectives["timeline"], pa.array(places, pa.int64()))
    return with_groups(partial.collectives.filter(chosen))


def _step_computes(found: Sequence[Timeline]) -> npt.NDArray[np.int64]:
    """Compute time per step (rows) and rank (columns): of steps that all ranks have, warm-up
    left out; of the whole timeline where they share none."""
    by_name = [{step.name: step.compute_ns for step in one.steady_steps} for one in found]
    shared = [name for name in by_name[0] if all(name in other for other in by_name)]
    if not shared:
        return np.array([[one.compute_ns for one in found]], dtype=np.int64)
    return np.array([[steps[name] for steps in by_name] for name in shared], dtype=np.int64)


def _own(one: Timeline) -> int:
    """Time outside communication: what the rank itself needed, or failed to fill."""
    return one.span_ns - one.communication_ns


def _facts(
    order: Sequence[int],
    by_rank: Mapping[int, Timeline],
    waits: _Waiting | None,
    computes: npt.NDArray[np.int64],
) -> dict[str, float]:
    total = computes.sum(axis=0).astype(np.float64)
    facts: dict[str, float] = {"ranks": float(len(order))}
    if total.mean() > 0:
        facts["compute_imbalance"] = float((total.max() - total.mean()) / total.mean())
        over = (computes.max(axis=1) - computes.mean(axis=1)).sum()
        facts["step_imbalance"] = float(over / computes.mean(axis=1).sum())
    largest = computes.max(axis=1)
    facts["compute_excess_ns"] = float((largest - np.median(computes, axis=1)).sum())
    facts["compute_over_mean_ns"] = float((largest - computes.mean(axis=1)).sum())
    if len(computes) > 1:
        slowest = np.argmax(computes, axis=1)
        usual = np.bincount(slowest).argmax()
        facts["slowest_changes"] = float((slowest != usual).mean())
    if waits is None:
        return facts
    at = int(waits.caused.argmax())
    own = np.array([_own(by_rank[rank]) for rank in order], dtype=np.float64)
    if waits.caused.sum() > 0:
        facts["slowest_rank"] = float(order[at])
        facts["slowest_share"] = float(waits.caused[at] / waits.caused.sum())
        facts["slowest_last_share"] = float(waits.last[at] / waits.entered[at])
        # Beside those that wait for it: another pipeline stage has other work.
        peers = waits.peers[at]
        if np.median(total[peers]) > 0:
            facts["slowest_compute_ratio"] = float(total[at] / np.median(total[peers]))
        if np.median(own[peers]) > 0:
            facts["slowest_own_ratio"] = float(own[at] / np.median(own[peers]))
    facts["waiting_ns"] = float(waits.waiting.mean())
    facts["skew_ns"] = float(waits.skew.max())
    communication = np.mean([by_rank[rank].communication_ns for rank in order])
    if communication > 0:
        facts["waiting_share"] = facts["waiting_ns"] / float(communication)
    return facts
