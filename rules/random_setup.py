"""A kernel that fills a tensor with random numbers."""

from traceroof.core.tracing import one_of
from traceroof.rule import Rule
from traceroof.rules._kernels import COUNTED, counted

_DRAWS = {"category": "random", "by_counters": 1.0}

RULES = (
    Rule(
        id="random-setup",
        topic="random-setup",
        title="Random numbers fill the inputs",
        scope="kernel",
        why=(
            "Benchmarks and first steps fill inputs and weights with random numbers. That happens "
            "once and is no part of the work that the profile was made for, however long it takes."
        ),
        condition="counters of a kernel that draws random numbers by its name",
        needs=("category",),
        uses=COUNTED,
        applies=counted,
        when=lambda k: one_of(k.category, "random"),
        because="by its name the kernel draws random numbers",
        fix=(
            "Leave it alone if it sets up the inputs, and profile the kernels behind it "
            "([nvidia: --kernel-name, --launch-skip][amd: -k]). A program that samples in every "
            "step draws all its numbers in one launch, ahead of time."
        ),
        refute="If a timeline shows the kernel in every step, it is work and no set-up.",
        kind="hard",
        grade="inferred",
        layer="framework",
        severity="info",
        suppresses=("*",),
        thresholds={"category": "random"},
        references=("PyTorch source: ATen/native/cuda/DistributionTemplates.h",),
        fires=(_DRAWS, {**_DRAWS, "by_counters": 1}),
        silent=({**_DRAWS, "category": "elementwise"}, {"category": "random"}),
    ),
)
