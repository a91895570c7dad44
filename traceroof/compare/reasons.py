"""What is missing for a verdict, in words."""

from dataclasses import dataclass

import numpy as np

from traceroof.compare.known_noise import Decided
from traceroof.compare.noise_threshold import Thresholds
from traceroof.compare.ranktest import smallest_p
from traceroof.compare.samples import By

_FEW_TESTS = 10

#: Why nothing can be said of a thing whose time one side does not know.
UNKNOWN_TIMES = "some durations are unknown"


def most_tested(n: int, m: int, q: float) -> int:
    """How many things n against m runs test at once.

    Even runs that are all apart pass the correction for the number of tests only among so many
    things, when one alone has changed. Half of them where they are many: the other half of the
    false calls that are allowed goes to the largest things, so that these need not be all apart.
    """
    passing = int(q / smallest_p(n, m) + 1e-9)
    return passing if passing < _FEW_TESTS else passing // 2


def runs_for(things: int, q: float) -> int:
    """Runs a side with which so many things can be tested at once."""
    return next(n for n in range(2, 60) if most_tested(n, n, q) >= things)


@dataclass(frozen=True)
class Seen:
    """What the samples of one thing show. n, m: samples per side; matters: the difference is large
    enough to matter; tested: it was among the ``testable`` things that so many runs can test; p, q:
    of the rank test; low, high: interval of the change, relative; noise: spread of one sample,
    relative; runs: per side, that would show a change that matters, where known."""

    by: By
    n: int
    m: int
    known: bool
    matters: bool
    tested: bool
    testable: int
    p: float
    q: float
    low: float
    high: float
    noise: float
    runs: int | None


def why_not(seen: Seen, limits: Thresholds) -> str:
    """What is missing for a verdict."""
    n, m, p = seen.n, seen.m, seen.p
    fewest = min(n, m)
    if not seen.known:
        return UNKNOWN_TIMES
    if seen.by != "runs":
        apart = f", and its steps differ by {seen.noise:.0%} from each other".replace("%", " %")
        return (
            f"one run per side{'' if seen.matters else apart}; "
            f"a verdict needs {limits.runs} runs per side"
        )
    if fewest < limits.runs:
        side, count = ("base", n) if n <= m else ("head", m)
        return (
            f"{count} run{'s' * (count != 1)} of the {side}; a verdict needs {limits.runs} per side"
        )
    if seen.matters and not seen.tested:
        return (
            f"{fewest} runs per side are enough to test the {seen.testable} largest kernels; "
            f"{runs_for(2 * seen.testable, limits.q)} runs per side test more"
        )
    enough = seen.runs if seen.runs and seen.runs > fewest else None
    needed = f"; about {enough} runs per side would be enough" if enough else ""
    if not seen.matters:
        return (
            f"the runs allow any change from {seen.low:+.0%} to {seen.high:+.0%}{needed}".replace(
                "%", " %"
            )
        )
    if p >= limits.p:
        return f"the runs of both sides overlap (p = {p:.2g}){needed}"
    if seen.q > limits.q:
        return (
            f"p = {p:.2g} is not enough where {seen.testable} kernels are tested "
            f"(q = {seen.q:.2g}){needed}"
        )
    return f"a difference this large occurs by chance too often with {fewest} runs{needed}"


def why_known(told: Decided, row: int, base_ns: float) -> str:
    """What is missing for a verdict where the noise was measured."""
    low, high = (relative(one[row], base_ns) for one in (told.low, told.high))
    runs = told.runs[row]
    needed = f"; about {runs:.0f} runs per side would be enough" if np.isfinite(runs) else ""
    return (
        f"with the measured noise of {told.sigma[row]:.1%}, any change from {low:+.1%} to "
        f"{high:+.1%} is possible{needed}".replace("%", " %")
    )


def relative(value: float, whole: float) -> float:
    return float(value / whole) if whole else float("nan")
