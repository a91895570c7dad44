"""The special function unit limits the kernel."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, above, at_least
from traceroof.rules._kernels import may_reach, of_class, pipe_may_reach


def _limited(k: Facts) -> Mask:
    # Warps queue for the unit before its own counter shows it full.
    queueing = k.meets("stall_short_scoreboard") | k.meets("stall_mio_throttle")
    return k.meets("pipe_xu_pct") | (k.meets("pipe_xu_queueing") & queueing)


def _saves(k: Facts, peak: Attainable) -> Column:
    # Below 60 % a pipe no longer counts as busy; what the queueing costs is not known.
    return np.where(k.pipe_xu_pct >= BUSY_PCT, 1 - BUSY_PCT / k.pipe_xu_pct, np.nan)


RULES = (
    Rule(
        id="compute-xu-bound",
        topic="math-pipe",
        title="The special function unit limits the kernel",
        scope="kernel",
        why=(
            "Exponentials, reciprocals, square roots, sines and conversions between integer and "
            "floating point share a unit with a quarter of the FP32 rate or less. Softmax and "
            "attention fill it with exp."
        ),
        condition=(
            "the XU pipe is at {pipe_xu_pct} or more, or at {pipe_xu_queueing} or more while more "
            "than {stall_short_scoreboard:.0%} of a warp's time goes to the short scoreboard or "
            "more than {stall_mio_throttle:.0%} to the MIO queue; device memory is not at its wall"
        ),
        needs=("pipe_xu_pct",),
        uses=(
            "primary_class",
            "compute_pct",
            "stall_short_scoreboard",
            "stall_mio_throttle",
            "tensor_pct",
            "pipe_fma_pct",
        ),
        applies=lambda k: pipe_may_reach(k) & ~of_class(k, "dram-bound"),
        when=_limited,
        because="the special function unit is busy {pipe_xu_pct} of its peak",
        fix=(
            "Call it less: exp2 with the scale folded into its argument, one reciprocal instead "
            "of divisions, a polynomial on the FMA pipe for some of the calls, no round trips "
            "between integer and floating point. Overlap the remaining calls with matrix "
            "instructions."
        ),
        refute=(
            "Replace the special functions by a polynomial in a copy of the kernel. The time must "
            "fall."
        ),
        saves=_saves,
        kind="conditional",
        role="class",
        grade="observed",
        layer="hardware",
        suppresses=("slow-pipe-limiter",),
        thresholds={
            **may_reach(40),
            "pipe_xu_pct": at_least(BUSY_PCT),
            "pipe_xu_queueing": at_least(
                40, column="pipe_xu_pct", words="or {op} {value} while warps wait for it"
            ),
            "stall_short_scoreboard": above(0.3),
            "stall_mio_throttle": above(0.3),
        },
        risk="numerics",
        references=(
            "Nsight Compute HighPipeUtilization rule: 60 % is high",
            "Nsight Compute CPIStall rule: stall reasons above 30 %",
        ),
        fires=(
            {"pipe_xu_pct": 60.0},
            {"pipe_xu_pct": 40.0, "stall_mio_throttle": 0.31},
            {"pipe_xu_pct": 41.0, "stall_short_scoreboard": 0.31},
            {"pipe_xu_pct": 80.0, "stall_short_scoreboard": 0.1},
        ),
        silent=(
            {"pipe_xu_pct": 59.9},
            {"pipe_xu_pct": 65.0, "primary_class": "dram-bound"},
            {"pipe_xu_pct": 39.9, "stall_mio_throttle": 0.5},
            {"pipe_xu_pct": 45.0, "stall_mio_throttle": 0.3, "stall_short_scoreboard": 0.3},
        ),
    ),
)
