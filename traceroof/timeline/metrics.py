"""Figures of a timeline: launches, the host, copies (names and units in ``columns``)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import together
from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline import intervals
from traceroof.timeline.host import HostView
from traceroof.timeline.hostcalls import direction_of, is_managed, is_pageable
from traceroof.timeline.intervals import Intervals, Times
from traceroof.timeline.lanes import Lane, Mask, Unions
from traceroof.timeline.steps import Step

# A kernel shorter than this is dominated by launching it (nsys-ai, perfxpert: 10 µs).
SHORT_NS = 10_000
TINY_NS = 5_000
SMALL_COPY_BYTES = 64 << 10
SCALAR_COPY_BYTES = 4 << 10
# A queued empty kernel takes 1.6 to 2.6 us (RRZE gpu-small-kernels, L40, A100, H200): what is saved
# at most where its work is done in another kernel.
EMPTY_KERNEL_NS = 2_600
# A kernel that only just ends before its launch call returns tells nothing.
_TELLING_NS = 5_000
_CLOCK_SLACK_NS = 2_000


def shares(times: Mapping[str, int]) -> dict[str, float]:
    """Parts of the span in percent; unknown where the span is empty."""
    span = times["span_ns"]
    names = ("idle", "exposed_communication", "exposed_memcpy")
    return {f"{name}_pct": times[f"{name}_ns"] / span * 100 for name in names} if span else {}


def launch_facts(lane: Lane) -> dict[str, float]:
    """Kernels, the calls that launched them, and the queue between the two."""
    kernel = lane.is_kernel
    duration = (lane.end - lane.start)[kernel]
    facts: dict[str, float] = {
        "activities": len(lane.at),
        "kernels": int(kernel.sum()),
        "kernel_time_ns": int(duration.sum()),
        "activity_time_ns": int((lane.end - lane.start).sum()),
        "stream_overlap_ns": _within_streams(lane),
        "short_kernels": int((duration < SHORT_NS).sum()),
        "short_kernel_time_ns": int(duration[duration < SHORT_NS].sum()),
        "short_kernel_floor_ns": int(
            np.minimum(duration[duration < SHORT_NS], EMPTY_KERNEL_NS).sum()
        ),
        "tiny_kernels": int((duration < TINY_NS).sum()),
        "streams": len(np.unique(lane.stream)),
    }
    if len(duration):
        facts["median_kernel_ns"] = float(np.median(duration))
        facts |= _repetition(lane)
    linked = lane.launch != UNKNOWN
    facts["linked_activities"] = int(linked.sum())
    if not linked.any():
        return facts
    # Apart, so that what each needs is given up again: there are as many launches as kernels.
    return facts | _call_facts(lane, linked) | _queue_facts(lane, linked)


def _call_facts(lane: Lane, linked: Mask) -> dict[str, float]:
    at = slice(None) if linked.all() else linked  # no copies of what is all there
    launch, own = lane.launch[at], lane.launch_duration[at]
    kernel, timed = lane.is_kernel, own != UNKNOWN
    # One call launches all nodes of a graph: it counts once.
    first, shared = _calls(launch, lane.correlation[at])
    facts: dict[str, float] = {"launch_calls": int(first.sum())}
    graph = lane.rows.text("graph_id", lane.at)[0] >= 0
    graph[np.flatnonzero(linked)[shared]] = True
    facts["graph_kernels"] = int((graph & kernel).sum())
    facts |= _blocking(lane, linked & ~graph & kernel)
    calls = own[first & timed]
    if len(calls):
        facts["launch_time_ns"] = int(calls.sum())
        facts["median_launch_ns"] = float(np.median(calls))
        delay = lane.start[at] - launch
        delay -= np.maximum(own, 0)
        delay = np.maximum(delay, 0)[timed]
        facts["median_launch_delay_ns"] = float(np.median(delay))
        facts["mean_launch_delay_ns"] = float(np.mean(delay))
        short = lane.end[at] - lane.start[at] < own
        facts["kernels_under_launch"] = int((short & timed & kernel[at]).sum())
    return facts


def _blocking(lane: Lane, eager: Mask) -> dict[str, float]:
    """How much of the kernel time ended before its launch call did: all of it where launches block
    (CUDA_LAUNCH_BLOCKING, HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL)."""
    duration = lane.end - lane.start
    told = eager & (duration >= _TELLING_NS) & (lane.launch_duration != UNKNOWN)
    time = int(duration[told].sum())
    if not time:
        return {}
    returned = lane.launch[told] + lane.launch_duration[told]
    blocked = returned + _CLOCK_SLACK_NS >= lane.end[told]
    return {"blocking_pct": int(duration[told][blocked].sum()) / time * 100}


def _queue_facts(lane: Lane, linked: Mask) -> dict[str, float]:
    started = np.searchsorted(lane.start[linked], lane.launches, side="right")
    depth = np.maximum(np.arange(1, len(started) + 1) - started, 0)
    return {
        "median_queue_depth": float(np.median(depth)),
        "longest_queue": int(depth.max()),
    }


def _within_streams(lane: Lane) -> int:
    """Time of activities during which an earlier one of their stream still ran, ns."""
    beside = 0
    known = np.flatnonzero(lane.stream != UNKNOWN)
    order = known[np.argsort(lane.stream[known], kind="stable")]  # within a stream by start
    del known
    edges = np.flatnonzero(np.diff(lane.stream[order])) + 1
    begins, ends = np.append(0, edges), np.append(edges, len(order))
    several = np.flatnonzero(ends - begins > 1)
    for first, last in zip(begins[several].tolist(), ends[several].tolist(), strict=True):
        at = order[first:last]
        end = lane.end[at]
        shared = np.minimum(np.maximum.accumulate(end)[:-1], end[1:])
        shared -= lane.start[at[1:]]
        beside += int(shared.sum(where=shared > 0))
    return beside


def _calls(launch: Times, correlation: Times) -> tuple[Mask, Mask]:
    """Of each launch call one activity, and the activities that share their call with others."""
    order = np.lexsort((correlation, launch))
    same = (np.diff(launch[order]) == 0) & (np.diff(correlation[order]) == 0)
    first, shared = np.ones(len(order), dtype=bool), np.zeros(len(order), dtype=bool)
    first[order[1:]] = ~same
    shared[order[1:]] = same
    shared[order[:-1]] |= same
    return first, shared


_PERIODS_TRIED = 12
_LAUNCHES_TRIED = 1 << 17
_LAUNCH_SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def _repetition(lane: Lane) -> dict[str, float]:
    """The period at which the sequence of kernels (name, grid, block) repeats best.

    The shortest period at which 95 % of launches equal the launch one period before, else the
    period with the best match. Candidates are the distances at which single kernels come again.
    The first 131,072 launches are looked at.
    """
    kernel = np.flatnonzero(lane.is_kernel)
    launch = lane.launch[kernel]
    order = np.argsort(np.where(launch == UNKNOWN, lane.start[kernel], launch), kind="stable")
    code = _launch_codes(lane, kernel[order][:_LAUNCHES_TRIED])
    count = len(code)
    if count < 3:
        return {}
    by_code = np.lexsort((np.arange(count), code))
    same = code[by_code][1:] == code[by_code][:-1]
    distance = np.diff(by_code)[same]
    seldom = (np.bincount(code)[code[by_code][1:]] <= 64)[same]
    candidates: set[int] = set()
    for among in (distance, distance[seldom]):
        if len(among):
            values, times = np.unique(among, return_counts=True)
            candidates |= {int(one) for one in values[np.argsort(-times)][:_PERIODS_TRIED]}
    best, match = 0, 0.0
    for period in sorted(one for one in candidates if one * 3 <= count):
        share = float((code[period:] == code[:-period]).mean())
        if share > match and match < 0.95:
            best, match = period, share
    if not best:
        return {"repeat_match": 0.0}
    return {"repeat_launches": best, "repeats": count // best, "repeat_match": match}


def _launch_codes(lane: Lane, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A number for each distinct name, grid and block among the rows at these positions."""
    return together(launch_columns(lane, at))[0]


