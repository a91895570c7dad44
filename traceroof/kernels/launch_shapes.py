"""The same kernel launched in another way: what a file itself measures against each other.

Where one profile has a kernel at several block shapes and with one number of threads, or on the same
bytes with several grids, no model is needed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.dictionary import factorized

# Two shapes may be two uses of a kernel; a sweep has more.
_LEAST_SHAPES = 3


def columns(
    names: Sequence[str], known: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """``best_shape_ns`` and ``best_shape`` of each group; unknown where no sweep is in the file.

    names: kernel per group. known: blocks, threads_per_block, median_ns and block_x to block_z.
    """
    axes = [f"block_{axis}" for axis in "xyz"]
    wanted = ("blocks", "threads_per_block", "median_ns", *axes)
    if len(names) < _LEAST_SHAPES or "input_shapes" in known:
        return {}
    if any(name not in known for name in wanted):
        return {}
    threads = known["blocks"] * known["threads_per_block"]
    median = known["median_ns"]
    least = np.full(len(names), np.nan)
    shape = np.full(len(names), None, dtype=object)
    sweeps: dict[tuple[str, float], list[int]] = {}
    usable = ~np.isnan(threads) & ~np.isnan(median) & _repeated(names, _LEAST_SHAPES)
    for row in np.flatnonzero(usable).tolist():
        sweeps.setdefault((names[row], float(threads[row])), []).append(row)
    for rows in sweeps.values():
        shapes = {tuple(float(known[axis][row]) for axis in axes) for row in rows}
        # Two groups of one shape differ in something else: in registers, or in their work.
        if len(shapes) == len(rows) >= _LEAST_SHAPES:
            best = min(rows, key=lambda row: float(median[row]))
            least[rows] = median[best]
            shape[rows] = " x ".join(f"{known[axis][best]:.0f}" for axis in axes)
    if np.isnan(least).all():
        return {}
    return {"best_shape_ns": least, "best_shape": shape}


def _repeated(names: Sequence[str], least: int) -> npt.NDArray[np.bool_]:
    """Which names stand there so often."""
    codes, _ = factorized(np.array(names, dtype=object))
    return np.asarray(np.bincount(codes)[codes] >= least)


# So close are the bytes of two launches on the same data.
_SAME_BYTES = 0.05


def same_work(
    names: Sequence[str], known: Mapping[str, npt.NDArray[Any]]
) -> dict[str, npt.NDArray[Any]]:
    """``least_instructions`` of each group: the fewest that the kernel took on the same bytes of
    device memory, blocks of one size, and another grid; unknown where there is no other.

    names: kernel per group. known: blocks, threads_per_block, instructions and dram_bytes.
    """
    wanted = ("blocks", "threads_per_block", "instructions", "dram_bytes")
    if len(names) < 2 or any(name not in known for name in wanted):
        return {}
    blocks, threads, instructions, moved = (known[name] for name in wanted)
    usable = ~np.isnan(blocks * threads * instructions) & (moved > 0) & _repeated(names, 2)
    alike: dict[tuple[str, float], list[int]] = {}
    for row in np.flatnonzero(usable).tolist():
        alike.setdefault((names[row], float(threads[row])), []).append(row)
    least = np.full(len(names), np.nan)
    for rows in alike.values():
        at = np.array(sorted(rows, key=lambda row: float(moved[row])))
        # Launches whose bytes grow by steps of less than that are on the same data.
        far = np.diff(moved[at]) > _SAME_BYTES * moved[at][:-1]
        for same in np.split(at, np.flatnonzero(far) + 1):
            if len(set(blocks[same].tolist())) > 1:
                least[same] = instructions[same].min()
    return {} if np.isnan(least).all() else {"least_instructions": least}
