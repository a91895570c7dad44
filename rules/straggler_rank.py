"""One rank keeps the others waiting, or a few do."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, above, at_least


def _fires(k: Facts) -> Mask:
    slower = k.meets("slowest_compute_ratio") | k.meets("slowest_own_ratio")
    return k.meets("slowest_share") & slower & k.meets("waiting_ns")


def _waiting(k: Facts) -> Column:
    """What all ranks wait together, of the GPU time of all."""
    return np.asanyarray(k.waiting_ns * k.ranks / k.time_ns)


def _longer(k: Facts) -> Column:
    """What the run gets shorter at most once the slowest takes no longer than the median, of the
    time of the rank that takes longest."""
    return np.asanyarray(k.straggler_more_ns / k.longest_span_ns)


_FIX = (
    "More computation means uneven work or a slower GPU, more idle time means a late host. Uneven "
    "work: check data, experts, layers. A slower GPU: check clocks, power, temperature "
    "(`nvidia-smi -q -d PERFORMANCE`, `rocm-smi`). A late host: check data loading on one rank, a "
    "busy or throttled CPU, logging, NUMA binding."
)

RULES = (
    Rule(
        id="straggler-rank",
        topic="late-rank",
        title="One rank keeps the others waiting",
        scope="run",
        why=(
            "A collective ends when its last rank arrives. The other ranks spend the time until "
            "then inside it, which looks like slow communication. The time is lost on the rank "
            "that arrives late."
        ),
        condition=(
            "with {ranks:.0f} ranks or more, one rank causes at least {slowest_share:.0%} of the "
            "waiting in matched collectives, its computation is more than {slowest_compute_ratio} "
            "times the median of the ranks that it meets or its time outside communication more "
            "than {slowest_own_ratio} times, and the ranks wait for {waiting_ns:.0%} of their "
            "time or more"
        ),
        needs=("slowest_rank", "slowest_share", "waiting_ns", "ranks"),
        uses=(
            "slowest_last_share",
            "slowest_compute_ratio",
            "slowest_own_ratio",
            "waiting_share",
            "time_ns",
            "matched_collectives",
        ),
        # Waiting is only known of ranks whose clocks agree.
        applies=lambda k: k.meets("ranks") & ~np.isnan(k.waiting_ns),
        when=_fires,
        because=(
            "rank {slowest_rank:.0f} causes {slowest_share:.0%} of the waiting: {waiting_ns} per "
            "rank on average, on {ranks:.0f} ranks (the time saved is their sum)[, "
            "{waiting_share:.0%} of their communication][. Its computation is "
            "{slowest_compute_ratio:.2f} times as long as that of the median rank][, and its "
            "time outside communication is "
            "{slowest_own_ratio:.2f} times as long]"
        ),
        fix=(f"Read the findings of that rank. {_FIX}"),
        refute=(
            "Swap two ranks between machines. If the longer compute time stays with the machine, "
            "it is hardware. If it moves with the rank, it is data or code."
        ),
        saves=lambda k, peak: _waiting(k),
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="refactor",
        suppresses=("wait-in-collective", "rank-compute-imbalance", "slow-ranks"),
        thresholds={
            "ranks": at_least(2),
            "slowest_share": at_least(0.6),
            "slowest_compute_ratio": above(1.05, words="{op} {value}, or"),
            "slowest_own_ratio": above(1.05),
            "waiting_ns": at_least(0.01, measure=_waiting, words="{op} {value:.0%} of the time"),
        },
        references=("Holistic Trace Analysis: stragglers enter the last collective late",),
        fires=(
            {
                "ranks": 2.0,
                "slowest_rank": 0.0,
                "slowest_share": 0.99,
                "slowest_own_ratio": 1.43,
                "slowest_compute_ratio": 1.0,
                "waiting_ns": 122e6,
                "waiting_share": 0.34,
                "time_ns": 1.22e9,
            },
            {
                "ranks": 8.0,
                "slowest_rank": 2.0,
                "slowest_share": 0.8,
                "slowest_own_ratio": 1.06,
                "waiting_ns": 1e6,
                "time_ns": 800e6,
            },
            {
                "ranks": 8.0,
                "slowest_rank": 3.0,
                "slowest_share": 0.6,
                "slowest_compute_ratio": 1.06,
                "waiting_ns": 1e6,
                "time_ns": 800e6,
            },
        ),
        silent=(
            {
                "ranks": 8.0,
                "slowest_rank": 4.0,
                "slowest_share": 0.59,
                "slowest_own_ratio": 1.2,
                "waiting_ns": 5e6,
                "time_ns": 100e6,
            },
            {
                "ranks": 2.0,
                "slowest_rank": 1.0,
                "slowest_share": 0.63,
                "slowest_compute_ratio": 1.002,
                "slowest_own_ratio": 1.0,
                "waiting_ns": 50e6,
                "time_ns": 1e9,
            },
            {
                "ranks": 2.0,
                "slowest_rank": 1.0,
                "slowest_share": 0.9,
                "slowest_own_ratio": 1.2,
                "waiting_ns": 4.9e6,
                "time_ns": 1e9,
            },
            {},
        ),
    ),
    Rule(
        id="slow-ranks",
        topic="late-rank",
        title="A few ranks take longer than all others",
        scope="run",
        why=(
            "Every step ends when its slowest rank has arrived at the collectives. Ranks that take "
            "longer for their own work make all others wait, however few they are: the more ranks a "
            "job has, the smaller is the part of the waiting that one of them causes itself."
        ),
        condition=(
            "a few ranks take longer outside exposed communication than the median rank, far beyond "
            "the scatter of the others, the slowest by {straggler_more_ns:.0%} of the time or more"
        ),
        needs=("stragglers", "straggler_more_ns", "straggler_ranks", "ranks", "longest_span_ns"),
        uses=("straggler_share", "waiting_ns"),
        applies=lambda k: ~np.isnan(k.stragglers),
        when=lambda k: k.meets("straggler_more_ns"),
        because=(
            "{stragglers:.0f} of {ranks:,.0f} ranks take longer for their own work (rank "
            "{straggler_ranks}), the slowest {straggler_more_ns}[, {straggler_share:.0%} more than "
            "the median rank][; on average a rank waits {waiting_ns} for others]"
        ),
        fix=f"Read the findings of these ranks (--rank N). {_FIX}",
        refute=(
            "Swap such a rank with another machine. If the longer time stays with the machine, it "
            "is hardware. If it moves with the rank, it is data or code."
        ),
        saves=lambda k, peak: _longer(k),
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="refactor",
        suppresses=("wait-in-collective", "rank-compute-imbalance"),
        thresholds={
            "straggler_more_ns": at_least(
                0.01, measure=_longer, words="{op} {value:.0%} of the time"
            ),
        },
        references=("Holistic Trace Analysis: stragglers enter the last collective late",),
        fires=(
            {
                "ranks": 256.0,
                "stragglers": 2.0,
                "straggler_ranks": "200, 70",
                "straggler_more_ns": 6e6,
                "straggler_share": 0.29,
                "waiting_ns": 3.9e6,
                "longest_span_ns": 30e6,
            },
            {
                "ranks": 256.0,
                "stragglers": 1.0,
                "straggler_ranks": "3",
                "straggler_more_ns": 0.31e6,
                "straggler_share": 0.03,
                "longest_span_ns": 30e6,
            },
        ),
        silent=(
            {
                "ranks": 256.0,
                "stragglers": 1.0,
                "straggler_ranks": "3",
                "straggler_more_ns": 0.29e6,
                "straggler_share": 0.03,
                "longest_span_ns": 30e6,
            },
            {},
        ),
    ),
)
