"""Double precision weighs on the kernel."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, above, at_least, at_most, below
from traceroof.rules._kernels import may_reach, of_class, pipe_may_reach


def _limited(k: Facts) -> Mask:
    return k.meets("pipe_fp64_use_pct") | (k.meets("flop_fp64") & k.meets("flop_fp32"))


def _saves(k: Facts, peak: Attainable) -> Column:
    # Nvidia's estimate: the FP64 part of the operations at the FP32 rate. Both rates are peaks,
    # so what is attainable of them cancels out.
    part = k.flop_fp64 / (k.flop_fp64 + k.flop_fp32)
    part = np.where(np.isnan(part), 1.0, part)
    return np.asanyarray(part * (1 - k.fp64_ratio) * k.pipe_fp64_use_pct / 100)


def _in_fp32(k: Facts, dram: Column) -> Column:
    """Share of the time that goes where the FP64 work runs at the FP32 rate and device memory is busy
    ``dram`` percent of today's time."""
    freed = (1 - k.fp64_ratio) * k.pipe_fp64_use_pct / 100
    return np.asanyarray(np.fmin(freed, 1 - np.nan_to_num(dram) / 100))


_T4 = {"pipe_fp64_use_pct": 85.2, "fp64_ratio": 1 / 32, "kernel_dram_pct": 56.4}

