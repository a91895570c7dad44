"""The noise threshold of a comparison: what a difference must exceed to count as a change.

``Thresholds`` are the numbers that users can set. The rest is how much samples scatter, and what
difference so many of them can show at all. Where the noise was measured before (``traceroof noise``),
``known_noise`` takes that of the repeats.
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

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


def mad(values: Reals, medians: Reals) -> Reals:
    """Median absolute deviation of each row of samples."""
    return np.asarray(np.median(np.abs(values - medians[:, None]), axis=1))


def spread_of(b: Reals, h: Reals, b_mad: Reals, h_mad: Reals, n: int, m: int) -> Reals:
    """Relative spread of one sample, from the deviations of both sides; NaN for single ones."""
    if min(n, m) < 2:
        return np.full(len(b), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.stack([b_mad / b, h_mad / h])
        known = np.isfinite(parts)
        weights = np.where(known, [[n], [m]], 0)
        pooled = (weights * np.where(known, parts, 0.0) ** 2).sum(axis=0) / weights.sum(axis=0)
    return np.asarray(_MAD_TO_SIGMA * np.sqrt(pooled))


def z_of(p: Reals) -> Reals:
    """Standard deviations between no change and a change that is called in 95 of 100 cases."""
    normal = NormalDist()
    by_p = {one: normal.inv_cdf(1 - one / 2) for one in set(p.tolist())}
    return np.array([by_p[one] + _Z_FOUND for one in p.tolist()])


def least_detectable(spread: Reals, z: Reals, n: int, m: int) -> Reals:
    """The least relative change that n and m such samples show in 95 of 100 cases."""
    return np.asarray(spread * z * np.sqrt((1 / max(n, 1) + 1 / max(m, 1)) / _EFFICIENCY))


def runs_needed(noise: float, change: float, z: float) -> int | None:
    """Runs a side that show such a relative change in 95 of 100 cases; None where unknown."""
    if not (np.isfinite(noise) and np.isfinite(change) and change > 0):
        return None
    return int(np.ceil(2 * (noise / change * z) ** 2 / _EFFICIENCY))
