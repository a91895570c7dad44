"""Compute is at its wall, or the busier side, and the file does not tell which pipe."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.kernels.bound_class import APART_POINTS, BUSY_PCT, WALL_PCT
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import (
    HEADROOM,
    MATRIX,
    MATRIX_WORK,
    has_headroom,
    matrix_work,
    of_class,
    spare,
)


def _applies(k: Facts) -> Mask:
    # A pipe that is known to be at its wall has a rule of its own, and so have AMD's units.
    counter = one_of(k.compute_basis, "elapsed", "tensor peak with FP32 accumulation")
    return np.asanyarray(of_class(k, "compute-bound") & counter & k.meets("top_pipe_pct"))


_BUSY = {
    "compute_pct": 83.6,
    "compute_basis": "elapsed",
    "memory_pct": 38.5,
    "primary_class": "compute-bound",
}

RULES = (
    Rule(
        id="compute-at-wall",
        topic="math-pipe",
        title="The multiprocessors are at their wall",
        scope="kernel",
        why=(
            "Compute throughput is that of the busiest part of the multiprocessors: a pipe, the "
            "issue slots, or the queue of loads and stores. At its wall, more warps, fewer bytes or "
            "fewer stalls gain nothing. Only fewer instructions do, or a faster unit for them."
        ),
        condition=(
            "compute use is {compute_pct} or more, and no single pipe is known at {top_pipe_pct} "
            "or more"
        ),
        needs=("compute_pct",),
        uses=("primary_class", "compute_basis", "memory_pct", "top_pipe", "top_pipe_pct"),
        applies=_applies,
        when=lambda k: k.meets("compute_pct"),
        because="compute runs at {compute_pct} of its peak[, memory at {memory_pct}]",
        fix=(
            "Do fewer operations per result, or run them on a faster unit: tensor cores, a "
            "narrower type. For a library kernel at this rate there is little to gain. To learn "
            "which pipe is full, collect ncu --section ComputeWorkloadAnalysis."
        ),
        refute=(
            "Collect the use of the pipes. One of them, or the issue slots, must be at 80 % of its "
            "peak or more."
        ),
        kind="hard",
        role="class",
        grade="observed",
        layer="hardware",
        severity="info",
        suppresses=("stall-*", "occ-limited-*", "occ-achieved-gap", "issue-slots-idle"),
        thresholds={
            "compute_pct": at_least(WALL_PCT),
            "top_pipe_pct": below(WALL_PCT, or_unknown=True),
        },
        references=("Nsight Compute Profiling Guide: the breakdown of SM throughput by unit",),
        fires=(
            _BUSY,
            {**_BUSY, "compute_pct": 80.0, "top_pipe": "fma", "top_pipe_pct": 73.1},
        ),
        silent=(
            {**_BUSY, "compute_pct": 79.9},
            {**_BUSY, "primary_class": "balanced"},
            {**_BUSY, "top_pipe": "fma", "top_pipe_pct": 80.0},
            {**_BUSY, "compute_basis": "pipe"},
        ),
    ),
    Rule(
        id="compute-leaning-headroom",
        topic="math-pipe",
        title="The compute units limit the kernel before their peak",
        scope="kernel",
        why=(
            "Arithmetic, its issue, or the queue of loads and stores is the busiest part, but it "
            "is idle for a part of the time: dependent instructions, too few warps in flight, or "
            "uneven work."
        ),
        condition=(
            "compute use is {compute_pct} or more and at least {above_memory} points above memory "
            "use, and nothing is at its wall; not where tensor-core use is {matrix_work} or more, "
            "or the name marks a tensor-core or warp-specialised kernel whose use is unknown"
        ),
        needs=("compute_pct", "memory_pct"),
        uses=("primary_class", "achieved_occupancy_pct", "top_pipe", "top_pipe_pct", *MATRIX),
        # Products on tensor cores reach no more than that in practice.
        applies=lambda k: has_headroom(k) & ~matrix_work(k),
        when=lambda k: k.meets("compute_pct") & k.meets("above_memory"),
        because="compute runs at {compute_pct} of its peak, memory at {memory_pct}",
        fix=(
            "Give each warp more independent instructions (several results per thread, unrolled "
            "loops), fill the device with blocks, or do fewer instructions per result: wider loads, "
            "hoisted index arithmetic, intrinsics instead of slow functions."
        ),
        refute=(
            "Launch twice as much work. If the time grows by less than twice, it was the launch "
            "that left the units idle, not the instructions."
        ),
        saves=spare,
        kind="conditional",
        role="class",
        yields=True,
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            **MATRIX_WORK,
            "compute_pct": at_least(BUSY_PCT),
            "above_memory": at_least(
                APART_POINTS,
                column="compute_pct",
                measure=lambda k: k.compute_pct - k.memory_pct,
                words="{op} {value} points above memory_pct",
            ),
        },
        references=("Nsight Compute SpeedOfLight rule: 60 % is busy, 10 points are a lean",),
        fires=(
            {"compute_pct": 68.1, "memory_pct": 0.03, "primary_class": "compute-leaning"},
            {"compute_pct": 60.0, "memory_pct": 50.0, "primary_class": "compute-leaning"},
        ),
        silent=(
            {"compute_pct": 59.9, "memory_pct": 10.0},
            {"compute_pct": 68.0, "memory_pct": 58.1},
            {"compute_pct": 73.0, "memory_pct": 44.0, "tensor_pct": 72.0},
            {"compute_pct": 85.0, "memory_pct": 10.0, "primary_class": "compute-bound"},
        ),
    ),
)