def launch_columns(lane: Lane, at: npt.NDArray[np.integer[Any]]) -> Iterator[npt.NDArray[Any]]:
    yield lane.name[at]
    for name in _LAUNCH_SHAPE:
        yield lane.rows.wholes(name, lane.at[at])


def host_facts(
    lane: Lane, view: HostView, found: Sequence[Step], steady: int, end: int, cold: Intervals
) -> dict[str, float]:
    """What the host spent its time on, as far as it was recorded. cold: where it was starting up."""
    if not len(view.host):
        return {}
    launches = lane.launches
    last_launch = int(launches[-1]) if len(launches) else end
    facts: dict[str, float] = {}

    def total(at: npt.NDArray[np.int64]) -> int:
        return view.time_in(at)

    for name, kind in (("sync", "sync"), ("copy", "copy"), ("fill", "fill")):
        at = view.calls(kind)  # type: ignore[arg-type]
        at = at[view.start[at] < last_launch]  # the profiler itself waits at the very end
        facts[f"{name}_calls"], facts[f"{name}_time_ns"] = len(at), total(at)
    at = view.calls("allocate")
    facts["allocate_calls"], facts["allocate_time_ns"] = len(at), total(at)
    late = at[view.start[at] >= steady]
    facts["late_allocate_calls"], facts["late_allocate_time_ns"] = len(late), total(late)
    load = view.union("load")
    facts["load_time_ns"] = intervals.length(load)
    facts["warm_load_time_ns"] = intervals.length(intervals.subtraction(load, cold))
    after = Intervals(np.array([steady], dtype=np.int64), np.array([end], dtype=np.int64))
    facts["late_load_time_ns"] = int(intervals.covered(load, after.starts, after.ends).sum())
    warm = [step for step in found if step.warm_up]
    first = np.array([step.start_ns for step in warm], dtype=np.int64)
    last = first + np.array([step.span_ns for step in warm], dtype=np.int64)
    asking = intervals.union(view.start[at], view.end[at])
    facts["warm_up_set_up_ns"] = sum(
        int(intervals.covered(some, first, last).sum()) for some in (load, asking)
    )
    for name, kind in (
        ("collect", "collect"),
        ("data_loader", "data-loader"),
        ("profiler", "profiler"),
        ("host_collective", "collective"),
    ):
        facts[f"{name}_time_ns"] = intervals.length(view.union(kind))  # type: ignore[arg-type]
    facts["data_parallel_calls"] = view.count(_DATA_PARALLEL)
    facts["loader_in_main"] = 0 if view.count(_WITH_WORKERS) else view.count(_IN_MAIN)
    return facts


