"""Global accesses move bytes that no thread asked for."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Rule, at_least, at_most
from traceroof.rules._kernels import of_class, spare_beside_caches, tunable
from traceroof.rules._least import LEAST, beyond_least


def _wasteful(k: Facts) -> Mask:
    # Sector counts see loads and stores and know each access's width; without them the bytes that
    # loaded sectors leave unused, or twice the sectors that the widest access needs.
    uncounted = np.isnan(k.global_sectors_excess_pct)
    return np.asanyarray(
        np.where(
            uncounted, k.meets("global_sectors_wasted_pct"), k.meets("global_sectors_excess_pct")
        )
    )


def _saves(k: Facts, peak: Attainable) -> Column:
    waste = k.global_sectors_wasted_pct / 100
    # The same arithmetic remains, however well its operands arrive.
    arithmetic = 1 - k.compute_pct / (100 * np.asanyarray(peak.compute))
    # Fewer sectors also hit more often, so their share is no bound: the bytes that must move are.
    least = beyond_least(k, peak)
    elsewhere = np.fmin(arithmetic, np.where(np.isnan(least), waste, least))
    # At the wall of device memory only the wasted sectors that miss both caches cost time.
    missed = _known(1 - k.l1_hit_pct / 100) * _known(1 - k.l2_hit_pct / 100)
    at_wall = np.fmin(waste * missed * k.dram_pct / 100, np.where(np.isnan(least), 1.0, least))
    return np.asanyarray(np.where(of_class(k, "dram-bound"), at_wall, elsewhere))


def _likely(k: Facts, peak: Attainable) -> Column:
    # Wasted sectors cost time while the memory system is busy with them, and it never is all the
    # time (Nsight Compute multiplies by the active share of L2's cycles, which few files carry).
    caches = np.fmax(k.l2_throughput_pct, k.memory_pct * np.where(k.memory_pct > k.dram_pct, 1, 0))
    caches = np.where(np.isnan(k.l2_throughput_pct) & ~(caches > 0), 50.0, caches)
    busy = np.fmin(np.fmax(np.fmax(k.memory_pct, caches), k.kernel_dram_pct) / 100, 1.0)
    likely = np.minimum(_saves(k, peak), k.global_sectors_wasted_pct / 100 * busy)
    # Stores that nobody counted in device memory take their part of its time.
    carried = k.carried_bytes / k.dram_peak_at_most * 1e9 / k.duration_ns
    return np.asanyarray(np.fmin(likely, np.maximum(1 - carried / np.asanyarray(peak.memory), 0)))


def _known(share: Column) -> Column:
    return np.where(np.isnan(share), 1.0, share)


def _per_instruction(k: Facts) -> Column:
    """Passes through L1 per unit of compute use, which is never less than the use by loads."""
    # L1 is measured over active cycles alone, compute over all.
    active = np.where(np.isnan(k.sm_active_pct), 1.0, k.sm_active_pct / 100)
    return np.asanyarray(k.l1_pct * active / k.compute_pct)


def _scatters(k: Facts) -> Mask:
    # Without shared memory only global accesses take several passes, or spilled registers.
    none = k.meets("shared_memory_static_bytes") & k.meets("shared_memory_dynamic_bytes")
    uncounted = np.isnan(k.global_sectors_wasted_pct) & k.meets("local_requests")
    return np.asanyarray(tunable(k) & none & uncounted & ~of_class(k, "dram-bound", "l2-bound"))


def _takes_passes(k: Facts) -> Mask:
    # Accesses of 16 bytes need four passes; where shared memory is unknown, more than that is sure.
    unknown = np.isnan(k.shared_memory_static_bytes) | np.isnan(k.shared_memory_dynamic_bytes)
    passes = k.meets("passes") & (~unknown | k.meets("many_passes"))
    return np.asanyarray(k.meets("l1_pct") & passes)


_SCATTERED = {"l1_pct": 98.5, "sm_active_pct": 98.2, "compute_pct": 6.0, "kernel_dram_pct": 0.5,
              "shared_memory_static_bytes": 0.0, "shared_memory_dynamic_bytes": 0.0}  # fmt: skip

_UNKNOWN_SHARED = {
    **_SCATTERED,
    "shared_memory_static_bytes": None,
    "shared_memory_dynamic_bytes": None,
}

RULES = (
    Rule(
        id="uncoalesced-global",
        topic="uncoalesced",
        title="Global accesses move bytes that no thread asked for",
        scope="kernel",
        why=(
            "Memory moves sectors of 32 bytes. When the threads of a warp access scattered or "
            "strided addresses, each sector brings a few useful bytes, and every level from L1 to "
            "device memory moves the rest for nothing."
        ),
        condition=(
            "{global_sectors_excess_pct} or more sectors beyond what the accesses need at their "
            "own width; without sector counts, {global_sectors_wasted_pct} or more of the moved "
            "bytes unused (by the bytes used per sector, or by the sectors per request)"
        ),
        needs=("global_sectors_wasted_pct",),
        uses=(
            "primary_class",
            "global_sectors_excess_pct",
            "load_bytes_per_sector",
            "store_bytes_per_sector",
            "load_sectors_per_request",
            "store_sectors_per_request",
            "dram_pct",
            "compute_pct",
            "memory_pct",
            "l2_throughput_pct",
            "l1_hit_pct",
            "l2_hit_pct",
            "load_wasted_pct",
            "store_wasted_pct",
            "kernel_dram_pct",
            "carried_bytes",
            *LEAST,
        ),
        applies=tunable,
        when=_wasteful,
        because=(
            "{global_sectors_wasted_pct} of the bytes that global accesses move were requested by "
            "no thread[: {load_wasted_pct} of loads][, {store_wasted_pct} of stores]"
            "[; a load takes {load_sectors_per_request:.1f} sectors]"
            "[; a store takes {store_sectors_per_request:.1f}]"
        ),
        fix=(
            "Let neighbouring threads access neighbouring addresses: swap loops or index order, "
            "use structures of arrays instead of arrays of structures, transpose through shared "
            "memory, pad rows to 128 bytes. Use 8- or 16-byte accesses where a thread reads "
            "neighbouring elements."
        ),
        refute=(
            "Change one access and measure. The source page lists the instructions with excess "
            "sectors. If the caches serve them (high L1 hit rate) and the time stays, the waste "
            "was harmless."
        ),
        saves=_saves,
        likely=_likely,
        # The fix moves fewer bytes, so those of today are no floor.
        kind="hard",
        grade="observed",
        layer="operator",
        suppresses=("misaligned-128",),
        thresholds={
            "global_sectors_excess_pct": at_least(25),
            "global_sectors_wasted_pct": at_least(25),
        },
        references=(
            "Nsight Compute UncoalescedGlobalAccess and MemoryCacheAccessPattern rules",
            "NVIDIA CUDA C++ Best Practices Guide: coalesced access to global memory",
        ),
        # 125 sectors where 100 are needed: 20 % of the bytes wasted. 24 of 32 used: 25 % wasted.
        fires=(
            {"global_sectors_wasted_pct": 20.0, "global_sectors_excess_pct": 25.0},
            {"global_sectors_wasted_pct": 25.0, "load_bytes_per_sector": 24.0},
            {
                "global_sectors_wasted_pct": 75.0,
                "global_sectors_excess_pct": 300.0,
                "primary_class": "dram-bound",
                "dram_pct": 90.0,
                "l2_hit_pct": 50.0,
            },
        ),
        silent=(
            {"global_sectors_wasted_pct": 19.9, "global_sectors_excess_pct": 24.9},
            {"global_sectors_wasted_pct": 24.4, "load_bytes_per_sector": 24.2},
            # 16 sectors per request are what 16-byte loads need.
            {
                "global_sectors_wasted_pct": 0.0,
                "global_sectors_excess_pct": 0.0,
                "load_sectors_per_request": 16.0,
            },
            # All threads read one word: 4 of 32 bytes used, yet no sector too many.
            {
                "global_sectors_wasted_pct": 0.0,
                "global_sectors_excess_pct": 0.0,
                "load_bytes_per_sector": 4.0,
            },
        ),
    ),
    Rule(
        id="uncoalesced-by-l1",
        topic="uncoalesced",
        title="Each load or store takes many passes through L1",
        scope="kernel",
        why=(
            "A load of neighbouring words passes L1 once for the whole warp; scattered addresses "
            "take up to 32 passes. L1 is full here although few instructions are issued, and no "
            "shared memory is known whose bank conflicts could fill it."
        ),
        condition=(
            "L1 is at {l1_pct} of the peak of its active cycles or more, and is used "
            "{passes:g} times as much as compute or more ({many_passes:g} times where shared memory "
            "is unknown), in a kernel with "
            "{shared_memory_static_bytes:.0f} bytes of static and {shared_memory_dynamic_bytes:.0f} "
            "of dynamic shared memory and {local_requests:.0f} requests of local memory, whose "
            "sectors were not counted"
        ),
        needs=("l1_pct", "compute_pct"),
        uses=(
            "primary_class",
            "sm_active_pct",
            "kernel_dram_pct",
            "global_sectors_wasted_pct",
            "local_requests",
            "shared_memory_static_bytes",
            "shared_memory_dynamic_bytes",
        ),
        applies=_scatters,
        when=_takes_passes,
        because=(
            "L1 runs at {l1_pct} of its peak while the multiprocessors issue little (compute "
            "{compute_pct}, device memory {kernel_dram_pct})"
        ),
        fix=(
            "Let neighbouring threads access neighbouring addresses: swap the roles of the thread "
            "indices, swap loops, use structures of arrays instead of arrays of structures, or "
            "stage tiles in shared memory. Look for bank conflicts if it uses that already. "
            "Accesses of 16 bytes per thread, which need four passes, "
            "are the exception."
        ),
        refute=(
            "Collect sectors per request (ncu --section MemoryWorkloadAnalysis_Tables). If they "
            "are 4 for words and 16 for 16-byte accesses, nothing is scattered."
        ),
        saves=spare_beside_caches,
        likely=lambda k, peak: np.asanyarray(0.8 * spare_beside_caches(k, peak)),
        kind="conditional",
        role="class",
        grade="derived",
        layer="operator",
        suppresses=("l1-smem-bound",),
        thresholds={
            "l1_pct": at_least(WALL_PCT),
            "shared_memory_static_bytes": at_most(0, or_unknown=True),
            "shared_memory_dynamic_bytes": at_most(0, or_unknown=True),
            "many_passes": at_least(
                8, measure=_per_instruction, column="l1_pct", words="{op} {value} x compute_pct"
            ),
            "local_requests": at_most(0, or_unknown=True),
            "passes": at_least(
                4, measure=_per_instruction, column="l1_pct", words="{op} {value} x compute_pct"
            ),
        },
        references=(
            "NVIDIA CUDA C++ Best Practices Guide: coalesced access to global memory",
            "Nsight Compute documentation, hardware model: L1TEX wavefronts",
        ),
        # 98.5 % of 98.2 % of the cycles: 16 times the compute use (a product on a T4, 22 GFLOP/s).
        fires=(
            _SCATTERED,
            {**_SCATTERED, "l1_pct": 80.0, "sm_active_pct": None, "compute_pct": 20.0},
            {**_UNKNOWN_SHARED, "compute_pct": 3.1},
        ),
        silent=(
            {**_SCATTERED, "l1_pct": 79.9},
            {**_SCATTERED, "compute_pct": 24.5},
            {**_UNKNOWN_SHARED, "compute_pct": 12.5},
            {**_SCATTERED, "shared_memory_static_bytes": 4096.0},
            {**_SCATTERED, "shared_memory_dynamic_bytes": 4096.0},
            {**_SCATTERED, "global_sectors_wasted_pct": 0.0},
            {**_SCATTERED, "local_requests": 4096.0},
            {**_SCATTERED, "primary_class": "l2-bound"},
        ),
    ),
)
