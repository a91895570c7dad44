"""From samples to a verdict: did it get slower, by more than noise and by enough to matter?

Five answers. ``regressed`` and ``improved`` need an effect that matters *and* a rank test that
chance hardly passes; ``unchanged`` needs an interval in which no change that matters fits; what is
neither is ``inconclusive``, with what is missing. Things on one side only are ``new`` or ``gone``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from traceroof.compare.reasons import Seen, most_tested, relative, why_known, why_not
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
    sides = _Sides.of(base, head, by)
    floor = np.maximum(percent / 100 * sides.base_ns, least_ns)
    matters = np.abs(sides.delta_ns) >= np.maximum(floor, np.finfo(float).tiny)
    found = _from_samples(sides, matters, floor, least_ns, limits)
    told = None
    if noise is not None:
        limits = replace(limits, runs=min(limits.runs, LEAST_RUNS))
    if noise is not None and (whole or min(sides.runs) >= LEAST_RUNS):
        chances = 2 * limits.false * _shares(np.where(sides.known, sides.mean_ns, 0.0), least_ns)
        told = decided(base, head, noise, runs=sides.runs, floor=floor, false=chances)
        found = found.with_noise(told, matters, floor)
    words = [
        _word(known=a, changed=c, still=s, slower=d > 0)
        for a, c, s, d in zip(
            sides.known, matters & found.sure, found.still, sides.delta_ns.tolist(), strict=True
        )
    ]

    def why(row: int) -> str:
        if told is not None and told.known[row] and sides.known[row]:
            return why_known(told, row, float(sides.base_ns[row]))
        return _why_open(row, sides, found, matters, floor, limits)

    tests = found.tests
    return Verdicts(
        word=tuple(words),
        reason=tuple(why(row) if one == "inconclusive" else "" for row, one in enumerate(words)),
        base_ns=sides.base_ns,
        head_ns=sides.head_ns,
        base_mad_ns=sides.base_mad_ns,
        head_mad_ns=sides.head_mad_ns,
        delta_ns=sides.delta_ns,
        low_ns=np.where(np.isfinite(tests.low), tests.low, np.nan),
        high_ns=np.where(np.isfinite(tests.high), tests.high, np.nan),
        p=tests.p,
        q=tests.q,
        noise=found.spread,
        detectable=found.detectable,
        measured=np.zeros(len(words), dtype=bool) if told is None else told.known,
    )


@dataclass(frozen=True)
class _Sides:
    """The samples (g, n) and (g, m) of g things, and their medians and scatter in ns."""

    base: Reals
    head: Reals
    by: By
    base_ns: Reals
    head_ns: Reals
    base_mad_ns: Reals
    head_mad_ns: Reals

    @classmethod
    def of(cls, base: Reals, head: Reals, by: By) -> "_Sides":
        b, h = np.median(base, axis=1), np.median(head, axis=1)
        return cls(base, head, by, b, h, mad(base, b), mad(head, h))

    @property
    def counts(self) -> tuple[int, int]:
        """Samples per side."""
        return self.base.shape[1], self.head.shape[1]

    @property
    def runs(self) -> tuple[int, int]:
        """Runs per side: steps are samples of one."""
        return self.counts if self.by == "runs" else (1, 1)

    @cached_property
    def delta_ns(self) -> Reals:
        return np.asarray(self.head_ns - self.base_ns)

    @property
    def mean_ns(self) -> Reals:
        return np.asarray((self.base_ns + self.head_ns) / 2)

    @cached_property
    def known(self) -> Mask:
        """Of which things both times are known."""
        return ~np.isnan(self.delta_ns)

    @property
    def equal(self) -> Mask:
        """Which things have the same samples on both sides."""
        if self.base.shape != self.head.shape:
            return np.zeros(len(self.base), dtype=bool)
        same = np.sort(self.base, axis=1) == np.sort(self.head, axis=1)
        return np.asarray(self.known & same.all(axis=1))


@dataclass(frozen=True)
class _Found:
    """What samples show of g things. sure: they differ by more than chance; still: no change that
    matters fits them; spread, detectable: as in ``Verdicts``; z: of the least change that is seen."""

    tests: "_Tests"
    sure: Mask
    still: Mask
    spread: Reals
    detectable: Reals
    z: Reals
    tested: Mask
    replicated: bool

    def with_noise(self, told: Decided, matters: Mask, floor: Reals) -> "_Found":
        """The same, judged by the noise that was measured before where it tells of a thing."""
        within = (told.low > -floor) & (told.high < floor)
        still = ~matters & (within | self.still & self.replicated)
        return replace(
            self,
            tests=self.tests.with_known(told),
            sure=np.where(told.known, told.sure, self.sure),
            still=np.where(told.known, still, self.still),
            spread=np.where(told.known, told.sigma, self.spread),
            detectable=np.where(told.known, told.detectable, self.detectable),
        )


def _from_samples(
    sides: _Sides, matters: Mask, floor: Reals, least_ns: float, limits: Thresholds
) -> _Found:
    """What the samples themselves show."""
    n, m = sides.counts
    spread = spread_of(sides.base_ns, sides.head_ns, sides.base_mad_ns, sides.head_mad_ns, n, m)
    replicated = sides.by == "runs" and min(sides.counts) >= limits.runs
    tests = _tests(sides, least_ns, limits) if replicated else _Tests.none(len(sides.base_ns))
    tested = tests.budget > 0
    z = z_of(np.where(tested, np.minimum(limits.p, limits.q * tests.budget), limits.p))
    sure = (tests.p < limits.p) & (tests.q <= limits.q)
    if replicated:
        sure &= _apart(sides.base, sides.head, 2 * limits.false * tests.budget)
        still = ~matters & (tests.low > -floor) & (tests.high < floor)
    else:
        # Samples that differ by more than a change that matters do not show that there is none.
        still = ~matters & ~(spread * sides.base_ns > floor)
    return _Found(
        tests=tests,
        sure=sure,
        still=still | sides.equal,
        spread=spread,
        detectable=least_detectable(spread, z, n, m),
        z=z,
        tested=tested,
        replicated=replicated,
    )


def _why_open(
    row: int, sides: _Sides, found: _Found, matters: Mask, floor: Reals, limits: Thresholds
) -> str:
    """What the samples of one thing lack for a verdict."""
    b, tests = sides.base_ns[row], found.tests
    seen = Seen(
        sides.by, *sides.counts,
        known=bool(sides.known[row]), matters=bool(matters[row]), tested=bool(found.tested[row]),
        testable=int(found.tested.sum()), p=float(tests.p[row]), q=float(tests.q[row]),
        low=relative(tests.low[row], b), high=relative(tests.high[row], b),
        noise=float(found.spread[row]),
        runs=runs_needed(found.spread[row], relative(floor[row], b), found.z[row]),
    )  # fmt: skip
    return why_not(seen, limits)


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


def _tests(sides: _Sides, least_ns: float, limits: Thresholds) -> _Tests:
    """The interval of each known thing, and the rank test of those that get one."""
    base, head, known = sides.base, sides.head, sides.known
    low, high = np.full(len(known), -np.inf), np.full(len(known), np.inf)
    p, q = np.full(len(known), np.nan), np.full(len(known), np.nan)
    low[known], high[known] = shift_interval(base[known], head[known], limits.level)
    budget = _budget(np.where(known, sides.mean_ns, 0.0), least_ns, *sides.counts, limits.q)
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
