"""Full accesses straddle sectors: an address is not aligned."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least, at_most
from traceroof.rules._kernels import tunable

_SECTOR_BYTES = 32


def _applies(k: Facts) -> Mask:
    # Full sectors settle it, whatever the requests.
    return tunable(k) & k.meets("excess_least")


def _straddles(k: Facts) -> Mask:
    # Where device memory moved no more than was asked for, a neighbour used the rest of each sector.
    served = k.meets("absorbed")
    full = k.meets("load_sectors_per_request") & k.meets("excess_least") & k.meets("excess_most")
    return np.asanyarray(full & ~served)


def _excess(k: Facts) -> Column:
    """Sectors beyond those that the bytes need, as a share of those."""
    # 0 bytes of each sector are what a kernel reports that loads nothing.
    used = np.where(k.load_bytes_per_sector > 0, k.load_bytes_per_sector, np.nan)
    return np.asanyarray(_SECTOR_BYTES / used - 1)


def _saves(k: Facts, peak: Attainable) -> Column:
    waste = 1 - k.load_bytes_per_sector / _SECTOR_BYTES
    return np.asanyarray(np.fmin(waste, 1 - k.compute_pct / (100 * np.asanyarray(peak.compute))))


RULES = (
    Rule(
        id="misaligned-128",
        topic="uncoalesced",
        title="Contiguous loads straddle sectors: an address is not aligned",
        scope="kernel",
        why=(
            "A warp that reads 128 contiguous bytes needs 4 sectors when they start at a sector "
            "boundary and 5 when they do not. Row lengths and offsets that are not a multiple of "
            "128 bytes cause it."
        ),
        condition=(
            "{excess_least:.0%} to {excess_most:.0%} more loaded sectors than needed although "
            "requests are full ({load_sectors_per_request:.0f} bytes or more per warp), unless "
            "device memory read at most {absorbed} times what threads asked for"
        ),
        needs=("load_bytes_per_sector", "load_sectors_per_request"),
        uses=(
            "primary_class",
            "compute_pct",
            "l1_hit_pct",
            "dram_pct",
            "dram_read_bytes",
            "used_load_bytes",
        ),
        applies=_applies,
        when=_straddles,
        because=(
            "full loads touch {load_sectors_per_request:.2f} sectors per request and use "
            "{load_bytes_per_sector:.1f} of their 32 bytes: some do not start at a sector boundary"
        ),
        fix=(
            "Align base addresses and row lengths (leading dimensions) to 128 bytes: pad rows, "
            "keep slices and halo offsets multiples of 32 floats, copy an odd view once if it is "
            "read often."
        ),
        refute=(
            "Print the base address and row length in bytes. If both are multiples of 128, the "
            "extra sectors come from edges or gathers. If the L1 hit rate is high, the neighbour "
            "warp uses the extra sector and little is lost."
        ),
        saves=_saves,
        # The fix moves fewer bytes, so those of today are no floor.
        kind="hard",
        grade="inferred",
        layer="operator",
        effort="one-line",
        risk="memory",
        thresholds={
            "excess_least": at_least(
                0.03,
                column="load_bytes_per_sector",
                measure=_excess,
                or_unknown=True,
                words="{op} {value:.0%} sectors too many",
            ),
            "excess_most": at_most(
                0.25, column="load_bytes_per_sector", measure=_excess, words="{op} {value:.0%}"
            ),
            "absorbed": at_most(
                1.02,
                column="dram_read_bytes",
                of="used_load_bytes",
                words="not {op} {value} × used",
            ),
            # 32 threads of 4 bytes; counters round, so a little less still counts as full.
            "load_sectors_per_request": at_least(
                0.97 * 128,
                measure=lambda k: k.load_bytes_per_sector * k.load_sectors_per_request,
                words="{op} {value:.0f} bytes per request",
            ),
        },
        references=("NVIDIA CUDA C++ Best Practices Guide: effects of misaligned accesses",),
        # 5 sectors for 128 bytes: 25.6 bytes of each used, 25 % too many. 4.13: 31 bytes, 3.2 %.
        fires=(
            {"load_bytes_per_sector": 25.6, "load_sectors_per_request": 5.0},
            {"load_bytes_per_sector": 31.0, "load_sectors_per_request": 4.13},
        ),
        silent=(
            {"load_bytes_per_sector": 31.1, "load_sectors_per_request": 4.12},
            {"load_bytes_per_sector": 25.5, "load_sectors_per_request": 5.02},
            # The extra sectors came from a cache.
            {
                "load_bytes_per_sector": 25.6,
                "load_sectors_per_request": 5.0,
                "dram_read_bytes": 1.342e8,
                "used_load_bytes": 1.342e8,
            },
            # Half of the threads load: an edge, not an address.
            {"load_bytes_per_sector": 30.0, "load_sectors_per_request": 2.1},
        ),
    ),
)
