"""Double precision weighs on the kernel."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import may_reach, of_class, pipe_may_reach


def _limited(k: Facts) -> Mask:
    return k.meets("pipe_fp64_use_pct") | (k.meets("flop_fp64") & k.meets("flop_fp32"))


def _saves(k: Facts, peak: Attainable) -> Column:
    # Nvidia's estimate: the FP64 part of the operations at the FP32 rate. Both rates are peaks,
    # so what is attainable of them cancels out.
    part = k.flop_fp64 / (k.flop_fp64 + k.flop_fp32)
    part = np.where(np.isnan(part), 1.0, part)
    return np.asanyarray(part * (1 - k.fp64_ratio) * k.pipe_fp64_use_pct / 100)


RULES = (
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
