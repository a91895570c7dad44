"""What any version of a kernel must still do, by what its counters saw, and the rates for it.

Only bytes that must move once and operations that must be done bound a change of the algorithm:
how busy a unit is says nothing of it, for a better version asks less of that unit. Adds to the
columns of a group what ``groups.GROUP_COLUMNS`` lists under the same names.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.hardware.devices import fastest

Reals = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]

_SECTOR_BYTES = 32
# A word of each thread: narrower accesses need less, which is then unknown.
_REQUEST_BYTES = 128

# Warps that fit on a multiprocessor. Source: NVIDIA CUDA C++ Programming Guide, technical
# specifications per compute capability.
_WARP_SLOTS: Mapping[float, float] = {
    6.0: 64, 6.1: 64, 6.2: 64, 7.0: 64, 7.2: 64, 7.5: 32, 8.0: 64, 8.6: 48, 8.7: 48, 8.9: 48,
    9.0: 64, 10.0: 64, 10.3: 64, 12.0: 48, 12.1: 48,
}  # fmt: skip


def derive(columns: Columns, count: int) -> None:
    """Add the columns of ``count`` groups; reads their accesses, times and the device's peaks."""
    missing = np.full(count, np.nan)

    def get(name: str) -> Reals:
        return np.asarray(columns.get(name, missing), dtype=np.float64)

    with np.errstate(divide="ignore", invalid="ignore"):
        capability = get("compute_capability")
        memory = np.array([fastest(f"{one:.1f}")[0] for one in capability], dtype=np.float64)
        columns["dram_peak_at_most"] = _first(get("dram_peak_bytes_per_s"), memory.reshape(count))
        _derive_work(columns, get)
        _derive_compulsory(columns, get)
        _derive_blocks(columns, get, capability)
        columns["kernel_dram_pct"] = _first(
            get("dram_pct"),
            100 * get("dram_bytes_per_s") / columns["dram_peak_at_most"],
            100 * get("dram_read_bytes") / get("duration_ns") * 1e9 / columns["dram_peak_at_most"],
        )


def _derive_work(columns: Columns, get: Callable[[str], Reals]) -> None:
    """How much a warp does: instructions, and global accesses among them."""
    warps = get("blocks") * np.ceil(get("threads_per_block") / get("warp_size"))
    accesses = get("global_load_requests") + get("global_store_requests")
    columns["warps"] = warps
    columns["loads_per_warp"] = get("global_load_requests") / warps
    columns["instructions_per_access"] = np.where(
        accesses > 0, get("instructions") / accesses, np.nan
    )


def _derive_compulsory(columns: Columns, get: Callable[[str], Reals]) -> None:
    """Bytes that threads asked for, and what of them device memory must carry once."""
    for what in ("load", "store"):
        requests = get(f"global_{what}_requests")
        sectors = _first(
            get(f"global_{what}_sectors"), requests * get(f"{what}_sectors_per_request")
        )
        moved = sectors * _SECTOR_BYTES
        asked = sectors * get(f"{what}_bytes_per_sector")
        columns[f"used_{what}_bytes"] = _first(asked, np.fmin(moved, requests * _REQUEST_BYTES))
    ideal = get("global_sectors_ideal") * _SECTOR_BYTES
    # Read again from a cache, bytes were asked for twice; fetched in vain, they moved for nothing.
    read = np.fmin(get("dram_read_bytes"), columns["used_load_bytes"])
    # What device memory did not count may have stayed in L2, or have been written twice.
    counted = ~np.isnan(get("dram_write_bytes"))
    written = np.where(counted, np.fmin(get("dram_write_bytes"), columns["used_store_bytes"]), 0.0)
    columns["compulsory_bytes"] = _first(read + written, np.fmin(get("dram_bytes"), ideal), read)


def _derive_blocks(columns: Columns, get: Callable[[str], Reals], capability: Reals) -> None:
    """What the size of a block alone lets reside."""
    by_capability = np.array(
        [_WARP_SLOTS.get(round(float(one), 1), np.nan) for one in capability], dtype=np.float64
    ).reshape(len(capability))
    slots = _first(get("warp_slots"), by_capability)
    each = np.ceil(get("threads_per_block") / get("warp_size"))
    columns["warp_slots"] = slots
    columns["block_occupancy_pct"] = 100 * np.floor(slots / each) * each / slots


def _first(*choices: Reals) -> Reals:
    result = choices[0]
    for other in choices[1:]:
        result = np.where(np.isnan(result), other, result)
    return result
