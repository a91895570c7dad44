"""Time that a run spends on getting going, and that no later one would."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Doubt, Rule, above, at_least
from traceroof.scopes.measurement_quality import FIRST_RATIO

_EARLY = ("warm_up_pct", "set_up_pct")


def _seen(k: Facts) -> Mask:
    known = [~np.isnan(getattr(k, name)) for name in ("first_excess_pct", *_EARLY)]
    return np.asanyarray(known[0] | known[1] | known[2])


def _of_kernel(k: Facts, run: Facts) -> Column:
    part = np.where(k.first_ratio > FIRST_RATIO, k.first_excess_ns / k.time_ns, 0.0)
    return np.asanyarray(1 - part)


RULES = (
    Rule(
        id="run-warmup",
        topic="cold-start",
        title="The recording includes warm-up",
        scope="run",
        why=(
            "First launches load code, fill caches and raise clocks. First steps compile, search "
            "for the fastest algorithm and allocate memory. Their time says nothing about the "
            "steps that follow, and it adds to every sum. First launches count when they take "
            "more than twice the median of their kernel, warm-up steps when they take more than "
            "1.5 times the median of the others."
        ),
        condition=(
            "first launches cost {first_excess_pct} of the kernel time or more beyond the medians "
            "of their kernels, or there are warm-up steps (more than {warm_up_pct} of the span), "
            "or loading code and allocating memory before steady work takes more than "
            "{set_up_pct} of the span beyond what it takes during it"
        ),
        needs=("kernel_time_ns",),
        uses=("first_excess_pct", *_EARLY),
        applies=_seen,
        when=lambda k: k.meets("first_excess_pct") | k.meets("warm_up_pct") | k.meets("set_up_pct"),
        because=(
            "[first launches take {first_excess_pct} of the kernel time beyond the medians of "
            "their kernels; ][warm-up steps take {warm_up_pct} of the span; ][before steady work, "
            "loading code and allocating memory take {set_up_pct} of it more than later; ]figures "
            "of steady work are smaller than those of the whole recording"
        ),
        fix=(
            "Run 10 to 20 iterations before recording, or give torch.profiler a schedule with "
            "wait and warm-up steps. Medians per launch and per step are hardly affected."
        ),
        refute=(
            "Record again after twice the warm-up. If the time of no kernel falls, there was no "
            "warm-up left."
        ),
        kind="hard",
        grade="derived",
        layer="framework",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="first launches are part of the time",
                reads=("first_ratio", "first_excess_ns", "time_ns"),
                factor=_of_kernel,
            ),
        ),
        thresholds={"first_excess_pct": at_least(0.5), "warm_up_pct": above(0), "set_up_pct": above(5)},
        references=(
            "perfxpert: first launch over twice the mean; nsys-ai: spikes over 1.5 times",
            "10 to 20 iterations of warm-up are common advice; the shares of time are a judgement",
        ),
        fires=(
            {"kernel_time_ns": 1e8, "first_excess_pct": 0.5},
            {"kernel_time_ns": 1e8, "first_excess_pct": 0.0, "warm_up_pct": 12.0},
            {"kernel_time_ns": 1e8, "set_up_pct": 5.1},
        ),
        silent=(
            {"kernel_time_ns": 1e8, "first_excess_pct": 0.49, "warm_up_pct": 0.0, "set_up_pct": 5.0},
            {"kernel_time_ns": 1e8, "first_excess_pct": 0.0},
            {"kernel_time_ns": 1e8},
        ),
    ),
)  # fmt: skip
