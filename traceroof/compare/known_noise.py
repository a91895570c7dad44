"""Verdicts on few runs where the noise was measured before (``traceroof noise``).

Student's t in place of the rank test: the spread of a run is that of the repeats, the difference is
that of the medians. Ten repeats do not know what one run in twenty does, so one or two runs per side
decide the whole alone, and only beyond three times the largest difference that two repeats had.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.compare.student import critical, quantile, two_sided_p

Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# A median scatters by this much more than a mean (normal noise, large n; exact for 1 and 2 runs: 1).
_OF_MEDIAN = float(np.sqrt(np.pi / 2))
# Of t: found in 95 of 100 where the noise is normal, and in about 90 where it is skewed.
_FOUND = 0.975
_INTERVAL = 0.95
#: So many runs per side decide kernels and categories.
LEAST_RUNS = 3
# With fewer, a difference counts from so many times the largest of the repeats on.
_FEW_REACH = 3.0
# Sides that scatter so many times more than the repeats were measured under other conditions.
_OTHER = 2.5


@dataclass(frozen=True)
class KnownNoise:
    """The noise of g things, from repeats of unchanged code.

    sigma: standard deviation of one run, relative; NaN where it was not measured. reach: the largest
    relative difference between two repeats. degrees: repeats less one. correlation: of runs one
    after another, 0 where none was seen.
    """

    sigma: Reals
    reach: Reals
    degrees: int
    correlation: float = 0.0


@dataclass(frozen=True)
class Decided:
    """What can be said of g things; known: of which the noise is known, the rest is meaningless.

    sure: the difference is more than noise. low, high: its interval at 90 %, ns. p: of the t test.
    sigma: the spread that was used; detectable: least relative change that is called in 95 of 100
    comparisons. runs: per side that would call a change of the floor; NaN where none would.
    """

    known: Mask
    sure: Mask
    low: Reals
    high: Reals
    p: Reals
    sigma: Reals
    detectable: Reals
    runs: Reals


def mean_factor(runs: int, correlation: float) -> float:
    """By how much the variance of a mean of so many runs is larger than that of independent ones
    (first-order autoregression)."""
    lags = np.arange(1, runs)
    return float(1 + 2 * ((1 - lags / runs) * correlation**lags).sum())


def standard_error(n: int, m: int, correlation: float) -> float:
    """Of the difference of the medians of n and m runs, in spreads of one run."""
    total = 0.0
    for runs in (n, m):
        median = _OF_MEDIAN if runs > 2 else 1.0
        total += median**2 * mean_factor(runs, correlation) / runs
    return float(np.sqrt(total))


def least_called(
    sigma: Reals, reach: Reals, floor: Reals, false: Reals, runs: tuple[int, int], degrees: int,
    correlation: float,
) -> Reals:  # fmt: skip
    """The least relative change that is called in 95 of 100 comparisons of so many runs.

    floor: least change that matters; false: chance of a false call. All relative or 0-1, (g,). The
    quantile is of t too: it holds over what the repeats leave open of sigma (coverage is
    measured by ``benchmarks/compare_noise.py``).
    """
    error = sigma * standard_error(*runs, correlation)
    called = np.maximum(critical(false, degrees) * error, floor)
    if min(runs) < LEAST_RUNS:
        called = np.maximum(called, _FEW_REACH * reach)
    return np.asarray(called + quantile(_FOUND, degrees) * error)


def decided(
    base: Reals,
    head: Reals,
    noise: KnownNoise,
    *,
    runs: tuple[int, int],
    floor: Reals,
    false: Reals,
) -> Decided:
    """Judge g things from samples (g, n) and (g, m) in ns.

    runs: of base and head; samples that are no runs are steps of one. floor: least change that
    matters, ns; false: chance of a false call of each thing (two-sided), 0 for none at all.
    """
    b, h = np.median(base, axis=1), np.median(head, axis=1)
    # The faster side: then a slowdown is as large in units of the noise as it is said to be.
    size, delta = np.minimum(b, h), h - b
    sigma = noise.sigma
    if min(runs) > 1:
        own = _own(base, head, size)
        sigma = np.where(own > _OTHER * sigma, own, sigma)
    known = ~np.isnan(sigma) & ~np.isnan(delta) & (size > 0) & (false > 0)
    error = np.where(known, sigma, np.nan) * size * standard_error(*runs, noise.correlation)
    error = np.maximum(error, np.finfo(float).tiny)
    p = two_sided_p(delta / error, noise.degrees)
    sure = known & (p <= false)
    if min(runs) < LEAST_RUNS:
        sure &= np.abs(delta) > _FEW_REACH * noise.reach * size
    half = quantile(_INTERVAL, noise.degrees) * error
    relative = np.divide(floor, b, out=np.full(len(b), np.inf), where=b > 0)
    degrees, correlation = noise.degrees, noise.correlation
    chance = np.where(known, false, 1.0)
    reach = np.nan_to_num(noise.reach)
    return Decided(
        known=known,
        sure=sure,
        low=delta - half,
        high=delta + half,
        p=p,
        sigma=sigma,
        detectable=least_called(sigma, reach, relative, chance, runs, degrees, correlation),
        runs=_runs_needed(sigma, relative, chance, degrees),
    )


def _own(base: Reals, head: Reals, size: Reals) -> Reals:
    """The spread of the samples around their own medians, relative; of both sides."""
    squares = [
        ((side - np.median(side, axis=1)[:, None]) ** 2).sum(axis=1) for side in (base, head)
    ]
    degrees = max(base.shape[1] + head.shape[1] - 2, 1)
    spread = np.sqrt((squares[0] + squares[1]) / degrees)
    return np.asarray(np.divide(spread, size, out=np.full(len(size), np.nan), where=size > 0))


def _runs_needed(sigma: Reals, floor: Reals, false: Reals, degrees: int) -> Reals:
    """Runs per side with which noise of this size hides no change of the floor."""
    z = critical(false, degrees) + quantile(_FOUND, degrees)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.ceil(2 * (_OF_MEDIAN * z * sigma / floor) ** 2)
