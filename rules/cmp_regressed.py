"""The whole, a category or a kernel takes more time: one rule for each level."""

from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._changes import lost, of_level


@dataclass(frozen=True)
class _Level:
    id: str
    topic: str
    title: str
    level: str
    effect: str
    fix: str


_LEVELS = (
    _Level(
        id="cmp-step-regressed",
        topic="change",
        title="The total takes longer",
        level="total",
        effect="2 % of the step (without steps: of the kernel time), or 20 % from one run per side",
        fix="Start with the largest change among the kernels, then idle time and communication.",
    ),
    _Level(
        id="cmp-category-regressed",
        topic="change",
        title="A category takes longer",
        level="category",
        effect="2 % of the category and 1 % of the kernel time",
        fix="Check the kernels of this category. Several kernels may each have changed by too "
        "little to show alone.",
    ),
    _Level(
        id="cmp-kernel-regressed",
        topic="change",
        title="A kernel takes longer",
        level="kernel",
        effect="5 % of the kernel and 0.25 % of the kernel time",
        fix=(
            "Check what changed with it: launches, bytes, operations, registers, clock, class. If "
            "nothing did, compare the generated code and profile this kernel on both sides."
        ),
    ),
)


def _regressed(k: Facts) -> Mask:
    return np.asanyarray(k.verdict == "regressed")


def _rule(one: _Level) -> Rule:
    example = {"level": one.level, "verdict": "regressed", "delta_ns": 2e6, "time_ns": 12e6}
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="compare",
        why=(
            "The medians differ by more than an effect that matters, and the runs of the two sides "
            "hardly overlap. A random order of the runs rarely looks like this."
        ),
        condition=(
            f"head slower by {one.effect}, Mann-Whitney p < 0.01 and, corrected for the number of "
            "tests (Benjamini-Hochberg, weighted by time), q <= 0.05"
        ),
        needs=("verdict",),
        uses=("level", "base_ns", "head_ns", "delta_ns", "delta_pct", "time_ns", "p_value",
              "samples_base", "samples_head", "speed_ns", "mix_ns"),
        applies=lambda k: of_level(k, one.level),
        when=_regressed,
        because=(
            "{base_ns} → {head_ns} ({delta_pct:+.1f} %), {samples_base:.0f} against "
            "{samples_head:.0f} samples"
        ),
        fix=one.fix,
        refute="Measure both sides again, in turn. The difference must come back in this size.",
        saves=lambda k, peak: lost(k),
        kind="hard",
        role="class",
        grade="observed",
        layer="framework",
        thresholds={"p_value": "< 0.01", "delta_pct": one.effect},
        references=(
            "Mann and Whitney, Ann. Math. Stat. 18 (1947) 50",
            "Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995) 289",
        ),
        fires=(example, {**example, "p_value": 0.002, "delta_pct": 20.0}),
        silent=(
            {**example, "verdict": "inconclusive"},
            {**example, "level": "total" if one.level != "total" else "kernel"},
        ),
    )  # fmt: skip


RULES = tuple(_rule(one) for one in _LEVELS)
