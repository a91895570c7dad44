"""What is missing for a verdict, in words."""

import numpy as np

from traceroof.compare.known_noise import Decided
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


def why_not(
    by: By,
    n: int,
    m: int,
    decide: int,
    level: float,
    share: float,
    *,
    known: bool,
    matters: bool,
    tested: bool,
    testable: int,
    p: float,
    q: float,
    low: float,
    high: float,
    noise: float,
    runs: int | None,
) -> str:
    """What is missing for a verdict."""
    if not known:
        return UNKNOWN_TIMES
    if by != "runs":
        apart = "" if matters else f", whose steps differ by {noise:.0%} among themselves"
        return f"one run per side{apart.replace('%', ' %')}: {decide} runs per side decide"
    if min(n, m) < decide:
        side, count = ("base", n) if n <= m else ("head", m)
        return f"{count} run{'s' * (count != 1)} on {side}, need {decide}"
    if matters and not tested:
        return (
            f"{min(n, m)} runs per side can decide {testable} kernels at once, the largest; "
            f"{runs_for(2 * testable, share)} runs decide more"
        )
    needed = f"; about {runs} runs per side would decide" if runs and runs > min(n, m) else ""
    if matters and p >= level:
        return f"runs overlap (p = {p:.2g}){needed}"
    if matters and q > share:
        return f"p = {p:.2g} is too weak among {testable} kernels (q = {q:.2g}){needed}"
    if matters:
        return f"a difference this large occurs by chance too often with {min(n, m)} runs{needed}"
    return f"anything from {low:+.0%} to {high:+.0%} fits the runs{needed}".replace("%", " %")


def why_known(told: Decided, row: int, base_ns: float) -> str:
    """What is missing for a verdict where the noise was measured."""
    low, high = (relative(one[row], base_ns) for one in (told.low, told.high))
    runs = told.runs[row]
    needed = f"; about {runs:.0f} runs per side would decide" if np.isfinite(runs) else ""
    return (
        f"anything from {low:+.1%} to {high:+.1%} fits the measured noise of "
        f"{told.sigma[row]:.1%}{needed}".replace("%", " %")
    )


def relative(value: float, whole: float) -> float:
    return float(value / whole) if whole else float("nan")
