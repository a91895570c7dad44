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
            "once and is not part of the profiled work, however long it takes."
        ),
        condition="a kernel with counters whose name says that it draws random numbers",
        needs=("category",),
        uses=COUNTED,
        applies=counted,
        when=lambda k: one_of(k.category, "random"),
        because="by its name the kernel draws random numbers",
        fix=(
            "If it sets up the inputs, leave it alone and profile the kernels behind it "
            "([nvidia: --kernel-name, --launch-skip][amd: -k]). If the program samples in every "
            "step, draw all numbers in one launch, ahead of time."
        ),
        refute="If a timeline shows the kernel in every step, it is part of the work.",
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
