"""Neither compute nor memory is near its peak."""

from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Rule, below
from traceroof.rules._kernels import of_class, spare

RULES = (
    Rule(
        id="latency-bound",
        topic="latency",
        title="Neither compute nor memory is near its peak",
        scope="kernel",
        why=(
            "Most of the time warps wait for something to return: a load, a barrier, a dependent "
            "instruction. There are too few warps, or each has too little independent work, to "
            "keep any unit busy."
        ),
        condition=(
            "compute use is below {compute_pct}, memory use is below {memory_pct}, and no level "
            "of the memory is at its wall"
        ),
        needs=("primary_class", "compute_pct", "memory_pct"),
        uses=(
            "achieved_occupancy_pct",
            "theoretical_occupancy_pct",
            "waves",
            "issue_active",
            "warps_active",
            "warps_eligible",
        ),
        # Without its counters the class is not-evaluable, and so is this.
        applies=lambda k: of_class(k, "latency-bound", "not-evaluable"),
        when=lambda k: (
            of_class(k, "latency-bound") & k.meets("compute_pct") & k.meets("memory_pct")
        ),
        because=(
            "compute runs at {compute_pct} and memory at {memory_pct} of peak; neither is near "
            "its wall"
        ),
        fix=(
            "Use more blocks, more independent loads or instructions in each warp, or merge "
            "neighbouring small kernels. The findings on grid, occupancy and stalls of this "
            "kernel tell which. If there are none, collect its stall reasons and occupancy "
            "([nvidia: the sections WarpStateStats, SchedulerStats and Occupancy of Nsight "
            "Compute][amd: PC samples, and the wavefront counters of rocprof-compute])."
        ),
        refute=(
            "Run it on twice the data. If the time grows less than twofold and both percentages "
            "rise, it was waiting. If the time doubles, something unmeasured is full."
        ),
        saves=spare,
        kind="conditional",
        role="class",
        yields=True,
        grade="observed",
        layer="hardware",
        thresholds={"compute_pct": below(BUSY_PCT), "memory_pct": below(BUSY_PCT)},
        references=("Nsight Compute SpeedOfLight rule: latency issues below 60 % on both sides",),
        fires=(
            {"primary_class": "latency-bound", "compute_pct": 59.9, "memory_pct": 59.9},
            {"primary_class": "latency-bound", "compute_pct": 12.0, "memory_pct": 20.0},
        ),
        silent=(
            {"primary_class": "latency-bound", "compute_pct": 60.0, "memory_pct": 20.0},
            {"primary_class": "latency-bound", "compute_pct": 20.0, "memory_pct": 60.0},
            {"primary_class": "compute-leaning", "compute_pct": 60.0, "memory_pct": 20.0},
            {"primary_class": "memory-leaning", "compute_pct": 20.0, "memory_pct": 60.0},
            {"primary_class": "l1-bound", "compute_pct": 30.0, "memory_pct": 50.0},
            {"primary_class": "launch-bound", "compute_pct": 2.0, "memory_pct": 3.0},
        ),
    ),
)
