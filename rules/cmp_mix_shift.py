"""The time moved because other launches ran, not because launches got slower."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._changes import of_level

_LEAST_PCT = 2.0
_LEAST_OF_TOTAL_PCT = 0.5
_MOST_SPEED = 0.2


def _shifted(k: Facts) -> Mask:
    return np.asanyarray(
        (np.abs(k.delta_pct) >= _LEAST_PCT)
        & (np.abs(k.total_pct) >= _LEAST_OF_TOTAL_PCT)
        & (np.abs(k.speed_ns) <= _MOST_SPEED * np.abs(k.delta_ns))
        & (np.abs(k.mix_ns) >= (1 - _MOST_SPEED) * np.abs(k.delta_ns))
    )


RULES = (
    Rule(
        id="cmp-mix-shift",
        topic="change",
        title="Other launches, not slower ones",
        scope="compare",
        why=(
            "Launches of the same kernel and shape take as long as before; there are more or fewer "
            "of them, or of other shapes. What changed is the work, not its speed."
        ),
        condition=(
            "time changed by 2 % or more and by 0.5 % of everything, and 80 % or more of that comes from which launches ran"
        ),
        needs=("delta_ns", "delta_pct", "total_pct", "speed_ns", "mix_ns"),
        uses=("level",),
        # A step is no sum of kernels.
        applies=lambda k: of_level(k, "total", "category") & ~np.isnan(k.mix_ns),
        when=_shifted,
        because=(
            "of {delta_ns} ({delta_pct:+.1f} %), {mix_ns} come from which launches ran and "
            "{speed_ns} from the time of a launch"
        ),
        fix="Compare launch counts and input shapes first: the kernels themselves are as before.",
        refute="With the same inputs and as many steps on both sides, the difference must be gone.",
        kind="hard",
        grade="observed",
        layer="model",
        severity="info",
        thresholds={"delta_pct": "2 either way", "speed_ns": "<= 20 % of delta_ns"},
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
