"""The vector units of an AMD GPU are at their wall."""

from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Rule, at_least
from traceroof.rules._kernels import may_reach, of_class, on_amd, pipe_may_reach

RULES = (
    Rule(
        id="compute-valu-bound",
        topic="math-pipe",
        title="The vector units (VALU) are at their wall",
        scope="kernel",
        why=(
            "One vector unit per SIMD runs all arithmetic that is not a matrix instruction: "
            "floating point, integer, comparisons, conversions. It is issued as fast as the unit "
            "accepts it."
        ),
        condition=(
            "the VALU is busy in {pipe_valu_pct} of the cycles or more; device memory is not at "
            "its wall"
        ),
        needs=("pipe_valu_pct",),
        uses=(
            "vendor",
            "primary_class",
            "compute_pct",
            "tensor_pct",
            "flop_fp32",
            "flop_fp64",
            "flops_per_s",
            "fp32_nonfused_pct",
            "threads_per_instruction",
        ),
        applies=lambda k: on_amd(k) & pipe_may_reach(k) & ~of_class(k, "dram-bound"),
        when=lambda k: k.meets("pipe_valu_pct"),
        because=(
            "the vector units are busy {pipe_valu_pct} of the time[, the matrix units {tensor_pct}]"
        ),
        fix=(
            "Run matrix-like work on the matrix units (hipBLASLt, CK, rocWMMA), use packed "
            "arithmetic (v_pk_fma_f32, half2), or do fewer operations: uniform values and address "
            "arithmetic in scalar registers, no division by a variable, work hoisted out of loops."
        ),
        refute="Remove a tenth of the arithmetic in a copy of the kernel. The time must fall.",
        # How many operations could go nobody knows, so nothing bounds what that saves.
        kind="option",
        role="class",
        grade="observed",
        layer="hardware",
        severity="info",
        suppresses=("stall-math-pipe",),
        thresholds={**may_reach(BUSY_PCT), "pipe_valu_pct": at_least(WALL_PCT)},
        references=(
            "rocprofiler-compute, compute unit: VALU utilization",
            "Nsight Compute HighPipeUtilization rule: 80 % and more is the bottleneck",
        ),
        fires=(
            {"vendor": "amd", "pipe_valu_pct": 80.0},
            {"vendor": "amd", "pipe_valu_pct": 97.0, "tensor_pct": 0.0, "compute_pct": 97.0},
        ),
        silent=(
            {"vendor": "amd", "pipe_valu_pct": 79.9},
            {"vendor": "amd", "pipe_valu_pct": 90.0, "primary_class": "dram-bound"},
            {"vendor": "nvidia", "pipe_valu_pct": 90.0},
        ),
    ),
)
