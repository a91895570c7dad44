"""The same launches, over and over."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, at_least, at_most, below
from traceroof.rules._timelines import (
    LATE_HOST,
    LAUNCHES,
    QUALITY,
    SHORT_LAUNCHES,
    graph_saving,
    late_host,
    short_launches,
    trust,
    untold,
)


def _unblocked(k: Facts) -> Mask:
    """Nothing in the sequence that a graph cannot hold; one wait per sequence can stand at its end."""
    return k.meets("sync_calls") & k.meets("late_allocate_calls")


def _waits(k: Facts) -> Column:
    return np.asanyarray(np.nan_to_num(k.sync_calls) + np.nan_to_num(k.scalar_copies))


def _fires(k: Facts) -> Mask:
    eager = k.meets("graph_kernels")
    repeats = k.meets("repeats") & k.meets("repeat_match")
    return np.asanyarray((late_host(k) | short_launches(k)) & repeats & eager & _unblocked(k))


RULES = (
    Rule(
        id="cuda-graph-candidate",
        topic="small-kernels-graph",
        title="The same launches repeat: a graph can replay them",
        scope="timeline",
        why=(
            "A graph records a sequence of launches once and replays it with one call, so the "
            "host no longer pays for each kernel. It needs the same kernels with the same shapes "
            "each time, and nothing inside that waits for the GPU or allocates memory."
        ),
        condition=(
            "launch-bound or host-bound, the same sequence of kernels (name, grid and block) at "
            "least {repeats} times with at least {repeat_match:.0%} of launches equal, less than "
            "{graph_kernels:.0%} of the kernels already in graphs, at most one wait for the GPU "
            "or scalar copied to the host per sequence, and at most {late_allocate_calls} "
            "allocations after warm-up"
        ),
        needs=("repeat_match", "repeats", "idle_ns", "idle_host_ns", "sync_calls", "span_ns"),
        uses=(
            "repeat_launches",
            *LAUNCHES,
            "scalar_copies",
            "late_allocate_calls",
            *(name for name in QUALITY if name != "span_ns"),
        ),
        when=_fires,
        because=(
            "[a sequence of {repeat_launches:,.0f} launches repeats {repeats:,.0f} times "
            "({repeat_match:.0%} of the launches equal), while ][for {late_launch_ns} of "
            "{span_ns} ]the GPU waits for the host to launch the next kernel"
        ),
        fix=(
            "Capture it ([nvidia: cudaStreamBeginCapture][amd: hipStreamBeginCapture]; in PyTorch "
            "torch.compile(mode='reduce-overhead') or torch.cuda.make_graphed_callables; the "
            "graph mode of the serving engine). Put inputs into fixed buffers. Keep outside what "
            "reads a value back on the host or has sizes that depend on data."
        ),
        refute=(
            "Capture the sequence and time a replay. If it takes as long as before, its kernels "
            "wait for each other and not for the host."
        ),
        saves=lambda k, peak: graph_saving(k),
        kind="hard",
        grade="derived",
        layer="framework",
        effort="config",
        risk="memory",
        trust=trust,
        thresholds={
            **untold(LATE_HOST),
            **untold(SHORT_LAUNCHES),
            "repeats": at_least(3),
            "repeat_match": at_least(0.95),
            "sync_calls": at_most(1, measure=_waits, of="repeats", words="{op} repeats"),
            "late_allocate_calls": at_most(0, or_unknown=True),
            "graph_kernels": below(0.5, of="kernels", or_unknown=True),
        },
        references=(
            "CUDA C++ Programming Guide, CUDA Graphs: what may be captured",
            "PyTorch documentation, torch.cuda.CUDAGraph: static shapes, no synchronisation",
        ),
        fires=(
            {
                "span_ns": 84e6,
                "idle_ns": 73e6,
                "idle_host_ns": 72e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 768.0,
                "repeat_launches": 42.0,
                "repeats": 18.0,
                "repeat_match": 0.985,
                "sync_calls": 0.0,
            },
            {
                "span_ns": 100e6,
                "idle_ns": 40e6,
                "idle_host_ns": 40e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 900.0,
                "repeats": 3.0,
                "repeat_match": 0.95,
                "sync_calls": 3.0,
                "graph_kernels": 449.0,
            },
        ),
        silent=tuple(
            {
                "span_ns": 100e6,
                "idle_ns": 40e6,
                "idle_host_ns": 40e6,
                "kernels": 900.0,
                "repeats": 3.0,
                "repeat_match": 0.95,
                "sync_calls": 3.0,
                **other,
            }
            for other in (
                {"repeat_match": 0.949},
                {"repeats": 2.0},
                {"sync_calls": 4.0},
                {"scalar_copies": 1.0},
                {"graph_kernels": 450.0},
                {"late_allocate_calls": 2.0},
                {"idle_host_ns": 19e6},
            )
        ),
    ),
)
