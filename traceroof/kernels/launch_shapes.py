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
    import pandas as pd

    axes = [f"block_{axis}" for axis in "xyz"]
    wanted = ("blocks", "threads_per_block", "median_ns", *axes)
    if not names or any(name not in known for name in wanted) or "input_shapes" in known:
        return {}
    frame = pd.DataFrame({name: known[name] for name in wanted}).assign(kernel=list(names))
    frame["threads"] = frame["blocks"] * frame["threads_per_block"]
    frame = frame.dropna()
    shapes = frame.groupby(["kernel", "threads"])[axes[0]].transform("size")
    frame = frame[shapes >= _LEAST_SHAPES]
    if frame.empty:
        return {}
    best = frame.loc[frame.groupby(["kernel", "threads"])["median_ns"].transform("idxmin")]
    least = np.full(len(names), np.nan)
    shape = np.full(len(names), None, dtype=object)
    least[frame.index] = best["median_ns"].to_numpy()
    shape[frame.index] = [
        " x ".join(f"{size:.0f}" for size in row) for row in best[axes].to_numpy().tolist()
    ]
    return {"best_shape_ns": least, "best_shape": shape}
