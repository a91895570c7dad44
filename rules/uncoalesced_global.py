"""Global accesses move bytes that no thread asked for."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least
from traceroof.rules._kernels import of_class, tunable
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
)
