"""Device memory is at its wall."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Rule, above
from traceroof.rules._kernels import computes, of_class


def _at_wall(k: Facts) -> Mask:
    # A rate held against a peak reaches less than a counter of busy cycles does: the class,
    # which knows the calibrated ceilings, decides there.
    rate = (k.dram_basis == "nominal peak") | (k.dram_basis == "report peak")
    return np.asanyarray(k.meets("dram_pct") & ~rate | of_class(k, "dram-bound"))


RULES = (
    Rule(
        id="dram-at-wall",
        topic="dram-wall",
        title="Device memory is at its wall",
        scope="kernel",
        why=(
            "The kernel moves bytes as fast as device memory can. The arithmetic units wait for "
            "data. Making them faster, or giving them more warps, changes nothing."
        ),
        condition=(
            "DRAM use is above {dram_pct} of the peak of elapsed cycles; where it is measured "
            "against a peak rate, the class is dram-bound, which compares with the attainable "
            "bandwidth"
        ),
        needs=("dram_pct",),
        uses=(
            "primary_class",
            "dram_basis",
            "dram_bytes_per_s",
            "dram_peak_bytes_per_s",
            "intensity",
            "compute_pct",
            "l2_hit_pct",
        ),
        applies=computes,
        when=_at_wall,
        because="device memory runs at {dram_pct} of its peak",
        fix=(
            "Move fewer bytes: fuse the kernel with its neighbours, use a smaller element type, "
            "remove copies and padding, reuse data in cache. Do not tune arithmetic or occupancy."
        ),
        refute=(
            "Lower the memory clock by 10 %. The time must grow by about 10 %. If it does not, "
            "something else limits the kernel."
        ),
        # Nothing to gain at these bytes but the last stretch to the physical peak.
        saves=lambda k, peak: 1 - k.dram_pct / (100 * np.asanyarray(peak.memory)),
        kind="hard",
        role="class",
        grade="observed",
        layer="operator",
        severity="info",
        suppresses=(
            "stall-*",
            "occ-limited-*",
            "occ-achieved-gap",
            "issue-slots-idle",
            "roofline-at-wall",
        ),
        thresholds={"dram_pct": above(WALL_PCT)},
        references=(
            "Nsight Compute SpeedOfLight rule: 80 % of peak counts as high throughput",
            "Williams, Waterman, Patterson: Roofline, CACM 2009",
        ),
        fires=(
            {"dram_pct": 85.0, "compute_pct": 20.0},
            {"dram_pct": 80.1},
            {"dram_pct": 77.0, "dram_basis": "nominal peak", "primary_class": "dram-bound"},
        ),
        silent=(
            {"dram_pct": 80.0, "compute_pct": 20.0},
            {"dram_pct": 40.0, "compute_pct": 90.0},
            {"dram_pct": 82.0, "dram_basis": "nominal peak", "primary_class": "memory-leaning"},
            {"dram_pct": 85.0, "primary_class": "communication"},
        ),
    ),
)
