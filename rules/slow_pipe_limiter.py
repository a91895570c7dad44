"""One slow pipe holds back all others."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import may_reach, pipe_may_reach


def _applies(k: Facts) -> Mask:
    # One tensor instruction keeps its pipe busy for many cycles: that is what it is for.
    return np.asanyarray(pipe_may_reach(k) & (k.top_pipe != "tensor") & k.meets("tensor_pct"))


def _full_pipe(k: Facts) -> Column:
    return np.where(np.isnan(k.top_pipe_pct), k.sm_busy_pct, k.top_pipe_pct)


def _held_back(k: Facts) -> Mask:
    return k.meets("sm_busy_pct") & k.meets("issue_slots_busy_pct") & k.meets("top_pipe_pct")


def _saves(k: Facts, peak: Attainable) -> Column:
    full = _full_pipe(k)
    return np.asanyarray((full - k.issue_slots_busy_pct) / full * k.compute_pct / 100)


RULES = (
    Rule(
        id="slow-pipe-limiter",
        topic="math-pipe",
        title="One slow pipe limits the kernel",
        scope="kernel",
        why=(
            "A pipe that takes many cycles per instruction is full although few instructions are "
            "issued. Everything that depends on it waits, and the other pipes are idle."
        ),
        condition=(
            "the SM is busy {sm_busy_pct} or more, issue slots are used below "
            "{issue_slots_busy_pct}, and the busiest pipe is more than {top_pipe_pct:.0f} points "
            "above them; not with tensor-core use at {tensor_pct} or more"
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
            "products) and replace it: FP32, a polynomial, a table, 32-bit arithmetic."
        ),
        refute="Replace the slow instructions in a copy of the kernel. The time must fall.",
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={
            **may_reach(BUSY_PCT),
            "sm_busy_pct": at_least(WALL_PCT),
            "issue_slots_busy_pct": below(20),
            "top_pipe_pct": above(
                25,
                measure=lambda k: _full_pipe(k) - k.issue_slots_busy_pct,
                words="{op} {value} points above issue_slots_busy_pct",
            ),
            "tensor_pct": below(50, or_unknown=True),
        },
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
            {"sm_busy_pct": 85.0, "issue_slots_busy_pct": 10.0, "tensor_pct": 50.0},
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
