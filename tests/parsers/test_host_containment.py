"""Which interval contains which, against looking at all of them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceroof.parsers.host.containment import Whole, containers, holding

Interval = tuple[int, int, int]  # lane, start, end


def intervals(most: int) -> st.SearchStrategy[list[Interval]]:
    one = st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12))
    return st.lists(one.map(lambda i: (i[0], i[1], i[1] + i[2])), max_size=most)


def contains(outer: Interval, inner: Interval, slack: int) -> bool:
    lane, start, end = inner
    if lane != outer[0] or start < outer[1]:
        return False
    return end <= outer[2] or (end <= outer[2] + slack and outer[2] - start > end - outer[2])


def columns(rows: list[Interval]) -> tuple[Whole, Whole, Whole]:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@given(intervals(25), intervals(12), st.sampled_from([0, 1, 3]))
def test_innermost_is_the_latest_start_that_contains(
    outer: list[Interval], queries: list[Interval], slack: int
) -> None:
    found = containers(*columns(outer))
    at = found.innermost(*columns(queries), slack)
    for query, position in zip(queries, at.tolist(), strict=True):
        fitting = [one for one in outer if contains(one, query, slack)]
        if not fitting:
            assert position == -1
            continue
        chosen = outer[found.order[position]]
        assert chosen in fitting
        assert chosen[1] == max(one[1] for one in fitting)


@given(intervals(25), st.sampled_from([0, 1]))
def test_parents_make_a_forest_of_containment(rows: list[Interval], slack: int) -> None:
    found = containers(*columns(rows))
    parents = found.parents(slack)
    for position, parent in enumerate(parents.tolist()):
        assert parent < position
        mine = rows[found.order[position]]
        before = [rows[found.order[at]] for at in range(position)]
        fitting = [one for one in before if contains(one, mine, slack)]
        assert (parent == -1) == (not fitting)
        if parent >= 0:
            assert rows[found.order[parent]][1] == max(one[1] for one in fitting)


@given(intervals(25), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 42)), max_size=12))
def test_holding_a_point(rows: list[Interval], points: list[tuple[int, int]]) -> None:
    lanes, times = (np.array([p[at] for p in points], dtype=np.int64) for at in range(2))
    expected = [
        any(lane == p[0] and start <= p[1] <= end for p in points) for lane, start, end in rows
    ]
    assert holding(*columns(rows), (lanes, times)).tolist() == expected


def test_many_siblings_need_few_passes() -> None:
    # 200,000 siblings in one parent: found by doubling, not by walking along them.
    count = 200_000
    start = np.arange(count, dtype=np.int64) * 10 + 1
    lane = np.zeros(count + 1, dtype=np.int64)
    found = containers(lane, np.append(start, 0), np.append(start + 8, count * 10 + 10))
    assert found.parents().tolist() == [-1] + [0] * count
