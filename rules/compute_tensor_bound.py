"""The tensor cores are at their wall."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Rule, at_least
from traceroof.rules._kernels import may_reach, of_class, pipe_may_reach


def _at_wall(k: Facts) -> Mask:
    # Without the pipe's own counter the class decides, by operations over time.
    by_rate = np.isnan(k.pipe_tensor_pct) & k.meets("tensor_pct")
    return k.meets("pipe_tensor_pct") | (by_rate & of_class(k, "compute-bound"))


RULES = (
    Rule(
        id="compute-tensor-bound",
        topic="math-pipe",
        title="The tensor cores are at their wall",
        scope="kernel",
        why=(
            "Matrix multiply-accumulates are issued as fast as the tensor cores (matrix cores) "
            "accept them. This is the goal of a matrix kernel. Low occupancy, idle issue slots "
            "and barriers of its loading warps are part of it."
        ),
        condition=(
            "the tensor pipe is at {pipe_tensor_pct} or more; without its counter, tensor "
            "operations are the busiest part of a compute-bound kernel"
        ),
        needs=("tensor_pct",),
        uses=(
            "primary_class",
            "pipe_tensor_pct",
            "compute_pct",
            "tensor_dtype",
            "flops_per_s",
            "flop_peak_per_s",
            "narrower_speedup",
            "waves",
        ),
        applies=lambda k: pipe_may_reach(k),
        when=_at_wall,
        because="the tensor cores run at {tensor_pct} of their peak",
        fix=(
            "Nothing is wrong here. Less time needs less work: a narrower element type (FP8, "
            "INT8, FP4) where accuracy permits, structured sparsity, fewer operations. Check that "
            "the last wave of blocks is full."
        ),
        refute=(
            "Lower the core clock by 10 %. The time must grow by about 10 %. If it does not, "
            "memory is the limit."
        ),
        # The same operations at the next narrower type, at most at that type's peak.
        saves=lambda k, peak: (
            1 - k.tensor_pct / (100 * np.asanyarray(peak.compute) * k.narrower_speedup)
        ),
        kind="option",
        role="class",
        grade="observed",
        layer="model",
        severity="info",
        suppresses=(
            "occ-limited-*",
            "occ-achieved-gap",
            "stall-math-pipe",
            "stall-wait",
            "stall-gmma",
            "stall-barrier",
            # Long tensor instructions keep the pipe full from few issue slots and few threads.
            "slow-pipe-limiter",
            "thread-divergence",
        ),
        thresholds={
            **may_reach(BUSY_PCT),
            "pipe_tensor_pct": at_least(WALL_PCT),
            "tensor_pct": at_least(1, of="compute_pct", words="the busiest pipe"),
        },
        effort="refactor",
        risk="numerics",
        references=(
            "Nsight Compute HighPipeUtilization rule: 80 % and more is the bottleneck",
            "traceroof device table: dense peaks per element type",
        ),
        fires=(
            {"tensor_pct": 80.0, "pipe_tensor_pct": 80.0, "narrower_speedup": 2.0},
            {"tensor_pct": 74.0, "compute_pct": 74.0, "primary_class": "compute-bound"},
        ),
        silent=(
            {"tensor_pct": 79.9, "pipe_tensor_pct": 79.9, "narrower_speedup": 2.0},
            {"tensor_pct": 70.0, "compute_pct": 70.0, "primary_class": "compute-leaning"},
            {"tensor_pct": 3.0, "compute_pct": 75.0, "primary_class": "compute-bound"},
        ),
    ),
)
