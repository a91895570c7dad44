"""The fabric behind the L2 holds requests back (AMD)."""

import numpy as np

from traceroof.rule import Rule, above
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, on_amd, spare

RULES = (
    Rule(
        id="amd-fabric-bound",
        topic="remote-memory",
        title="The fabric behind the L2 holds requests back",
        scope="kernel",
        why=(
            "The L2 of each die sends its misses over the fabric to memory and to other dies. A "
            "request without a credit waits in the cache although memory as a whole has room: the "
            "traffic converges on one channel, one die or one link."
        ),
        condition=(
            "L2 requests wait for fabric credits in more than {fabric_stalled_pct} of its busy "
            "cycles, and nothing is at its wall"
        ),
        needs=("fabric_stalled_pct",),
        uses=("vendor", *STATE, "dram_pct", "remote_memory_pct", "l2_hit_pct"),
        applies=lambda k: on_amd(k) & has_headroom(k),
        when=lambda k: k.meets("fabric_stalled_pct"),
        because=(
            "requests wait for fabric credits in {fabric_stalled_pct} of the L2's busy cycles[, "
            "with device memory at {dram_pct} of its peak]"
        ),
        fix=(
            "Spread the addresses: avoid strides of a large power of two, and give the workgroups "
            "of one die (XCD) data of their own (remap workgroup numbers, which are assigned "
            "round-robin). Keep the data in the memory of this device. Increase reuse in L2."
        ),
        refute=(
            "Change the stride or the order of the workgroups. The share must fall, and the time "
            "with it."
        ),
        saves=lambda k, peak: np.fmin(k.fabric_stalled_pct / 100, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={**HEADROOM, "fabric_stalled_pct": above(10)},
        references=("rocprofiler-compute, L2-fabric interface stalls: credit starvation",),
        fires=(
            {"vendor": "amd", "fabric_stalled_pct": 10.1},
            {"vendor": "amd", "fabric_stalled_pct": 45.0, "memory_pct": 55.0, "compute_pct": 5.0},
        ),
        silent=(
            {"vendor": "amd", "fabric_stalled_pct": 10.0},
            # A fill at the wall of device memory waits for credits in 16 % (MI210).
            {"vendor": "amd", "fabric_stalled_pct": 16.2, "primary_class": "dram-bound"},
            {"vendor": "nvidia", "fabric_stalled_pct": 40.0},
        ),
    ),
)
