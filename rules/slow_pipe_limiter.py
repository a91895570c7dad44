"""One slow pipe holds back all others."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import pipe_may_reach


def _applies(k: Facts) -> Mask:
    # One tensor instruction keeps its pipe busy for many cycles: that is what it is for.
    may = pipe_may_reach(k, 60)
    return np.asanyarray(may & (k.top_pipe != "tensor") & ~(k.tensor_pct >= 50))


def _full_pipe(k: Facts) -> Column:
    return np.where(np.isnan(k.top_pipe_pct), k.sm_busy_pct, k.top_pipe_pct)


def _held_back(k: Facts) -> Mask:
    apart = _full_pipe(k) - k.issue_slots_busy_pct > 25
    return np.asanyarray((k.sm_busy_pct >= 80) & (k.issue_slots_busy_pct < 20) & apart)


def _saves(k: Facts, peak: Attainable) -> Column:
    full = _full_pipe(k)
    return np.asanyarray((full - k.issue_slots_busy_pct) / full * k.compute_pct / 100)


RULES = (
    Rule(
        id="slow-pipe-limiter",
        topic="math-pipe",
        title="One slow pipe holds back all others",
        scope="kernel",
        why=(
            "A pipe that takes many cycles for an instruction is full although few instructions "
            "are issued; everything that depends on it waits, and the other pipes idle."
        ),
        condition=(
            "SM busy at 80 % or more, issue slots below 20 %, the busiest pipe more than 25 points "
            "above them"
        ),
        needs=("sm_busy_pct", "issue_slots_busy_pct"),
        uses=("primary_class", "compute_pct", "tensor_pct", "top_pipe", "top_pipe_pct"),
        applies=_applies,
        when=_held_back,
        because=(
            "the busiest pipe runs at {sm_busy_pct} while only {issue_slots_busy_pct} of the issue "
            "slots are used"
        ),
        fix=(
            "Find what runs on that pipe (FP64, special functions, conversions, 64-bit integer "
            "products) and do it on another: FP32, a polynomial, a table, 32-bit arithmetic."
        ),
        refute="Replace the slow instructions in a copy of the kernel: the time must fall.",
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={"sm_busy_pct": ">= 80", "issue_slots_busy_pct": "< 20"},
        references=("Nsight Compute SlowPipeLimiter rule: 80 %, 20 %, 25 points",),
        fires=(
            {"sm_busy_pct": 80.0, "issue_slots_busy_pct": 19.9, "compute_pct": 78.0},
            {
                "sm_busy_pct": 95.0,
                "issue_slots_busy_pct": 8.0,
                "compute_pct": 94.0,
                "top_pipe": "fp64",
                "top_pipe_pct": 95.0,
            },
        ),
        silent=(
            {"sm_busy_pct": 79.9, "issue_slots_busy_pct": 10.0},
            {"sm_busy_pct": 85.0, "issue_slots_busy_pct": 20.0},
            {"sm_busy_pct": 85.0, "issue_slots_busy_pct": 19.0, "top_pipe_pct": 44.0},
            {
                "sm_busy_pct": 90.0,
                "issue_slots_busy_pct": 12.0,
                "top_pipe": "tensor",
                "top_pipe_pct": 90.0,
            },
        ),
    ),
)
