"""The communication of one GPU, by collective and process group."""

import re
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import factorized, together
from traceroof.core.groups import Groups
from traceroof.timeline import intervals
from traceroof.timeline.collectives import of_lane
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import Lane, Mask, Unions
from traceroof.timeline.metrics import launch_columns

SMALL_MESSAGE_BYTES = 1 << 20
# From this size on a collective runs at the speed of its link, not at its latency.
LARGE_MESSAGE_BYTES = 16 << 20


@dataclass(frozen=True)
class Exchange:
    """All launches of one collective in one process group. Times in ns, added up over launches.

    collective: as the profiler calls it, else the kernel's name. process_group, ranks: the group's
    name and its ranks as written, '' where unknown. size: its ranks, None where unknown.
    exposed_ns: while nothing computes. message_bytes: payload, None where no launch says it.
    """

    collective: str
    process_group: str
    ranks: str
    size: int | None
    launches: int
    time_ns: int
    exposed_ns: int
    message_bytes: int | None


def exchanges(lane: Lane, unions: Unions) -> tuple[Exchange, ...]:
    """What the communication kernels of a timeline do, most time first."""
    if not lane.is_communication.any():
        return ()
    sent = of_lane(lane)
    time = sent.end - sent.start
    exposed = time - intervals.covered(unions.compute, sent.start, sent.end)
    is_known = sent.size >= 0
    codes, first = together((sent.operation, sent.group))
    alike = Groups(codes)
    times, bare, known, payload = (
        alike.reduced(np.add, values).tolist()
        for values in (time, exposed, is_known.astype(np.int64), np.where(is_known, sent.size, 0.0))
    )
    found = []
    for at, row in enumerate(first.tolist()):
        called = sent.groups[sent.group[row]]
        entry = Exchange(
            collective=sent.operations[sent.operation[row]],
            process_group=called.name,
            ranks=called.ranks,
            size=called.size if called.size >= 0 else None,
            launches=int(alike.sizes[at]),
            time_ns=times[at],
            exposed_ns=bare[at],
            message_bytes=int(payload[at]) if known[at] else None,
        )
        found.append(
            (-entry.time_ns, entry.collective, called.name, called.ranks, called.size, entry)
        )
    return tuple(entry for *_, entry in sorted(found, key=lambda one: one[:-1]))


