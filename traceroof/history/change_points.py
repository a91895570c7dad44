"""Where the level of a series changed: a penalised fit of constant pieces, robust and honest of noise.

The fit is the best of all (dynamic programming, as in optimal partitioning: Jackson et al., IEEE
Signal Process. Lett. 12 (2005) 105) whose levels begin where means before and after differ. A change must pay for itself: its penalty grows with the noise that the series itself
shows, and with its autocorrelation. ``benchmarks/history_changes.py`` measures what is found and
what is false.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

#: So many runs on either side make a level: fewer may be outliers.
LEAST_RUNS = 3
# Normal consistency of the median absolute deviation.
_MAD_TO_SIGMA = 1.4826
# A point is an outlier where it lies so many spreads from the median of its neighbours.
_OUTLIER, _NEIGHBOURS = 3.5, 3
# The penalty of a change is so many times log n, in units of the noise's variance.
_PENALTY = 3.0
# What is asked again of a change, by the levels at its sides alone: standard errors.
_SURE = 4.5
# Fewer runs than these, with the same level before and after, are no level.
_EXCURSION = 6
# Series repeat to such a part at best: below it is the rounding of clocks.
_FINEST = 1e-5
_MOST_CORRELATED = 0.8
# Levels begin where means over one of these spans differ by so many standard errors.
_SPANS = (3, 6, 12, 25, 50, 100)
_DIFFERS = 2.5


@dataclass(frozen=True)
class ChangePoint:
    """A change of level. at: index of the first point after it. before, after: medians of the levels;
    ratio: after over before, less 1, with its standard error. The error is relative too."""

    at: int
    before: float
    after: float
    ratio: float
    error: float


@dataclass(frozen=True)
class Levels:
    """A series in pieces of one level. noise: spread of one point around its level, relative;
    correlation: of neighbouring points, 0 where none is seen. starts: of the pieces, 0 first."""

    starts: tuple[int, ...]
    changes: tuple[ChangePoint, ...]
    noise: float
    correlation: float


def levels_of(values: Reals, *, series: int = 1, least: float = 0.0) -> Levels:
    """The levels of a series of n positive values, in order.

    series: how many are looked at together; the more, the surer each change must be. least: smaller
    relative changes are left out.
    """
    n = len(values)
    if n < 2 * LEAST_RUNS:
        return Levels((0,), (), float("nan"), 0.0)
    logs = np.log(np.maximum(values, np.finfo(float).tiny))
    noise = max(_spread_of_steps(logs), _FINEST)
    clean = _without_outliers(logs, noise)
    starts = [0]
    correlation = 0.0
    for _ in range(3):
        # Of n correlated points a mean varies by this factor more (first-order autoregression).
        factor = (1 + correlation) / (1 - correlation)
        penalty = (_PENALTY * np.log(n) + 2 * np.log(max(series, 1))) * factor * noise**2
        starts = _pieces(clean, penalty, noise)
        residual = clean - _fitted(clean, starts)
        noise = max(_pooled(residual, len(starts)), _FINEST)
        found = min(max(_correlation(residual, len(starts)), 0.0), _MOST_CORRELATED)
        if abs(found - correlation) < 0.02:
            break
        correlation = max(found, correlation)
    starts, clean = _without_excursions(clean, starts, noise)
    starts, changes = _confirmed(clean, starts, noise, correlation, least)
    return Levels(tuple(starts), changes, noise, correlation)


def _spread_of_steps(logs: Reals) -> float:
    """The noise by the steps between neighbours, which a few changes of level do not disturb."""
    steps = np.diff(logs)
    return float(_MAD_TO_SIGMA * np.median(np.abs(steps - np.median(steps))) / np.sqrt(2))


def _without_outliers(logs: Reals, noise: float) -> Reals:
    """The series with each outlier replaced by the median around it (Hampel's filter): a few near
    one another, drawn to the edge of what is usual, would make a level of their own."""
    width = 2 * _NEIGHBOURS + 1
    padded = np.pad(logs, _NEIGHBOURS, mode="reflect")
    middle = np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    return np.where(np.abs(logs - middle) > _OUTLIER * noise, middle, logs)


def _pieces(values: Reals, penalty: float, noise: float) -> list[int]:
    """Starts of the pieces whose squared deviations and penalties add up to the least."""
    n = len(values)
    places = np.concatenate(([0], _candidates(values, noise), [n]))
    centred = values - values.mean()
    sums = np.concatenate(([0.0], np.cumsum(centred)))[places]
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))[places]
    best = np.full(len(places), np.inf)
    best[0] = -penalty
    previous = np.zeros(len(places), dtype=np.int64)
    # The first place that leaves room for a level before each end.
    room = np.searchsorted(places, places - LEAST_RUNS, side="right")
    for end in range(1, len(places)):
        if not (upto := room[end]):
            continue
        inside = sums[end] - sums[:upto]
        cost = best[:upto] + squares[end] - squares[:upto]
        cost -= inside**2 / (places[end] - places[:upto])
        previous[end] = np.argmin(cost)
        best[end] = cost[previous[end]] + penalty
    starts: list[int] = []
    at = len(places) - 1
    while at > 0:
        at = int(previous[at])
        starts.append(int(places[at]))
    return starts[::-1]


def _candidates(values: Reals, noise: float) -> Whole:
    """Where the means of the runs before and after differ at all, over spans of several lengths:
    anywhere else no level can begin."""
    n = len(values)
    sums = np.concatenate(([0.0], np.cumsum(values)))
    at = np.arange(LEAST_RUNS, n - LEAST_RUNS + 1)
    found = np.zeros(len(at), dtype=bool)
    for span in _SPANS:
        before, after = np.minimum(span, at), np.minimum(span, n - at)
        left = (sums[at] - sums[at - before]) / before
        right = (sums[at + after] - sums[at]) / after
        found |= np.abs(right - left) > _DIFFERS * noise * np.sqrt(1 / before + 1 / after)
    return at[found]


def _fitted(values: Reals, starts: list[int]) -> Reals:
    lengths = np.diff([*starts, len(values)])
    means = np.add.reduceat(values, starts) / lengths
    return np.asarray(np.repeat(means, lengths))


def _pooled(residual: Reals, pieces: int) -> float:
    """The spread around the levels; each level takes a degree of freedom."""
    degrees = max(len(residual) - pieces, 1)
    return float(np.sqrt((residual**2).sum() / degrees))


def _correlation(residual: Reals, pieces: int) -> float:
    """First-order autocorrelation of the residuals, corrected for the levels fitted to them."""
    whole = float((residual**2).sum())
    if whole <= 0:
        return 0.0
    n = len(residual)
    found = float((residual[1:] * residual[:-1]).sum()) / whole
    # Fitting k means lowers it by some (1 + 3 r) k / n (Marriott and Pope, Biometrika 41 (1954)).
    return found + (1 + 3 * max(found, 0.0)) * pieces / n if n > pieces else found


def _without_excursions(logs: Reals, starts: list[int], noise: float) -> tuple[list[int], Reals]:
    """Without short pieces after which the series is where it was: a few slow runs near one another
    (a busy machine), which no change of the code makes. Their values become those around them."""
    logs = logs.copy()
    kept = list(starts)
    piece = 1
    while piece < len(kept) - 1:
        before, first, after = kept[piece - 1 : piece + 2]
        end = kept[piece + 2] if piece + 2 < len(kept) else len(logs)
        shift = logs[after:end].mean() - logs[before:first].mean()
        error = noise * np.sqrt(1 / (first - before) + 1 / (end - after))
        if after - first < _EXCURSION and abs(shift) < _SURE * error:
            logs[first:after] = np.median(np.concatenate((logs[before:first], logs[after:end])))
            del kept[piece : piece + 2]
            piece = max(piece - 1, 1)
        else:
            piece += 1
    return kept, logs


def _confirmed(
    logs: Reals, starts: list[int], noise: float, correlation: float, least: float
) -> tuple[list[int], tuple[ChangePoint, ...]]:
    """The changes that the levels beside them bear out; the weakest goes first, and its neighbours
    are then judged with the longer level."""
    factor = (1 + correlation) / (1 - correlation)
    while True:
        bounds = [*starts, len(logs)]
        found = []
        for piece in range(1, len(starts)):
            before = logs[bounds[piece - 1] : bounds[piece]]
            after = logs[bounds[piece] : bounds[piece + 1]]
            shift = float(after.mean() - before.mean())
            error = noise * np.sqrt(factor * (1 / len(before) + 1 / len(after)))
            found.append((abs(shift) / error, piece, before, after, shift, float(error)))
        weak = [
            one for one in found
            if one[0] < _SURE or abs(np.expm1(one[4])) < least
        ]  # fmt: skip
        if not weak:
            break
        del starts[min(weak)[1]]
    return starts, tuple(
        ChangePoint(
            at=bounds[piece],
            before=float(np.exp(np.median(before))),
            after=float(np.exp(np.median(after))),
            ratio=float(np.expm1(np.median(after) - np.median(before))),
            error=error,
        )
        for _, piece, before, after, _, error in found
    )
