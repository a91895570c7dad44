"""From samples to a verdict: did it get slower, by more than noise and by enough to matter?

Five answers. ``regressed`` and ``improved`` need an effect that matters *and* a rank test that
chance hardly passes; ``unchanged`` needs an interval in which no change that matters fits; what is
neither is ``inconclusive``, with what is missing. Things on one side only are ``new`` or ``gone``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from traceroof.compare.known_noise import LEAST_RUNS, Decided, KnownNoise, decided
from traceroof.compare.ranktest import benjamini_hochberg, mann_whitney, shift_interval, smallest_p
from traceroof.compare.reasons import most_tested, relative, why_known, why_not
from traceroof.compare.samples import By
from traceroof.compare.student import two_sided_p

Reals = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Word = Literal["regressed", "improved", "unchanged", "inconclusive", "new", "gone", "not-compared"]

# Normal consistency of the median absolute deviation, and z of 95 %; a rank test needs 1/0.955
# times the runs of a t-test on normal noise (Hodges and Lehmann, 1956).
_MAD_TO_SIGMA = 1.4826
_Z_FOUND = 1.645
_EFFICIENCY = 0.955


@dataclass(frozen=True)
class Thresholds:
    """What counts as a change.

    percent: least change of a kernel, of its own time. share_pct: and least change in percent of
    the kernel time of the base (category_share_pct: of a category); least_ns replaces both where it
    is given. total_percent: least change of the total, and of a category, of its own time.
    single_percent: least change of the total that one run per side can show; it shows none of a
    kernel or category. runs: runs per side from which on times are judged. p: of the rank test. q:
    share of false calls among all calls of one comparison. false: share of comparisons of unchanged
    code in which chance calls anything slower (under 1 %, as ``benchmarks/compare_noise.py``
    measures it). level: of the interval that "unchanged"
    rests on (two one-sided tests at 5 %, as for equivalence).

    Sources: 5 % and 5 runs as in published gates of GPU benchmarks; 0.25 % is 5 % of a kernel that
    takes 5 % of the time; unchanged code on a shared T4 moved single tests by up to 9.6 % between
    runs, so one run decides nothing under 20 %.
    """

    percent: float = 5.0
    share_pct: float = 0.25
    least_ns: float | None = None
    total_percent: float = 2.0
    category_share_pct: float = 1.0
    single_percent: float = 20.0
    runs: int = 5
    p: float = 0.01
    q: float = 0.05
    level: float = 0.90
    false: float = 0.006

    def least(self, total_ns: float) -> float:
        """The least change in ns that matters, where the kernels of the base take total_ns."""
        return self.share_pct / 100 * total_ns if self.least_ns is None else self.least_ns

    def least_of_category(self, total_ns: float) -> float:
        """The same for a whole category."""
        by_share = self.category_share_pct / 100 * total_ns
        return by_share if self.least_ns is None else self.least_ns


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
    b_mad, h_mad = _mad(base, b), _mad(head, h)
    delta = h - b
    spread = _noise(b, h, b_mad, h_mad, n, m)
    floor = np.maximum(percent / 100 * b, least_ns)
    matters = np.abs(delta) >= np.maximum(floor, np.finfo(float).tiny)
    replicated = min(n, m) >= limits.runs and by == "runs"

    known = ~np.isnan(delta)
    made = _tests(base, head, known, (b + h) / 2, least_ns, limits) if replicated else None
    tests = made or _Tests.none(len(b))
    tested = tests.budget > 0
    z = _z(np.where(tested, np.minimum(limits.p, limits.q * tests.budget), limits.p))
    sure = (tests.p < limits.p) & (tests.q <= limits.q)
    if not replicated:
        # Samples that differ by more than a change that matters do not show that there is none.
        still = ~matters & ~(spread * b > floor)
    else:
        sure &= _apart(base, head, 2 * limits.false * tests.budget)
        still = ~matters & (tests.low > -floor) & (tests.high < floor)
    if n == m:
        still |= known & (np.sort(base, axis=1) == np.sort(head, axis=1)).all(axis=1)
    detectable = spread * z * np.sqrt((1 / max(n, 1) + 1 / max(m, 1)) / _EFFICIENCY)
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
            runs=_runs_needed(spread[row], relative(floor[row], b[row]), z[row]),
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


def _mad(values: Reals, medians: Reals) -> Reals:
    return np.asarray(np.median(np.abs(values - medians[:, None]), axis=1))


def _noise(b: Reals, h: Reals, b_mad: Reals, h_mad: Reals, n: int, m: int) -> Reals:
    """Relative spread of one sample, from the deviations of both sides; NaN for single ones."""
    if min(n, m) < 2:
        return np.full(len(b), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.stack([b_mad / b, h_mad / h])
        known = np.isfinite(parts)
        weights = np.where(known, [[n], [m]], 0)
        pooled = (weights * np.where(known, parts, 0.0) ** 2).sum(axis=0) / weights.sum(axis=0)
    return np.asarray(_MAD_TO_SIGMA * np.sqrt(pooled))


def _z(p: Reals) -> Reals:
    """Standard deviations between no change and a change that is called in 95 of 100 cases."""
    normal = NormalDist()
    by_p = {one: normal.inv_cdf(1 - one / 2) for one in set(p.tolist())}
    return np.array([by_p[one] + _Z_FOUND for one in p.tolist()])


def _runs_needed(noise: float, change: float, z: float) -> int | None:
    """Runs a side that show such a relative change in 95 of 100 cases; None where unknown."""
    if not (np.isfinite(noise) and np.isfinite(change) and change > 0):
        return None
    return int(np.ceil(2 * (noise / change * z) ** 2 / _EFFICIENCY))


def tally(words: Sequence[Word]) -> dict[Word, int]:
    """How often each verdict was given."""
    return {word: words.count(word) for word in dict.fromkeys(words)}
