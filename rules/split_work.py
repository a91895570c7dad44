"""Work that is split over blocks is done again by each of them."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above
from traceroof.rules._kernels import tunable
from traceroof.rules._least import KEPT, beyond_kept


def _redone(k: Facts) -> Mask:
    return np.asanyarray(k.meets("instructions") | k.meets("flops_over_model"))


def _part(k: Facts) -> Column:
    """The part of the instructions, or operations, that was done before."""
    return np.asanyarray(1 - np.fmin(k.least_instructions / k.instructions, 1 / k.flops_over_model))


def _applies(k: Facts) -> Mask:
    splits = (k.name_split_k == 1) & ~np.isnan(k.flops_over_model)
    return np.asanyarray(tunable(k) & (~np.isnan(k.least_instructions) | splits))


def _likely(k: Facts, peak: Attainable) -> Column:
    # The instructions go, and with them as much of the time as they keep the issue slots busy.
    return np.asanyarray(np.fmin(0.5 * _part(k), beyond_kept(k, peak)))


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(np.fmin(_part(k), beyond_kept(k, peak)))


_SPLIT = {"instructions": 2.0e8, "least_instructions": 1.2e8}

RULES = (
    Rule(
        id="split-work-redone",
        topic="algorithm",
        title="Blocks that share one piece of work each do a part of it again",
        scope="kernel",
        why=(
            "Splitting the inner dimension over more blocks fills the device. What is not split, a "
            "softmax over the whole row, index arithmetic, loads of the shared operand, is then "
            "done once in every split. More blocks run, and each does more than its part."
        ),
        condition=(
            "the profile holds the kernel on the same bytes with another grid, and this launch takes "
            "more than {instructions:g} times its fewest instructions; or a split product does more "
            "than {flops_over_model:g} times the operations that its shapes need"
        ),
        needs=("threads_per_block",),
        uses=(
            "primary_class", "name_split_k", "least_instructions", "instructions",
            "flops_over_model", "blocks", *KEPT,
        ),
        applies=_applies,
        when=_redone,
        because=(
            "[it executes {instructions:,.0f} instructions, and {least_instructions:,.0f} with "
            "another grid on the same bytes][; it does {flops_over_model:.2g} times the operations "
            "that its shapes need]"
        ),
        fix=(
            "Use fewer splits, as few as fill the device once. Do what the splits have in common "
            "once, before them or in the kernel that adds them up."
        ),
        refute=(
            "Halve the number of splits. The instructions must fall, and the time with them. If the "
            "time grows, the device was no longer full."
        ),
        saves=_saves,
        likely=_likely,
        kind="conditional",
        grade="derived",
        layer="operator",
        thresholds={
            "instructions": above(1.3, of="least_instructions"),
            "flops_over_model": above(1.3),
        },
        references=(
            "Dao et al.: Flash-Decoding for long-context inference, 2023",
            "Osama et al.: Stream-K, PPoPP 2023",
        ),
        fires=(
            {**_SPLIT, "threads_per_block": 128.0},
            {"instructions": 1.57e8, "least_instructions": 1.2e8, "threads_per_block": 128.0},
            {"name_split_k": 1.0, "flops_over_model": 1.4, "threads_per_block": 128.0},
        ),
        silent=(
            {"instructions": 1.55e8, "least_instructions": 1.2e8, "threads_per_block": 128.0},
            {"name_split_k": 1.0, "flops_over_model": 1.2, "threads_per_block": 128.0},
            # Nothing says that it is split.
            {"flops_over_model": 2.0, "threads_per_block": 128.0},
            {**_SPLIT, "threads_per_block": 128.0, "primary_class": "launch-bound"},
        ),
    ),
)  # fmt: skip
