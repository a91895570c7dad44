"""The same kernel with as many threads in blocks of another shape: a sweep that a file holds.

Where one profile has a kernel at several block shapes and with one number of threads, the shapes
were measured against each other, and no model is needed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

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
    for row in np.flatnonzero(~np.isnan(threads) & ~np.isnan(median)).tolist():
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
