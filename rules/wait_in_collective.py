"""Communication time that is waiting."""

import numpy as np

from traceroof.rule import Rule, at_least

RULES = (
    Rule(
        id="wait-in-collective",
        topic="late-rank",
        title="Much of the communication time is waiting for other ranks",
        scope="run",
        why=(
            "A rank that enters a collective early stays in it until the last rank arrives. That "
            "time is not transfer: a faster link or smaller messages do not shorten it."
        ),
        condition=(
            "{ranks:.0f} or more ranks wait for {waiting_share:.0%} of their communication time "
            "or more, and no single rank causes it"
        ),
        needs=("waiting_share", "waiting_ns", "ranks", "time_ns"),
        uses=("slowest_rank", "slowest_share", "matched_collectives"),
        applies=lambda k: k.meets("ranks") & ~np.isnan(k.waiting_ns),
        when=lambda k: k.meets("waiting_share"),
        because=(
            "on average each of {ranks:.0f} ranks waits for {waiting_ns} inside collectives "
            "before the last one enters (the time saved is their sum), {waiting_share:.0%} of its "
            "communication time[; rank {slowest_rank:.0f} causes most of it ({slowest_share:.0%})]"
        ),
        fix=(
            "Make the ranks arrive together: equal work, hosts without other load, no "
            "synchronisation of single ranks between collectives."
        ),
        refute="Put a barrier before the collectives in a test. The waiting must move there.",
        saves=lambda k, peak: k.waiting_ns * k.ranks / k.time_ns,
        kind="hard",
        grade="derived",
        layer="framework",
        effort="refactor",
        thresholds={"waiting_share": at_least(0.2), "ranks": at_least(2)},
        references=("Holistic Trace Analysis: early ranks wait inside collectives",),
        fires=(
            {
                "ranks": 8.0,
                "waiting_ns": 3e6,
                "waiting_share": 0.2,
                "time_ns": 100e6,
                "slowest_rank": 4.0,
                "slowest_share": 0.54,
            },
            {"ranks": 2.0, "waiting_ns": 122e6, "waiting_share": 0.34, "time_ns": 1.2e9},
        ),
        silent=(
            {"ranks": 8.0, "waiting_ns": 1e6, "waiting_share": 0.19, "time_ns": 100e6},
            {"ranks": 2.0, "waiting_ns": 0.0, "waiting_share": 0.0, "time_ns": 100e6},
            {},
        ),
    ),
)
