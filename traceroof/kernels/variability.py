"""How the times of a kernel's launches scatter, and what its first launch took.

Robust figures throughout: one hiccup in a thousand launches says nothing about the thousand.
"""

from collections.abc import Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.dictionary import factorized, together
from traceroof.core.kernel_table import Column, as_reals

Reals = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

#: What is known about the times of each kernel group; unknown for rows of summaries, whose mean
#: hides how single launches scatter.
SCATTER_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, pa.float64(), unit, meaning, "group", basis)
    for name, unit, meaning, basis in (
        ("scatter_pct", "%", "1.4826 x mad_ns, of five launches or more", "median"),
        ("spread", "", "95th over 5th percentile of the launches' times, of 20 or more", ""),
        ("first_ratio", "", "longest first launch of a process over the median, 1 where later ones come near", ""),
        ("first_excess_ns", "ns", "time of these first launches above the median", ""),
    )
)  # fmt: skip

# The standard deviation of normally distributed times is 1.4826 times their MAD.
_SIGMA = 1.4826
# Fewer launches do not show how times scatter; a 95th percentile of fewer than 20
# is the largest.
_FEWEST, _FEWEST_FOR_SPREAD = 5, 20
# Whether a first launch is one of its kind: no other, or no more than one in 20, comes near.
_NEAR, _ALONE = 0.75, 0.05


def columns(kernels: pa.Table, of_row: Codes, medians: Reals, mads: Reals) -> dict[str, Reals]:
    """SCATTER_COLUMNS of each of n kernel groups.

    of_row: the group of each row of the kernel table, -1 for none. medians, mads: of the times of
    the launches of each group, ns.
    """
    count = len(medians)
    found: dict[str, Reals] = {one.name: np.full(count, np.nan) for one in SCATTER_COLUMNS}
    if not count:
        return found
    duration = as_reals(kernels["duration_ns"])
    rows = np.flatnonzero((of_row >= 0) & ~np.isnan(duration))
    # The mean of a summary's row says nothing about single launches.
    several = np.zeros(count, dtype=bool)
    several[of_row[rows[as_reals(kernels["launch_count"])[rows] != 1]]] = True
    rows = rows[~several[of_row[rows]]]
    group, time = of_row[rows], duration[rows]
    launches = np.bincount(group, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        found["scatter_pct"] = np.where(launches >= _FEWEST, _SIGMA * mads / medians * 100, np.nan)
        found["spread"] = _spread(group, time, launches)
    found |= _first(kernels, rows, group, time, medians)
    return found


def _spread(group: Codes, time: Reals, launches: Codes) -> Reals:
    # Group and time in one number sort faster than two keys; no launch takes 2**40 ns (18 min).
    ordered = np.sort((group << _TIME_BITS) | np.minimum(time, _LONGEST).astype(np.int64))
    begin = np.cumsum(launches) - launches
    enough = launches >= _FEWEST_FOR_SPREAD
    last = launches[enough] - 1
    low, high = (
        ordered[begin[enough] + np.rint(last * part).astype(np.int64)] & int(_LONGEST)
        for part in (0.05, 0.95)
    )
    result = np.full(len(launches), np.nan)
    result[enough] = high / np.where(low > 0, low, np.nan)
    return result


_TIME_BITS = 40
_LONGEST = 2**_TIME_BITS - 1


def _first(
    kernels: pa.Table, rows: Codes, group: Codes, time: Reals, medians: Reals
) -> Mapping[str, Reals]:
    """The first launch of each group in each process on each GPU, against the group's median.

    A first launch that later ones come near is no warm-up but work of another size.
    """
    count = len(medians)
    start = as_reals(kernels["start_ns"])[rows]
    # Rows without a start stand in the order in which they ran.
    if np.any(start[1:] < start[:-1]):
        order = np.argsort(start, kind="stable")
        rows, group, time = rows[order], group[order], time[order]
    lanes = (
        factorized(as_reals(kernels[name])[rows])[0] for name in ("source", "process_id", "device")
    )
    _, first = together(chain((group,), lanes))
    longest = np.zeros(count)
    np.maximum.at(longest, group[first], time[first])
    near = np.bincount(group, weights=time >= _NEAR * longest[group], minlength=count)
    firsts = np.bincount(group[first], minlength=count)
    launches = np.bincount(group, minlength=count)
    alone = near - firsts <= _ALONE * launches
    known = (launches - firsts >= _FEWEST - 1) & (medians > 0)
    excess = np.maximum(time[first] - medians[group[first]], 0.0)
    summed = np.bincount(group[first], weights=excess, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = longest / medians
    return {
        "first_ratio": np.where(known, np.where(alone, ratio, 1.0), np.nan),
        "first_excess_ns": np.where(known, np.where(alone, summed, 0.0), np.nan),
    }
