"""The figures of a timeline that rules read, by name: TIMELINE_COLUMNS and how each is computed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import together
from traceroof.core.kernel_table import Column, sourced
from traceroof.timeline import intervals
from traceroof.timeline.host import HostView
from traceroof.timeline.hostcalls import direction_of, is_pageable
from traceroof.timeline.idle import CAUSES
from traceroof.timeline.intervals import Intervals, Times
from traceroof.timeline.lanes import UNKNOWN, Lane, Mask, Unions, known
from traceroof.timeline.steps import Step

# A kernel shorter than this is dominated by launching it (nsys-ai, perfxpert: 10 µs).
SHORT_NS = 10_000
TINY_NS = 5_000
SMALL_COPY_BYTES = 64 << 10
SCALAR_COPY_BYTES = 4 << 10
SMALL_MESSAGE_BYTES = 1 << 20
# From this size on a collective runs at the speed of its link, not at its latency.
LARGE_MESSAGE_BYTES = 16 << 20


def _columns() -> tuple[Column, ...]:
    rows: list[Column] = []

    def add(group: str, *entries: tuple[str, str, str]) -> None:
        rows.extend(
            Column(name, pa.float64(), unit, meaning, group, "span" if unit == "%" else "", "clock")
            for name, unit, meaning in entries
        )

    add(
        "time",
        ("span_ns", "ns", "from the first start to the last end on this GPU"),
        ("busy_ns", "ns", "at least one activity on any stream"),
        ("idle_ns", "ns", "span without any activity"),
        ("compute_ns", "ns", "at least one activity that is neither copy nor communication"),
        ("communication_ns", "ns", "at least one communication kernel"),
        ("exposed_communication_ns", "ns", "communication while nothing computes"),
        ("overlapped_communication_ns", "ns", "communication while something computes"),
        ("memcpy_ns", "ns", "at least one copy"),
        ("exposed_memcpy_ns", "ns", "copy while nothing computes or communicates"),
        ("idle_pct", "%", "part of the span without any activity"),
        ("exposed_communication_pct", "%", "part of the span with communication alone"),
        ("exposed_memcpy_pct", "%", "part of the span with copies alone"),
    )
    add("idle", *((f"idle_{cause}_ns", "ns", meaning) for cause, meaning in CAUSES.items()))
    add(
        "idle",
        ("gaps", "gap", "times the GPU was idle for 2 µs or longer"),
        ("longest_gap_ns", "ns", "longest time the GPU was idle"),
        ("gaps_after_sync", "gap", "of these gaps, those that follow a wait for the GPU"),
        ("pauses", "gap", "gaps of 1 ms or longer that a late launch ended"),
        ("pause_time_ns", "ns", "sum of these gaps, part of idle_host_ns"),
        ("late_launch_ns", "ns", "the rest of idle_host_ns: shorter waits for late launches"),
    )
    add(
        "launches",
        ("activities", "activity", "kernels, copies and fills"),
        ("kernels", "launch", "kernels"),
        ("kernel_time_ns", "ns", "sum of all kernel times, overlap counted twice"),
        ("activity_time_ns", "ns", "sum of all times of kernels, copies and fills"),
        ("stream_overlap_ns", "ns", "of this beside another activity of the same stream"),
        ("median_kernel_ns", "ns", "median time of a kernel"),
        ("short_kernels", "launch", "kernels shorter than 10 µs"),
        ("short_kernel_time_ns", "ns", "sum of their times"),
        ("tiny_kernels", "launch", "kernels shorter than 5 µs"),
        ("streams", "stream", "streams with activity"),
        ("linked_activities", "activity", "activities whose launch call is in the file"),
        ("launch_calls", "call", "host calls that launched them"),
        ("launch_time_ns", "ns", "sum of the times of those calls"),
        ("median_launch_ns", "ns", "median time of a launch call"),
        ("kernels_under_launch", "launch", "kernels shorter than the call that launched them"),
        ("median_launch_delay_ns", "ns", "median time from end of the launch call to start"),
        ("mean_launch_delay_ns", "ns", "mean time from end of the launch call to start"),
        ("median_queue_depth", "activity", "launched and not started, median over launches"),
        ("longest_queue", "activity", "launched and not started, at most"),
        ("graph_kernels", "launch", "kernels launched by replaying a graph"),
        ("repeat_launches", "launch", "length of the launch sequence that repeats best"),
        ("repeats", "", "times that it fits into the timeline"),
        ("repeat_match", "", "share of launches equal to the one a sequence before, 0-1"),
    )
    add(
        "host",
        ("sync_calls", "call", "waits for the GPU with work launched after them"),
        ("sync_time_ns", "ns", "sum of their times"),
        ("copy_calls", "call", "copy calls that return when the copy is done"),
        ("copy_time_ns", "ns", "sum of their times"),
        ("fill_calls", "call", "fill calls that may wait"),
        ("fill_time_ns", "ns", "sum of their times"),
        ("allocate_calls", "call", "driver calls for memory, giving back included"),
        ("allocate_time_ns", "ns", "sum of their times"),
        ("late_allocate_calls", "call", "of these after warm-up, or in the second half"),
        ("late_allocate_time_ns", "ns", "sum of their times"),
        ("load_time_ns", "ns", "host time loading, compiling or tuning code"),
        ("late_load_time_ns", "ns", "of this after warm-up, or in the second half"),
        ("warm_up_set_up_ns", "ns", "of this and of allocate_time_ns within warm-up steps"),
        ("collect_time_ns", "ns", "host time collecting garbage"),
        ("data_loader_time_ns", "ns", "host time waiting for or preparing batches"),
        ("profiler_time_ns", "ns", "host time of the profiler itself"),
        ("stack_files", "file", "files that recorded Python stacks; unknown where none did"),
        ("host_collective_time_ns", "ns", "host time in barriers and host-side collectives"),
        ("data_parallel_calls", "call", "forward passes of torch.nn.DataParallel"),
    )
    add(
        "copies",
        ("copies", "copy", "copies"),
        ("copy_bytes", "byte", "payload of the copies that say so"),
        ("small_copies", "copy", "copies under 64 KiB"),
        ("small_copy_time_ns", "ns", "sum of their times"),
        ("small_copy_exposed_ns", "ns", "their time while nothing computes or communicates"),
        ("small_copy_gap_ns", "ns", "idle time directly before or after one of them"),
        *(
            entry
            for short, words in (
                ("h2d", "from host to device"),
                ("d2h", "from device to host"),
                ("d2d", "within the device"),
            )
            for entry in (
                (f"{short}_copies", "copy", f"copies {words}"),
                (f"{short}_bytes", "byte", f"payload {words}"),
                (f"{short}_time_ns", "ns", f"sum of the times of copies {words}"),
                (f"{short}_exposed_ns", "ns", f"copying {words} while nothing else runs"),
            )
        ),
        ("scalar_copies", "copy", "copies from device to host of 4 KiB or less"),
        ("pageable_copies", "copy", "copies with pageable host memory; unknown if not recorded"),
        ("pageable_bytes", "byte", "their payload"),
        ("pageable_time_ns", "ns", "sum of their times"),
        ("pageable_exposed_ns", "ns", "their time while nothing else runs"),
    )
    add(
        "communication",
        ("collectives", "launch", "communication kernels"),
        ("small_collectives", "launch", "communication kernels with a message under 1 MiB"),
        ("message_bytes", "byte", "payload of the communication kernels that say so"),
        ("large_collectives", "launch", "collectives with a known group and 16 MiB or more"),
        ("large_collective_time_ns", "ns", "sum of their times"),
        ("bus_bytes_per_s", "byte/s", "bus bandwidth of the fastest of them"),
        (
            "overlap_slowdown",
            "",
            "time of equal kernels under communication over their time alone, median by time",
        ),
    )
    add(
        "steps",
        ("steps", "step", "steps after warm-up"),
        ("warm_up_steps", "step", "steps set apart as warm-up"),
        ("warm_up_ns", "ns", "time of these"),
        ("median_step_ns", "ns", "median GPU time span of a step after warm-up"),
        ("median_step_busy_ns", "ns", "median busy time of a step after warm-up"),
        ("slowest_step", "", "longest step over the median one, warm-up left out"),
        ("kernels_per_step", "launch", "median kernels of a step"),
        ("syncs_per_step", "call", "waits for the GPU per step, mean"),
        ("copies_per_step", "copy", "copies per step, mean"),
        ("collectives_per_step", "launch", "communication kernels per step, mean"),
    )
    return sourced(rows, launch="copy_bytes message_bytes", derived="small_copy_gap_ns")


#: Every fact of a timeline that a rule of scope ``timeline`` may read: unit and meaning.
TIMELINE_COLUMNS: tuple[Column, ...] = _columns()


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
    launch, own = lane.launch[linked], lane.launch_duration[linked]
    kernel, timed = lane.is_kernel, own != UNKNOWN
    # One call launches all nodes of a graph: it counts once.
    first, shared = _calls(launch, lane.correlation[linked])
    facts: dict[str, float] = {"launch_calls": int(first.sum())}
    graph = lane.rows.text("graph_id", lane.at)[0] >= 0
    graph[np.flatnonzero(linked)[shared]] = True
    facts["graph_kernels"] = int((graph & kernel).sum())
    calls = own[first & timed]
    if len(calls):
        facts["launch_time_ns"] = int(calls.sum())
        facts["median_launch_ns"] = float(np.median(calls))
        delay = np.maximum(lane.start[linked] - launch - np.maximum(own, 0), 0)[timed]
        facts["median_launch_delay_ns"] = float(np.median(delay))
        facts["mean_launch_delay_ns"] = float(np.mean(delay))
        short = (lane.end - lane.start)[linked] < own
        facts["kernels_under_launch"] = int((short & timed & kernel[linked]).sum())
    return facts


def _queue_facts(lane: Lane, linked: Mask) -> dict[str, float]:
    ordered = np.sort(lane.launch[linked])
    started = np.searchsorted(np.sort(lane.start[linked]), ordered, side="right")
    depth = np.maximum(np.arange(1, len(ordered) + 1) - started, 0)
    return {
        "median_queue_depth": float(np.median(depth)),
        "longest_queue": int(depth.max()),
    }


def _within_streams(lane: Lane) -> int:
    """Time of activities during which an earlier one of their stream still ran, ns."""
    beside = 0
    for stream in np.unique(lane.stream[lane.stream != UNKNOWN]):
        at = np.flatnonzero(lane.stream == stream)  # by start, as all rows are
        end = lane.end[at]
        reached = np.maximum.accumulate(end)[:-1]
        shared = np.minimum(reached, end[1:]) - lane.start[at[1:]]
        beside += int(np.maximum(shared, 0).sum())
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
    return together(_launch_columns(lane, at))[0]


def _launch_columns(lane: Lane, at: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[Any]]:
    yield lane.name[at]
    for name in _LAUNCH_SHAPE:
        yield lane.rows.wholes(name, lane.at[at])


def _work_codes(lane: Lane, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same, and the shapes of the operator: kernels that do the same work."""
    shapes = (lane.rows.text("input_shapes", lane.at[at])[0],)
    return together(chain(_launch_columns(lane, at), shapes))[0]


