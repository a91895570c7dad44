"""A kernel meets another wall than before."""

from traceroof.rule import Rule
from traceroof.rules._changes import on_both_sides

RULES = (
    Rule(
        id="cmp-class-changed",
        topic="change",
        title="The kernel meets another wall",
        scope="compare",
        why=(
            "A kernel that was limited by one part of the machine is now limited by another: the "
            "change reached how it runs, and the advice for it is another."
        ),
        condition="the primary class of a kernel differs between base and head",
        needs=("class_base", "class_head"),
        uses=("level", "verdict", "delta_ns", "time_ns"),
        applies=on_both_sides,
        when=lambda k: k.class_base != k.class_head,
        because="{class_base} before, {class_head} now",
        fix="Read the findings of this kernel in `traceroof diagnose` of the head: they are new.",
        refute="Use of compute and memory of both sides must lie on either side of a threshold.",
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        thresholds={"class_head": "not class_base"},
        references=("The decision order of classes: docs/concepts.md",),
        fires=(
            {"level": "kernel", "verdict": "regressed", "class_base": "compute-bound",
             "class_head": "latency-bound"},
            {"level": "kernel", "verdict": "unchanged", "class_base": "dram-bound",
             "class_head": "balanced"},
        ),
        silent=(
            {"level": "kernel", "verdict": "regressed", "class_base": "dram-bound",
             "class_head": "dram-bound"},
            {"level": "kernel", "verdict": "unchanged", "class_base": "balanced",
             "class_head": "balanced"},
            {"level": "category", "verdict": "regressed", "class_base": "dram-bound",
             "class_head": "balanced"},
        ),
    ),
)  # fmt: skip