# The range that torch.nn.DataParallel opens around its forward pass (torch/nn/parallel); the
# distributed one is called DistributedDataParallel.forward.
_DATA_PARALLEL = regex.compile(r"DataParallel\.forward")
# The iterators of torch.utils.data: as torch annotates them, and as frames of the stack.
_IN_MAIN = regex.compile(r".*_SingleProcessDataLoaderIter.*|.*/_utils/fetch\.py.*: fetch")
_WITH_WORKERS = regex.compile(
    r".*_MultiProcessingDataLoaderIter.*|.*dataloader\.py.*: _(try_)?get_data"
)


def steady_from(lane: Lane, found: Sequence[Step], cold: Intervals, end: int) -> int:
    """When warm-up is over on the host: the first launch of the first step after it; without
    steps, the middle of what follows the cold start."""
    steady = next((step for step in found if not step.warm_up), None)
    if steady is not None and len(found) > 1:
        inside = lane.launch[(lane.step >= 0) & (lane.start >= steady.start_ns)]
        inside = inside[inside != UNKNOWN]
        if len(inside):
            return int(inside.min())
    begin = int(lane.launches[0]) if len(lane.launches) else int(lane.start[0])
    if len(cold):
        begin = max(begin, int(cold.ends[-1]))
    return begin + (end - begin) // 2


