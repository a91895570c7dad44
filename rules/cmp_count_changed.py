"""A kernel is launched more or less often."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, above, at_least
from traceroof.rules._changes import on_both_sides

_LEAST = 0.01


def _saves(k: Facts, peak: Attainable) -> Column:
    more = (k.launches_head - k.launches_base) * k.call_base_ns
    # Launches that only moved between kernels of one category are no more work.
    grew = (more > 0) & (k.category_launches_pct >= 100 * _LEAST)
    return np.asanyarray(np.where(grew, more / k.time_ns, np.nan))


RULES = (
    Rule(
        id="cmp-count-changed",
        topic="change",
        title="The number of launches changed",
        scope="compare",
        why=(
            "Launches are counted, not timed. A different number means a different program, "
            "however noisy the clock is. A lost fusion, a graph break or a retry shows here first."
        ),
        condition=(
            "launches of a kernel changed by {launches_head:.0%} or more (from more than "
            "{launches_base})"
        ),
        needs=("launches_base", "launches_head"),
        uses=("level", "verdict", "call_base_ns", "time_ns", "category_launches_pct"),
        applies=on_both_sides,
        when=lambda k: k.meets("launches_base") & k.meets("launches_head"),
        because=(
            "launches {launches_base} → {launches_head} at {call_base_ns} each; launches of the "
            "whole category {category_launches_pct:+.1f} %"
        ),
        fix=(
            "Find what launches it now: another code path, a fusion that no longer happens, "
            "another number of layers, batches or retries."
        ),
        refute="Count the launches of one step on both sides. They must differ by this much.",
        saves=_saves,
        kind="hard",
        grade="observed",
        layer="framework",
        thresholds={
            "launches_base": above(0),
            "launches_head": at_least(
                _LEAST,
                measure=lambda k: np.abs(k.launches_head - k.launches_base),
                of="launches_base",
                words="{op} {value:.0%} from launches_base",
            ),
        },
        references=("Launches are recorded one by one: no noise in their number",),
        fires=(
            {"level": "kernel", "verdict": "unchanged", "launches_base": 100.0,
             "launches_head": 101.0, "call_base_ns": 1e4, "time_ns": 1.01e6,
             "category_launches_pct": 1.0},
            {"level": "kernel", "verdict": "unchanged", "launches_base": 2.0,
             "launches_head": 1.0},
        ),
        silent=(
            {"level": "kernel", "verdict": "unchanged", "launches_base": 1000.0,
             "launches_head": 1009.0},
            {"level": "kernel", "verdict": "new", "launches_base": 0.0, "launches_head": 4.0},
            {"level": "category", "verdict": "unchanged", "launches_base": 1.0,
             "launches_head": 2.0},
        ),
    ),
)  # fmt: skip
