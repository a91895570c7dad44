"""Times that add up to more than went by."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, above


def _factor(k: Facts, run: Facts) -> Column:
    return np.asanyarray(np.full(len(k), 1.0) * run.busy_share_pct / 100)


_WHAT = "kernels run side by side, so that less time saved may show in the run"

RULES = (
    Rule(
        id="run-time-unreconciled",
        topic="measurement",
        title="Kernel times add up to more than the wall time",
        scope="run",
        why=(
            "Kernels and copies of several streams run at the same time. Their times add up to "
            "more than the time in which the GPU was busy. Shares of kernel time are then not "
            "shares of the run, and a kernel that runs beside another can get faster while the "
            "run does not. On one stream, kernels overlap by a few percent at most, where one "
            "starts before the last has ended. More than that means that a file was given twice, "
            "or that clocks disagree."
        ),
        condition=(
            "the times of kernels and copies exceed the time in which any of them ran by more "
            "than {overlap_pct} of the span, or more than {stream_overlap_pct} of them overlap on "
            "their own stream"
        ),
        needs=("overlap_pct",),
        uses=("busy_share_pct", "stream_overlap_pct"),
        # Without a timeline nothing can be reconciled.
        applies=lambda k: ~np.isnan(k.overlap_pct),
        when=lambda k: k.meets("overlap_pct") | k.meets("stream_overlap_pct"),
        because=(
            "kernels and copies overlap: the sum of their times exceeds the time in which any of "
            "them ran by {overlap_pct} of the span[, so the GPU was busy for {busy_share_pct} of "
            "that sum][; {stream_overlap_pct:some} overlaps on its own stream]"
        ),
        fix=(
            "Read time by category as work, not as time of the run. Busy, idle and exposed times "
            "count overlap once. Where much overlaps on one stream, give each file once, and only "
            "files of one run."
        ),
        refute=(
            "Shorten the kernel of interest artificially. The run must get shorter by the exposed "
            "part of its time."
        ),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        urgent=lambda k: k.meets("stream_overlap_pct"),
        doubts=(
            Doubt(scope="kernel", what=_WHAT, factor=_factor),
            Doubt(scope="category", what=_WHAT, factor=_factor),
        ),
        thresholds={"overlap_pct": above(2), "stream_overlap_pct": above(20)},
        references=(
            "NeMo and Nsight Systems: utilisation as a sum of times may exceed 100 %",
            "the 2 and 20 % are a judgement: early starts on one stream reach 3 % in real traces",
        ),
        fires=(
            {"overlap_pct": 2.1},
            {"overlap_pct": 89.6, "busy_share_pct": 52.6, "stream_overlap_pct": 0.0},
            {"overlap_pct": 0.0, "stream_overlap_pct": 20.1},
        ),
        silent=(
            {"overlap_pct": 2.0, "stream_overlap_pct": 20.0},
            {"overlap_pct": 0.0, "busy_share_pct": 100.0},
            {},
        ),
    ),
)