def host_facts(lane: Lane, view: HostView, found: Sequence[Step], end: int) -> dict[str, float]:
    """What the host spent its time on, as far as it was recorded."""
    if not len(view.host):
        return {}
    launches = known(lane.launch)
    last_launch = int(launches[-1]) if len(launches) else end
    steady = _steady_from(lane, found, launches, end)
    facts: dict[str, float] = {}

    def total(at: npt.NDArray[np.int64]) -> int:
        return int((view.end[at] - view.start[at]).sum())

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
    return facts


# The range that torch.nn.DataParallel opens around its forward pass (torch/nn/parallel); the
# distributed one is called DistributedDataParallel.forward.
_DATA_PARALLEL = "DataParallel.forward"


def _steady_from(lane: Lane, found: Sequence[Step], launches: Times, end: int) -> int:
    """When warm-up is over on the host: the first launch of the first step after it; without
    steps, the middle of the launches."""
    steady = next((step for step in found if not step.warm_up), None)
    if steady is not None and len(found) > 1:
        inside = lane.launch[(lane.step >= 0) & (lane.start >= steady.start_ns)]
        first = known(inside)
        if len(first):
            return int(first[0])
    begin = int(launches[0]) if len(launches) else int(lane.start[0])
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
        return intervals.length(intervals.subtraction(mine, others))

    begins, ends = unions.busy.ends[:-1], unions.busy.starts[1:]
    beside = np.isin(begins, lane.end[small]) | np.isin(ends, lane.start[small])
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
    ):
        chosen = copy[direction == name]
        facts[f"{short}_copies"] = len(chosen)
        facts[f"{short}_bytes"] = float(np.nansum(size[direction == name]))
        facts[f"{short}_time_ns"] = int(duration[chosen].sum())
        facts[f"{short}_exposed_ns"] = exposed(chosen)
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
        "bus_bytes_per_s": float((sent[large] / time[large]).max()) * 1e9,
    }


