"""Text columns as numbers, and columns of numbers as one."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.dictionary import coded, compact, factorized, together
from traceroof.core.kernel_table import TEXT

_TEXTS = st.lists(st.lists(st.none() | st.sampled_from(["a", "b", "", "é"]), max_size=5))


@given(_TEXTS, st.booleans())
def test_a_text_column_comes_apart_and_together_again(
    chunks: list[list[str | None]], encoded: bool
) -> None:
    """Chunks may have dictionaries of their own; the numbers are of one."""
    arrays = [pa.array(chunk, pa.string()) for chunk in chunks]
    if encoded:
        arrays = [one.cast(TEXT) for one in arrays]
    column = pa.chunked_array(arrays, TEXT if encoded else pa.string())
    found = coded(column)
    rows = [one for chunk in chunks for one in chunk]
    assert found.values().tolist() == rows
    assert found.at(np.arange(len(rows))[::-1]) == rows[::-1]
    assert len(set(found.texts)) == len(found.texts)
    assert found.is_("a").tolist() == [one == "a" for one in rows]
    lengths = found.spread(np.array([*map(len, found.texts), -1]))
    assert lengths.tolist() == [-1 if one is None else len(one) for one in rows]


def test_a_dictionary_with_an_entry_twice_or_for_null() -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 2, 3, None], pa.int32()), pa.array(["a", "b", "a", None])
    )
    found = coded(column)
    assert found.values().tolist() == ["a", "b", "a", None, None]
    assert found.texts == ["a", "b"]


_NUMBERS = st.integers(-1, 3) | st.sampled_from([-(2**63), 2**31, 2**62])


@given(st.lists(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS)))
def test_columns_together_number_their_combinations(rows: list[tuple[int, int, int]]) -> None:
    """In the order in which they first appear; codes, ids and UNKNOWN alike."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    codes, first = together(columns)
    number: dict[tuple[int, int, int], int] = {}
    assert codes.tolist() == [number.setdefault(row, len(number)) for row in rows]
    assert first.tolist() == [rows.index(row) for row in number]


@given(
    st.lists(st.none() | st.sampled_from(["a", "b", ""])),
    st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    st.lists(st.integers(-3, 3)),
)
def test_values_are_numbered_as_pandas_numbers_them(
    texts: list[str | None], reals: list[float], whole: list[int]
) -> None:
    for values in (
        np.array(texts, dtype=object),
        np.array(reals, dtype=np.float64),
        np.array(whole, dtype=np.int64),
    ):
        codes, distinct = factorized(values)
        expected, of = pd.factorize(values)
        assert codes.tolist() == expected.tolist()
        assert distinct.tolist() == of.tolist()


@pytest.mark.parametrize(
    ("values", "is_one"),
    [
        (np.array([1.5, 1.5, 1.5]), True),
        (np.array([np.nan, np.nan]), True),
        (np.array([np.nan, 1.0]), False),
        (np.array([7, 7, 7]), True),
        (np.array([None, None], dtype=object), True),
        (np.array(["bf16", "bf16"], dtype=object), True),
        (np.array(["bf16", None], dtype=object), False),
    ],
)
def test_a_column_of_one_value_takes_the_memory_of_one(
    values: npt.NDArray[Any], is_one: bool
) -> None:
    """GIVEN a column WHEN compacted THEN it says the same, in one value's memory if it has one."""
    found = compact(values)
    assert (found.strides == (0,)) == is_one
    assert (found.dtype, len(found)) == (values.dtype, len(values))
    assert pd.Series(found).equals(pd.Series(values))
