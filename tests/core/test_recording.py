"""Joining recordings keeps rows, sources and what points at them together."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.runs import recording
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import (
    RAW_METRICS,
    VERDICTS,
    DeviceInfo,
    Note,
    Recording,
    Run,
    on_device,
)
from traceroof.errors import TraceroofError


def _with_metric(name: str, row: int) -> Recording:
    metric = pa.Table.from_pylist([{"row": row, "metric": name, "value": 1.0}], RAW_METRICS)
    verdict = pa.Table.from_pylist([{"row": row, "rule": name}], VERDICTS)
    columns = {"kernel_name": [f"{name}{i}" for i in range(2)]}
    return recording(
        columns, raw_metrics=metric, verdicts=verdict, devices=(DeviceInfo(index=0, name="T4"),)
    )


def test_rows_that_others_point_at_are_shifted() -> None:
    joined = merge([_with_metric("a", 1), _with_metric("b", 0), _with_metric("c", 1)])
    assert joined.kernels["source"].to_pylist() == [0, 0, 1, 1, 2, 2]
    names = joined.kernels["kernel_name"].to_pylist()
    assert [names[row] for row in joined.raw_metrics["row"].to_pylist()] == ["a1", "b0", "c1"]
    assert [names[row] for row in joined.verdicts["row"].to_pylist()] == ["a1", "b0", "c1"]
    assert joined.devices == (DeviceInfo(index=0, name="T4"),)
    assert len(joined.sources) == 3


def test_merging_merged_recordings_keeps_every_source_apart() -> None:
    pair = merge([_with_metric("a", 0), _with_metric("b", 1)])
    joined = merge([pair, _with_metric("c", 1)])
    assert joined.kernels["source"].to_pylist() == [0, 0, 1, 1, 2, 2]
    assert joined.verdicts["row"].to_pylist() == [0, 3, 5]


def test_times_of_two_kinds_are_not_mixed() -> None:
    timeline = recording({"kernel_name": ["a"]}, time_basis="timeline")
    with pytest.raises(TraceroofError, match="do not add up"):
        merge([timeline, recording({"kernel_name": ["b"]})])


def test_nothing_to_merge_is_said() -> None:
    with pytest.raises(TraceroofError, match="nothing to read"):
        merge([])


def test_the_user_names_the_device() -> None:
    named = on_device(recording({"kernel_name": ["a"]}), "A100-SXM4-80GB")
    assert [device.name for device in named.devices] == ["A100-SXM4-80GB"]
    both = on_device(_with_metric("a", 0), "L4")
    assert [(one.index, one.name) for one in both.devices] == [(0, "L4")]


def test_notes_say_how_often() -> None:
    assert str(Note("rows without a name", 1200)) == "rows without a name (1,200 times)"
    assert str(Note("cut off at the end")) == "cut off at the end"


def test_the_types_of_a_data_frame_are_those_of_every_run() -> None:
    """GIVEN a column that is known, in part or nowhere WHEN asked as a DataFrame THEN it has one type, and
    nanoseconds since 1970 are exact beside an unknown one."""
    at = 1_790_000_000_123_456_789
    known = Run(recording({"kernel_name": ["a", "b"], "start_ns": [at, None]}), "known").kernels
    other = Run(recording({"kernel_name": ["a"], "grid_x": [4], "dram_bytes": [1.5]}), "o").kernels
    assert known.dtypes.tolist() == other.dtypes.tolist()
    assert known["start_ns"].tolist()[0] == at
    assert known["start_ns"].isna().tolist() == [False, True]
    assert {str(one) for one in known.dtypes} <= {"Int64", "Int32", "float64", "string", "boolean"}
    assert str(known["start_ns"].dtype) == "Int64"
    assert str(known["operator"].dtype) == "string"
    assert list(known.columns) == list(other.columns)


@pytest.mark.parametrize("value", ["108", float("nan"), float("inf"), True, [108]])
def test_a_number_of_a_device_is_a_number(value: Any) -> None:
    assert DeviceInfo(sm_count=value).sm_count is None
    counted: Any = np.int64(108)
    assert DeviceInfo(sm_count=counted, name="A100") == DeviceInfo(sm_count=108, name="A100")
    assert DeviceInfo(name=108).name is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "known"), [("9.0", "9.0"), ("12.1", "12.1"), ("9.-4", None), ("n/a", None), ("", "")])  # fmt: skip
def test_a_compute_capability_is_a_version(text: str, known: str | None) -> None:
    """GIVEN what a file says of its GPU WHEN it is no version THEN the capability is unknown."""
    assert DeviceInfo(compute_capability=text).compute_capability == known
