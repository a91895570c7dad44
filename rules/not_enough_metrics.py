"""What would decide was not collected."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.kernels.bound_class import BY_RATE
from traceroof.rule import Rule
from traceroof.rules._kernels import COUNTED, counted, of_class


def _undecided(k: Facts) -> Mask:
    # A copy is judged by its bytes alone.
    copy = of_class(k, "copy") & np.isnan(k.kernel_dram_pct)
    # Few counted operations do not tell whether compute is idle.
    unknown = np.isnan(k.busiest_pct) | (k.compute_basis == BY_RATE)
    return np.asanyarray((of_class(k, "not-evaluable") | copy) & unknown)


def _nothing_known(k: Facts) -> Mask:
    """Neither a time nor a class: any saving would be a part of nobody knows what."""
    return np.asanyarray(_undecided(k) & np.isnan(k.duration_ns))


_FIX = (
    "[nvidia: Collect with ncu --section SpeedOfLight --section Occupancy]"
    "[amd: Collect with rocprof-compute profile -b 2 11 16 17, or rocprofv3 --pmc "
    "GRBM_GUI_ACTIVE SQ_WAVES SQ_ACTIVE_INST_VALU FETCH_SIZE WRITE_SIZE]. Diagnose both "
    "files together."
)
# What says how much of its time a kernel waits, or what a better launch would save of it.
_UNTIMED = (
    "not-enough-metrics",
    "single-kernel-dominates",
    "stall-*",
    "amd-*-wait",
    "occ-*",
    "amd-occ-*",
    "tail-*",
    "issue-slots-idle",
)
_REFERENCES = ("Nsight Compute Profiling Guide: metrics of the SpeedOfLight section",)

_BLIND = {"primary_class": "not-evaluable", "by_counters": 1.0}

RULES = (
    Rule(
        id="not-enough-metrics",
        topic="not-enough-metrics",
        title="The metrics of this profile do not tell what limits the kernel",
        scope="kernel",
        why=(
            "A verdict needs the time of the kernel and how busy the compute units and the memory "
            "system were. Without them, a single counter may be large and still not matter."
        ),
        condition=(
            "a kernel with counters whose compute and memory use are neither in the file nor "
            "follow from it"
        ),
        needs=("primary_class",),
        uses=(
            *COUNTED,
            "busiest_pct",
            "compute_pct",
            "compute_basis",
            "memory_pct",
            "duration_ns",
            "dram_bytes",
            "dram_bytes_per_s",
            "kernel_dram_pct",
        ),
        applies=counted,
        when=_undecided,
        because=(
            "[nvidia: compute and memory throughput are not both in the file][amd: the counters in "
            "the file do not give the use of both compute units and memory]"
            "[; the kernel takes {duration_ns}][; it moves {dram_bytes} of device memory][, {dram_bytes_per_s}]"
        ),
        fix=_FIX,
        refute=(
            "Collect the metrics. With its time and the share of the peak that compute and memory "
            "reach, the kernel must get a class."
        ),
        kind="hard",
        role="class",
        grade="observed",
        layer="hardware",
        severity="info",
        yields=True,
        suppresses=("single-kernel-dominates",),
        thresholds={"primary_class": "not-evaluable"},
        references=_REFERENCES,
        fires=(
            _BLIND,
            {**_BLIND, "primary_class": "copy"},
            {**_BLIND, "busiest_pct": 20.0, "compute_basis": BY_RATE},
        ),
        silent=(
            {**_BLIND, "busiest_pct": 20.0},
            {**_BLIND, "primary_class": "latency-bound"},
            {"primary_class": "not-evaluable", "by_counters": 0.0},
        ),
    ),
    Rule(
        id="no-time-no-class",
        topic="not-enough-metrics",
        title="The profile has neither the time of the kernel nor what limits it",
        scope="kernel",
        why=(
            "Counters say what a kernel does, not whether it matters. Without its time no saving "
            "can be estimated. Without the use of compute and memory no limit can be identified."
        ),
        condition=(
            "a kernel with counters whose time is unknown, and whose compute and memory use are "
            "neither in the file nor follow from it"
        ),
        needs=("primary_class",),
        uses=(*COUNTED, "busiest_pct", "compute_basis", "duration_ns", "kernel_dram_pct"),
        applies=counted,
        when=_nothing_known,
        because="the time of the kernel is unknown, and so is the use of compute and memory",
        fix=_FIX,
        refute="Collect the time and the use of both. The kernel must get a class.",
        kind="hard",
        role="class",
        grade="observed",
        layer="hardware",
        severity="info",
        suppresses=_UNTIMED,
        thresholds={"primary_class": "not-evaluable"},
        references=_REFERENCES,
        fires=(_BLIND, {**_BLIND, "primary_class": "copy"}),
        silent=(
            {**_BLIND, "duration_ns": 52e3},
            {**_BLIND, "busiest_pct": 20.0},
            {"primary_class": "not-evaluable", "by_counters": 0.0},
        ),
    ),
)