RULES = (
    Rule(
        id="fp64-at-low-rate",
        topic="fp64",
        title="Double precision on a GPU that is slow at it",
        scope="kernel",
        why=(
            "GPUs for graphics and inference run FP64 at 1/32 to 1/64 of the FP32 rate. A kernel that "
            "keeps this pipe busy is limited by it, whatever else it does."
        ),
        condition=(
            "the FP64 pipe is at {pipe_fp64_use_pct} or more, on a GPU whose FP64 rate is {fp64_ratio} of "
            "the FP32 rate or less; device memory is not at its wall"
        ),
        needs=("pipe_fp64_use_pct", "fp64_ratio"),
        uses=("primary_class", "compute_pct", "kernel_dram_pct"),
        applies=lambda k: pipe_may_reach(k) & ~of_class(k, "dram-bound"),
        when=lambda k: k.meets("pipe_fp64_use_pct") & k.meets("fp64_ratio"),
        because=(
            "the FP64 pipe is busy {pipe_fp64_use_pct}; this GPU runs FP64 at {fp64_ratio:.3f} of the FP32 "
            "rate"
        ),
        fix=(
            "Compute in FP32 where the result allows it: float literals (1.0f), float overloads of "
            "maths functions, float arrays; keep FP64 for the sums that need it, or use a GPU with "
            "full-rate FP64."
        ),
        refute=(
            "Compile the kernel with float in place of double and compare the time. If it stays, the "
            "pipe was not the limit."
        ),
        # Arrays of float are half as wide, at best.
        saves=lambda k, peak: _in_fp32(k, k.kernel_dram_pct / 2),
        likely=lambda k, peak: _in_fp32(k, k.kernel_dram_pct),
        kind="option",
        grade="observed",
        layer="operator",
        suppresses=("compute-fp64-bound", "slow-pipe-limiter", "stall-math-pipe"),
        thresholds={
            **may_reach(15),
            "pipe_fp64_use_pct": at_least(BUSY_PCT),
            "fp64_ratio": at_most(1 / 8, words="{op} 1/8"),
        },
        effort="refactor",
        risk="numerics",
        references=(
            "Nsight Compute SOLFPRoofline rule",
            "CUDA C++ Programming Guide, arithmetic instructions: results per cycle by compute capability",
        ),
        fires=(_T4, {**_T4, "pipe_fp64_use_pct": 60.0, "fp64_ratio": 1 / 8}),
        silent=(
            {**_T4, "pipe_fp64_use_pct": 59.9},
            {**_T4, "fp64_ratio": 0.5},
            {**_T4, "primary_class": "dram-bound"},
        ),
    ),
    Rule(
        id="compute-fp64-bound",
        topic="fp64",
        title="Double precision limits the kernel",
        scope="kernel",
        why=(
            "FP64 runs at half the FP32 rate or more on most data-centre GPUs, and at 1/32 to "
            "1/64 of it on others. There a few double-precision instructions outweigh everything "
            "else."
        ),
        condition=(
            "the FP64 pipe is at {pipe_fp64_use_pct} or more, or FP64 is above {flop_fp64:.0%} of "
            "its FLOP peak with FP32 below {flop_fp32:.0%}; device memory is not at its wall"
        ),
        needs=("pipe_fp64_use_pct",),
        uses=(
            "primary_class",
            "compute_pct",
            "flop_fp64",
            "flop_fp32",
            "fp64_ratio",
            "peak_fp64_flops_per_s",
            "peak_fp32_flops_per_s",
            "duration_ns",
        ),
        applies=lambda k: pipe_may_reach(k) & ~of_class(k, "dram-bound"),
        when=_limited,
        because="the FP64 pipe is busy {pipe_fp64_use_pct} of the time it can be",
        fix=(
            "If double precision is not intended, find its source: literals without a suffix (1.0 "
            "for 1.0f), double overloads of maths functions, a default element type. If it is, "
            "keep it only for the sums that need it, or use a GPU with full-rate FP64."
        ),
        refute=(
            "Look for DADD, DMUL and DFMA (v_*_f64 on AMD) in the disassembly. If the hot loop "
            "has no such opcodes, the pipe's time has another cause."
        ),
        saves=_saves,
        kind="option",
        role="class",
        grade="observed",
        layer="operator",
        severity="low",
        suppresses=("slow-pipe-limiter", "stall-math-pipe"),
        thresholds={
            **may_reach(15),
            "pipe_fp64_use_pct": at_least(BUSY_PCT),
            "flop_fp64": above(
                0.15,
                of=lambda k: k.peak_fp64_flops_per_s * k.duration_ns / 1e9,
                words="{op} {value:.0%} of the FP64 peak",
            ),
            "flop_fp32": below(
                0.60,
                of=lambda k: k.peak_fp32_flops_per_s * k.duration_ns / 1e9,
                words="{op} {value:.0%} of the FP32 peak",
            ),
        },
        effort="refactor",
        risk="numerics",
        references=(
            "Nsight Compute SOLFPRoofline rule: FP64 above 15 % of peak, FP32 below 60 %",
            "traceroof device table: FP64 and FP32 peaks",
        ),
        fires=(
            {"pipe_fp64_use_pct": 60.0, "fp64_ratio": 0.5},
            # 1.55e9 operations in 1 ms are 15.5 % of 10 TFLOP/s.
            {
                "pipe_fp64_use_pct": 15.5,
                "flop_fp64": 1.55e9,
                "flop_fp32": 0.0,
                "peak_fp64_flops_per_s": 1e13,
                "peak_fp32_flops_per_s": 2e13,
                "duration_ns": 1e6,
                "fp64_ratio": 0.5,
            },
            {"pipe_fp64_use_pct": 95.0, "flop_fp64": 1e9, "flop_fp32": 3e9, "fp64_ratio": 1 / 64},
        ),
        silent=(
            {"pipe_fp64_use_pct": 59.9, "fp64_ratio": 0.5},
            {"pipe_fp64_use_pct": 62.0, "fp64_ratio": 0.5, "primary_class": "dram-bound"},
            {
                "pipe_fp64_use_pct": 15.0,
                "flop_fp64": 1.5e9,
                "flop_fp32": 0.0,
                "peak_fp64_flops_per_s": 1e13,
                "peak_fp32_flops_per_s": 2e13,
                "duration_ns": 1e6,
            },
            {
                "pipe_fp64_use_pct": 16.0,
                "flop_fp64": 1.6e9,
                "flop_fp32": 1.2e10,
                "peak_fp64_flops_per_s": 1e13,
                "peak_fp32_flops_per_s": 2e13,
                "duration_ns": 1e6,
            },
        ),
    ),
)
