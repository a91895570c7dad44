"""Copies that nothing hides."""

from traceroof.rule import Rule, at_least

RULES = (
    Rule(
        id="memcpy-exposed",
        topic="input-copy",
        title="Copies run while nothing computes",
        scope="timeline",
        why=(
            "GPUs copy with engines of their own, beside the kernels, if another stream has work. "
            "These copies run alone: the kernels after them wait for the data, or are in the same "
            "stream."
        ),
        condition=(
            "copies run alone, without computation or communication, for {exposed_memcpy_pct} of "
            "the span or more"
        ),
        needs=("exposed_memcpy_pct", "exposed_memcpy_ns"),
        uses=("copies", "copy_bytes", "h2d_exposed_ns", "d2h_exposed_ns", "d2d_exposed_ns"),
        when=lambda k: k.meets("exposed_memcpy_pct"),
        because=(
            "copies run alone for {exposed_memcpy_ns} ({exposed_memcpy_pct})[: to the GPU "
            "{h2d_exposed_ns}, to the host {d2h_exposed_ns}, within the GPU {d2d_exposed_ns}]"
        ),
        fix=(
            "To the GPU: pin the memory, and copy the next batch on a second stream while this "
            "one computes. To the host: copy asynchronously and read later, or keep the data. "
            "Within the GPU: find the operators that copy (contiguous, clone, cat, padding) and "
            "remove or fuse them."
        ),
        refute="Remove the copies in a test. The step must get shorter by about this time.",
        saves=lambda k, peak: k.exposed_memcpy_pct / 100,
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        thresholds={"exposed_memcpy_pct": at_least(5)},
        references=("TraceLens: exposed copy time above 5 %",),
        fires=(
            {
                "exposed_memcpy_pct": 12.8,
                "exposed_memcpy_ns": 95e6,
                "h2d_exposed_ns": 13e6,
                "d2h_exposed_ns": 0.0,
                "d2d_exposed_ns": 87e6,
            },
            {"exposed_memcpy_pct": 5.0, "exposed_memcpy_ns": 5e6},
        ),
        silent=(
            {"exposed_memcpy_pct": 4.9, "exposed_memcpy_ns": 4.9e6},
            {"exposed_memcpy_pct": 0.0, "exposed_memcpy_ns": 0.0},
        ),
    ),
)
