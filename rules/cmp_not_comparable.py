"""Something other than the code differs between the two runs."""

from traceroof.rule import Rule
from traceroof.rules._changes import of_level

RULES = (
    Rule(
        id="cmp-not-comparable",
        topic="not-comparable",
        title="The two runs differ in more than the code",
        scope="compare",
        why=(
            "Another GPU, another clock or another profiler changes the time of every kernel. A "
            "difference of times between such runs says nothing about the change under review."
        ),
        condition=(
            "another GPU, compute capability, number of multiprocessors or of GPUs, kind of times, "
            "tool, an SM clock more than 3 % apart, or another amount of recorded work"
        ),
        needs=("differences",),
        uses=("level",),
        applies=lambda k: of_level(k, "total"),
        when=lambda k: k.differences != "",
        because="{differences}",
        fix=(
            "Measure base and head on one machine, in turn, with one profiler and locked clocks "
            "(nvidia-smi --lock-gpu-clocks). --force compares the times anyway."
        ),
        refute=(
            "Measure both sides on one GPU with the same driver and clocks. The times must then "
            "compare, and the base must be unchanged against itself."
        ),
        kind="hard",
        grade="observed",
        layer="hardware",
        severity="medium",
        effort="config",
        thresholds={"differences": "none"},
        references=(
            "NVIDIA Nsight Compute, reproducibility: clock control, cache control, replay",
        ),
        fires=(
            {"level": "total", "differences": "GPU: A100-SXM4-80GB → H100-SXM5"},
            {"level": "total", "differences": "SM clock: 1.41 GHz → 1.20 GHz"},
        ),
        silent=(
            {"level": "total", "differences": ""},
            {"level": "kernel", "differences": "GPU: A100-SXM4-80GB → H100-SXM5"},
        ),
    ),
)
