"""Memory is at its wall, and the file does not tell which level."""

from traceroof.rule import Rule, at_least
from traceroof.rules._kernels import of_class

RULES = (
    Rule(
        id="memory-at-wall",
        topic="not-enough-metrics",
        title="The memory system is at its wall; which level is unknown",
        scope="kernel",
        why=(
            "The memory throughput is that of the busiest unit between the multiprocessors and "
            "device memory. At its wall, more warps or faster arithmetic gain nothing. What helps "
            "depends on the level: fewer bytes for device memory, better reuse or other access "
            "patterns for a cache."
        ),
        condition=(
            "memory use is at least {memory_pct:.0f} of its peak, the use of device memory is "
            "unknown, and no cache is known to be at its wall"
        ),
        needs=("memory_pct",),
        uses=("primary_class", "compute_pct", "l2_throughput_pct", "l1_pct"),
        when=lambda k: k.meets("memory_pct") & of_class(k, "memory-bound"),
        because=(
            "memory runs at {memory_pct} of its peak[; compute runs at {compute_pct}]; the use of "
            "device memory is not in the file"
        ),
        fix=(
            "[nvidia: Collect with ncu --section SpeedOfLight --section MemoryWorkloadAnalysis]"
            "[amd: Collect with rocprof-compute profile -b 2 16 17]. Diagnose both files together."
        ),
        refute=(
            "Collect the use of device memory and of both caches. One of them must be at 80 % of "
            "its peak or more."
        ),
        kind="hard",
        role="class",
        grade="observed",
        layer="hardware",
        severity="info",
        suppresses=("stall-*", "occ-limited-*", "occ-achieved-gap", "issue-slots-idle"),
        thresholds={"memory_pct": at_least(80)},
        references=("Nsight Compute Profiling Guide: the breakdown of memory throughput by unit",),
        fires=(
            {"memory_pct": 93.0, "compute_pct": 12.0, "primary_class": "memory-bound"},
            {"memory_pct": 80.0, "l1_pct": 40.0, "primary_class": "memory-bound"},
        ),
        silent=(
            {"memory_pct": 93.0, "primary_class": "dram-bound"},
            {"memory_pct": 79.0, "compute_pct": 12.0, "primary_class": "memory-bound"},
        ),
    ),
)
