"""Nothing moved beyond the noise."""

from traceroof.rule import Rule, at_least, at_most
from traceroof.rules._changes import of_level

RULES = (
    Rule(
        id="cmp-noise-only",
        topic="change",
        title="No change beyond the noise",
        scope="compare",
        why=(
            "No change that matters fits into the differences between the runs. The smallest "
            "change that could be seen depends on the noise and on the number of runs."
        ),
        condition=(
            "the total is unchanged, at most {kernels_changed} kernels regressed or improved, and "
            "there are {samples_base} runs of the base and {samples_head} of the head or more"
        ),
        needs=("verdict", "kernels_changed", "sampled"),
        uses=("level", "noise_pct", "detectable_pct", "samples_base", "samples_head"),
        applies=lambda k: of_level(k, "total"),
        when=lambda k: (
            (k.verdict == "unchanged")
            & k.meets("kernels_changed")
            & (k.sampled == "runs")
            & k.meets("samples_base")
            & k.meets("samples_head")
        ),
        because=(
            "the runs of one side differ by {noise_pct}; with {samples_base:.0f} against "
            "{samples_head:.0f} runs, a change of {detectable_pct} of the total would show"
        ),
        fix="Nothing to fix. To see smaller changes, repeat more often or lock the clocks.",
        refute=(
            "Slow the head down by the change named. Its time must then count as regressed."
        ),
        kind="hard",
        grade="observed",
        layer="hardware",
        severity="info",
        thresholds={"kernels_changed": at_most(0), "samples_base": at_least(5), "samples_head": at_least(5)},
        references=("Hodges and Lehmann, Ann. Math. Stat. 27 (1956) 324: efficiency of rank tests",),
        fires=(
            {"level": "total", "verdict": "unchanged", "kernels_changed": 0.0, "sampled": "runs",
             "samples_base": 5.0, "samples_head": 5.0},
            {"level": "total", "verdict": "unchanged", "kernels_changed": 0.0, "sampled": "runs",
             "samples_base": 10.0, "samples_head": 10.0, "noise_pct": 1.0, "detectable_pct": 2.0},
        ),
        silent=(
            {"level": "total", "verdict": "unchanged", "kernels_changed": 0.0, "sampled": "runs",
             "samples_base": 4.0, "samples_head": 5.0},
            {"level": "total", "verdict": "unchanged", "kernels_changed": 0.0, "sampled": "runs",
             "samples_base": 5.0, "samples_head": 4.0},
            {"level": "total", "verdict": "unchanged", "kernels_changed": 2.0, "sampled": "runs",
             "samples_base": 5.0, "samples_head": 5.0},
            {"level": "total", "verdict": "unchanged", "kernels_changed": 0.0, "sampled": "steps",
             "samples_base": 9.0, "samples_head": 9.0},
        ),
    ),
)  # fmt: skip
