"""The grid is too small for the device."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least, below
from traceroof.rules._kernels import COUNTED, HEADROOM, STATE, counted, has_headroom, spare

# The device table has GPUs of 16 to 304.
_SCHEDULERS = 4
_FEW_MULTIPROCESSORS, _MOST_MULTIPROCESSORS = 16, 304


def _fires(k: Facts) -> Mask:
    # Persistent kernels leave a part of the multiprocessors to what runs beside them: 112 of 132
    # beside communication. Then little is to be gained.
    return k.meets("waves") & (k.meets("blocks") | k.meets("waves_left_free"))


def _saves(k: Facts, peak: Attainable) -> Column:
    empty = np.where(k.blocks < k.sm_count, 1 - k.blocks / k.sm_count, 1 - k.waves)
    # A multiprocessor (compute unit) runs warps on four schedulers, and small blocks leave some idle.
    idle = 1 - k.warps / (_SCHEDULERS * k.sm_count)
    empty = np.where(k.blocks < k.sm_count, np.fmax(empty, idle), empty)
    return np.asanyarray(np.fmin(empty, spare(k, peak)))


_FEW = {"blocks": 4.0, "median_ns": 7.5e8, "threads_per_block": 64.0, "by_counters": 1.0}

RULES = (
    Rule(
        id="small-grid",
        topic="small-grid",
        title="The grid is too small for the device",
        scope="kernel",
        why=(
            "All blocks fit on the device at once, and room is left. Multiprocessors (compute "
            "units) stay empty or hold fewer warps than they could, from the first cycle to the "
            "last."
        ),
        condition=(
            "less than {waves} wave of blocks; with fewer blocks than multiprocessors, less than "
            "{waves_left_free} of a wave, because a persistent kernel may leave some of them free "
            "for communication on purpose"
        ),
        needs=("waves",),
        uses=(*STATE, "blocks", "sm_count", "threads_per_block", "waves_per_sm", "warps"),
        applies=has_headroom,
        when=_fires,
        because=(
            "{waves:.3g} waves of blocks, where one fills the device"
            "[ ({blocks:,.0f} blocks, {sm_count:.0f} multiprocessors)]"
        ),
        fix=(
            "Launch more blocks: use smaller tiles, split the reduction dimension over blocks "
            "(split-K, stream-K), increase the batch, or process several small inputs in one "
            "launch. Otherwise run independent kernels beside it on other streams."
        ),
        refute=(
            "Compare the active cycles of the multiprocessors. If all are equally and fully "
            "active, the grid is not the limit."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="refactor",
        # The empty multiprocessors are the cause of all of these.
        suppresses=(
            "occ-limited-*",
            "occ-achieved-gap",
            "issue-slots-idle",
            "stall-no-instruction",
            "imbalance-sm",
        ),
        thresholds={
            **HEADROOM,
            "waves": below(1),
            "waves_left_free": below(
                0.8, column="waves", words="< {value} with fewer blocks than multiprocessors"
            ),
            "blocks": at_least(1, of="sm_count", or_unknown=True),
        },
        references=(
            "Nsight Compute LaunchConfiguration rule: grid smaller than the multiprocessors",
            "Nsight Compute SpeedOfLight rule: small grid below one wave",
            "DeepSeek-V3 Technical Report: 20 of 132 multiprocessors communicate; 0.8 is a judgement",
        ),
        fires=(
            {"waves": 0.99, "blocks": 213.0, "sm_count": 108.0},
            {"waves": 0.5, "blocks": 54.0, "sm_count": 108.0, "compute_pct": 20.0},
            {"waves": 0.9, "blocks": 108.0, "sm_count": 108.0},
            {"waves": 104 / 132, "blocks": 104.0, "sm_count": 132.0},
        ),
        silent=(
            {"waves": 1.0, "blocks": 216.0, "sm_count": 108.0},
            {"waves": 107 / 108, "blocks": 107.0, "sm_count": 108.0},
            {"waves": 112 / 132, "blocks": 112.0, "sm_count": 132.0},
            {"waves": 0.9, "compute_pct": 80.0, "memory_pct": 30.0},
            {"waves": 0.1, "primary_class": "launch-bound"},
        ),
    ),
    Rule(
        id="few-blocks",
        topic="small-grid",
        title="A handful of blocks cannot fill any GPU",
        scope="kernel",
        why=(
            "Each block runs on one multiprocessor (compute unit), and GPUs have dozens of them, "
            "each with room for several blocks. A handful of blocks leaves nearly all of it empty."
        ),
        condition=(
            "fewer than {blocks} blocks in a kernel of {median_ns} or more, where the number of "
            "multiprocessors is unknown"
        ),
        needs=("blocks", "median_ns"),
        uses=("primary_class", "compute_pct", "memory_pct", "waves", "threads_per_block", *COUNTED),
        # With the number of multiprocessors, the waves tell.
        applies=lambda k: counted(k) & has_headroom(k) & np.isnan(k.waves),
        when=lambda k: k.meets("blocks") & k.meets("median_ns"),
        because="{blocks:.0f} blocks of {threads_per_block:.0f} threads run for {median_ns}",
        fix=(
            "Launch at least as many blocks as the GPU has multiprocessors, better four times as "
            "many: a grid over all elements, nested loops collapsed into one, the reduction "
            "dimension split over blocks."
        ),
        refute="Launch twice as many blocks for the same work. The time must fall by nearly half.",
        saves=lambda k, peak: 1 - k.blocks / _MOST_MULTIPROCESSORS,
        likely=lambda k, peak: 1 - k.blocks / _FEW_MULTIPROCESSORS,
        kind="conditional",
        grade="observed",
        layer="operator",
        effort="refactor",
        suppresses=(
            "occ-limited-*",
            "occ-achieved-gap",
            "issue-slots-idle",
            "stall-*",
            "block-not-warp-multiple",
            "tail-by-active-cycles",
        ),
        thresholds={
            **HEADROOM,
            "blocks": below(16),
            "median_ns": at_least(20_000),
        },
        references=(
            "device table: 16 to 304 multiprocessors (compute units)",
            "NVIDIA CUDA C++ Best Practices Guide: thread and block heuristics",
        ),
        fires=(
            _FEW,
            {**_FEW, "blocks": 15.0, "median_ns": 20_000.0},
        ),
        silent=(
            {**_FEW, "blocks": 16.0},
            {**_FEW, "median_ns": 19_000.0},
            {**_FEW, "by_counters": 0.0},
            {**_FEW, "waves": 0.02},
        ),
    ),
)
