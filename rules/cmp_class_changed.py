"""A kernel meets another wall than before."""

from traceroof.rule import Rule
from traceroof.rules._changes import on_both_sides

RULES = (
    Rule(
        id="cmp-class-changed",
        topic="change",
        title="The kernel is limited by something else",
        scope="compare",
        why=(
            "A kernel that was limited by one part of the GPU is now limited by another. The "
            "change affected how it runs, and other advice applies to it."
        ),
        condition="the primary class of a kernel differs between base and head",
        needs=("class_base", "class_head"),
        uses=("level", "verdict", "delta_ns", "time_ns"),
        applies=on_both_sides,
        when=lambda k: k.class_base != k.class_head,
        because="{class_base} before, {class_head} now",
        fix=(
            "Read the findings of this kernel in `traceroof diagnose` of the head. They are new."
        ),
        refute=(
            "Compare the compute and memory use of both sides. They must be on either side of a "
            "threshold."
        ),
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
