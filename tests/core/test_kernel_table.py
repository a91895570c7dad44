"""The only door into a kernel table: what it fills in, converts and refuses."""

import numpy as np
import pyarrow as pa
import pytest

from traceroof.core.kernel_table import (
    COLUMNS,
    KERNELS,
    PIPES,
    STALL_REASONS,
    kernel_table,
    known_columns,
    launches,
    stack,
    total_time_ns,
)
from traceroof.errors import TraceroofError


def test_absent_columns_are_unknown_and_three_have_defaults() -> None:
    table = kernel_table({"kernel_name": ["a", "b"]})
    assert table.schema.equals(KERNELS)
    assert table["kind"].to_pylist() == ["kernel", "kernel"]
    assert table["launch_count"].to_pylist() == [1, 1]
    assert table["source"].to_pylist() == [0, 0]
    assert known_columns(table) == ("kind", "kernel_name", "source", "launch_count")


def test_nan_and_none_are_unknown_and_zero_is_zero() -> None:
    table = kernel_table(
        {
            "kernel_name": ["a", "b", "c"],
            "duration_ns": [1, None, 0],
            "dram_throughput_pct": np.array([np.nan, 0.0, 61.84]),
        }
    )
    assert table["duration_ns"].to_pylist() == [1, None, 0]
    assert table["dram_throughput_pct"].to_pylist() == [None, 0.0, 61.84]


def test_whole_columns_take_floats_rounded_and_exact_int64() -> None:
    big = 1_712_195_495_519_689_047  # a nanosecond of the year 2024: no double holds it
    table = kernel_table(
        {"kernel_name": ["a", "b"], "start_ns": [big, None], "duration_ns": [1.6, float("nan")]}
    )
    assert table["start_ns"].to_pylist() == [big, None]
    assert table["duration_ns"].to_pylist() == [2, None]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"kernel_name": ["a"], "dram_pct": [1.0]}, "no column dram_pct"),
        ({"duration_ns": [1]}, "kernel_name"),
        ({"kernel_name": ["a"], "duration_ns": [1, 2]}, "duration_ns has 2 values"),
        ({"kernel_name": ["a"], "duration_ns": ["soon"]}, "duration_ns"),
        ({"kernel_name": [1.5]}, "kernel_name"),
    ],
)
def test_mistakes_name_the_column(columns: dict[str, list[object]], says: str) -> None:
    with pytest.raises(TraceroofError, match=says):
        kernel_table(columns)


def test_totals_multiply_aggregates_and_skip_what_is_unknown() -> None:
    table = kernel_table(
        {
            "kernel_name": ["a", "b", "c", "Memcpy HtoD"],
            "kind": ["kernel", "kernel", "kernel", "memcpy"],
            "launch_count": [1, 10, 1, 1],
            "duration_ns": [5, 7, None, 100],
        }
    )
    assert total_time_ns(table) == 5 + 10 * 7
    assert launches(table) == 12
    assert total_time_ns(table, kind=None) == 175
    assert launches(table, kind="memcpy") == 1


def test_empty_tables() -> None:
    empty = kernel_table({"kernel_name": []})
    assert [total_time_ns(empty), launches(empty)] == [0, 0]
    assert stack([]).schema.equals(KERNELS)
    assert stack([empty, kernel_table({"kernel_name": ["a"]})]).num_rows == 1


def test_every_column_says_what_it_is() -> None:
    names = [column.name for column in COLUMNS]
    assert len(names) == len(set(names))
    for column in COLUMNS:
        assert column.meaning
        field = KERNELS.field(column.name)
        assert field.metadata[b"unit"].decode() == column.unit
        # A percentage without a basis could meet another one in a ranking.
        if column.name.endswith("_pct"):
            assert column.unit == "%"
            assert column.basis, column.name
        if column.name.endswith("_ns"):
            assert [column.unit, column.type] == ["ns", pa.int64()]
    assert {f"pipe_{pipe}_pct" for pipe in PIPES} <= set(names)
    assert {f"stall_{reason}" for reason in STALL_REASONS} <= set(names)
