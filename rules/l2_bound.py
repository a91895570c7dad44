"""The second-level cache is the busiest unit."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Attainable, Rule, above, at_least, at_most, below
from traceroof.rules._kernels import of_class, tunable


def _applies(k: Facts) -> Mask:
    # Lower memory use settles it: L2 is one of its parts.
    may_be = k.meets("memory_pct")
    return np.asanyarray(tunable(k) & ~of_class(k, "dram-bound", "compute-bound") & may_be)


def _on_l2(k: Facts) -> Mask:
    # Memory throughput is that of its busiest unit; above L2's own it is another's.
    most = k.meets("above_others") & k.meets("l2_is_memory")
    busiest = k.meets("l2_busy") & most
    return (k.meets("l2_throughput_pct") & k.meets("dram_pct")) | busiest


def _saves(k: Facts, peak: Attainable) -> Column:
    # Where nobody counted the bytes of device memory, nobody knows what is left.
    dram = k.kernel_dram_pct / (100 * np.asanyarray(peak.memory))
    compute = k.compute_pct / (100 * np.asanyarray(peak.compute))
    return np.asanyarray(np.where(np.isnan(dram), np.nan, 1 - np.fmax(dram, compute)))


RULES = (
    Rule(
        id="l2-bound",
        topic="l2-traffic",
        title="The second-level cache is the busiest unit",
        scope="kernel",
        why=(
            "Data comes from the second-level cache, not from device memory. The cache, or the "
            "crossbar in front of it, delivers as fast as it can. The same bytes are fetched by "
            "many blocks, or several times by one."
        ),
        condition=(
            "L2 is at {l2_throughput_pct} of peak or more with DRAM below {dram_pct}, or L2 is "
            "the busiest unit at {l2_busy} or more; memory use is {memory_pct} or more"
        ),
        needs=("l2_throughput_pct",),
        uses=(
            "primary_class",
            "dram_pct",
            "kernel_dram_pct",
            "compute_pct",
            "memory_pct",
            "l1_throughput_pct",
            "l1_hit_pct",
            "l2_hit_pct",
            "l2_bytes",
        ),
        applies=_applies,
        when=_on_l2,
        because="the second-level cache runs at {l2_throughput_pct} of its peak",
        fix=(
            "Fetch less from L2: larger tiles in shared memory and registers, [nvidia: one load "
            "shared by a cluster (multicast), ]a tile order that lets neighbouring blocks share "
            "rows, and wide aligned accesses so that no sector is fetched twice."
        ),
        refute=(
            "Enlarge the tile. Bytes between L1 and L2 must fall, and the time with them. If only "
            "the bytes fall, L2 was not the limit."
        ),
        # At these bytes of device memory and this arithmetic: the next wall takes over.
        saves=_saves,
        kind="conditional",
        role="class",
        grade="observed",
        layer="hardware",
        thresholds={
            "memory_pct": at_least(BUSY_PCT, or_unknown=True),
            "l2_throughput_pct": at_least(WALL_PCT),
            "dram_pct": below(BUSY_PCT, or_unknown=True),
            "l2_busy": at_least(
                BUSY_PCT, column="l2_throughput_pct", words="or {op} {value} and the busiest unit"
            ),
            "above_others": above(
                1,
                column="compute_pct",
                measure=lambda k: k.l2_throughput_pct,
                of=lambda k: np.fmax(k.dram_pct, k.compute_pct),
                words="less than l2_throughput_pct",
            ),
            "l2_is_memory": at_most(
                1,
                column="memory_pct",
                measure=lambda k: k.memory_pct - k.l2_throughput_pct,
                or_unknown=True,
                words="within a point of l2_throughput_pct",
            ),
        },
        references=(
            "Nsight Compute SpeedOfLight rule: breakdown of memory throughput by unit",
            "RRZE-HPC/gpu-benches, gpu-l2-cache: measured L2 ceilings",
        ),
        fires=(
            {"l2_throughput_pct": 80.0, "dram_pct": 59.9, "memory_pct": 90.0},
            {"l2_throughput_pct": 60.0, "dram_pct": 10.0, "compute_pct": 30.0, "memory_pct": 61.0},
            {"l2_throughput_pct": 60.0, "memory_pct": 60.0, "compute_pct": 59.0},
            {"l2_throughput_pct": 94.0},
        ),
        silent=(
            {"l2_throughput_pct": 79.9, "dram_pct": 30.0, "compute_pct": 79.9},
            {"l2_throughput_pct": 85.0, "dram_pct": 60.0, "compute_pct": 86.0},
            {"l2_throughput_pct": 85.0, "compute_pct": 90.0, "primary_class": "compute-bound"},
            {"l2_throughput_pct": 59.9, "dram_pct": 10.0, "compute_pct": 30.0},
            {"l2_throughput_pct": 62.0, "dram_pct": 10.0, "compute_pct": 30.0, "memory_pct": 70.0},
        ),
    ),
)
