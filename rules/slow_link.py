"""Collectives of one group take longer than those of groups like it."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least


def _excess(k: Facts) -> Column:
    """What the run gets shorter at most, of the time of the rank that takes longest."""
    return np.asanyarray(k.slow_group_excess_ns / k.longest_span_ns)


RULES = (
    Rule(
        id="slow-link",
        topic="slow-link",
        title="The link between some ranks is slower than others of its kind",
        scope="run",
        why=(
            "Groups of the same kind and size send the same messages over links that should be "
            "equal. One that takes longer, counted from the start of its last rank, has a slower "
            "link, and whoever meets its ranks later waits for them."
        ),
        condition=(
            "the collectives of a group take far longer than those of groups of the same kind, size "
            "and message, and the excess is {slow_group_excess_ns:.0%} of the time or more"
        ),
        needs=("slow_groups", "slow_group_excess_ns", "slow_group_ranks", "longest_span_ns"),
        uses=("slow_group_ratio", "slow_group_size", "slow_group_collective"),
        applies=lambda k: ~np.isnan(k.slow_groups),
        when=lambda k: k.meets("slow_group_excess_ns"),
        because=(
            "ranks {slow_group_ranks}: their collectives ({slow_group_collective}) take "
            "{slow_group_ratio:.1f} times as long as in the other groups of their kind, "
            "{slow_group_excess_ns} more in all"
        ),
        fix=(
            "Measure the link alone between the nodes or GPUs of these ranks (nccl-tests or "
            "rccl-tests, `ib_write_bw`). Check the state and error counters of adapters and cables "
            "(`ibstat`, `perfquery`), the width of PCIe (`lspci -vv`), NVLink (`nvidia-smi nvlink "
            "-s`), and which transport was chosen (NCCL_DEBUG=INFO). Take the node out if it "
            "stays slow."
        ),
        refute=(
            "Exchange one of the two nodes. The slow group must move with the node or the cable."
        ),
        saves=lambda k, peak: _excess(k),
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="config",
        thresholds={
            "slow_group_excess_ns": at_least(
                0.01, measure=_excess, words="{op} {value:.0%} of the time"
            ),
        },
        references=("NVIDIA, NCCL documentation: troubleshooting of links and transports",),
        fires=(
            {
                "slow_groups": 1.0,
                "slow_group_ranks": "133, 141",
                "slow_group_collective": "_reduce_scatter_base",
                "slow_group_size": 2.0,
                "slow_group_ratio": 5.0,
                "slow_group_excess_ns": 15.8e6,
                "longest_span_ns": 30e6,
            },
            {
                "slow_groups": 1.0,
                "slow_group_ranks": "133, 141",
                "slow_group_collective": "allreduce",
                "slow_group_size": 2.0,
                "slow_group_ratio": 1.6,
                "slow_group_excess_ns": 0.31e6,
                "longest_span_ns": 30e6,
            },
        ),
        silent=(
            {
                "slow_groups": 1.0,
                "slow_group_ranks": "133, 141",
                "slow_group_collective": "allreduce",
                "slow_group_size": 2.0,
                "slow_group_ratio": 1.6,
                "slow_group_excess_ns": 0.29e6,
                "longest_span_ns": 30e6,
            },
            {},
        ),
    ),
)
