"""The whole, a category or a kernel takes less time."""

import numpy as np

from traceroof.rule import Rule

RULES = (
    Rule(
        id="cmp-improved",
        topic="change",
        title="It takes less time",
        scope="compare",
        why=(
            "The medians differ by more than an effect that matters, and the runs of the two "
            "sides hardly overlap. Faster is better only if the work is the same."
        ),
        condition=(
            "the conditions of cmp-step-regressed, cmp-category-regressed and "
            "cmp-kernel-regressed, in the other direction"
        ),
        needs=("verdict",),
        uses=("base_ns", "head_ns", "delta_ns", "delta_pct", "time_ns", "p_value", "samples_base",
              "samples_head", "flops_base", "flops_head"),
        when=lambda k: k.verdict == "improved",
        because=(
            "{base_ns} → {head_ns} ({delta_pct:+.1f} %), {samples_base:.0f} against "
            "{samples_head:.0f} samples"
        ),
        fix="Check that the work is the same: same operations, same launches.",
        refute=(
            "Measure both sides again, in turn. The difference must come back in this size."
        ),
        kind="hard",
        role="class",
        grade="observed",
        layer="framework",
        severity="info",
        # Fewer operations than before: that may be the reason, and it may be a mistake.
        trust=lambda k: np.where(k.flops_head < 0.99 * k.flops_base, 0.7, 1.0),
        thresholds={"p_value": "< 0.01"},
        references=("Mann and Whitney, Ann. Math. Stat. 18 (1947) 50",),
        fires=({"verdict": "improved"}, {"verdict": "improved", "p_value": 0.002}),
        silent=({"verdict": "unchanged"}, {"verdict": "regressed"}),
    ),
)  # fmt: skip
