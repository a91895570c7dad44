"""Steps that take longer and longer."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import part


def _fires(k: Facts) -> Mask:
    return np.asanyarray(k.meets("step_trend") & k.meets("step_growth_pct"))


RULES = (
    Rule(
        id="steps-slow-down",
        topic="uneven-steps",
        title="Steps get slower along the run",
        scope="timeline",
        why=(
            "Steps that do the same work should not take longer as time goes on. Growth from step to "
            "step comes from something that accumulates: tensors kept alive, a graph that grows, a "
            "longer sequence or cache, fragmented memory, a log that is rewritten; or from clocks "
            "that fall as the GPU heats up."
        ),
        condition=(
            "at least six steps after warm-up, the last one left out; their times rise with their place "
            "(rank correlation {step_trend:.1f} or more), and the last quarter takes over "
            "{step_growth_pct} longer than the first"
        ),
        needs=("step_trend", "step_growth_pct", "step_growth_ns", "span_ns"),
        uses=("steps", "median_step_ns"),
        # Fewer steps show no trend.
        applies=lambda k: np.isfinite(k.step_trend),
        when=_fires,
        because=(
            "[over {steps:,.0f} steps ]the last quarter takes {step_growth_pct} longer than the first "
            "(rank correlation with time: {step_trend:.2f}); against the first steps that is "
            "{step_growth_ns} in all"
        ),
        fix=(
            "Compare an early and a late step: more kernels or larger ones mean work that grows "
            "(retained graphs, sequence length, cache); equal kernels that are slower mean clocks or "
            "memory; more idle time means the host (lists, logs, garbage collection)."
        ),
        refute="Record twice as many steps: if the time levels off, it was a warm-up.",
        saves=lambda k, peak: part(k.step_growth_ns, k),
        kind="conditional",
        grade="observed",
        layer="model",
        effort="refactor",
        thresholds={"step_trend": at_least(0.8), "step_growth_pct": above(10)},
        references=(
            "Hoefler and Belli, Scientific Benchmarking of Parallel Computing Systems (SC 2015)",
        ),
        fires=(
            {"step_trend": 0.97, "step_growth_pct": 40.0, "step_growth_ns": 30e6, "span_ns": 200e6},
            {"step_trend": 0.8, "step_growth_pct": 10.5, "step_growth_ns": 9e6, "span_ns": 200e6},
        ),
        silent=(
            {"step_trend": 0.79, "step_growth_pct": 40.0, "step_growth_ns": 9e6, "span_ns": 200e6},
            {"step_trend": 1.0, "step_growth_pct": 10.0, "step_growth_ns": 9e6, "span_ns": 200e6},
            {"span_ns": 200e6},
        ),
    ),
    Rule(
        id="kernels-slow-down",
        topic="clock-falls",
        title="Equal kernels take longer along the run",
        scope="timeline",
        why=(
            "A kernel that does the same work takes the same time at the same clock. Where most kernels "
            "get slower from quarter to quarter of the run, the GPU lowers its clock: it reaches a limit "
            "of power or temperature, or another job shares it."
        ),
        condition=(
            "the median kernel by time, of those with equal name, grid, block and shapes, takes over "
            "{kernel_growth_pct} longer in the last quarter of its launches than in the first, and no "
            "less from quarter to quarter; such kernels are half of the kernel time or more"
        ),
        needs=("kernel_growth_pct", "kernel_growth_ns", "span_ns"),
        uses=("compared_kernel_ns",),
        # Too few equal kernels show no trend.
        applies=lambda k: np.isfinite(k.kernel_growth_pct),
        when=lambda k: k.meets("kernel_growth_pct"),
        because=(
            "equal kernels take {kernel_growth_pct} longer in the last quarter of their launches than in "
            "the first (median by time)[, of {compared_kernel_ns} of kernels]; beyond the first quarter's "
            "times that is {kernel_growth_ns}"
        ),
        fix=(
            "Log the clock and the power while it runs ([nvidia: nvidia-smi "
            "--query-gpu=timestamp,clocks.sm,power.draw,clocks_event_reasons.active --format=csv -l 1]"
            "[amd: amd-smi monitor -p -t -g -w 1]) and give the log with the trace. Then raise the limit, cool "
            "better, or lock the clock to what it can hold. Kernels whose data grows (sparse, "
            "dynamic shapes) get slower too."
        ),
        refute="Log the clock: if it stays, the work of these kernels grows.",
        saves=lambda k, peak: part(k.kernel_growth_ns, k),
        kind="conditional",
        grade="inferred",
        layer="hardware",
        effort="config",
        thresholds={"kernel_growth_pct": above(5)},
        references=(
            "RRZE gpu-benches: an L40 at 1740 to 2205 MHz of 2490, a MI300X at 1401 of 2100",
        ),
        fires=(
            {"kernel_growth_pct": 12.0, "kernel_growth_ns": 8e6, "span_ns": 200e6},
            {"kernel_growth_pct": 5.1, "kernel_growth_ns": 4e6, "span_ns": 200e6},
        ),
        silent=(
            {"kernel_growth_pct": 5.0, "kernel_growth_ns": 4e6, "span_ns": 200e6},
            {"span_ns": 200e6},
        ),
    ),
)
