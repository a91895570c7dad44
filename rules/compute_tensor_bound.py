"""The tensor cores are at their wall."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._kernels import of_class, pipe_may_reach


def _at_wall(k: Facts) -> Mask:
    # Without the pipe's own counter the class decides, by operations over time.
    by_rate = np.isnan(k.pipe_tensor_pct) & (k.tensor_pct >= k.compute_pct)
    return (k.pipe_tensor_pct >= 80) | (by_rate & of_class(k, "compute-bound"))


RULES = (
    Rule(
        id="compute-tensor-bound",
        topic="math-pipe",
        title="The tensor cores are at their wall",
        scope="kernel",
        why=(
            "Matrix multiply-accumulates are issued as fast as the tensor cores (matrix cores) "
            "take them. This is what a matrix kernel is meant to do: low occupancy, idle issue "
            "slots and barriers of its loading warps are part of it."
        ),
        condition=(
            "tensor pipe at 80 % or more, or tensor operations over time at 0.9 of the "
            "attainable rate"
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
        applies=lambda k: pipe_may_reach(k, 60),
        when=_at_wall,
        because="the tensor cores run at {tensor_pct} of their peak",
        fix=(
            "Nothing is wrong here. Less time needs less work: a narrower element type (FP8, "
            "INT8, FP4) where accuracy permits, structured sparsity, fewer operations. Check that "
            "the last wave of blocks is full."
        ),
        refute=(
            "Lower the core clock by 10 %: the time must grow by about 10 %. If it does not, "
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
        thresholds={"pipe_tensor_pct": ">= 80"},
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
