"""Rows by group."""

from statistics import median

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.dictionary import factorized
from traceroof.core.groups import Groups

_ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 2**60)))


@given(_ROWS)
def test_each_figure_is_that_of_the_rows_of_a_group(rows: list[tuple[int, int]]) -> None:
    """Sums of whole numbers are exact beyond 2^53."""
    keys, values = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    codes, distinct = factorized(keys)
    groups = Groups(codes)
    of_group = [[value for key, value in rows if key == one] for one in distinct.tolist()]
    assert groups.sizes.tolist() == [len(one) for one in of_group]
    assert groups.reduced(np.add, values).tolist() == [sum(one) for one in of_group]
    assert groups.reduced(np.minimum, values).tolist() == [min(one) for one in of_group]
    assert groups.reduced(np.maximum, values).tolist() == [max(one) for one in of_group]
    small = values % 1000
    medians = [float(median(value % 1000 for value in one)) for one in of_group]
    assert groups.medians(small).tolist() == medians
    turns = [sum(key == one for key, _ in rows[:at]) for at, (one, _) in enumerate(rows)]
    assert groups.places().tolist() == turns


def test_more_groups_than_short_numbers_have() -> None:
    """From 65,537 groups on rows are sorted by whole numbers."""
    count = (1 << 16) + 2
    codes = np.concatenate([np.arange(count), np.arange(count)[::-1]])
    groups = Groups(codes)
    assert groups.reduced(np.add, np.arange(2 * count)).tolist() == [2 * count - 1] * count
    assert groups.places().tolist() == [0] * count + [1] * count
