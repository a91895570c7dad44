"""The shape of a block: too large for the warp slots, or slower than another one in the file."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import (
    COUNTED,
    HEADROOM,
    MATRIX,
    MATRIX_WORK,
    counted,
    has_headroom,
    matrix_work,
)
from traceroof.rules._least import KEPT, beyond_kept

_LARGE = 512


def _leaves_slots(k: Facts) -> Mask:
    return np.asanyarray((k.block_occupancy_pct <= 75) & (k.threads_per_block > _LARGE))


def _applies(k: Facts) -> Mask:
    # Too few blocks to fill the slots anyway, or another limit that is lower.
    others = (k.waves < 1) | (k.theoretical_occupancy_pct < k.block_occupancy_pct - 1)
    open_to_change = counted(k) & has_headroom(k) & ~matrix_work(k)
    return np.asanyarray(open_to_change & ~others & ~(k.kernel_dram_pct >= 80))


def _likely(k: Facts, peak: Attainable) -> Column:
    # Twice the warps do not halve the time: measured pairs gained 15 to 28 % of it.
    return np.asanyarray(np.minimum(beyond_kept(k, peak), 0.5 * (1 - k.block_occupancy_pct / 100)))


_SHAPES = {"median_ns": 18.8e6, "best_shape_ns": 14.1e6, "best_shape": "64 x 4 x 1"}
_BLOCK = {"block_occupancy_pct": 66.7, "threads_per_block": 1024.0, "by_counters": 1.0}

RULES = (
    Rule(
        id="block-shape-measured",
        topic="occupancy-block",
        title="The same kernel ran faster with blocks of another shape",
        scope="kernel",
        why=(
            "The profile holds one kernel at several block shapes with equally many threads. "
            "Nothing is estimated: the shapes were measured side by side."
        ),
        condition=(
            "at least three block shapes of one kernel with as many threads in all, the best of "
            "them 10 % faster or more"
        ),
        needs=("median_ns", "best_shape_ns"),
        uses=("primary_class", "threads_per_block", "best_shape", "achieved_occupancy_pct"),
        # Without a sweep there is nothing to compare with.
        applies=lambda k: ~np.isnan(k.best_shape_ns),
        when=lambda k: 1.1 * k.best_shape_ns < k.median_ns,
        because=(
            "it takes {median_ns} with {threads_per_block:.0f} threads a block, and "
            "{best_shape_ns} with blocks of {best_shape}"
        ),
        fix=(
            "Take the fastest shape of the file. What fast ones have in common: whole warps "
            "along x, 128 to 256 threads, so that several blocks fit on a multiprocessor."
        ),
        refute="Repeat both shapes in turn: if the order changes, the difference is noise.",
        saves=lambda k, peak: 1 - k.best_shape_ns / k.median_ns,
        kind="hard",
        grade="observed",
        layer="operator",
        effort="one-line",
        suppresses=("block-not-warp-multiple", "block-too-large", "occ-*"),
        thresholds={"best_shape_ns": "< median_ns / 1.1"},
        references=("measured in the file itself",),
        # 1.1 x 14.1 = 15.5 ms.
        fires=(_SHAPES, {**_SHAPES, "median_ns": 15.6e6}),
        silent=({**_SHAPES, "median_ns": 15.4e6}, {**_SHAPES, "median_ns": 14.1e6}),
    ),
    Rule(
        id="block-too-large",
        topic="occupancy-block",
        title="Blocks are so large that warp slots stay empty",
        scope="kernel",
        why=(
            "Blocks reside as a whole. One block of 1,024 threads on a multiprocessor for 1,536 "
            "leaves a third of its slots empty, and while that block waits at a barrier or for its "
            "last warp nothing else runs."
        ),
        condition=(
            "more than 512 threads a block, of which so few blocks fit that 25 % or more of the "
            "warp slots stay empty; nothing at its wall"
        ),
        needs=("block_occupancy_pct", "threads_per_block"),
        uses=(
            "primary_class", "compute_pct", "memory_pct", "waves", "warp_slots",
            "theoretical_occupancy_pct", "achieved_occupancy_pct", *MATRIX, *KEPT, *COUNTED,
        ),
        applies=_applies,
        when=_leaves_slots,
        because=(
            "blocks of {threads_per_block:.0f} threads fill at most {block_occupancy_pct} of the "
            "warp slots[; {achieved_occupancy_pct} were filled]"
        ),
        fix=(
            "Blocks of 128 to 256 threads, which divide the slots of every GPU; keep the same "
            "number of threads in all, or let each do several elements."
        ),
        refute=(
            "Launch blocks of a quarter of the size: if the time stays, the warps that reside were "
            "enough."
        ),
        saves=beyond_kept,
        likely=_likely,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="one-line",
        suppresses=("occ-limited-warps",),
        thresholds={
            **HEADROOM,
            **MATRIX_WORK,
            "block_occupancy_pct": "<= 75",
            "threads_per_block": "> 512",
        },
        references=(
            "NVIDIA CUDA C++ Programming Guide: warps per multiprocessor by compute capability",
            "NVIDIA CUDA C++ Best Practices Guide: thread and block heuristics",
        ),
        fires=(_BLOCK, {**_BLOCK, "block_occupancy_pct": 75.0, "threads_per_block": 513.0}),
        silent=(
            {**_BLOCK, "block_occupancy_pct": 75.1},
            {**_BLOCK, "by_counters": 0.0},
            {**_BLOCK, "threads_per_block": 512.0},
            {**_BLOCK, "waves": 0.5},
            {**_BLOCK, "compute_pct": 97.0},
            {**_BLOCK, "kernel_dram_pct": 85.0},
        ),
    ),
)  # fmt: skip
