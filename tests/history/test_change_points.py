"""Where a series changed: what is found, and that noise alone is nothing."""

import numpy as np
import pytest

from benchmarks.history_changes import SHAPES, measured, own
from traceroof.history.change_points import levels_of


def stepped(*levels: tuple[int, float], noise: float = 0.01, seed: int = 3) -> np.ndarray:
    """So many runs of each level, with normal noise."""
    values = np.concatenate([np.full(count, level) for count, level in levels])
    random = np.random.default_rng(seed)
    return np.asarray(values * (1 + noise * random.standard_normal(len(values))))


def test_a_change_is_found_with_its_size_and_the_noise() -> None:
    """GIVEN 30 runs of 100 and 30 of 104 with 1 % noise WHEN segmented THEN one change, at run 30,
    of 4 % within its error."""
    found = levels_of(stepped((30, 100.0), (30, 104.0)))
    assert [abs(one.at - 30) <= 1 for one in found.changes] == [True]
    (change,) = found.changes
    assert change.ratio == pytest.approx(0.04, abs=3 * change.error)
    # 1 % of a run over 30 runs per side: 1 % x sqrt(2 / 30).
    assert change.error == pytest.approx(0.01 * np.sqrt(2 / 30), rel=0.3)
    assert found.noise == pytest.approx(0.01, rel=0.3)
    assert found.starts == (0, change.at)


def test_an_outlier_is_no_change_and_a_level_of_three_runs_is_one() -> None:
    values = stepped((40, 100.0), noise=0.005)
    values[20] *= 1.5
    assert not levels_of(values).changes
    values = stepped((40, 100.0), (3, 120.0), noise=0.005)
    assert [one.at for one in levels_of(values).changes] == [40]


def test_small_changes_are_left_out_where_asked() -> None:
    values = stepped((40, 100.0), (40, 103.0), noise=0.002)
    assert len(levels_of(values, least=0.01).changes) == 1
    assert not levels_of(values, least=0.05).changes


@pytest.mark.parametrize("count", [0, 1, 5])
def test_few_runs_have_no_changes(count: int) -> None:
    found = levels_of(np.linspace(1.0, 2.0, count))
    assert (found.starts, found.changes) == ((0,), ())


def test_equal_runs_have_none_and_a_count_changes_at_once() -> None:
    """GIVEN values without noise WHEN one count changes THEN it is found exactly."""
    assert not levels_of(np.full(50, 7.0)).changes
    found = levels_of(np.array([100.0] * 10 + [101.0] * 10))
    assert [(one.at, round(one.ratio, 6)) for one in found.changes] == [(10, 0.01)]


def test_drawn_series_meet_what_the_page_promises() -> None:
    """GIVEN 40 drawn series of 200 commits with five changes of 2 to 10 % WHEN searched THEN at least
    4 of 5 changes above twice the noise are found, and at most 1 change per ten series is false."""
    for name, noise in SHAPES:
        for spread in (0.005, 0.01):
            found, _, false, large, _ = measured(own, spread, noise, count=40, seed=11)
            assert large > 4
            assert found >= 0.8, name
            assert false <= 0.1, name
        still = measured(own, 0.01, noise, count=40, seed=12, changes=0)
        assert still[2] <= 0.1, name
