"""The time moved because other launches ran, not because launches got slower."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, at_least, at_most
from traceroof.rules._changes import of_level


def _shifted(k: Facts) -> Mask:
    return k.meets("delta_pct") & k.meets("total_pct") & k.meets("speed_ns") & k.meets("mix_ns")


def _moved(k: Facts) -> Column:
    return np.asanyarray(np.abs(k.delta_ns))


RULES = (
    Rule(
        id="cmp-mix-shift",
        topic="change",
        title="Other launches, not slower launches",
        scope="compare",
        why=(
            "Launches of the same kernel and shape take as long as before, but there are more or "
            "fewer of them, or of other shapes. The work changed, not its speed."
        ),
        condition=(
            "the time changed by {delta_pct} or more and by {total_pct} of everything, "
            "{mix_ns:.0%} or more of that comes from which launches ran, and {speed_ns:.0%} or "
            "less from their speed"
        ),
        needs=("delta_ns", "delta_pct", "total_pct", "speed_ns", "mix_ns"),
        uses=("level",),
        # A step is no sum of kernels.
        applies=lambda k: of_level(k, "total", "category") & ~np.isnan(k.mix_ns),
        when=_shifted,
        because=(
            "of {delta_ns} ({delta_pct:+.1f} %), {mix_ns} come from which launches ran and "
            "{speed_ns} from the time per launch"
        ),
        fix=(
            "Compare launch counts and input shapes first. The kernels themselves are as before."
        ),
        refute=(
            "Use the same inputs and as many steps on both sides. The difference must be gone."
        ),
        kind="hard",
        grade="observed",
        layer="model",
        severity="info",
        thresholds={
            "delta_pct": at_least(
                2, measure=lambda k: np.abs(k.delta_pct), words="{value} up or down"
            ),
            "total_pct": at_least(
                0.5, measure=lambda k: np.abs(k.total_pct), words="{value} up or down"
            ),
            "speed_ns": at_most(
                0.2, measure=lambda k: np.abs(k.speed_ns), of=_moved, words="{op} {value:.0%} of delta_ns"
            ),
            "mix_ns": at_least(
                0.8, measure=lambda k: np.abs(k.mix_ns), of=_moved, words="{op} {value:.0%} of delta_ns"
            ),
        },
        references=("A sum of launches x time splits into two parts, by arithmetic",),
        fires=(
            {"level": "category", "delta_pct": 2.0, "total_pct": 1.0, "delta_ns": 10e6, "speed_ns": 2e6,
             "mix_ns": 8e6},
            {"level": "total", "delta_pct": -5.0, "total_pct": -1.0, "delta_ns": -10e6, "speed_ns": 0.0,
             "mix_ns": -10e6},
        ),
        silent=(
            {"level": "category", "delta_pct": 2.0, "total_pct": 1.0, "delta_ns": 10e6, "speed_ns": 2.1e6,
             "mix_ns": 7.9e6},
            {"level": "category", "delta_pct": 2.0, "total_pct": 1.0, "delta_ns": 10e6, "speed_ns": 2.1e6,
             "mix_ns": 8e6},
            {"level": "total", "delta_pct": 1.95, "total_pct": 1.0, "delta_ns": 10e6, "speed_ns": 0.0,
             "mix_ns": 10e6},
        ),
    ),
)  # fmt: skip
