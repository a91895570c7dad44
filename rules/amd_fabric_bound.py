"""The fabric behind the L2 holds requests back (AMD)."""

import numpy as np

from traceroof.rule import Rule
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, on_amd, spare

RULES = (
    Rule(
        id="amd-fabric-bound",
        topic="remote-memory",
        title="The fabric behind the L2 holds requests back",
        scope="kernel",
        why=(
            "The L2 of each die sends its misses over the fabric to memory and to other dies. "
            "Without a credit a request waits in the cache, although memory as a whole has room: "
            "traffic meets in one channel, one die, or on the way to another device."
        ),
        condition=(
            "requests of the L2 wait for fabric credits in over 10 % of its busy cycles, with "
            "nothing at its wall"
        ),
        needs=("fabric_stalled_pct",),
        uses=("vendor", *STATE, "dram_pct", "remote_memory_pct", "l2_hit_pct"),
        applies=lambda k: on_amd(k) & has_headroom(k),
        when=lambda k: k.fabric_stalled_pct > 10,
        because=(
            "requests wait for fabric credits in {fabric_stalled_pct} of the L2's busy cycles"
            "[, with device memory at {dram_pct} of its peak]"
        ),
        fix=(
            "Spread the addresses: strides that are no large power of two, workgroups of one die "
            "(XCD) on data of their own (remap workgroup numbers, which go round the dies), data "
            "in the memory of this device, fewer misses by reuse in L2."
        ),
        refute=(
            "Change the stride or the order of the workgroups: the share must fall and the time "
            "with it."
        ),
        saves=lambda k, peak: np.fmin(k.fabric_stalled_pct / 100, spare(k, peak)),
        kind="conditional",
        grade="observed",
        layer="hardware",
        thresholds={**HEADROOM, "fabric_stalled_pct": "> 10"},
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
