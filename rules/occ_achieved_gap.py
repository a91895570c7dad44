"""Fewer warps reside than the launch allows."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import HEADROOM, has_headroom, on_amd, spare
from traceroof.scopes.subjects import BRIEF_NS


def _applies(k: Facts) -> Mask:
    ramps = on_amd(k) & ~k.meets("median_ns")
    return np.asanyarray(has_headroom(k) & k.meets("tensor_pct") & ~ramps)


def _gap(k: Facts) -> Column:
    return k.theoretical_occupancy_pct - k.achieved_occupancy_pct


def _saves(k: Facts, peak: Attainable) -> Column:
    gap = 1 - k.achieved_occupancy_pct / k.theoretical_occupancy_pct
    return np.asanyarray(np.fmin(gap, spare(k, peak)))


RULES = (
    Rule(
        id="occ-achieved-gap",
        topic="imbalance",
        title="Fewer warps are resident than the launch allows",
        scope="kernel",
        why=(
            "Warp slots that the launch could fill stay empty. Causes: blocks of uneven length, "
            "warps of a block that end early, a partly empty last wave, or blocks so short that the "
            "GPU cannot start them fast enough."
        ),
        condition=(
            "achieved occupancy more than {achieved_occupancy_pct:.0f} points below theoretical, "
            "nothing at its wall; not with tensor-core use at {tensor_pct} or more; on AMD only in "
            "kernels of {median_ns} or more"
        ),
        needs=(
            "theoretical_occupancy_pct",
            "achieved_occupancy_pct",
            "compute_pct",
            "memory_pct",
        ),
        uses=(
            "vendor",
            "median_ns",
            "primary_class",
            "tensor_pct",
            "waves",
            "imbalance_sm_pct",
            "issue_active",
        ),
        applies=_applies,
        when=lambda k: k.meets("achieved_occupancy_pct"),
        because=(
            "{achieved_occupancy_pct} of the warp slots are filled on average; the launch allows "
            "{theoretical_occupancy_pct}"
        ),
        fix=(
            "Even out the work: blocks of equal length, long ones first, more and smaller blocks "
            "than fit at once, and warps of a block that end together."
        ),
        refute="Sort or pad the work so that all blocks take equally long. The gap must close.",
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            "achieved_occupancy_pct": above(
                10, measure=_gap, words="more than {value} points below theoretical"
            ),
            "median_ns": at_least(BRIEF_NS, words="{op} {value} on AMD"),
            "tensor_pct": below(50, or_unknown=True),
        },
        references=("Nsight Compute AchievedOccupancy rule: 10 points",),
        fires=(
            {
                "vendor": "amd",
                "median_ns": 1e6,
                "theoretical_occupancy_pct": 100.0,
                "achieved_occupancy_pct": 60.0,
                "compute_pct": 30.0,
                "memory_pct": 40.0,
            },
            {
                "theoretical_occupancy_pct": 100.0,
                "achieved_occupancy_pct": 89.9,
                "compute_pct": 30.0,
                "memory_pct": 40.0,
            },
            {
                "theoretical_occupancy_pct": 50.0,
                "achieved_occupancy_pct": 25.0,
                "compute_pct": 30.0,
                "memory_pct": 40.0,
            },
        ),
        silent=(
            {
                "vendor": "amd",
                "median_ns": 999_999.0,
                "theoretical_occupancy_pct": 100.0,
                "achieved_occupancy_pct": 29.0,
                "compute_pct": 5.0,
                "memory_pct": 11.0,
            },
            {
                "theoretical_occupancy_pct": 100.0,
                "achieved_occupancy_pct": 90.0,
                "compute_pct": 30.0,
                "memory_pct": 40.0,
            },
            {
                "theoretical_occupancy_pct": 100.0,
                "achieved_occupancy_pct": 60.0,
                "compute_pct": 30.0,
                "memory_pct": 80.0,
            },
            {
                "theoretical_occupancy_pct": 50.0,
                "achieved_occupancy_pct": 25.0,
                "compute_pct": 50.0,
                "memory_pct": 40.0,
                "tensor_pct": 50.0,
            },
        ),
    ),
)
