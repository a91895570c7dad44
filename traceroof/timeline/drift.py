"""Kernels that do the same work again and again, and take longer each time: the clock falls.

Without a log of the clock this is how a GPU that reaches its limit of power or temperature shows.
"""

from itertools import chain

import numpy as np

from traceroof.core.dictionary import factorized, together
from traceroof.core.groups import Groups
from traceroof.timeline.lanes import Lane
from traceroof.timeline.metrics import launch_columns

# Shorter ones are as long as a launch; fewer launches have no quarters.
_LONG_NS = 20_000
_LEAST = 16
_QUARTERS = 4


def drift_facts(lane: Lane) -> dict[str, float]:
    """How much longer equal kernels (name, grid, block, shapes) take in the last quarter of their
    launches than in the first; empty where less than half of the kernel time can be compared.

    A kernel counts as slower where its median rises from quarter to quarter, else as unchanged: what
    changes its work once is no drift.
    """
    kernel = lane.is_kernel & ~lane.is_communication
    whole = int((lane.end - lane.start)[kernel].sum())
    at = np.flatnonzero(kernel & (lane.end - lane.start >= _LONG_NS))
    if len(at) < _LEAST:
        return {}
    shapes = (lane.rows.text("input_shapes", lane.at[at])[0],)
    by_work = Groups(together(chain(launch_columns(lane, at), shapes))[0])
    count = by_work.sizes[by_work.codes]
    many = count >= _LEAST
    time = (lane.end[at] - lane.start[at])[many]
    compared = int(time.sum())
    if not compared or 2 * compared < whole:
        return {}
    work, _ = factorized(by_work.codes[many])
    quarter = (_QUARTERS * by_work.places() // count)[many]  # of so many launches none is empty
    del at, by_work, count, many
    quarters = Groups(_QUARTERS * work + quarter).medians(time).reshape(-1, _QUARTERS)
    rises = (np.diff(quarters, axis=1) >= 0).all(axis=1) & (quarters[:, -1] > quarters[:, 0])
    growth = np.where(rises, quarters[:, -1] / quarters[:, 0], 1.0)
    of_work = np.bincount(work, weights=time)
    usual = np.where(rises, quarters[:, 0], np.inf)[work]
    order = np.argsort(growth)
    middle = np.searchsorted(np.cumsum(of_work[order]), of_work.sum() / 2)
    return {
        "kernel_growth_pct": (float(growth[order][middle]) - 1) * 100,
        "kernel_growth_ns": float(np.maximum(time - usual, 0.0).sum()),
        "compared_kernel_ns": float(compared),
    }