_FEW = 3
# A comparison of less of the time beside communication says nothing about the rest.
_COVERED = 0.25


def communication_facts(lane: Lane, unions: Unions) -> dict[str, float]:
    """Communication kernels, and how they slow down what runs beside them."""
    import pandas as pd

    at = lane.is_communication
    size = lane.rows.reals("message_bytes", lane.at[at])
    facts: dict[str, float] = {"collectives": int(at.sum())}
    if not at.any():
        return facts
    if np.isfinite(size).any():
        facts["message_bytes"] = float(np.nansum(size))
        facts["small_collectives"] = int((size < SMALL_MESSAGE_BYTES).sum())
    facts |= _bandwidth(lane, np.flatnonzero(at), size)
    rest, part = _beside_communication(lane, unions)
    frame = pd.DataFrame(
        {
            "kind": _work_codes(lane, rest),
            "time": (lane.end - lane.start)[rest],
            "part": part,
        }
    )
    under = frame[frame["part"] >= 0.5].groupby("kind")["time"].agg(["median", "size", "sum"])
    alone = frame[frame["part"] == 0].groupby("kind")["time"].agg(["median", "size"])
    both = under.join(alone.add_suffix("_alone"), how="inner")
    both = both[(both["size"] >= _FEW) & (both["size_alone"] >= _FEW) & (both["median_alone"] > 0)]
    if both["sum"].sum() >= _COVERED * under["sum"].sum() > 0:
        # The median of the ratios, by time: one kernel that hides two problem sizes (a persistent
        # grid) moves it less than a mean.
        ratios = (both["median"] / both["median_alone"]).sort_values()
        reached = both["sum"].loc[ratios.index].cumsum()
        facts["overlap_slowdown"] = float(ratios[reached >= reached.iloc[-1] / 2].iloc[0])
    return facts


