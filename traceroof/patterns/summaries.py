"""Launches in a summary: a table of kernels with counts and times, without a timeline.

Such a file does not show when the GPU was idle, nor what ran side by side. It shows all the same that
kernels end sooner than they can be launched, and that copies or collectives outweigh computation.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.kernel_table import Column, sourced
from traceroof.kernels.groups import Groups
from traceroof.kernels.variants import Variants
from traceroof.timeline import Timeline
from traceroof.timeline.hostcalls import direction_of, is_managed

#: Columns of the facts of scope ``run`` that come from here; absent where there is a timeline, or
#: where a counter tool ran the kernels.
SUMMARY_COLUMNS: tuple[Column, ...] = sourced(
    (
        Column(name, pa.float64(), unit, meaning, "run", "")
        for name, unit, meaning in (
            ("summary_launches", "launch", "kernel launches of a summary, copies and fills apart"),
            ("summary_mean_ns", "ns", "mean time of these launches"),
            ("summary_shortest_ns", "ns", "mean time of the kernel with the shortest launches"),
            ("summary_copies", "copy", "copies of a summary between host and GPU"),
            ("summary_copy_ns", "ns", "time of these copies"),
            ("summary_to_gpu_ns", "ns", "of it, copies to the GPU"),
            ("summary_to_host_ns", "ns", "of it, copies to the host"),
            ("summary_migrations", "copy", "of them, pages of managed memory"),
            ("summary_migrated_ns", "ns", "time of these"),
            ("summary_migration_ns", "ns", "mean time of one of these"),
            ("summary_collectives", "launch", "launches of a summary that communicate"),
            ("summary_collective_ns", "ns", "time of these launches"),
            ("summary_longest_collective_ns", "ns", "the longest of them"),
            ("summary_compute_ns", "ns", "time of all other kernels of a summary"),
        )
    ),
    launch="summary_launches summary_copies summary_migrations summary_collectives",
    clock=(
        "summary_migrated_ns summary_migration_ns summary_mean_ns summary_shortest_ns summary_copy_ns summary_to_gpu_ns summary_to_host_ns "
        "summary_collective_ns summary_longest_collective_ns summary_compute_ns"
    ),
)  # fmt: skip

_WAYS = {"summary_to_gpu_ns": "host-to-device", "summary_to_host_ns": "device-to-host"}


def summaries(
    variants: Variants, grouped: Groups, lines: Sequence[Timeline]
) -> Mapping[str, float]:
    """Values by the names of SUMMARY_COLUMNS; empty where the run is no summary."""
    see = grouped.facts.only(("by_counters",))
    if lines or (see.by_counters == 1).any():
        return {}
    return {**_launches(grouped), **_collectives(grouped), **_copies(variants)}


def _launches(grouped: Groups) -> Mapping[str, float]:
    see = grouped.facts.only(("primary_class", "time_ns", "launches"))
    timed = (see.time_ns > 0) & (see.launches > 0) & (see.primary_class != "copy")
    if not timed.any():
        return {}
    time, launches = see.time_ns[timed], see.launches[timed]
    return {
        "summary_launches": float(launches.sum()),
        "summary_mean_ns": float(time.sum() / launches.sum()),
        "summary_shortest_ns": float((time / launches).min()),
    }


def _collectives(grouped: Groups) -> Mapping[str, float]:
    see = grouped.facts.only(("primary_class", "time_ns", "launches", "longest_launch_ns"))
    timed = see.time_ns > 0
    found = timed & (see.primary_class == "communication")
    if not found.any():
        return {}
    longest = see.longest_launch_ns[found]
    told = {} if np.isnan(longest).all() else {"summary_longest_collective_ns": np.nanmax(longest)}
    return {
        "summary_collectives": float(see.launches[found].sum()),
        "summary_collective_ns": float(see.time_ns[found].sum()),
        "summary_compute_ns": float(see.time_ns[timed & ~found].sum()),
        **{name: float(value) for name, value in told.items()},
    }


def _copies(variants: Variants) -> Mapping[str, float]:
    """Copies between host and GPU; of copies that a kernel does, nobody says which way they go."""
    at = np.flatnonzero(np.asarray(variants.kernels["kind"].to_pylist(), dtype=object) == "memcpy")
    words = _words(variants, at)
    way = np.array([direction_of(one) for one in words], dtype=object)
    of = {name: at[way == direction] for name, direction in _WAYS.items()}
    both = np.concatenate(list(of.values()))
    if not len(both):
        return {}
    moved = np.array([is_managed(one) for one in words], dtype=bool)
    return {
        "summary_copies": float(variants.launches[both].sum()),
        "summary_copy_ns": float(variants.time[both].sum()),
        **{name: float(variants.time[rows].sum()) for name, rows in of.items() if len(rows)},
        **_migrations(variants, np.intersect1d(both, at[moved])),
    }


def _migrations(variants: Variants, at: npt.NDArray[np.int64]) -> Mapping[str, float]:
    count, time = float(variants.launches[at].sum()), float(variants.time[at].sum())
    if not count:
        return {}
    return {
        "summary_migrations": count,
        "summary_migrated_ns": time,
        "summary_migration_ns": time / count,
    }


def _words(variants: Variants, at: npt.NDArray[np.int64]) -> list[str]:
    """What says which way each copy went: its kind, else its name."""
    kinds, names = (
        variants.kernels[column].take(pa.array(at)).to_pylist()
        for column in ("copy_kind", "kernel_name")
    )
    return [kind or name or "" for kind, name in zip(kinds, names, strict=True)]
