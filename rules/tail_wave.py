"""The last wave of blocks is partly empty."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least, at_most, below
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, of_class, spare, tunable
from traceroof.rules._least import KEPT, beyond_kept


def _tail(k: Facts) -> Mask:
    return k.meets("whole_waves") & k.meets("waves")


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(np.fmin(1 - k.waves / np.ceil(k.waves), spare(k, peak)))


def _active_saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(np.fmin(1 - k.sm_active_pct / 100, beyond_kept(k, peak)))


def _idles(k: Facts) -> Mask:
    # Many waves leave no tail: what a short kernel then idles is its start.
    tail = k.meets("few_waves") | k.meets("long")
    return k.meets("sm_active_pct") & k.meets("waves") & k.meets("median_ns") & tail


_IDLE = {"sm_active_pct": 72.0, "waves": 1.95, "median_ns": 1e5}

RULES = (
    Rule(
        id="tail-by-active-cycles",
        topic="tail-wave",
        title="Multiprocessors are empty for a part of the kernel",
        scope="kernel",
        why=(
            "A multiprocessor without a block does nothing. The count of blocks may hide it: where "
            "some of them find no work (padding of a swizzled tile order, early exits), the waves "
            "look full and are not. The cycles in which multiprocessors held a block tell."
        ),
        condition=(
            "multiprocessors hold a block for less than {sm_active_pct} of the elapsed cycles, with "
            "at least {waves} wave of blocks, in a kernel of {median_ns} or more ({long} with more "
            "than {few_waves:.0f} waves, which a start-up of some microseconds does not outweigh)"
        ),
        needs=("sm_active_pct", "median_ns"),
        uses=("primary_class", "waves", "blocks", "sm_count", "tensor_pct", *KEPT),
        # At the wall of device memory the others keep it busy meanwhile.
        applies=lambda k: tunable(k) & ~of_class(k, "dram-bound"),
        when=_idles,
        because=(
            "multiprocessors hold a block for {sm_active_pct} of the time[, although {waves} waves "
            "of blocks were launched]"
        ),
        fix=(
            "Count the blocks that do work. If they are fewer than the multiprocessors, launch more: "
            "smaller tiles, the reduction dimension split over blocks. Otherwise choose the tile so "
            "that they fill whole waves: another tile shape or library algorithm, stream-K, or "
            "persistent blocks that share what is left."
        ),
        refute=(
            "Compare the active cycles of the multiprocessors: if all are short, the launch itself "
            "takes the time; if some are, the tail does."
        ),
        saves=_active_saves,
        kind="hard",
        grade="observed",
        layer="operator",
        suppresses=(
            "tail-wave",
            "imbalance-sm",
            "imbalance-smsp",
            "imbalance-l1",
            "occ-achieved-gap",
        ),
        thresholds={
            "sm_active_pct": below(85),
            "waves": at_least(1, or_unknown=True),
            "median_ns": at_least(10_000),
            "few_waves": at_most(8, column="waves", or_unknown=True),
            "long": at_least(200_000, column="median_ns"),
        },
        references=(
            "Nsight Compute WorkloadDistribution section: active cycles of multiprocessors",
            "NVIDIA CUTLASS documentation: threadblock swizzle and stream-K",
        ),
        fires=(
            _IDLE,
            {**_IDLE, "sm_active_pct": 84.9},
            {**_IDLE, "waves": 1.0, "median_ns": 10_000.0},
            {**_IDLE, "waves": 48.8, "median_ns": 200_000.0},
        ),
        silent=(
            {**_IDLE, "sm_active_pct": 85.0},
            {**_IDLE, "primary_class": "dram-bound"},
            {**_IDLE, "waves": 0.9},
            {**_IDLE, "median_ns": 9_900.0},
            # A row sum of 54 us in 48.8 waves: 10 us are its start.
            {**_IDLE, "waves": 48.8, "sm_active_pct": 81.6, "median_ns": 53_630.0},
            {**_IDLE, "waves": 8.1, "median_ns": 199_000.0},
        ),
    ),
    Rule(
        id="tail-wave",
        topic="tail-wave",
        title="The last wave of blocks is partly empty",
        scope="kernel",
        why=(
            "Blocks run in waves that fill the device. The last wave takes as long as a full one "
            "but leaves multiprocessors idle. The estimate compares the number of waves with the "
            "next whole number, so a nearly full last wave costs little. It assumes blocks of equal "
            "length."
        ),
        condition="at least one whole wave, and the waves are at most {waves:.0%} full on average",
        needs=("waves",),
        uses=(*STATE, "blocks", "sm_count", "registers_per_thread", "cluster_size"),
        applies=has_headroom,
        when=_tail,
        because="{waves} waves of blocks: the last one is partly empty",
        fix=(
            "Choose the tile or grid so that the last wave is nearly full. Or let one wave of "
            "persistent blocks share the work (stream-K, a loop over tiles)."
        ),
        refute=(
            "Launch as many blocks as fill the last wave. The time must not grow. If it grows with "
            "the number of blocks, their lengths differ and there is no tail to remove."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            "whole_waves": at_least(1, column="waves", words=">= {value}"),
            "waves": at_most(
                0.9, of=lambda k: np.ceil(k.waves), words="<= {value} of the next whole number"
            ),
        },
        references=(
            "Nsight Compute LaunchConfiguration rule: tail effect",
            "NVIDIA, Matrix Multiplication Background User's Guide: wave quantisation",
        ),
        # 1 - 1.8/2 = 10 %; 1 - 109/216 = 49.5 %, one block more than a wave of 108.
        fires=({"waves": 1.8}, {"waves": 109 / 108, "blocks": 109.0, "sm_count": 108.0}),
        silent=(
            {"waves": 1.81},
            {"waves": 2.0},
            {"waves": 0.5},
            {"waves": 9.1},
            {"waves": 1.1, "compute_pct": 85.0, "primary_class": "compute-bound"},
        ),
    ),
)
