"""Where the time goes: the categories and the kernel to look at first."""

import numpy as np

from traceroof.rule import Rule, above, at_least, at_most, below
from traceroof.rules._kernels import computes
from traceroof.rules._models import missed

RULES = (
    Rule(
        id="category-hotspot",
        topic="summary",
        title="This category takes most of the time",
        scope="category",
        why=(
            "Halving a category that takes a tenth of the time saves a twentieth. The one or two "
            "largest categories decide what to optimise."
        ),
        condition=(
            "one of the {rank_by_time} categories with the most GPU time, with {share_pct} of it "
            "or more, but less than {others} (other categories ran too)"
        ),
        needs=("share_pct", "rank_by_time"),
        uses=("launches", "median_ns", "modelled_pct", "roof_pct", "spare_ns"),
        # Shares of what a counter tool was pointed at say nothing.
        applies=lambda k: ~np.isnan(k.rank_by_time),
        when=lambda k: k.meets("rank_by_time") & k.meets("share_pct") & k.meets("others"),
        because=(
            "{launches} launches, typically {median_ns} each, take {share_pct} of the GPU time"
            "[ (share of their roof, by shapes: {roof_pct})]"
        ),
        fix=(
            "Read the findings of its kernels first. Above 77 % of the roof, kernels are about as "
            "fast as they get. Then only less work, smaller types or fusion help."
        ),
        refute=(
            "Halve the work of the category in a test run. The GPU time must fall by about half "
            "of its share."
        ),
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        thresholds={
            "share_pct": at_least(20),
            "rank_by_time": at_most(2),
            "others": below(100, column="share_pct", told=False),
        },
        references=("Gregg: Systems Performance, workload characterisation",),
        fires=(
            {"share_pct": 20.0, "rank_by_time": 2, "launches": 243, "median_ns": 41e3},
            {"share_pct": 77.0, "rank_by_time": 1, "modelled_pct": 80.0, "roof_pct": 40.0,
             "spare_ns": 5e6},
        ),
        silent=(
            {"share_pct": 25.0, "rank_by_time": 3},
            {"share_pct": 19.9, "rank_by_time": 1},
            {"share_pct": 100.0, "rank_by_time": 1},
        ),
    ),
    Rule(
        id="single-kernel-dominates",
        topic="summary",
        title="One kernel takes more than half of the kernel time",
        scope="kernel",
        why=(
            "Whatever else is improved, the run cannot get twice as fast without this kernel."
        ),
        condition=(
            "one kernel group takes more than {share_pct} of the kernel time, but less than "
            "{others} (other kernels ran too)"
        ),
        needs=("share_pct",),
        uses=("primary_class", "category", "timed_launches", "median_ns", "roof_pct", "model_flop_pct",
              "model_dram_pct", "model_shape"),
        applies=computes,
        when=lambda k: k.meets("share_pct") & k.meets("others"),
        because=(
            "{timed_launches} launches, typically {median_ns} each, take {share_pct} of the "
            "kernel time"
        ),
        fix=(
            "Read its other findings first. Then check whether it must run as often, or at all."
        ),
        refute="Remove the kernel in a test run. Its share of the time must disappear.",
        saves=missed,
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        thresholds={"share_pct": above(50), "others": below(100, column="share_pct", told=False)},
        references=("Amdahl: Validity of the single processor approach, AFIPS 1967",),
        fires=(
            {"share_pct": 50.1, "timed_launches": 1, "median_ns": 1e6},
            {"share_pct": 90.0, "roof_pct": 40.0, "model_flop_pct": 40.0, "model_dram_pct": 5.0},
        ),
        silent=(
            {"share_pct": 50.0},
            {"share_pct": 100.0},
            {"share_pct": 80.0, "primary_class": "communication"},
        ),
    ),
)  # fmt: skip
