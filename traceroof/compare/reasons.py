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
        apart = "" if matters else f", and its steps differ by {noise:.0%} from each other"
        return f"one run per side{apart.replace('%', ' %')}; a verdict needs {decide} runs per side"
    if min(n, m) < decide:
        side, count = ("base", n) if n <= m else ("head", m)
        return f"{count} run{'s' * (count != 1)} of the {side}; a verdict needs {decide} per side"
    if matters and not tested:
        return (
            f"{min(n, m)} runs per side are enough to test the {testable} largest kernels; "
            f"{runs_for(2 * testable, share)} runs per side test more"
        )
    needed = f"; about {runs} runs per side would be enough" if runs and runs > min(n, m) else ""
    if matters and p >= level:
        return f"the runs of both sides overlap (p = {p:.2g}){needed}"
    if matters and q > share:
        return (
            f"p = {p:.2g} is not enough where {testable} kernels are tested (q = {q:.2g}){needed}"
        )
    if matters:
        return f"a difference this large occurs by chance too often with {min(n, m)} runs{needed}"
    return f"the runs allow any change from {low:+.0%} to {high:+.0%}{needed}".replace("%", " %")


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
