"""Additions and multiplications are not fused: one rule a precision."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import tunable


def _rule(precision: str, instructions: str) -> Rule:
    unfused, busy = f"{precision}_nonfused_pct", f"pipe_{precision}_use_pct"
    work = f"flop_{precision}"
    name = precision.upper()

    def applies(k: Facts) -> Mask:
        # One of the figures can settle it alone.
        settled = (getattr(k, unfused) <= 20) | (getattr(k, busy) < 40) | (getattr(k, work) == 0)
        return np.asanyarray(tunable(k) & ~settled)

    def when(k: Facts) -> Mask:
        # Half of the unfused instructions go if all of them pair up.
        return np.asanyarray((getattr(k, unfused) / 2 > 10) & (getattr(k, busy) >= 40))

    def saves(k: Facts, peak: Attainable) -> Column:
        share: Column = 0.5 * getattr(k, unfused) / 100 * getattr(k, busy) / 100
        return share

    return Rule(
        id=f"nonfused-{precision}",
        topic="fp64" if precision == "fp64" else "math-pipe",
        title=f"{name} additions and multiplications are not fused",
        scope="kernel",
        why=(
            f"A multiplication and an addition of its result fit in one fused instruction at the "
            f"price of either. The {name} pipe is busy, and many of its instructions ({instructions}) "
            "are single."
        ),
        condition=(
            f"half of the single additions and multiplications are over 10 % of the {name} "
            "arithmetic, and the pipe is busy 40 % or more"
        ),
        needs=(unfused, busy),
        uses=("primary_class", "compute_pct", work),
        applies=applies,
        when=when,
        because=(
            f"{{{unfused}}} of the {name} add, multiply and fused instructions are single; the "
            f"pipe is busy {{{busy}}}"
        ),
        fix=(
            "Let the compiler fuse: no -fmad=false, no __fadd_rn or __fmul_rn, factors pulled out "
            "so that a product feeds each sum (a*x + b). Sums and products that stand alone cannot "
            "be fused."
        ),
        refute="Count the opcodes in the SASS after the change: if they stay, there was no pair.",
        saves=saves,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="one-line",
        risk="numerics",
        thresholds={unfused: "> 20", busy: ">= 40"},
        references=("Nsight Compute FPInstructions rule: half the unfused share above 10 %",),
        fires=({unfused: 20.1, busy: 40.0}, {unfused: 100.0, busy: 70.0}),
        silent=({unfused: 20.0, busy: 90.0}, {unfused: 100.0, busy: 39.9}, {work: 0.0}),
    )


RULES = (
    _rule("fp32", "FADD, FMUL beside FFMA"),
    _rule("fp64", "DADD, DMUL beside DFMA"),
)
