"""Durations that add up: exact as long as they are few, else within the sketch's error."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traceroof.kernels import durations
from traceroof.kernels.durations import Durations, at_ranks, counted
from traceroof.kernels.group_figures import medians

NS = st.integers(0, 2**45)
LISTS = st.lists(st.lists(NS, max_size=30), min_size=1, max_size=5)


def of(times: list[int]) -> Durations:
    """The durations of one thing."""
    ns = np.array(times, dtype=np.int64)
    return counted(np.zeros_like(ns), ns, np.ones_like(ns), 1)


def added(*parts: Durations) -> Durations:
    every = sum(len(one.sketched) for one in parts)
    return durations.together(list(parts)).by(np.zeros(every, dtype=np.int64), 1)


def plain(found: Durations) -> Any:
    return [one.tolist() for one in (found.thing, found.value, found.launches, found.sketched)]


@given(LISTS, st.integers(1, 20), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_parts_add_up_in_any_order_and_grouping(
    lists: list[list[int]], most: int, random: Any
) -> None:
    """GIVEN launches dealt out to parts, and a limit that some of them exceed WHEN they are added up
    in any order, one after another or at once THEN it is what all launches together give."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durations, "MOST", most)
        whole = plain(of([one for part in lists for one in part]))
        parts = [of(one) for one in lists]
        random.shuffle(parts)
        assert plain(added(*parts)) == whole
        left = parts[0]
        for one in parts[1:]:
            left = added(left, one)
        assert plain(left) == whole
        assert plain(added(parts[0], added(*parts[1:]) if parts[1:] else of([]))) == whole


def test_up_to_ten_thousand_durations_figures_are_exact() -> None:
    """GIVEN 10,000 distinct durations from 1,000,000 to 1,009,999 ns THEN the median is the middle of
    the two in the middle; WHEN one more comes THEN durations are sketched."""
    times = list(range(1_000_000, 1_010_000))
    exact = of(times)
    assert not exact.sketched.any()
    assert medians(exact.thing, exact.ns, exact.launches, 1).tolist() == [1_004_999.5]
    coarse = added(exact, of([5]))
    assert coarse.sketched.all()
    (median,) = medians(coarse.thing, coarse.ns, coarse.launches, 1)
    assert median == pytest.approx(1_004_999, rel=durations.ERROR)
    assert len(coarse.value) < 10


@given(st.lists(NS, min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_a_sketch_is_a_thousandth_off_at_most(times: list[int]) -> None:
    """Every rank of a sketch is within 0.1 % of the duration at that rank."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durations, "MOST", 0)
        found = of(times)
    assert found.sketched.all()
    ordered = np.repeat(found.ns, found.launches)
    expected = np.sort(np.array(times, dtype=np.float64))
    assert (np.abs(ordered - expected) <= durations.ERROR * expected + 1e-9).all()


def test_a_rank_counts_launches_from_the_shortest() -> None:
    """GIVEN 1 to 21 ns, once each: of 21 launches a twentieth lies before the second."""
    found = of(list(range(1, 22)))
    assert (at_ranks(found, 0.05).tolist(), at_ranks(found, 0.95).tolist()) == ([2.0], [20.0])
    assert np.isnan(at_ranks(of([]), 0.5)).all()


def test_things_that_belong_nowhere_are_left_out() -> None:
    ns = np.array([1, 2, 3], dtype=np.int64)
    found = counted(np.array([0, 1, 2]), ns, np.ones_like(ns), 3)
    assert found.by(np.array([0, -1, 0]), 1).value.tolist() == [1, 3]
