"""Could chance alone have done this? Two groups of runs, compared by the order of their values.

The Mann-Whitney test asks nothing of the shape of the noise: not that it is normal, not that it
has no outliers. Exact for up to 400 pairs of runs (20 against 20), by counting the arrangements of
the very values, ties included; beyond that the normal approximation with tie correction.

Sources: Mann and Whitney, Ann. Math. Stat. 18 (1947) 50; the interval inverts the test (Hodges and
Lehmann, Ann. Math. Stat. 34 (1963) 598; Bauer, JASA 67 (1972) 687); Benjamini and Hochberg,
J. R. Stat. Soc. B 57 (1995) 289.
"""

from functools import lru_cache
from math import comb, erfc, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

_MOST_EXACT_PAIRS = 400


def mann_whitney(base: Reals, head: Reals) -> Reals:
    """Two-sided p-values, one a row: base (g, n) and head (g, m) hold n and m values of g things.

    The p-value is the share of all ways to deal the n + m values out in which the rank sum lies
    as far from its mean as it does here, or farther. 1 where there is nothing to compare.
    """
    things, n = base.shape
    m = head.shape[1]
    if not n or not m:
        return np.ones(things)
    ranks = _doubled_ranks(np.concatenate([base, head], axis=1))
    sums = ranks[:, n:].sum(axis=1)
    # Twice the expected rank sum of the head; a whole number like the sums.
    distance = np.abs(sums - m * (n + m + 1))
    if n * m > _MOST_EXACT_PAIRS:
        return _normal(ranks, distance, n, m)
    p = np.ones(things)
    for row in range(things):
        tails = _tails(tuple(np.sort(ranks[row]).tolist()), m)
        p[row] = tails[int(distance[row])]
    return p


def smallest_p(n: int, m: int) -> float:
    """The p-value when every run of one side is above every run of the other: no less can come."""
    return 2 / comb(n + m, n) if n and m else 1.0


def shift_interval(base: Reals, head: Reals, level: float = 0.95) -> tuple[Reals, Reals]:
    """By how much head is above base at least and at most, at this level of confidence.

    base (g, n), head (g, m); returns two arrays (g,) in the unit of the values. Infinite where so
    few runs say nothing at this level (fewer than 4 against 4 at 95 %).
    """
    things, n = base.shape
    m = head.shape[1]
    skip = _skipped(n, m, (1 - level) / 2) if n and m else 0
    if not skip:
        return np.full(things, -np.inf), np.full(things, np.inf)
    pairs = (head[:, :, None] - base[:, None, :]).reshape(things, n * m)
    pairs.partition((skip - 1, n * m - skip), axis=1)
    return pairs[:, skip - 1].copy(), pairs[:, n * m - skip].copy()


def benjamini_hochberg(p: Reals) -> Reals:
    """p-values adjusted for their number: what is called a change at q is false in at most a share
    q of the calls, on average."""
    count = len(p)
    if not count:
        return p.copy()
    order = np.argsort(p, kind="stable")
    scaled = p[order] * count / np.arange(1, count + 1)
    adjusted = np.minimum.accumulate(scaled[::-1])[::-1]
    result = np.empty(count)
    result[order] = np.minimum(adjusted, 1.0)
    return result


def _doubled_ranks(values: Reals) -> npt.NDArray[np.int64]:
    """Twice the rank of each value in its row; equal values share the mean of their ranks."""
    ordered = np.sort(values, axis=1)
    result = np.empty(values.shape, dtype=np.int64)
    for row in range(len(values)):
        below = np.searchsorted(ordered[row], values[row], "left")
        upto = np.searchsorted(ordered[row], values[row], "right")
        result[row] = below + upto + 1
    return result


@lru_cache(maxsize=512)
def _arrangements(doubled: tuple[int, ...], size: int) -> Reals:
    """How many of the ways to take ``size`` of these ranks have each (doubled) sum."""
    count = np.zeros((size + 1, sum(doubled) + 1))
    count[0, 0] = 1
    for rank in doubled:
        # Right to left: each rank is taken once at most.
        count[1:, rank:] += count[:-1, : count.shape[1] - rank].copy()
    ways: Reals = count[size]
    return ways


@lru_cache(maxsize=512)
def _tails(doubled: tuple[int, ...], size: int) -> Reals:
    """p-value by distance of the (doubled) rank sum from its mean."""
    ways = _arrangements(doubled, size)
    distance = np.abs(np.arange(len(ways)) - size * (len(doubled) + 1))
    by_distance = np.bincount(distance, weights=ways)
    tails: Reals = np.cumsum(by_distance[::-1])[::-1] / by_distance.sum()
    return tails


def _normal(ranks: npt.NDArray[np.int64], distance: npt.NDArray[np.int64], n: int, m: int) -> Reals:
    total = n + m
    p = np.ones(len(ranks))
    for row in range(len(ranks)):
        _, ties = np.unique(ranks[row], return_counts=True)
        loss = float((ties.astype(float) ** 3 - ties).sum()) / (total * (total - 1))
        deviation = sqrt(n * m / 12 * (total + 1 - loss)) if total > 1 else 0.0
        if deviation:
            # The distance is doubled; half a rank of continuity.
            z = max(distance[row] / 2 - 0.5, 0.0) / deviation
            p[row] = erfc(z / sqrt(2))
    return p


@lru_cache(maxsize=256)
def _skipped(n: int, m: int, tail: float) -> int:
    """How many pairwise differences lie outside the interval on each side, plus one; 0 for none."""
    if n * m > _MOST_EXACT_PAIRS:
        deviation = sqrt(n * m * (n + m + 1) / 12)
        return max(int(n * m / 2 + NormalDist().inv_cdf(tail) * deviation), 0)
    doubled = tuple(range(2, 2 * (n + m) + 1, 2))
    ways = _arrangements(doubled, m)[m * (m + 1) :: 2]  # by U = 0, 1, ... n * m
    cumulative = np.cumsum(ways) / ways.sum()
    return int(np.searchsorted(cumulative, tail, "right"))
