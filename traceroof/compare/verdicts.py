"""From samples to a verdict: did it get slower, by more than noise and by enough to matter?

Five answers. ``regressed`` and ``improved`` need an effect that matters *and* a rank test that
chance hardly passes; ``unchanged`` needs an interval in which no change that matters fits; what is
neither is ``inconclusive``, with what is missing. Things on one side only are ``new`` or ``gone``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from traceroof.compare.known_noise import LEAST_RUNS, Decided, KnownNoise, decided
from traceroof.compare.noise_threshold import (
    Thresholds,
    least_detectable,
    mad,
    runs_needed,
    spread_of,
    z_of,
)
from traceroof.compare.ranktest import benjamini_hochberg, mann_whitney, shift_interval, smallest_p
from traceroof.compare.reasons import most_tested, relative, why_known, why_not
from traceroof.compare.samples import By
from traceroof.compare.student import two_sided_p

Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Word = Literal["regressed", "improved", "unchanged", "inconclusive", "new", "gone", "not-compared"]


@dataclass(frozen=True)
class Verdicts:
    """What can be said of g things, one value each.

    delta_ns: difference of the medians. low_ns, high_ns: interval of the shift. p: of the rank
    test, q: adjusted; NaN where none was made. noise: spread of one sample, relative (pooled).
    detectable: least relative change that so many samples show in 95 of 100 cases. measured: whether
    both come from repeats that were measured before.
    """

    word: tuple[Word, ...]
    reason: tuple[str, ...]
    base_ns: Reals
    head_ns: Reals
    base_mad_ns: Reals
    head_mad_ns: Reals
    delta_ns: Reals
    low_ns: Reals
    high_ns: Reals
    p: Reals
    q: Reals
    noise: Reals
    detectable: Reals
    measured: Mask


def judge(
    base: Reals,
    head: Reals,
    *,
    by: By,
    least_ns: float,
    percent: float,
    limits: Thresholds,
    noise: KnownNoise | None = None,
    whole: bool = False,
) -> Verdicts:
    """Judge g things from samples (g, n) and (g, m) in ns; a thing that took no time has zeros.

    by: what the samples are. Nothing is called slower or faster unless they are runs: steps of one
    run share whatever differs from run to run. A change matters from ``percent`` of the thing's own
    time in the base and from ``least_ns`` on. NaN samples (unknown times) are inconclusive. noise:
    where it was measured before; what it tells of is judged by it from 3 runs per side on, and the
    whole from one on.
    """
    n, m = base.shape[1], head.shape[1]
    b, h = np.median(base, axis=1), np.median(head, axis=1)
    b_mad, h_mad = mad(base, b), mad(head, h)
    delta = h - b
    spread = spread_of(b, h, b_mad, h_mad, n, m)
    floor = np.maximum(percent / 100 * b, least_ns)
    matters = np.abs(delta) >= np.maximum(floor, np.finfo(float).tiny)
    replicated = min(n, m) >= limits.runs and by == "runs"

    known = ~np.isnan(delta)
    made = _tests(base, head, known, (b + h) / 2, least_ns, limits) if replicated else None
    tests = made or _Tests.none(len(b))
    tested = tests.budget > 0
    z = z_of(np.where(tested, np.minimum(limits.p, limits.q * tests.budget), limits.p))
    sure = (tests.p < limits.p) & (tests.q <= limits.q)
    if not replicated:
        # Samples that differ by more than a change that matters do not show that there is none.
        still = ~matters & ~(spread * b > floor)
    else:
        sure &= _apart(base, head, 2 * limits.false * tests.budget)
        still = ~matters & (tests.low > -floor) & (tests.high < floor)
    if n == m:
        still |= known & (np.sort(base, axis=1) == np.sort(head, axis=1)).all(axis=1)
    detectable = least_detectable(spread, z, n, m)
    told = None
    runs = (n, m) if by == "runs" else (1, 1)
    if noise is not None:
        limits = replace(limits, runs=min(limits.runs, LEAST_RUNS))
    if noise is not None and (whole or min(runs) >= LEAST_RUNS):
        chances = 2 * limits.false * _shares(np.where(known, (b + h) / 2, 0.0), least_ns)
        told = decided(base, head, noise, runs=runs, floor=floor, false=chances)
        sure = np.where(told.known, told.sure, sure)
        within = (told.low > -floor) & (told.high < floor)
        still = np.where(told.known, ~matters & (within | still & replicated), still)
        spread = np.where(told.known, told.sigma, spread)
        detectable = np.where(told.known, told.detectable, detectable)
        tests = tests.with_known(told)
    words = [
        _word(known=a, changed=c, still=s, slower=d > 0)
        for a, c, s, d in zip(known, matters & sure, still, delta.tolist(), strict=True)
    ]

    def why(row: int) -> str:
        if told is not None and told.known[row] and known[row]:
            return why_known(told, row, float(b[row]))
        return why_not(
            by, n, m, limits.runs, limits.p, limits.q,
            known=bool(known[row]), matters=bool(matters[row]), tested=bool(tested[row]),
            testable=int(tested.sum()), p=float(tests.p[row]), q=float(tests.q[row]),
            low=relative(tests.low[row], b[row]), high=relative(tests.high[row], b[row]),
            noise=float(spread[row]),
            runs=runs_needed(spread[row], relative(floor[row], b[row]), z[row]),
        )  # fmt: skip

    return Verdicts(
        word=tuple(words),
        reason=tuple(why(row) if one == "inconclusive" else "" for row, one in enumerate(words)),
        base_ns=b,
        head_ns=h,
        base_mad_ns=b_mad,
        head_mad_ns=h_mad,
        delta_ns=delta,
        low_ns=np.where(np.isfinite(tests.low), tests.low, np.nan),
        high_ns=np.where(np.isfinite(tests.high), tests.high, np.nan),
        p=tests.p,
        q=tests.q,
        noise=spread,
        detectable=detectable,
        measured=np.zeros(len(b), dtype=bool) if told is None else told.known,
    )


def _apart(base: Reals, head: Reals, chance: Reals) -> Mask:
    """Whether the means lie farther apart than chance puts them, by Student's t: ranks alone cannot
    tell runs that are barely in order from runs that are far apart."""
    n, m = base.shape[1], head.shape[1]
    squares = base.var(axis=1, ddof=0) * n + head.var(axis=1, ddof=0) * m
    error = np.sqrt(squares / (n + m - 2) * (1 / n + 1 / m))
    apart = np.abs(head.mean(axis=1) - base.mean(axis=1))
    t = np.divide(apart, error, out=np.where(apart > 0, np.inf, 0.0), where=error > 0)
    return np.asarray(two_sided_p(t, n + m - 2) <= chance)


def _shares(size: Reals, least_ns: float) -> Reals:
    """What part of the false calls that are allowed each thing may use: its part of the time."""
    chosen = np.where((size >= least_ns / 2) & (size > 0), size, 0.0)
    whole = chosen.sum()
    return np.asarray(chosen / whole if whole else chosen)


@dataclass(frozen=True)
class _Tests:
    """What runs show of g things: interval of the shift in ns, p and q of the rank test (NaN where
    none was made), and what part of the false calls each thing may use (0: not tested)."""

    low: Reals
    high: Reals
    p: Reals
    q: Reals
    budget: Reals

    @classmethod
    def none(cls, count: int) -> "_Tests":
        """Nothing was tested."""
        unknown = np.full(count, np.nan)
        return cls(
            np.full(count, -np.inf), np.full(count, np.inf), unknown, unknown, np.zeros(count)
        )

    def with_known(self, told: Decided) -> "_Tests":
        """The same with what measured noise tells, where it does."""
        return replace(
            self,
            low=np.where(told.known, told.low, self.low),
            high=np.where(told.known, told.high, self.high),
            p=np.where(told.known, told.p, self.p),
            q=np.where(told.known, np.nan, self.q),
        )


def _tests(
    base: Reals, head: Reals, known: Mask, size: Reals, least_ns: float, limits: Thresholds
) -> _Tests:
    """The interval of each known thing, and the rank test of those that get one."""
    low, high = np.full(len(known), -np.inf), np.full(len(known), np.inf)
    p, q = np.full(len(known), np.nan), np.full(len(known), np.nan)
    low[known], high[known] = shift_interval(base[known], head[known], limits.level)
    sides = base.shape[1], head.shape[1]
    budget = _budget(np.where(known, size, 0.0), least_ns, *sides, limits.q)
    tested = budget > 0
    p[tested] = mann_whitney(base[tested], head[tested])
    # Weights of mean 1 (Genovese, Roeder and Wasserman, Biometrika 93 (2006) 509).
    weighted = p[tested] / (budget[tested] * tested.sum())
    q[tested] = benjamini_hochberg(np.minimum(weighted, 1.0))
    return _Tests(low, high, p, q, budget)


def judge_total(
    base: Reals, head: Reals, *, by: By, limits: Thresholds, noise: KnownNoise | None = None
) -> Verdicts:
    """Judge the time of the whole (1, n) and (1, m): by its own percentage, without correction;
    a single run per side counts where it is off by ``single_percent``, or by more than the noise that
    was measured before."""
    made = judge(
        base, head, by=by, least_ns=0.0, percent=limits.total_percent, limits=limits,
        noise=noise, whole=True,
    )  # fmt: skip
    if made.measured[0]:
        return made
    delta, b = float(made.delta_ns[0]), float(made.base_ns[0])
    if made.word[0] != "inconclusive" or not abs(delta) >= limits.single_percent / 100 * b > 0:
        return made
    if by == "runs" and min(base.shape[1], head.shape[1]) >= limits.runs:
        return made
    word: Word = "regressed" if delta > 0 else "improved"
    return replace(made, word=(word,), reason=("",))


def _word(*, known: bool, changed: bool, still: bool, slower: bool) -> Word:
    if not known:
        return "inconclusive"
    if changed:
        return "regressed" if slower else "improved"
    return "unchanged" if still else "inconclusive"


def _budget(size: Reals, least_ns: float, n: int, m: int, q: float) -> Reals:
    """What part of the false calls that are allowed each thing may use: its part of the time, but
    no less than what lets it be called when it alone has changed; 0 for what gets no test.

    size: mean over both sides, which says nothing of a difference between them, so that the choice
    favours neither outcome. A change of least_ns has a mean of half of that at least.
    """
    result = np.zeros(len(size))
    order = np.argsort(-size, kind="stable")[: most_tested(n, m, q)]
    chosen = order[(size[order] >= least_ns / 2) & (size[order] > 0)]
    if not len(chosen):
        return result
    least = smallest_p(n, m) / q
    part = size[chosen] / size[chosen].sum()
    raised = part < least
    while True:
        part[raised] = least
        rest = size[chosen[~raised]]
        part[~raised] = rest / rest.sum() * (1 - least * raised.sum()) if len(rest) else least
        if not (part[~raised] < least).any():
            break
        raised |= part < least
    result[chosen] = part
    return result


def tally(words: Sequence[Word]) -> dict[Word, int]:
    """How often each verdict was given."""
    return {word: words.count(word) for word in dict.fromkeys(words)}