# What a ring sends over each link per byte of payload, for a group of n; other collectives send
# each byte once (NCCL tests, doc/PERFORMANCE.md).
_TWICE_BUT_OWN = regex.compile("all_?reduce", re.IGNORECASE)
_ALL_BUT_OWN = regex.compile("all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)


def _bandwidth(
    lane: Lane, at: npt.NDArray[np.int64], size: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Bus bandwidth of the large collectives at the positions ``at``: of the fastest, which waited
    least for other ranks."""
    ranks = lane.rows.wholes("group_size", lane.at[at]).astype(np.float64)
    large = (size >= LARGE_MESSAGE_BYTES) & (ranks >= 2)
    time = (lane.end - lane.start)[at]
    large &= time > 0
    if not large.any():
        return {}
    number, names = lane.rows.text("collective", lane.at[at])
    factors = [
        2.0 if _TWICE_BUT_OWN.search(name) else 1.0 if _ALL_BUT_OWN.search(name) else np.nan
        for name in (*map(str, names), "")
    ]
    factor = np.array(factors)[number]
    others = (ranks - 1) / ranks
    sent = np.where(np.isnan(factor), size, factor * others * size)
    return {
        "large_collectives": int(large.sum()),
        "large_collective_time_ns": int(time[large].sum()),
        "large_collective_floor_ns": _floor(time[large], number[large], size[large]),
        "bus_bytes_per_s": float((sent[large] / time[large]).max()) * 1e9,
    }


def _floor(time: Times, operation: npt.NDArray[Any], size: npt.NDArray[np.float64]) -> int:
    """What collectives take where each is as fast as the fastest of its operation and size: what
    is left without waiting for other ranks. ns."""
    alike = Groups(together((operation, factorized(size)[0]))[0])
    return int((alike.reduced(np.minimum, time) * alike.sizes).sum())


# So many equal collectives show how fast they are without waiting.
_ENOUGH = 8
# The first collective waited for a rank that did not record yet, if it took so many times as long
# as it should, and for so long at least.
_SKEWED, _SKEW_NS = 10, 1_000_000


def _waits(lane: Lane, unions: Unions) -> dict[str, float]:
    """How much of the exposed communication is waiting, by equal collectives (operation, payload or
    shapes, group) that take different times, and by the first of all."""
    shapes, _ = lane.rows.text("input_shapes", lane.at[lane.is_communication])
    sent = of_lane(lane)
    time = sent.end - sent.start
    exposed = time - intervals.covered(unions.compute, sent.start, sent.end)
    kind, _ = together((sent.operation, factorized(sent.size)[0], shapes))
    skew = _skew(kind, time)
    facts: dict[str, float] = {"start_skew_ns": int(min(skew, exposed[0]))}
    # Without a payload the operator's shapes tell which are equal.
    known = (sent.size >= 0) | (shapes >= 0)
    if skew:
        known[0] = False
    if not known.any():
        return facts
    alike = Groups(together((kind[known], sent.group[known]))[0])
    least = alike.reduced(np.minimum, time[known])[alike.codes]
    beyond = np.minimum(time[known] - least, exposed[known])
    beyond = beyond[alike.sizes[alike.codes] >= _ENOUGH]
    if len(beyond):
        whole = intervals.length(unions.exposed_communication) - facts["start_skew_ns"]
        facts["collective_excess_ns"] = min(float(beyond.sum()), whole)
    return facts


def _skew(kind: npt.NDArray[np.int64], time: Times) -> int:
    """What the first collective took beyond its like, 0 where that is not much. ns."""
    if len(time) < 2:
        return 0
    first, rest = int(time[0]), time[1:]
    like = rest[kind[1:] == kind[0]]
    usual = float(np.median(like if len(like) else rest))
    beyond = int(first - usual)
    return beyond if first >= _SKEWED * usual and beyond >= _SKEW_NS else 0


_FEW = 3
# A comparison of less of the time beside communication says nothing about the rest.
_COVERED = 0.25


def communication_facts(lane: Lane, unions: Unions) -> dict[str, float]:
    """Communication kernels, and how they slow down what runs beside them."""
    at = lane.is_communication
    size = lane.rows.reals("message_bytes", lane.at[at])
    facts: dict[str, float] = {"collectives": int(at.sum())}
    if not at.any():
        return facts
    if np.isfinite(size).any():
        facts["message_bytes"] = float(np.nansum(size))
        facts["small_collectives"] = int((size < SMALL_MESSAGE_BYTES).sum())
    facts |= _bandwidth(lane, np.flatnonzero(at), size) | _waits(lane, unions)
    return facts | _overlap(lane, *_beside_communication(lane, unions))


def _overlap(lane: Lane, rest: npt.NDArray[np.int32], is_under: Mask) -> dict[str, float]:
    """How communication slows down what runs beside it; nothing where too little can be compared."""
    if not is_under.any():
        return {}
    kind = _work_codes(lane, rest).astype(np.int32)
    slowdown = _slowdown(kind, lane.end[rest] - lane.start[rest], is_under)
    if slowdown is None:
        return {}
    shapes, _ = lane.rows.text("input_shapes", lane.at[rest])
    return {"overlap_by_shapes": float((shapes >= 0).any()), "overlap_slowdown": slowdown}


def _slowdown(kind: npt.NDArray[np.int32], time: Times, is_under: Mask) -> float | None:
    """How many times as long kernels of a kind take under communication as alone: the median of the
    kinds, by time; one kernel that hides two problem sizes (a persistent grid) moves it less than a
    mean. None where too little of the time can be compared."""
    codes, first = together((kind, is_under.astype(np.int8)))
    alike = Groups(codes)
    at = (is_under[first].astype(np.int64), kind[first])
    count, median, total = (np.zeros((2, int(kind.max()) + 1)) for _ in range(3))
    count[at], median[at] = alike.sizes, alike.medians(time)
    total[at] = alike.reduced(np.add, time)
    both = (count >= _FEW).all(axis=0) & (median[0] > 0)
    if not total[1][both].sum() >= _COVERED * total[1].sum() > 0:
        return None
    ratios = median[1][both] / median[0][both]
    order = np.argsort(ratios)
    reached = np.cumsum(total[1][both][order])
    return float(ratios[order][np.searchsorted(reached, reached[-1] / 2)])


def _beside_communication(lane: Lane, unions: Unions) -> tuple[npt.NDArray[np.int32], Mask]:
    """The kernels that ran wholly without communication or mostly under it, and which did the
    latter."""
    rest = np.flatnonzero(lane.is_kernel & ~lane.is_communication & (lane.end > lane.start))
    rest = rest.astype(np.int32)
    start, end = lane.start[rest], lane.end[rest]
    under = intervals.covered(unions.communication, start, end)
    end -= start
    is_under = (under / end).astype(np.float32) >= 0.5
    clear = (under == 0) | is_under
    return rest[clear], is_under[clear]


def _work_codes(lane: Lane, at: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The same, and the shapes of the operator: kernels that do the same work."""
    shapes = (lane.rows.text("input_shapes", lane.at[at])[0],)
    return together(chain(launch_columns(lane, at), shapes))[0]
