"""Fewer warps reside than the launch allows."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import has_headroom, on_amd, spare
from traceroof.scopes.subjects import BRIEF_NS


def _applies(k: Facts) -> Mask:
    ramps = on_amd(k) & ~(k.median_ns >= BRIEF_NS)
    return np.asanyarray(has_headroom(k) & ~(k.tensor_pct >= 50) & ~ramps)


def _saves(k: Facts, peak: Attainable) -> Column:
    gap = 1 - k.achieved_occupancy_pct / k.theoretical_occupancy_pct
    return np.asanyarray(np.fmin(gap, spare(k, peak)))


RULES = (
    Rule(
        id="occ-achieved-gap",
        topic="imbalance",
        title="Fewer warps reside than the launch allows",
        scope="kernel",
        why=(
            "Warp slots that the launch could fill stay empty: blocks of uneven length, warps of a "
            "block that end early, a partly empty last wave, or blocks so short that starting them "
            "cannot keep up."
        ),
        condition=(
            "achieved occupancy more than 10 points below theoretical, nothing at its wall; on AMD "
            "in kernels of 1 ms or more only"
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
        when=lambda k: k.theoretical_occupancy_pct - k.achieved_occupancy_pct > 10,
        because=(
            "{achieved_occupancy_pct} of the warp slots were filled on average, where the launch "
            "allows {theoretical_occupancy_pct}"
        ),
        fix=(
            "Even out the work: blocks of equal length, long ones first, more and smaller blocks "
            "than fit at once, warps of a block that end together."
        ),
        refute="Sort or pad the work so that all blocks take equally long: the gap must close.",
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={"achieved_occupancy_pct": "theoretical - 10"},
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