def _beside_communication(
    lane: Lane, unions: Unions
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The kernels that ran wholly without communication or mostly under it, and how much of each
    did, 0-1."""
    rest = np.flatnonzero(lane.is_kernel & ~lane.is_communication & (lane.end > lane.start))
    start, end = lane.start[rest], lane.end[rest]
    under = intervals.covered(unions.communication, start, end)
    part = (under / (end - start)).astype(np.float32)
    clear = (under == 0) | (part >= 0.5)
    return rest[clear], part[clear]


def step_facts(lane: Lane, found: Sequence[Step], facts: Mapping[str, float]) -> dict[str, float]:
    """What a step takes, after warm-up."""
    steady = [step for step in found if not step.warm_up]
    result: dict[str, float] = {
        "steps": len(steady),
        "warm_up_steps": len(found) - len(steady),
        "warm_up_ns": sum(step.span_ns for step in found if step.warm_up),
    }
    if not steady:
        return result
    spans = np.array([step.span_ns for step in steady])
    result["median_step_ns"] = float(np.median(spans))
    result["median_step_busy_ns"] = float(np.median([step.busy_ns for step in steady]))
    result["kernels_per_step"] = float(np.median([step.kernels for step in steady]))
    if result["median_step_ns"] > 0:
        result["slowest_step"] = float(spans.max()) / result["median_step_ns"]
    for name, count in (
        ("syncs_per_step", "sync_calls"),
        ("copies_per_step", "copies"),
        ("collectives_per_step", "collectives"),
    ):
        if count in facts:
            result[name] = facts[count] / len(found)
    return result
