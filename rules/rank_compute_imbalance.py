"""Ranks have different amounts of work."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above


def _saves(k: Facts) -> Column:
    return np.asanyarray(k.compute_over_mean_ns * k.ranks / k.time_ns)


RULES = (
    Rule(
        id="rank-compute-imbalance",
        topic="late-rank",
        title="The ranks compute for different times",
        scope="run",
        why=(
            "Ranks that meet in collectives go at the pace of the one with most to compute in each "
            "step. Uneven batches, sequence lengths, embedding tables or experts make the others "
            "wait, in one step for this rank, in the next for that."
        ),
        condition=(
            "step by step, the largest computation of a rank over 10 % above the mean of all"
        ),
        needs=("step_imbalance", "compute_over_mean_ns", "ranks", "time_ns"),
        uses=("compute_imbalance", "slowest_changes"),
        applies=lambda k: k.ranks >= 2,
        when=lambda k: k.meets("step_imbalance"),
        because=(
            "in each step the rank with most to compute needs {step_imbalance:.0%} more than the "
            "mean of {ranks:,.0f} ranks: {compute_over_mean_ns} a rank over all steps (the time "
            "saved is the sum of the ranks)"
        ),
        fix=(
            "Give every rank the same work: batches of equal token counts, tables and layers "
            "sharded by measured cost, a limit on the tokens an expert takes."
        ),
        refute=(
            "Feed every rank the same batch: if the difference stays, it is the hardware or the "
            "placement of the model."
        ),
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="observed",
        layer="model",
        effort="refactor",
        thresholds={"step_imbalance": above(0.1)},
        references=("Nsight Systems multi-report analysis: GPU time imbalance of ranks",),
        fires=(
            {
                "ranks": 8.0,
                "step_imbalance": 0.101,
                "compute_over_mean_ns": 10e6,
                "time_ns": 1e9,
                "slowest_changes": 0.8,
            },
            {
                "ranks": 2.0,
                "step_imbalance": 0.13,
                "compute_over_mean_ns": 31e6,
                "time_ns": 2.4e9,
            },
        ),
        silent=(
            {"ranks": 8.0, "step_imbalance": 0.1, "compute_over_mean_ns": 10e6, "time_ns": 1e9},
            {"ranks": 8.0, "step_imbalance": 0.0, "compute_over_mean_ns": 0.0, "time_ns": 1e9},
            {},
        ),
    ),
)
