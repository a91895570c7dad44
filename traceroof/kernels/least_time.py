"""What any version of a kernel must still do, by what its counters saw, and the rates for it.

Only bytes that must move once and operations that must be done bound a change of the algorithm:
how busy a unit is says nothing of it, for a better version asks less of that unit.
"""

from collections.abc import Mapping

import numpy as np

from traceroof.hardware.device_lookup import fastest, fastest_of
from traceroof.kernels.derived import Derived, Reals, See, first_known

_SECTOR_BYTES = 32
# A word of each thread: narrower accesses need less, which is then unknown.
_REQUEST_BYTES = 128

# Warps that fit on a multiprocessor. Source: NVIDIA CUDA C++ Programming Guide, technical
# specifications per compute capability.
_WARP_SLOTS: Mapping[float, float] = {
    6.0: 64, 6.1: 64, 6.2: 64, 7.0: 64, 7.2: 64, 7.5: 32, 8.0: 64, 8.6: 48, 8.7: 48, 8.9: 48,
    9.0: 64, 10.0: 64, 10.3: 64, 12.0: 48, 12.1: 48,
}  # fmt: skip


def _dram_peak_at_most(see: See) -> Reals:
    memory = [fastest(f"{one:.1f}")[0] for one in see("compute_capability")]
    # Of AMD's GPUs nothing short of the name tells them apart.
    amd = np.where(see.vendors() == "amd", fastest_of("amd")[0], np.nan)
    return first_known(see("dram_peak_bytes_per_s"), np.array(memory, dtype=np.float64), amd)


def _warps_of_block(see: See) -> Reals:
    return np.asarray(np.ceil(see("threads_per_block") / see("warp_size")))


def _instructions_per_access(see: See) -> Reals:
    accesses = see("global_load_requests") + see("global_store_requests")
    return np.where(accesses > 0, see("instructions") / accesses, np.nan)


def _used_bytes(what: str, see: See) -> Reals:
    """Bytes that threads asked for."""
    requests = see(f"global_{what}_requests")
    sectors = first_known(
        see(f"global_{what}_sectors"), requests * see(f"{what}_sectors_per_request")
    )
    asked = sectors * see(f"{what}_bytes_per_sector")
    return first_known(asked, np.fmin(sectors * _SECTOR_BYTES, requests * _REQUEST_BYTES))


def _compulsory_bytes(see: See) -> Reals:
    """What of the bytes used device memory must carry once."""
    ideal = see("global_sectors_ideal") * _SECTOR_BYTES
    # Read again from a cache, bytes were asked for twice; fetched in vain, they moved for nothing.
    # What device memory read nobody may have counted: how often bytes were asked for says little.
    counted = ~np.isnan(see("dram_read_bytes"))
    read = np.where(counted, np.fmin(see("dram_read_bytes"), see("used_load_bytes")), np.nan)
    # What device memory did not count may have stayed in L2, or have been written twice.
    counted = ~np.isnan(see("dram_write_bytes"))
    written = np.where(counted, np.fmin(see("dram_write_bytes"), see("used_store_bytes")), 0.0)
    return first_known(read + written, np.fmin(see("dram_bytes"), ideal), read)


def _carried_bytes(see: See) -> Reals:
    """With stores that device memory did not count. All of them may leave the last cache before the
    kernel ends, and what it cannot hold must: the middle of the two."""
    uncounted = np.isnan(see("dram_write_bytes")) & np.isnan(see("dram_bytes"))
    stored = np.where(uncounted, np.nan_to_num(see("used_store_bytes")), 0.0)
    must = np.maximum(stored - np.nan_to_num(see("last_cache_bytes"), nan=np.inf), 0.0)
    return np.asarray(_compulsory_bytes(see) + (stored + must) / 2)


# Of the bytes that loads ask for, so much comes from device memory where they stream: most.
_STREAMED = 0.5


