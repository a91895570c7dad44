"""The profiler is part of what it measures."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, above
from traceroof.rules._timelines import HOST, off_host

# From this share of the span on the profiler made what it shows (nsys-ai: contaminated).
_CONTAMINATED = 0.15


def _factor(k: Facts, own: Facts) -> Column:
    slowed = (k.profiler_time_ns > _CONTAMINATED * k.span_ns) | (k.stack_files > 0)
    return np.asanyarray(np.where(slowed, 0.5, 1.0))


RULES = (
    Rule(
        id="run-profiler-overhead",
        topic="profiler-overhead",
        title="The profiler slows the host down",
        scope="timeline",
        why=(
            "The profiler flushes buffers and sets up instrumentation on the threads that launch, "
            "and it takes Python stacks at every operator. Idle time of the GPU and times of "
            "launches include that. With stacks, or from 15 % of the span on, findings on "
            "launches and idle time lose half of their confidence."
        ),
        condition=(
            "events of the profiler itself take more than {profiler_time_ns:.0%} of the span, or "
            "Python stacks are recorded (more than {stack_files} files)"
        ),
        needs=("profiler_time_ns", "span_ns"),
        uses=("idle_profiler_ns", "stack_files", *HOST),
        when=lambda k: k.meets("profiler_time_ns") | k.meets("stack_files"),
        because=(
            "[Python stacks were recorded ({stack_files:some}); ][the profiler's own work takes "
            "{profiler_time_ns:some} on the host]"
        ),
        fix=(
            "Record only a few steps, after a warm-up step of the profiler's schedule, without "
            "stacks, shapes and memory. Trust findings about the host less than those about "
            "kernels."
        ),
        refute=("Time the same steps without a profiler. If they take as long, it did not matter."),
        saves=lambda k, peak: off_host(k, np.nan_to_num(k.idle_profiler_ns), k.profiler_time_ns),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="timeline",
                what="the profiler slowed the host",
                reads=("profiler_time_ns", "span_ns", "stack_files"),
                columns=("idle_*", "late_*", "launch_*", "median_launch_ns"),
                factor=_factor,
            ),
        ),
        thresholds={"profiler_time_ns": above(0.05, of="span_ns"), "stack_files": above(0)},
        references=("nsys-ai: profiler overhead notable from 5 %, contaminated from 15 %",),
        fires=(
            {"span_ns": 100e6, "profiler_time_ns": 5.1e6},
            {"span_ns": 100e6, "profiler_time_ns": 40e6, "idle_profiler_ns": 20e6},
            {"span_ns": 100e6, "profiler_time_ns": 0.0, "stack_files": 3.0},
        ),
        silent=(
            {"span_ns": 100e6, "profiler_time_ns": 5e6},
            {"span_ns": 100e6, "profiler_time_ns": 0.0, "stack_files": 0.0},
        ),
    ),
)
