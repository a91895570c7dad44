"""Occupancy is low, and that is not the problem."""

from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import computes

RULES = (
    Rule(
        id="occ-low-but-fine",
        topic="nothing-to-gain",
        title="Occupancy is low, but it does not limit the kernel",
        scope="kernel",
        why=(
            "Warps are a means to keep units busy. Here a unit is near its peak with few warps, "
            "because each does much work (large tiles, many loads in flight). More warps would "
            "take their registers and gain nothing."
        ),
        condition=(
            "achieved occupancy is below {achieved_occupancy_pct} while compute or memory use is "
            "{busiest_pct} or more"
        ),
        needs=("achieved_occupancy_pct", "busiest_pct"),
        uses=("primary_class", "theoretical_occupancy_pct", "compute_pct", "memory_pct"),
        applies=lambda k: computes(k) & k.meets("busiest_pct"),
        when=lambda k: k.meets("achieved_occupancy_pct") & k.meets("busiest_pct"),
        because=(
            "{achieved_occupancy_pct} of the warp slots are enough for {busiest_pct} of the peak "
            "of the busier side"
        ),
        fix="Leave occupancy alone. Reduce the work of the busy unit.",
        refute="Force one more resident block. If the time falls, occupancy did matter.",
        kind="conditional",
        grade="observed",
        layer="hardware",
        severity="info",
        thresholds={
            "achieved_occupancy_pct": below(30),
            "busiest_pct": at_least(WALL_PCT, or_unknown=True),
        },
        references=(
            "Volkov, Better Performance at Lower Occupancy, GTC 2010",
            "Nsight Compute SpeedOfLight rule: 80 % of peak counts as high throughput",
        ),
        fires=(
            {"achieved_occupancy_pct": 29.9, "busiest_pct": 80.0},
            {"achieved_occupancy_pct": 12.5, "busiest_pct": 92.0, "primary_class": "compute-bound"},
        ),
        silent=(
            {"achieved_occupancy_pct": 30.0, "busiest_pct": 90.0},
            {"achieved_occupancy_pct": 10.0, "busiest_pct": 79.9},
        ),
    ),
)
