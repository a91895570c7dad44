"""A step has more time in which the GPU idles, or waits for other GPUs."""

from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least
from traceroof.rules._changes import of_level


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
        title="The GPU is idle for longer",
        column="idle",
        what="idle time",
        why="The kernels may be as fast as before. The time between them grew.",
        fix=(
            "Check what the host does in the gaps of the head (`traceroof diagnose`): a "
            "synchronisation, a slower data loader, more and smaller launches, a graph break."
        ),
    ),
    _Kind(
        id="cmp-exposed-comm-up",
        topic="exposed-communication",
        title="More communication is exposed",
        column="exposed_communication",
        what="exposed communication",
        why="Communication while nothing computes adds to the step one to one.",
        fix=(
            "Check the order of collectives and computation, the bucket sizes, and whether a rank "
            "arrives late: the time waiting for it counts as communication on all other ranks."
        ),
    ),
)


def _rule(one: _Kind) -> Rule:
    base, head = f"{one.column}_base_ns", f"{one.column}_head_ns"

    def more(k: Facts) -> Column:
        return np.asanyarray(getattr(k, head) - getattr(k, base))

    def when(k: Facts) -> Mask:
        return k.meets(head)

    def saves(k: Facts, peak: Attainable) -> Column:
        return np.asanyarray(more(k) / k.time_ns)

    total = {"level": "total", "base_ns": 100e6, "time_ns": 110e6}
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="compare",
        why=one.why,
        condition=f"{one.what} per step grew by {{{head}:.0%}} of the step or more (medians over steps)",
        needs=(base, head, "base_ns"),
        uses=("level", "time_ns"),
        applies=lambda k: of_level(k, "total"),
        when=when,
        because=f"{one.what} {{{base}}} → {{{head}}} in a step of {{base_ns}}",
        fix=one.fix,
        refute="Compare the kernel time of both sides. Without gaps it must be the same.",
        saves=saves,
        kind="hard",
        grade="observed",
        layer="framework",
        thresholds={
            head: at_least(
                0.01,
                measure=more,
                of="base_ns",
                words="{op} {value:.0%} of the step above the base",
            )
        },
        references=("docs/timeline.md: idle and exposed communication of a step",),
        fires=({**total, base: 10e6, head: 11e6}, {**total, base: 0.0, head: 40e6}),
        silent=({**total, base: 10e6, head: 10.9e6}, {**total, base: 10e6, head: 5e6}),
    )


RULES = tuple(_rule(one) for one in _KINDS)
