"""Where the figure of a column comes from: the word that stands beside every piece of evidence."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache

from traceroof.core.kernel_table import Column

#: Every origin with what it means.
ORIGINS: Mapping[str, str] = {
    "counter": "a hardware counter, as the profiler reports it",
    "clock": "times that the profiler took",
    "launch": "the launch itself: its grid, its resources, how often it ran",
    "device": "the device, by the report or the device table",
    "model": "the operator's model from its shapes, or a measured time held against it",
    "name": "the name or the recorded inputs of the kernel or its operator",
    "derived": "arithmetic on figures of several origins",
}

# Group of a column of the kernel table -> origin.
_OF_GROUP: Mapping[str, str] = {
    "identity": "name",
    "time": "clock",
    "utilisation": "counter",
    "traffic": "counter",
    "arithmetic": "counter",
    "scheduler": "counter",
    "balance": "counter",
    "clocks": "counter",
    "peaks": "device",
    "launch": "launch",
    # Timelines and ranks are intervals of the profiler's clock.
    "idle": "clock",
    "host": "clock",
    "copies": "clock",
    "communication": "clock",
    "steps": "clock",
    "launches": "clock",
    "ranks": "clock",
}

# Columns by name, first match wins; all others of a group that is not above are derived.
_OF_NAME: tuple[tuple[str, str], ...] = (
    ("over_peak*", "derived"),
    ("stalls_from", "derived"),
    ("peaks_from", "derived"),
    ("tensor_dtype", "counter"),
    ("copy_bytes", "launch"),
    ("message_bytes", "launch"),
    ("longest_gap_ns", "clock"),
    ("late_gap_ns", "clock"),
    ("*_example", "name"),
    ("*_from", "name"),
    ("*_basis", "derived"),
    ("category", "name"),
    ("role", "name"),
    ("*route", "name"),
    ("name_*", "name"),
    ("tile_*", "name"),
    ("*_dtype", "name"),
    ("operator_*", "name"),
    ("copy_kind", "name"),
    ("achieved_occupancy_pct", "counter"),
    ("estimated_occupancy_pct", "derived"),
    ("sm_count", "device"),
    ("warp_size", "device"),
    ("vendor", "device"),
    ("compute_capability", "device"),
    ("l2_cache_bytes", "device"),
    ("last_cache_bytes", "device"),
    ("fp64_ratio", "device"),
    ("*_speedup", "device"),
    ("fp8_over_int8", "device"),
    ("*_peak_*", "device"),
    ("model*", "model"),
    ("t_min_ns", "model"),
    ("roof_pct", "model"),
    ("traffic_ratio", "model"),
    ("*_least_ns", "model"),
    ("*_gap_ns", "derived"),
    ("launches", "launch"),
    ("timed_launches", "launch"),
    ("launch_count", "launch"),
    ("grid_*", "launch"),
    ("block_*", "launch"),
    ("blocks", "launch"),
    ("waves", "launch"),
    ("threads_per_block", "launch"),
    ("group_size", "launch"),
    ("median_ns", "clock"),
    ("mad_ns", "clock"),
    ("time_ns", "clock"),
    ("kernel_time_ns", "clock"),
    ("share_pct", "clock"),
    ("rank_by_time", "clock"),
    ("gpu_busy_pct", "clock"),
    ("brief_pct", "clock"),
)

# Columns that take the best figure there is say in another column what it was measured against.
_OF_BASIS: Mapping[str, str] = {
    "elapsed": "counter",
    "active": "counter",
    "pipe": "counter",
    "model, nominal peak": "model",
}
_TELLING = ("dram_pct", "compute_pct", "l1_pct")


def origin_of(column: Column, basis: str) -> str:
    """One of ORIGINS for a column's value that was measured against this basis."""
    if column.name in _TELLING:
        return _OF_BASIS.get(basis, "derived")
    return _origin(column.name, column.group)


@cache
def _origin(name: str, group: str) -> str:
    for pattern, origin in _OF_NAME:
        if fnmatchcase(name, pattern):
            return origin
    return _OF_GROUP.get(group, "derived")
