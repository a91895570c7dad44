"""The shape of a block: too large for the warp slots, or slower than another one in the file."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Rule, above, at_least, at_most, below
from traceroof.rules._kernels import (
    COUNTED,
    HEADROOM,
    MATRIX,
    MATRIX_WORK,
    counted,
    has_headroom,
    matrix_work,
    spare,
)
from traceroof.rules._least import KEPT, beyond_kept


def _leaves_slots(k: Facts) -> Mask:
    return np.asanyarray(k.meets("block_occupancy_pct") & k.meets("threads_per_block"))


def _applies(k: Facts) -> Mask:
    # With too few blocks to fill the slots, or another limit that is lower, the size is not it.
    alone = k.meets("waves") & k.meets("theoretical_occupancy_pct")
    open_to_change = counted(k) & has_headroom(k) & ~matrix_work(k)
    return np.asanyarray(open_to_change & alone & k.meets("kernel_dram_pct"))


def _saves(k: Facts, peak: Attainable) -> Column:
    # Blocks of another size execute the same instructions and move the same bytes at every level.
    return np.asanyarray(np.fmin(beyond_kept(k, peak), spare(k, peak)))


def _likely(k: Facts, peak: Attainable) -> Column:
    # Twice the warps do not halve the time: measured pairs gained 15 to 28 % of it.
    return np.asanyarray(np.minimum(_saves(k, peak), 0.5 * (1 - k.block_occupancy_pct / 100)))


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
            "at least three block shapes of one kernel were measured with equally many threads in "
            "all, and this one takes more than {median_ns:g} times as long as the fastest"
        ),
        needs=("median_ns", "best_shape_ns"),
        uses=("primary_class", "threads_per_block", "best_shape", "achieved_occupancy_pct"),
        # Without a sweep there is nothing to compare with.
        applies=lambda k: ~np.isnan(k.best_shape_ns),
        when=lambda k: k.meets("median_ns"),
        because=(
            "it takes {median_ns} with {threads_per_block:.0f} threads per block, and "
            "{best_shape_ns} with blocks of {best_shape}"
        ),
        fix=(
            "Use the fastest shape of the file. Fast shapes usually have whole warps along x and "
            "128 to 256 threads, so that several blocks fit on a multiprocessor."
        ),
        refute="Repeat both shapes in turn. If the order changes, the difference is noise.",
        saves=lambda k, peak: 1 - k.best_shape_ns / k.median_ns,
        kind="hard",
        grade="observed",
        layer="operator",
        effort="one-line",
        suppresses=("block-not-warp-multiple", "block-too-large", "occ-*"),
        thresholds={"median_ns": above(1.1, of="best_shape_ns")},
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
            "A block is resident as a whole. One block of 1,024 threads on a multiprocessor for "
            "1,536 leaves a third of the warp slots empty. While that block waits at a barrier or "
            "for its last warp, nothing else runs."
        ),
        condition=(
            "blocks of more than {threads_per_block} threads, which fill at most "
            "{block_occupancy_pct} of the warp slots; the grid fills the device, no other limit on "
            "occupancy is lower, device memory is used below {kernel_dram_pct}, and nothing is at "
            "its wall"
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
            "Use blocks of 128 to 256 threads, which divide the warp slots of every GPU. Keep the "
            "same number of threads in all, or let each thread process several elements."
        ),
        refute=(
            "Launch blocks of a quarter of the size. If the time stays, the resident warps were "
            "enough."
        ),
        saves=_saves,
        likely=_likely,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="one-line",
        suppresses=("occ-limited-warps",),
        thresholds={
            **HEADROOM,
            **MATRIX_WORK,
            "block_occupancy_pct": at_most(75),
            "threads_per_block": above(512),
            "waves": at_least(1, or_unknown=True),
            "theoretical_occupancy_pct": at_most(
                1,
                measure=lambda k: k.block_occupancy_pct - k.theoretical_occupancy_pct,
                or_unknown=True,
                words="not below block_occupancy_pct",
            ),
            "kernel_dram_pct": below(WALL_PCT, or_unknown=True),
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
