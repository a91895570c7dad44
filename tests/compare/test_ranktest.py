"""The rank test against counted arrangements and published tables."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceroof.compare.ranktest import (
    Reals,
    benjamini_hochberg,
    mann_whitney,
    shift_interval,
    smallest_p,
)


def counted(base: list[float], head: list[float]) -> float:
    """The definition: the share of all ways to deal the values out that lie as far off."""
    values = np.array([*base, *head])
    ranks = [(values < one).sum() + ((values == one).sum() + 1) / 2 for one in values]
    expected = len(head) * (len(values) + 1) / 2
    seen = abs(sum(ranks[len(base) :]) - expected)
    ways = [
        abs(sum(ranks[index] for index in chosen) - expected) >= seen - 1e-9
        for chosen in combinations(range(len(values)), len(head))
    ]
    return float(sum(ways)) / len(ways)


VALUES = st.lists(st.integers(0, 6), min_size=1, max_size=6)


@settings(deadline=None)
@given(base=VALUES, head=VALUES)
def test_p_is_the_share_of_arrangements_ties_included(base: list[int], head: list[int]) -> None:
    one, other = [float(x) for x in base], [float(x) for x in head]
    p = mann_whitney(np.array([one]), np.array([other]))[0]
    assert p == pytest.approx(counted(one, other))
    assert p == pytest.approx(mann_whitney(np.array([other]), np.array([one]))[0])


# Critical values of U, two-sided 5 % (Mann and Whitney's table as reprinted in textbooks):
# the largest U that is still significant.
CRITICAL = {(4, 4): 0, (5, 5): 2, (6, 6): 5, (7, 7): 8, (8, 8): 13, (9, 9): 17, (10, 10): 23,
            (5, 10): 8, (12, 12): 37, (15, 15): 64, (20, 20): 127}  # fmt: skip


@pytest.mark.parametrize(("sizes", "critical"), CRITICAL.items())
def test_p_crosses_five_percent_at_the_tabulated_u(sizes: tuple[int, int], critical: int) -> None:
    n, m = sizes
    for u, significant in ((critical, True), (critical + 1, False)):
        base, head = with_u(n, m, u)
        assert bool(mann_whitney(base, head)[0] <= 0.05) is significant


def with_u(n: int, m: int, u: int) -> tuple[Reals, Reals]:
    """Values without ties of which exactly u pairs have the base above the head."""
    base = np.arange(n, dtype=float)
    head = np.full(m, n - 0.5) + np.arange(m) / 100
    for index in range(m):
        down = min(u, n)
        head[index] -= down
        u -= down
    return base[None, :], head[None, :]


@pytest.mark.parametrize(("n", "ways"), [(5, 252), (6, 924), (7, 3432), (10, 184756)])
def test_runs_that_are_all_apart_have_the_smallest_p(n: int, ways: int) -> None:
    p = mann_whitney(np.arange(n, dtype=float)[None], np.arange(n, 2 * n, dtype=float)[None])
    assert p[0] == pytest.approx(2 / ways)
    assert smallest_p(n, n) == pytest.approx(2 / ways)


def test_normal_approximation_meets_the_exact_test() -> None:
    """21 against 21 uses the approximation, 20 against 20 counts: p within 0.005 of each other."""
    generator = np.random.default_rng(3)
    for shift in (0.0, 0.3, 0.6, 1.0):
        base, head = generator.normal(size=(1, 20)), generator.normal(shift, size=(1, 20))
        exact = mann_whitney(base, head)[0]
        doubled = mann_whitney(np.repeat(base, 2, axis=1), np.repeat(head, 2, axis=1))[0]
        assert doubled <= exact + 0.005
        bigger = mann_whitney(np.append(base, [[0.0]], axis=1), np.append(head, [[shift]], axis=1))
        assert bigger[0] == pytest.approx(exact, abs=0.05)


def test_rows_are_judged_on_their_own() -> None:
    base = np.array([[1.0, 2, 3, 4, 5], [1, 1, 1, 1, 1]])
    head = np.array([[6.0, 7, 8, 9, 10], [1, 1, 1, 1, 1]])
    np.testing.assert_allclose(mann_whitney(base, head), [2 / 252, 1.0])
    assert mann_whitney(np.empty((2, 0)), head).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("n", "skipped"), [(4, 1), (5, 3), (8, 14), (10, 24)])
def test_interval_leaves_out_as_many_differences_as_the_table_says(n: int, skipped: int) -> None:
    """The 95 % interval runs from the (U + 1)-th smallest difference to the same from above."""
    base, head = np.arange(n, dtype=float) ** 2, 100 + np.arange(n, dtype=float) * 7
    differences = np.sort((head[:, None] - base[None, :]).ravel())
    low, high = shift_interval(base[None], head[None])
    assert [low[0], high[0]] == [differences[skipped - 1], differences[-skipped]]


def test_interval_is_infinite_where_few_runs_say_nothing() -> None:
    low, high = shift_interval(np.ones((1, 3)), np.ones((1, 3)))
    assert [low[0], high[0]] == [-np.inf, np.inf]


def test_interval_covers_the_true_shift() -> None:
    """95 % of the intervals hold the shift: 2,000 trials, 6 standard errors of slack."""
    generator = np.random.default_rng(11)
    base, head = generator.normal(size=(2000, 8)), generator.normal(0.7, size=(2000, 8))
    low, high = shift_interval(base, head)
    covered = ((low <= 0.7) & (high >= 0.7)).mean()
    assert covered >= 0.95 - 6 * (0.95 * 0.05 / 2000) ** 0.5


def test_benjamini_hochberg_on_the_example_of_its_paper() -> None:
    """The 15 p-values of Benjamini and Hochberg 1995, section 4.1: four are called at 5 %."""
    p = np.array([0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240,
                  0.4262, 0.5719, 0.6528, 0.7590, 1.0])  # fmt: skip
    adjusted = benjamini_hochberg(p[::-1])[::-1]
    assert (adjusted <= 0.05).sum() == 4
    assert adjusted[3] == pytest.approx(0.0095 * 15 / 4)
    assert benjamini_hochberg(np.empty(0)).tolist() == []
