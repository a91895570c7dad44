"""Stores fill only parts of sectors."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import tunable

_SECTOR_BYTES = 32


def _applies(k: Facts) -> Mask:
    # Whole sectors settle it, whatever the traffic.
    return tunable(k) & k.meets("store_bytes_per_sector")


def _partial(k: Facts) -> Mask:
    # One word of one thread is what a reduction writes: there is nothing to merge.
    several = k.meets("store_bytes_per_sector") & k.meets("store_sectors_per_request")
    return np.asanyarray(several & k.meets("dram_write_bytes") & k.meets("much"))


def _saves(k: Facts, peak: Attainable) -> Column:
    writes = k.dram_write_bytes / k.dram_bytes
    waste = (1 - k.store_bytes_per_sector / _SECTOR_BYTES) * writes
    return np.asanyarray(np.fmin(waste, 1 - k.compute_pct / (100 * np.asanyarray(peak.compute))))


RULES = (
    Rule(
        id="partial-sector-writes",
        topic="uncoalesced",
        title="Stores fill only parts of sectors",
        scope="kernel",
        why=(
            "A store to part of a 32-byte sector costs as much as a store to all of it. Where L2 "
            "cannot merge the parts in time, device memory must read the sector first."
        ),
        condition=(
            "stores write fewer than {store_bytes_per_sector} bytes of each sector, in "
            "{store_sectors_per_request:g} sectors per request or more, and writes are more than "
            "{dram_write_bytes:.0%} of device-memory traffic, and {much} or more"
        ),
        needs=("store_bytes_per_sector", "dram_write_bytes", "dram_bytes"),
        uses=("primary_class", "compute_pct", "store_sectors_per_request", "dram_pct"),
        applies=_applies,
        when=_partial,
        because=(
            "stores write {store_bytes_per_sector:.1f} of the 32 bytes of each sector, and "
            "{dram_write_bytes} of {dram_bytes} of device-memory traffic are writes"
        ),
        fix=(
            "Write whole sectors: neighbouring threads to neighbouring addresses, staged through "
            "shared memory where the layout does not allow it. Pack narrow results before storing."
        ),
        refute=(
            "Compare the bytes written to device memory with the size of the output. If they "
            "agree, L2 merged the parts and nothing is lost."
        ),
        saves=_saves,
        # The fix moves fewer bytes, so those of today are no floor.
        kind="hard",
        grade="observed",
        layer="operator",
        thresholds={
            "store_bytes_per_sector": below(24, or_unknown=True),
            "store_sectors_per_request": at_least(2, or_unknown=True),
            "dram_write_bytes": above(0.2, of="dram_bytes"),
            "much": at_least(1e5, column="dram_write_bytes", unit="byte"),
        },
        references=("Nsight Compute MemoryCacheAccessPattern rule: bytes used of each sector",),
        fires=(
            {"store_bytes_per_sector": 23.9, "dram_write_bytes": 21e6, "dram_bytes": 100e6},
            {"store_bytes_per_sector": 4.0, "dram_write_bytes": 50e6, "dram_bytes": 100e6},
            {
                "store_bytes_per_sector": 4.0,
                "store_sectors_per_request": 2.0,
                "dram_write_bytes": 1.1e5,
                "dram_bytes": 2e5,
            },
        ),
        silent=(
            {"store_bytes_per_sector": 24.0, "dram_write_bytes": 50e6, "dram_bytes": 100e6},
            # A reduction writes one word per block: scattered, and next to nothing.
            {"store_bytes_per_sector": 4.0, "dram_write_bytes": 20e6, "dram_bytes": 100e6},
            {"store_bytes_per_sector": 4.0, "dram_write_bytes": 0.0, "dram_bytes": 0.0},
            {
                "store_bytes_per_sector": 4.0,
                "store_sectors_per_request": 1.0,
                "dram_write_bytes": 50e6,
                "dram_bytes": 100e6,
            },
            # 25 sectors in all.
            {"store_bytes_per_sector": 4.0, "dram_write_bytes": 800.0, "dram_bytes": 800.0},
        ),
    ),
)
