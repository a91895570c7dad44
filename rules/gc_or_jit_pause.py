"""The program stops to compile, load code or collect garbage."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import HOST, QUALITY, off_host, part, trust


def _pauses(k: Facts) -> Column:
    return part(np.nan_to_num(k.idle_load_ns) + np.nan_to_num(k.idle_collect_ns), k)


def _saves(k: Facts) -> Column:
    idle = np.nan_to_num(k.idle_load_ns) + np.nan_to_num(k.idle_collect_ns)
    spent = np.fmax(k.warm_load_time_ns, k.idle_load_ns) + k.collect_time_ns
    return off_host(k, idle, spent)


RULES = (
    Rule(
        id="gc-or-jit-pause",
        topic="cold-start",
        title="Pauses for compilation, code loading or garbage collection",
        scope="timeline",
        why=(
            "Kernels are compiled, tuned or loaded on first use, and Python collects garbage at "
            "any time. Both block the launching thread for milliseconds to seconds."
        ),
        condition="idle for {idle_load_ns:.1%} of the span or more in such pauses",
        needs=("idle_load_ns", "idle_collect_ns", "load_time_ns", "collect_time_ns"),
        uses=("late_load_time_ns", "warm_load_time_ns", *HOST, *QUALITY),
        when=lambda k: k.meets("idle_load_ns"),
        because=(
            "the GPU is idle for {idle_load_ns} while code is compiled or loaded[ "
            "({late_load_time_ns} of that work after warm-up)] and for {idle_collect_ns} while "
            "garbage is collected"
        ),
        fix=(
            "Warm up with every shape that will occur, and keep compiled code between runs "
            "(TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR, CUDA_CACHE_PATH). Mark dynamic sizes so "
            "that new ones are not compiled again. Call gc.freeze() after start-up, or collect "
            "garbage at a chosen time."
        ),
        refute=(
            "Record a later window. If the pauses do not come again, they belonged to first use."
        ),
        saves=lambda k, peak: _saves(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        trust=trust,
        thresholds={
            "idle_load_ns": at_least(
                0.005, measure=_pauses, words="with idle_collect_ns {op} {value:.1%} of the span"
            )
        },
        references=("nsys-ai: impact of garbage collection and module loading",),
        fires=(
            {
                "span_ns": 1e9,
                "idle_load_ns": 300e6,
                "idle_collect_ns": 0.0,
                "load_time_ns": 310e6,
                "collect_time_ns": 0.0,
            },
            {
                "span_ns": 1e9,
                "idle_load_ns": 2e6,
                "idle_collect_ns": 3e6,
                "load_time_ns": 2e6,
                "collect_time_ns": 3e6,
            },
        ),
        silent=(
            {
                "span_ns": 1e9,
                "idle_load_ns": 4.9e6,
                "idle_collect_ns": 0.0,
                "load_time_ns": 900e6,
                "collect_time_ns": 0.0,
            },
            {
                "span_ns": 1e9,
                "idle_load_ns": 0.0,
                "idle_collect_ns": 0.0,
                "load_time_ns": 0.0,
                "collect_time_ns": 0.0,
            },
        ),
    ),
)
