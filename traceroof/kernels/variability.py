"""How the times of a kernel's launches scatter, and what its first launch took.

Robust figures throughout: one hiccup in a thousand launches says nothing about the thousand.
"""

from collections.abc import Mapping
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.dictionary import factorized, together
from traceroof.core.kernel_table import UNKNOWN, Column
from traceroof.kernels.durations import Durations, at_ranks
from traceroof.kernels.variants import Variants

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


def columns(
    variants: Variants, of_row: Codes, times: Durations, medians: Reals, mads: Reals
) -> dict[str, Reals]:
    """SCATTER_COLUMNS of each of n kernel groups.

    of_row: the group of each variant, -1 for none. times: of the launches of each group. medians,
    mads: of these, ns.
    """
    count = len(medians)
    found: dict[str, Reals] = {one.name: np.full(count, np.nan) for one in SCATTER_COLUMNS}
    if not count:
        return found
    # The mean of a summary's row says nothing about single launches.
    several = np.zeros(count, dtype=bool)
    several[of_row[(of_row >= 0) & (variants.sums.most != 1)]] = True
    every = np.bincount(times.thing, weights=times.launches, minlength=count)
    launches = np.where(several, 0.0, every).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        found["scatter_pct"] = np.where(launches >= _FEWEST, _SIGMA * mads / medians * 100, np.nan)
        low, high = (at_ranks(times, part) for part in (0.05, 0.95))
        spread = high / np.where(low > 0, low, np.nan)
        found["spread"] = np.where(launches >= _FEWEST_FOR_SPREAD, spread, np.nan)
    found |= _first(variants, of_row, times, launches, medians)
    return found


def _first(
    variants: Variants, of_row: Codes, times: Durations, launches: Reals, medians: Reals
) -> Mapping[str, Reals]:
    """The first launch of each group in each process on each GPU, against the group's median.

    A first launch that later ones come near is no warm-up but work of another size. launches: of
    each group, of rows of one launch each.
    """
    count = len(medians)
    firsts = {name: np.asarray(one) for name, one in variants.firsts.items()}
    group = of_row[firsts["variant"]]
    start = firsts["start_ns"]
    late = np.where(start == UNKNOWN, np.iinfo(np.int64).max, start)
    order = np.argsort(late, kind="stable")
    order = order[(group[order] >= 0) & (launches[group[order]] > 0)]
    lanes = (factorized(firsts[name][order])[0] for name in ("source", "process_id", "device"))
    _, first = together(chain((group[order],), lanes))
    group, time = group[order][first], firsts["duration_ns"][order][first].astype(np.float64)
    longest = np.zeros(count)
    np.maximum.at(longest, group, time)
    is_near = times.ns >= _NEAR * longest[times.thing]
    near = np.bincount(times.thing, weights=times.launches * is_near, minlength=count)
    firsts_of = np.bincount(group, minlength=count)
    alone = near - firsts_of <= _ALONE * launches
    known = (launches - firsts_of >= _FEWEST - 1) & (medians > 0)
    excess = np.maximum(time - medians[group], 0.0)
    summed = np.bincount(group, weights=excess, minlength=count)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = longest / medians
    return {
        "first_ratio": np.where(known, np.where(alone, ratio, 1.0), np.nan),
        "first_excess_ns": np.where(known, np.where(alone, summed, 0.0), np.nan),
    }
