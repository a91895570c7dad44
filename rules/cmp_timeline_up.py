"""A step has more time in which the GPU idles, or waits for other GPUs."""

from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._changes import of_level

_LEAST = 0.01


@dataclass(frozen=True)
class _Kind:
    id: str
    topic: str
    title: str
    column: str
    what: str
    why: str
    fix: str


_KINDS = (
    _Kind(
        id="cmp-idle-up",
        topic="change",
        title="The GPU idles more",
        column="idle",
        what="idle time",
        why="The kernels may be as fast as before: what grew is the time between them.",
        fix=(
            "Look at what the host does in the gaps of the head (`traceroof diagnose`): a "
            "synchronisation, a slower data loader, more and smaller launches, a graph break."
        ),
    ),
    _Kind(
        id="cmp-exposed-comm-up",
        topic="exposed-communication",
        title="More communication that nothing hides",
        column="exposed_communication",
        what="exposed communication",
        why="Communication while nothing computes adds to the step one to one.",
        fix=(
            "Look at the order of collectives and computation, at bucket sizes, and at a rank that "
            "comes late: time spent waiting for it counts as communication everywhere else."
        ),
    ),
)


def _rule(one: _Kind) -> Rule:
    base, head = f"{one.column}_base_ns", f"{one.column}_head_ns"

    def more(k: Facts) -> Column:
        return np.asanyarray(getattr(k, head) - getattr(k, base))

    def when(k: Facts) -> Mask:
        return np.asanyarray(more(k) >= _LEAST * k.base_ns)

    def saves(k: Facts, peak: Attainable) -> Column:
        return np.asanyarray(more(k) / k.time_ns)

    total = {"level": "total", "base_ns": 100e6, "time_ns": 110e6}
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="compare",
        why=one.why,
        condition=f"{one.what} of a step up by 1 % of the step or more (medians over steps)",
        needs=(base, head, "base_ns"),
        uses=("level", "time_ns"),
        applies=lambda k: of_level(k, "total"),
        when=when,
        because=f"{one.what} {{{base}}} → {{{head}}} in a step of {{base_ns}}",
        fix=one.fix,
        refute="The kernels alone, without gaps, must take as long on both sides.",
        saves=saves,
        kind="hard",
        grade="observed",
        layer="framework",
        thresholds={head: "1 % of the step above the base"},
        references=("docs/timeline.md: idle and exposed communication of a step",),
        fires=({**total, base: 10e6, head: 11e6}, {**total, base: 0.0, head: 40e6}),
        silent=({**total, base: 10e6, head: 10.9e6}, {**total, base: 10e6, head: 5e6}),
    )


RULES = tuple(_rule(one) for one in _KINDS)
