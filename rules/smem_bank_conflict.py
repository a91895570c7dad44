"""Shared-memory accesses collide in banks."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, at_least
from traceroof.rules._kernels import HEADROOM, has_headroom, of_class, tunable


def _collides(k: Facts) -> Mask:
    # Conflicts add wavefronts to an access. With hardly more than one wavefront per request, what
    # the counter saw is other traffic in the same data path.
    return k.meets("shared_conflict_pct") & k.meets("shared_wavefronts_per_request")


def _applies(k: Facts) -> Mask:
    # A launch without shared memory has no conflicts, counted or not.
    none = (k.shared_memory_static_bytes == 0) & (k.shared_memory_dynamic_bytes == 0)
    # While arithmetic is at its wall and L1 is not busy, conflicts hide behind it.
    hidden = of_class(k, "compute-bound") & ~k.meets("l1_busy")
    return np.asanyarray(tunable(k) & ~none & ~hidden)


def _saves(k: Facts, peak: Attainable) -> Column:
    # How busy the shared-memory path is, or the first-level cache as a whole, where blocks run.
    busy = np.where(
        np.isnan(k.shared_memory_busy_pct), k.l1_throughput_pct, k.shared_memory_busy_pct
    )
    few = np.where(k.blocks < k.sm_count, k.sm_count / k.blocks, 1.0)
    return np.asanyarray(k.shared_conflict_pct / 100 * np.minimum(busy * few, 100) / 100)


def _likely(k: Facts, peak: Attainable) -> Column:
    # While device memory or another unit is busier, conflicts hide behind it.
    others = np.fmax(k.kernel_dram_pct, k.l2_throughput_pct) / 100
    return np.asanyarray(_saves(k, peak) * np.where(others > 0, np.maximum(1 - others, 0), 1.0))


def _likely_by_cycles(k: Facts, peak: Attainable) -> Column:
    # Wide accesses conflict by nature, and other warps hide a part: a half at most.
    others = np.fmax(k.kernel_dram_pct, k.l2_throughput_pct) / 100
    open_time = np.where(others > 0, np.maximum(1 - others, 0), 1.0)
    return np.asanyarray(0.5 * k.shared_conflict_time_pct / 100 * open_time)


RULES = (
    Rule(
        id="smem-bank-conflict",
        topic="bank-conflicts",
        title="Shared-memory accesses have bank conflicts",
        scope="kernel",
        why=(
            "Shared memory has 32 banks of 4 bytes. Threads of a warp that access different words "
            "of one bank are served one after another, and the data path is busy that much longer."
        ),
        condition=(
            "{shared_conflict_pct} or more of the shared-memory wavefronts are due to bank "
            "conflicts, with {shared_wavefronts_per_request} wavefronts per request or more; while "
            "compute is at its wall, only with L1 use of {l1_busy} or more"
        ),
        needs=("shared_conflict_pct",),
        uses=(
            "primary_class",
            "shared_wavefronts_per_request",
            "shared_memory_busy_pct",
            "l1_throughput_pct",
            "stall_short_scoreboard",
            "stall_mio_throttle",
            "blocks",
            "sm_count",
            "kernel_dram_pct",
            "l2_throughput_pct",
            "shared_memory_static_bytes",
            "shared_memory_dynamic_bytes",
        ),
        applies=_applies,
        when=_collides,
        because="{shared_conflict_pct} of the shared-memory wavefronts are due to bank conflicts",
        fix=(
            "Pad rows (32 + 1 words) or swizzle the column with the row[nvidia: , use ldmatrix or "
            "the swizzle modes of TMA for matrix tiles], and map neighbouring threads to "
            "neighbouring words.[nvidia:  8- and 16-byte accesses need 2 and 4 wavefronts in any "
            "case.]"
        ),
        refute=(
            "[nvidia: Compare the wavefronts with the ideal ones on the source page. If they "
            "agree, the conflicts are with other traffic, such as asynchronous copies. ]If "
            "padding removes the conflicts and the time stays, they were hidden."
        ),
        saves=_saves,
        likely=_likely,
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={
            "shared_conflict_pct": at_least(10),
            "shared_wavefronts_per_request": at_least(1.1, or_unknown=True),
            "l1_busy": at_least(BUSY_PCT, column="l1_throughput_pct", or_unknown=True),
        },
        references=(
            "Nsight Compute SharedMemoryConflicts rule: 10 % of wavefronts",
            "NVIDIA CUDA C++ Programming Guide: shared memory banks",
        ),
        fires=(
            {"shared_conflict_pct": 10.0, "l1_throughput_pct": 50.0},
            {"shared_conflict_pct": 50.0, "shared_wavefronts_per_request": 2.0},
            # 31 of 32 wavefronts of a column access.
            {"shared_conflict_pct": 96.9, "shared_wavefronts_per_request": 32.0},
        ),
        silent=(
            {"shared_conflict_pct": 9.9, "l1_throughput_pct": 90.0},
            {"shared_conflict_pct": 0.0, "shared_wavefronts_per_request": 4.0},
            {"shared_conflict_pct": 15.0, "shared_wavefronts_per_request": 1.05},
            # An FP32 product of a library: FMA at its wall, L1 half idle (RTX 4090).
            {
                "shared_conflict_pct": 26.7,
                "l1_throughput_pct": 43.3,
                "primary_class": "compute-bound",
            },
        ),
    ),
    Rule(
        id="smem-conflict-cycles",
        topic="bank-conflicts",
        title="Bank conflicts keep the shared-memory path busy",
        scope="kernel",
        why=(
            "A multiprocessor passes one wavefront to or from shared memory per cycle, and each "
            "conflict is one more. Where accesses were not counted, the cycles of the launch tell "
            "how much of the path the conflicts take."
        ),
        condition=(
            "conflicts alone take {shared_conflict_time_pct} or more of the cycles of the "
            "shared-memory path, in a kernel whose wavefronts and requests were not collected; "
            "nothing is at its wall"
        ),
        needs=("shared_conflict_time_pct",),
        uses=(
            "primary_class",
            "compute_pct",
            "memory_pct",
            "shared_conflict_pct",
            "shared_conflicts",
            "kernel_dram_pct",
            "l2_throughput_pct",
        ),
        # With wavefronts or requests the other rule judges.
        applies=lambda k: np.asanyarray(
            has_headroom(k)
            & np.isnan(k.shared_conflict_pct)
            & ~np.isnan(k.shared_conflict_time_pct)
        ),
        when=lambda k: k.meets("shared_conflict_time_pct"),
        because=(
            "{shared_conflicts:,.0f} bank conflicts take {shared_conflict_time_pct} of the cycles of "
            "the shared-memory path"
        ),
        fix=(
            "Pad rows (32 + 1 words) or swizzle the column with the row, and map neighbouring "
            "threads to neighbouring words. Collect the wavefronts too: 8- and 16-byte accesses "
            "need 2 and 4 in any case."
        ),
        refute="If padding removes the conflicts and the time stays, they were hidden.",
        saves=lambda k, peak: k.shared_conflict_time_pct / 100,
        likely=_likely_by_cycles,
        kind="conditional",
        grade="derived",
        layer="operator",
        thresholds={**HEADROOM, "shared_conflict_time_pct": at_least(10)},
        references=("NVIDIA CUDA C++ Programming Guide: shared memory banks and throughput",),
        fires=(
            {"shared_conflict_time_pct": 10.0, "shared_conflicts": 9.3e7},
            {"shared_conflict_time_pct": 37.0, "kernel_dram_pct": 3.0, "compute_pct": 71.0},
        ),
        silent=(
            {"shared_conflict_time_pct": 9.9},
            {"shared_conflict_time_pct": 37.0, "shared_conflict_pct": 50.0},
            {"shared_conflict_time_pct": 37.0, "memory_pct": 85.0},
        ),
    ),
)
