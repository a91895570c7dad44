"""How times of launches scatter, against a plain computation."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.kernel_table import kernel_table
from traceroof.kernels import variability
from traceroof.kernels.variants import of_rows


def measured(times: list[int | None], groups: list[int] | None = None, **more: Any) -> Any:
    """SCATTER_COLUMNS of launches in the order given; all of one group unless told otherwise."""
    of_row = np.array(groups or [0] * len(times), dtype=np.int64)
    kernels = kernel_table({"kernel_name": ["k"] * len(times), "duration_ns": times, **more})
    count = int(of_row.max()) + 1
    known = np.array([np.nan if one is None else one for one in times], dtype=np.float64)
    medians = np.array([np.nanmedian(known[of_row == one]) for one in range(count)])
    apart = np.abs(known - medians[of_row])
    mads = np.array([np.nanmedian(apart[of_row == one]) for one in range(count)])
    variants = of_rows(kernels)
    by_group = variants.durations.by(of_row, count)
    return variability.columns(variants, of_row, by_group, medians, mads)


def test_scatter_is_that_of_a_normal_distribution() -> None:
    """GIVEN 90, 95, 100, 105, 110: MAD 5, THEN 1.4826 x 5 / 100; four launches say nothing."""
    assert measured([90, 95, 100, 105, 110])["scatter_pct"] == pytest.approx([7.413])
    assert np.isnan(measured([90, 95, 105, 110])["scatter_pct"]).all()


def test_spread_leaves_out_a_twentieth_on_either_side() -> None:
    """GIVEN 1 to 21: the 5th percentile is 2, the 95th is 20; of 19 launches it is unknown."""
    assert measured(list(range(1, 22)))["spread"] == pytest.approx([10.0])
    assert np.isnan(measured(list(range(1, 20)))["spread"]).all()


@pytest.mark.parametrize(
    ("times", "ratio", "excess"),
    [
        ([30, 10, 10, 10, 10, 10], 3.0, 20.0),
        ([10, 10, 10, 10, 10, 30], 1.0, 0.0),
        # Another launch comes near: work of another size, not warm-up.
        ([30, 10, 10, 10, 10, 25], 1.0, 0.0),
        ([30, 10, 10, 10], np.nan, np.nan),
    ],
)
def test_the_first_launch(times: list[int | None], ratio: float, excess: float) -> None:
    found = measured(times)
    np.testing.assert_allclose(found["first_ratio"], [ratio])
    np.testing.assert_allclose(found["first_excess_ns"], [excess])


def test_first_means_by_start_and_in_every_process() -> None:
    """GIVEN two processes that each begin with a launch of 30 and go on with 10, the rows of the
    second in reverse: THEN both firsts count."""
    found = measured(
        [30, 10, 10, 10, 10, 10, 10, 10, 10, 30],
        start_ns=[0, 1, 2, 3, 4, 9, 8, 7, 6, 5],
        process_id=[1] * 5 + [2] * 5,
    )
    np.testing.assert_allclose(found["first_excess_ns"], [40.0])


def test_rows_of_a_summary_and_unknown_times_say_nothing() -> None:
    summary = measured([10, 20, 30, 40, 50], launch_count=[1, 1, 1, 1, 9])
    assert all(np.isnan(values).all() for values in summary.values())
    some = measured([10, None, 10, 10, 10, None, 10])
    assert some["scatter_pct"].tolist() == [0.0]
    empty = of_rows(kernel_table({"kernel_name": []}))
    none = variability.columns(
        empty, np.empty(0, np.int64), empty.durations, np.empty(0), np.empty(0)
    )
    assert {name: len(values) for name, values in none.items()} == {
        one.name: 0 for one in variability.SCATTER_COLUMNS
    }


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 10**13)), min_size=20, max_size=80),
    st.randoms(use_true_random=False),
)
def test_order_of_rows_does_not_matter_where_starts_are_known(
    rows: list[tuple[int, int]], random: Any
) -> None:
    numbered = [(group, time, start) for start, (group, time) in enumerate(rows)]
    shuffled = numbered.copy()
    random.shuffle(shuffled)
    # Every group has a launch, so that the groups are the same ones.
    full = [(group, 7, 1000 + group) for group in range(4)]
    one, other = (
        measured(
            [t for _, t, _ in which], [g for g, _, _ in which], start_ns=[s for _, _, s in which]
        )
        for which in (numbered + full, full + shuffled)
    )
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