def copy_facts(lane: Lane, unions: Unions) -> dict[str, float]:
    """Copies by direction, and what of them nothing hid."""
    copy = np.flatnonzero(lane.is_memcpy)
    size = lane.rows.reals("copy_bytes", lane.at[copy])
    small = copy[size < SMALL_COPY_BYTES]
    duration = lane.end - lane.start
    others = intervals.joined(unions.compute, unions.communication)

    def exposed(chosen: npt.NDArray[np.int64]) -> int:
        mine = intervals.union(lane.start[chosen], lane.end[chosen])
        hidden = intervals.covered(others, mine.starts, mine.ends)
        return intervals.length(mine) - int(hidden.sum())

    begins, ends = unions.busy.ends[:-1], unions.busy.starts[1:]
    beside = np.zeros(len(begins), dtype=bool)
    if len(begins):
        for bounds, times in ((begins, lane.end[small]), (ends, lane.start[small])):
            at = np.minimum(np.searchsorted(bounds, times), len(bounds) - 1)
            beside[at[bounds[at] == times]] = True
    facts: dict[str, float] = {
        "copies": len(copy),
        "copy_bytes": float(np.nansum(size)),
        "small_copies": len(small),
        "small_copy_time_ns": int(duration[small].sum()),
        "small_copy_exposed_ns": exposed(small),
        "small_copy_gap_ns": int((ends - begins)[beside].sum()),
    }
    if not len(copy):
        return facts
    number, kinds = lane.rows.text("copy_kind", lane.at[copy])
    # What says which way a copy went: its kind where recorded, else its name.
    word = np.where(number >= 0, number, len(kinds) + lane.name[copy])
    words = [str(text) for text in (*kinds, *lane.rows.names)]
    direction = np.array([direction_of(text) for text in words], dtype=object)[word]
    pageable = np.array([is_pageable(text) for text in words], dtype=object)[word]

    for short, name in (
        ("h2d", "host-to-device"),
        ("d2h", "device-to-host"),
        ("d2d", "device-to-device"),
        ("p2p", "peer-to-peer"),
    ):
        chosen = copy[direction == name]
        facts[f"{short}_copies"] = len(chosen)
        facts[f"{short}_bytes"] = float(np.nansum(size[direction == name]))
        facts[f"{short}_time_ns"] = int(duration[chosen].sum())
        facts[f"{short}_exposed_ns"] = exposed(chosen)
        # The rate of those that are long enough to have one.
        large = (direction == name) & (size >= SMALL_COPY_BYTES)
        if large.any():
            time = max(int(duration[copy[large]].sum()), 1)
            facts[f"{short}_bytes_per_s"] = float(size[large].sum()) / time * 1e9
    managed = np.array([is_managed(text) for text in words], dtype=bool)[word]
    if managed.any():
        chosen = copy[managed]
        moved = intervals.union(lane.start[chosen], lane.end[chosen])
        under = intervals.covered(unions.compute, moved.starts, moved.ends)
        facts["managed_copies"] = len(chosen)
        facts["managed_copy_ns"] = float(duration[chosen].mean())
        facts["managed_under_kernels_ns"] = int(under.sum())
    back = size[direction == "device-to-host"]
    facts["scalar_copies"] = int((back <= SCALAR_COPY_BYTES).sum())
    if any(one is not None for one in pageable):
        is_staged = np.equal(pageable, True).astype(bool)
        chosen = copy[is_staged]
        facts["pageable_copies"] = len(chosen)
        facts["pageable_bytes"] = float(np.nansum(size[is_staged]))
        facts["pageable_time_ns"] = int(duration[chosen].sum())
        facts["pageable_exposed_ns"] = exposed(chosen)
    return facts
