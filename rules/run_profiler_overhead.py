"""The profiler is part of what it measures."""

import numpy as np

from traceroof.rule import Rule

RULES = (
    Rule(
        id="run-profiler-overhead",
        title="The profiler itself takes part of the host's time",
        scope="timeline",
        why=(
            "The profiler flushes buffers and sets up instrumentation on the threads that launch. "
            "Idle time of the GPU and times of launches include that."
        ),
        condition="events of the profiler itself over 5 % of the span",
        needs=("profiler_time_ns", "span_ns"),
        uses=("idle_profiler_ns",),
        when=lambda k: k.profiler_time_ns > 0.05 * k.span_ns,
        because=(
            "the profiler's own work takes {profiler_time_ns} on the host[; the GPU is idle for "
            "{idle_profiler_ns} over it]"
        ),
        fix=(
            "Record a few steps only, after a warm-up step of the profiler's schedule, without "
            "stacks, shapes and memory. Trust findings about the host less than those about "
            "kernels."
        ),
        refute="Time the same steps without a profiler: if they are as long, it did not matter.",
        saves=lambda k, peak: np.nan_to_num(k.idle_profiler_ns) / k.span_ns,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        thresholds={"profiler_time_ns": "> 5 % of the span"},
        references=("nsys-ai: profiler overhead notable from 5 %, contaminated from 15 %",),
        fires=(
            {"span_ns": 100e6, "profiler_time_ns": 5.1e6},
            {"span_ns": 100e6, "profiler_time_ns": 40e6, "idle_profiler_ns": 20e6},
        ),
        silent=(
            {"span_ns": 100e6, "profiler_time_ns": 5e6},
            {"span_ns": 100e6, "profiler_time_ns": 0.0},
        ),
    ),
)
