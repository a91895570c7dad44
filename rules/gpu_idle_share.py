"""The GPU waits."""

from traceroof.rule import Rule, above

RULES = (
    Rule(
        id="gpu-idle-share",
        topic="idle",
        title="The GPU is idle for part of the time",
        scope="timeline",
        why=(
            "No kernel, copy or fill runs on any stream. Faster kernels do not shorten this time. "
            "Removing what delays the next work does."
        ),
        condition=(
            "idle for more than {idle_pct} of the span, and no finding on one cause explains it"
        ),
        needs=("idle_pct", "idle_ns"),
        uses=("span_ns", "gaps", "longest_gap_ns"),
        when=lambda k: k.meets("idle_pct"),
        because=(
            "nothing runs for {idle_ns}[ of {span_ns}] ({idle_pct})[, in {gaps:,.0f} gaps of up "
            "to {longest_gap_ns}]"
        ),
        fix=(
            "Check what ends the longest gaps, which are listed with their causes and the host call "
            "that fills them. Start that work earlier, or reduce it."
        ),
        refute=("Remove the work after the longest gap. If the gap stays, it has another cause."),
        saves=lambda k, peak: k.idle_pct / 100,
        kind="hard",
        role="class",
        grade="observed",
        layer="framework",
        effort="refactor",
        thresholds={"idle_pct": above(5)},
        references=(
            "PyTorch TensorBoard plug-in: 5 % of a step is worth a recommendation",
            "TraceLens and nsys-ai: idle above 15 %",
        ),
        fires=(
            {"idle_pct": 5.1, "idle_ns": 5.1e6, "span_ns": 100e6, "gaps": 20.0},
            {"idle_pct": 81.4, "idle_ns": 814e6, "span_ns": 1e9, "longest_gap_ns": 60e6},
        ),
        silent=(
            {"idle_pct": 5.0, "idle_ns": 5e6, "span_ns": 100e6},
            {"idle_pct": 0.2, "idle_ns": 2e6, "span_ns": 1e9},
        ),
    ),
)
