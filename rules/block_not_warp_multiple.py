"""Blocks do not fill their last warp."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, above
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare
from traceroof.rules._least import KEPT, beyond_kept


def _saves(k: Facts, peak: Attainable) -> Column:
    warps = np.ceil(k.threads_per_block / k.warp_size)
    empty = 1 - np.mod(k.threads_per_block, k.warp_size) / k.warp_size
    # Of blocks below a warp so few fit that slots stay empty as well; in a small grid it says so.
    by_slots = (warps == 1) & (k.achieved_occupancy_pct > 0) & ~(k.waves < 1)
    filled = (1 - empty / warps) * np.where(by_slots, k.achieved_occupancy_pct / 100, 1.0)
    return np.asanyarray(np.fmin(np.fmin(1 - filled, spare(k, peak)), beyond_kept(k, peak)))


def _likely(k: Facts, peak: Attainable) -> Column:
    warps = np.ceil(k.threads_per_block / k.warp_size)
    empty = 1 - np.mod(k.threads_per_block, k.warp_size) / k.warp_size
    return np.asanyarray(np.fmin(empty / warps, _saves(k, peak)))


RULES = (
    Rule(
        id="block-not-warp-multiple",
        topic="occupancy-block",
        title="Blocks do not fill their last warp",
        scope="kernel",
        why=(
            "A warp (wavefront) is issued as a whole: 32 threads, 64 on AMD wave64. If the threads "
            "of a block are not a multiple of that, the last warp of every block takes issue slots "
            "for lanes that do nothing."
        ),
        condition=(
            "the threads per block are not a multiple of the warp size, nothing at its wall"
        ),
        needs=("threads_per_block", "warp_size"),
        uses=(*STATE, "achieved_occupancy_pct", "waves", *KEPT),
        applies=has_headroom,
        when=lambda k: k.meets("threads_per_block"),
        because="{threads_per_block:.0f} threads per block in warps of {warp_size:.0f}",
        fix="Round the block size up to a multiple of the warp size. Mask the threads beyond the data.",
        refute="Round it up. Instructions per useful element, and the time, must fall.",
        saves=_saves,
        likely=_likely,
        kind="conditional",
        grade="observed",
        layer="hardware",
        effort="one-line",
        thresholds={
            **HEADROOM,
            "threads_per_block": above(
                0,
                measure=lambda k: np.mod(k.threads_per_block, k.warp_size),
                words="no multiple of warp_size",
            ),
        },
        references=("Nsight Compute LaunchConfiguration rule: block size",),
        fires=(
            # 4 warps, the last with 4 of 32 lanes: (1 - 4/32) / 4 = 21.9 %.
            {"threads_per_block": 100.0, "warp_size": 32.0},
            {"threads_per_block": 96.0, "warp_size": 64.0},
            {"threads_per_block": 33.0, "warp_size": 32.0, "compute_pct": 30.0},
        ),
        silent=(
            {"threads_per_block": 96.0, "warp_size": 32.0},
            {"threads_per_block": 256.0, "warp_size": 64.0},
            {"threads_per_block": 100.0, "warp_size": 32.0, "primary_class": "dram-bound"},
        ),
    ),
)