def _streaming_pct(see: See) -> Reals:
    streams = see("dram_read_bytes") >= _STREAMED * see("used_load_bytes")
    return first_known(see("dram_pct"), np.where(streams, see("memory_pct"), np.nan))


def _warp_slots(see: See) -> Reals:
    by_capability = [_WARP_SLOTS.get(round(float(one), 1), np.nan)
                     for one in see("compute_capability")]  # fmt: skip
    return first_known(see("warp_slots"), np.array(by_capability, dtype=np.float64))


def _block_occupancy_pct(see: See) -> Reals:
    """What the size of a block alone lets reside."""
    slots, each = see("warp_slots"), _warps_of_block(see)
    return np.asarray(100 * np.floor(slots / each) * each / slots)


def _kernel_dram_pct(see: See) -> Reals:
    at_most = see("dram_peak_at_most")
    return first_known(
        see("dram_pct"),
        100 * see("dram_bytes_per_s") / at_most,
        100 * see("dram_read_bytes") / see("duration_ns") * 1e9 / at_most,
    )


def _accesses(what: str) -> tuple[str, ...]:
    return (f"global_{what}_requests", f"global_{what}_sectors",
            f"{what}_sectors_per_request", f"{what}_bytes_per_sector")  # fmt: skip


TABLE: tuple[Derived, ...] = (
    Derived("dram_peak_at_most", ("dram_peak_bytes_per_s", "compute_capability"),
            _dram_peak_at_most,
            "byte/s", "DRAM peak, else that of the fastest device of the compute capability, else of AMD",
            source="device"),
    Derived("kernel_dram_pct",
            ("dram_pct", "dram_bytes_per_s", "dram_read_bytes", "duration_ns", "dram_peak_at_most"),
            _kernel_dram_pct,
            "%", "dram_pct, else DRAM bytes over time and dram_peak_at_most: at least that much",
            "peak of DRAM"),
    Derived("warps", ("blocks", "threads_per_block", "warp_size"),
            lambda see: see("blocks") * _warps_of_block(see),
            "warp", "warps of the grid"),
    Derived("loads_per_warp", ("global_load_requests", "warps"),
            lambda see: see("global_load_requests") / see("warps"),
            "request/warp", "global loads of a warp"),
    Derived("instructions_per_access",
            ("instructions", "global_load_requests", "global_store_requests"),
            _instructions_per_access,
            "inst/request", "warp instructions per global load or store"),
    Derived("used_load_bytes", _accesses("load"), lambda see: _used_bytes("load", see),
            "byte", "bytes of global loads that threads asked for"),
    Derived("used_store_bytes", _accesses("store"), lambda see: _used_bytes("store", see),
            "byte", "bytes of global stores that threads wrote"),
    Derived("compulsory_bytes",
            ("global_sectors_ideal", "dram_bytes", "dram_read_bytes", "dram_write_bytes",
             "used_load_bytes", "used_store_bytes"),
            _compulsory_bytes,
            "byte", "bytes that device memory must carry once: used, and counted there"),
    Derived("carried_bytes",
            ("global_sectors_ideal", "dram_bytes", "dram_read_bytes", "dram_write_bytes",
             "used_load_bytes", "used_store_bytes", "last_cache_bytes"),
            _carried_bytes,
            "byte", "compulsory_bytes, and of stores that nobody counted in device memory the middle "
            "between all and what the last cache cannot hold"),
    Derived("streaming_pct", ("dram_pct", "memory_pct", "dram_read_bytes", "used_load_bytes"),
            _streaming_pct,
            "%", "dram_pct, else memory_pct where most loads come from DRAM", "peak of the busiest level"),
    Derived("warp_slots", ("warp_slots", "compute_capability"), _warp_slots),
    Derived("block_occupancy_pct", ("warp_slots", "threads_per_block", "warp_size"),
            _block_occupancy_pct,
            "%", "warps that blocks of this size alone let reside", "warp slots", "launch"),
)  # fmt: skip
