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
)
