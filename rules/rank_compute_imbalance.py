"""Ranks have different amounts of work."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above, at_least


def _saves(k: Facts) -> Column:
    return np.asanyarray(k.compute_over_mean_ns * k.ranks / k.time_ns)


RULES = (
    Rule(
        id="rank-compute-imbalance",
        topic="late-rank",
        title="The ranks compute for different lengths of time",
        scope="run",
        why=(
            "Ranks that meet in collectives run at the pace of the rank with the most computation "
            "in each step. Uneven batches, sequence lengths, embedding tables or experts make the "
            "others wait. The slowest rank may change from step to step."
        ),
        condition=(
            "step by step, the largest computation of a rank is more than {step_imbalance:.0%} "
            "above the mean of all ({ranks:.0f} ranks or more)"
        ),
        needs=("step_imbalance", "compute_over_mean_ns", "ranks", "time_ns"),
        uses=("compute_imbalance", "slowest_changes"),
        applies=lambda k: k.meets("ranks"),
        when=lambda k: k.meets("step_imbalance"),
        because=(
            "in each step the rank with the most computation needs {step_imbalance:.0%} more than "
            "the mean of {ranks:,.0f} ranks: {compute_over_mean_ns} per rank over all steps (the "
            "time saved is the sum of the ranks)"
        ),
        fix=(
            "Give every rank the same work: batches of equal token counts, tables and layers "
            "sharded by measured cost, a limit on the tokens per expert."
        ),
        refute=(
            "Give every rank the same batch. If the difference stays, the cause is the hardware "
            "or the placement of the model."
        ),
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="observed",
        layer="model",
        effort="refactor",
        thresholds={"step_imbalance": above(0.1), "ranks": at_least(2)},
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
