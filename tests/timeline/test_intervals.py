"""Interval algebra against a model that walks every nanosecond."""

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceroof.timeline import intervals
from traceroof.timeline.intervals import Intervals

TICKS = 40

pairs = st.lists(st.tuples(st.integers(0, TICKS), st.integers(0, TICKS)), max_size=12)


def arrays(given_pairs: Iterable[tuple[int, int]]) -> Intervals:
    listed = list(given_pairs)
    return Intervals(
        np.array([start for start, _ in listed], dtype=np.int64),
        np.array([end for _, end in listed], dtype=np.int64),
    )


def merged(given_pairs: Iterable[tuple[int, int]]) -> Intervals:
    parts = arrays(given_pairs)
    return intervals.union(parts.starts, parts.ends)


def ticks(parts: Intervals) -> set[int]:
    """Every nanosecond t with start <= t < end."""
    return {
        tick
        for start, end in zip(parts.starts, parts.ends, strict=True)
        for tick in range(start, end)
    }


def is_union(parts: Intervals) -> bool:
    return bool(np.all(parts.ends > parts.starts) and np.all(parts.starts[1:] > parts.ends[:-1]))


@given(pairs)
def test_union_is_where_any_is(one: list[tuple[int, int]]) -> None:
    parts = arrays(one)
    found = intervals.union(parts.starts, parts.ends)
    assert is_union(found)
    assert ticks(found) == ticks(parts)
    assert intervals.length(found) == len(ticks(parts))


@given(pairs, pairs)
def test_subtraction_and_join(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    left, right = merged(one), merged(other)
    less = intervals.subtraction(left, right)
    either = intervals.joined(left, right)
    assert all(is_union(found) for found in (less, either))
    assert ticks(less) == ticks(left) - ticks(right)
    assert ticks(either) == ticks(left) | ticks(right)
    assert intervals.length(either) == intervals.length(less) + intervals.length(right)


@given(pairs)
def test_gaps_are_what_is_left_between(one: list[tuple[int, int]]) -> None:
    busy = merged(one)
    left = intervals.gaps(busy, -2, TICKS + 1)
    assert is_union(left)
    assert ticks(left) == set(range(-2, TICKS + 1)) - ticks(busy)


@given(pairs, pairs)
def test_covered_is_the_part_of_each(
    one: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    busy = merged(one)
    each = arrays(asked)
    expected = [
        len(ticks(busy) & set(range(start, end)))
        for start, end in zip(each.starts, each.ends, strict=True)
    ]
    assert intervals.covered(busy, each.starts, each.ends).tolist() == expected


@given(pairs, st.lists(st.integers(0, TICKS), max_size=8))
def test_holding_finds_the_interval(one: list[tuple[int, int]], times: list[int]) -> None:
    busy = merged(one)
    found = intervals.holding(busy, np.array(times, dtype=np.int64))
    for time, index in zip(times, found, strict=True):
        holds = [
            at
            for at, (start, end) in enumerate(zip(busy.starts, busy.ends, strict=True))
            if start < time <= end
        ]
        assert holds == ([index] if index >= 0 else [])


def test_times_of_an_epoch_stay_exact() -> None:
    """19 digits do not fit a double: 1 ns apart at 1.7e18 ns is still 1 ns."""
    base = 1_712_195_495_519_689_047
    parts = Intervals(
        np.array([base, base + 10], dtype=np.int64), np.array([base + 1, base + 13], dtype=np.int64)
    )
    assert intervals.length(intervals.union(parts.starts, parts.ends)) == 4
    busy = intervals.union(parts.starts, parts.ends)
    assert intervals.length(intervals.gaps(busy, base, base + 13)) == 9


def test_nothing() -> None:
    assert intervals.length(intervals.NONE) == 0
    assert intervals.length(intervals.gaps(intervals.NONE, 3, 8)) == 5
