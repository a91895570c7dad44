"""Compute and memory are both busy."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.kernels.bound_class import APART_POINTS, BUSY_PCT
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import of_class, spare, tunable


def _both_busy(k: Facts) -> Mask:
    return k.meets("compute_pct") & k.meets("memory_pct") & k.meets("apart")


RULES = (
    Rule(
        id="balanced-high",
        topic="algorithm",
        title="Compute and memory are both busy",
        scope="kernel",
        why=(
            "Arithmetic and data movement take about the same time. Reducing only one of them "
            "leaves the other, so the time hardly changes until both are reduced."
        ),
        condition=(
            "compute use is {compute_pct} or more, memory use is {memory_pct} or more, and they "
            "are less than {apart} points apart"
        ),
        needs=("compute_pct", "memory_pct"),
        uses=("primary_class", "dram_pct", "l2_throughput_pct", "top_pipe", "top_pipe_pct"),
        # At a wall that wall is the finding.
        applies=lambda k: (
            tunable(k) & ~of_class(k, "dram-bound", "l2-bound", "l1-bound", "compute-bound")
        ),
        when=_both_busy,
        because="compute runs at {compute_pct} and memory at {memory_pct} of peak",
        fix=(
            "Overlap the loads of the next tile with the arithmetic of this one (double "
            "buffering, asynchronous copies). Beyond that, reduce both work and bytes: fusion, a "
            "narrower element type."
        ),
        refute=(
            "Remove the arithmetic in one copy of the kernel and the loads in another. If one of "
            "them is much faster, that side was the limit."
        ),
        saves=spare,
        kind="conditional",
        role="class",
        grade="observed",
        layer="operator",
        # Two busy sides are hardly a fault.
        severity="low",
        thresholds={
            "compute_pct": at_least(BUSY_PCT),
            "memory_pct": at_least(BUSY_PCT),
            "apart": below(
                APART_POINTS,
                column="memory_pct",
                measure=lambda k: np.abs(k.compute_pct - k.memory_pct),
                words="{op} {value} points from compute_pct",
            ),
        },
        references=("Nsight Compute SpeedOfLight rule: balanced below 10 points apart",),
        fires=(
            {"compute_pct": 60.0, "memory_pct": 60.0},
            {"compute_pct": 62.0, "memory_pct": 71.9, "primary_class": "balanced"},
        ),
        silent=(
            {"compute_pct": 59.9, "memory_pct": 65.0},
            {"compute_pct": 62.0, "memory_pct": 72.0},
            {"compute_pct": 85.0, "memory_pct": 82.0, "primary_class": "compute-bound"},
        ),
    ),
)
