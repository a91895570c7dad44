"""Additions and multiplications are not fused: one rule a precision."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above, at_least
from traceroof.rules._kernels import tunable


def _rule(precision: str, instructions: str) -> Rule:
    unfused, busy = f"{precision}_nonfused_pct", f"pipe_{precision}_use_pct"
    work = f"flop_{precision}"
    name = precision.upper()

    def applies(k: Facts) -> Mask:
        # One of the figures can settle it alone.
        return np.asanyarray(tunable(k) & when(k) & ~(getattr(k, work) == 0))

    def when(k: Facts) -> Mask:
        return k.meets(unfused) & k.meets(busy)

    def saves(k: Facts, peak: Attainable) -> Column:
        share: Column = 0.5 * getattr(k, unfused) / 100 * getattr(k, busy) / 100
        return share

    return Rule(
        id=f"nonfused-{precision}",
        topic="fp64" if precision == "fp64" else "math-pipe",
        title=f"{name} additions and multiplications are not fused",
        scope="kernel",
        why=(
            "One fused instruction does a multiplication and an addition at the price of either. "
            f"The {name} pipe is busy, and many of its instructions ({instructions}) are single."
        ),
        condition=(
            f"single additions and multiplications are more than {{{unfused}}} of the {name} "
            f"arithmetic (half of them would go), and the pipe is busy {{{busy}}} or more"
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
            "Let the compiler fuse: do not use -fmad=false, __fadd_rn or __fmul_rn, and factor out "
            "terms so that a product feeds each sum (a*x + b). Sums and products that stand alone "
            "cannot be fused."
        ),
        refute="Count the opcodes in the SASS after the change. If they stay, there was no pair to fuse.",
        saves=saves,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="one-line",
        risk="numerics",
        thresholds={
            # Half of the unfused instructions go if all of them pair up.
            unfused: above(2 * 10, or_unknown=True),
            busy: at_least(40, or_unknown=True),
        },
        references=("Nsight Compute FPInstructions rule: half the unfused share above 10 %",),
        fires=({unfused: 20.1, busy: 40.0}, {unfused: 100.0, busy: 70.0}),
        silent=({unfused: 20.0, busy: 90.0}, {unfused: 100.0, busy: 39.9}, {work: 0.0}),
    )


RULES = (
    _rule("fp32", "FADD, FMUL beside FFMA"),
    _rule("fp64", "DADD, DMUL beside DFMA"),
)
