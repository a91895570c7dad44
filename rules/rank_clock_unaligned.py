"""Clocks that cannot be brought together."""

from traceroof.rule import Rule, above, at_least

RULES = (
    Rule(
        id="rank-clock-unaligned",
        topic="recording-skew",
        title="The clocks of the ranks do not agree",
        scope="run",
        why=(
            "Each node has its own clock. Ranks are aligned on the ends of collectives, because "
            "all ranks leave a collective together. If the ends still disagree, the files are of "
            "different runs, the collectives were matched wrongly, or a clock drifts. Gaps across "
            "ranks then mean nothing, and waiting is not judged."
        ),
        condition=(
            "the ends of matched collectives (more than {matched_collectives}, of {ranks:.0f} "
            "ranks or more) disagree by more than {clock_residual_ns} after alignment"
        ),
        needs=("clock_residual_ns",),
        uses=("ranks", "matched_collectives"),
        # One rank, or ranks without a collective in common, have nothing to align.
        applies=lambda k: k.meets("ranks") & k.meets("matched_collectives"),
        when=lambda k: k.meets("clock_residual_ns"),
        because=(
            "the ends of {matched_collectives:,.0f} collectives that {ranks:,.0f} ranks share "
            "disagree by {clock_residual_ns} (median) after alignment; waiting across ranks is "
            "not judged"
        ),
        fix=(
            "Record all ranks in the same steps of one run, and give only the files of that run. "
            "Profile with record_shapes=True so that collectives are matched by their size."
        ),
        refute=(
            "Compare the traces of two ranks on one node, which share a clock. If their "
            "collectives end at the same time, only the clocks of the nodes differ."
        ),
        kind="option",
        grade="observed",
        layer="framework",
        effort="config",
        severity="info",
        thresholds={
            "clock_residual_ns": above(100_000),
            "ranks": at_least(2),
            "matched_collectives": above(0),
        },
        references=(
            "Holistic Trace Analysis: ranks of a job are compared step by step",
            "hw-native-sys/simpler pull request 2099: a naive merge was off by 11.56 s",
        ),
        fires=(
            {"ranks": 2.0, "matched_collectives": 10.0, "clock_residual_ns": 100_001.0},
            {"ranks": 8.0, "matched_collectives": 300.0, "clock_residual_ns": 21e6},
        ),
        silent=(
            {"ranks": 2.0, "matched_collectives": 10.0, "clock_residual_ns": 100_000.0},
            {"ranks": 1.0},
            {},
        ),
    ),
)
