"""Device memory is at its wall."""

import numpy as np

from traceroof.rule import Rule

RULES = (
    Rule(
        id="dram-at-wall",
        title="Device memory is at its wall",
        scope="kernel",
        why=(
            "The kernel moves bytes as fast as device memory can. The arithmetic units wait for "
            "data; making them faster, or giving them more warps, changes nothing."
        ),
        condition="DRAM use above 80 % of peak",
        needs=("dram_pct",),
        uses=("compute_pct", "dram_bytes_per_s", "intensity", "l2_hit_pct"),
        when=lambda k: k.dram_pct > 80,
        because="device memory runs at {dram_pct} of its peak ({dram_bytes_per_s})",
        fix=(
            "Move fewer bytes: fuse it with its neighbours, use a smaller element type, drop "
            "copies and padding, reuse data in cache. Do not tune arithmetic or occupancy."
        ),
        refute=(
            "Lower the memory clock by 10 %: the time must grow by about 10 %. If it does not, "
            "something else limits the kernel."
        ),
        # Nothing to gain at these bytes but the last stretch to the physical peak.
        saves=lambda k, peak: 1 - k.dram_pct / (100 * np.asarray(peak.memory)),
        kind="hard",
        grade="observed",
        layer="operator",
        severity="info",
        suppresses=("stall-*", "occ-*", "issue-slots-idle", "l2-reuse-low"),
        thresholds={"dram_pct": "> 80"},
        references=(
            "Nsight Compute SpeedOfLight rule: 80 % of peak counts as high throughput",
            "Williams, Waterman, Patterson: Roofline, CACM 2009",
        ),
        fires=({"dram_pct": 85.0, "compute_pct": 20.0}, {"dram_pct": 80.1}),
        silent=({"dram_pct": 80.0, "compute_pct": 20.0}, {"dram_pct": 40.0, "compute_pct": 90.0}),
    ),
)
