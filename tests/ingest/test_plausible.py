"""What holds for every recording: no launch twice, one stream in order, sums that fit."""

from dataclasses import replace
from math import nan

import numpy as np
import pyarrow as pa
import pytest

from tests.runs import recording
from traceroof.core.recording import HOST_CALLS, RAW_METRICS, Recording
from traceroof.ingest.plausible import plausible
from traceroof.ingest.sums import contradictions


def timeline(
    start: list[int | None], duration: list[int | None], **more: list[object]
) -> Recording:
    """Kernels on stream 7, all called k unless ``more`` says otherwise."""
    count = len(start)
    columns = {"kernel_name": ["k"] * count, "stream": [7] * count, "device": [0] * count} | more
    return recording({**columns, "start_ns": start, "duration_ns": duration}, time_basis="timeline")


def notes(found: Recording) -> dict[str, int]:
    return {note.text: note.count for note in found.notes if note.severe}


TWICE = "rows that stand in the file twice (same kernel, times and stream), read once"
FAR = "durations that reach far over the next work on their stream: unknown"
OVER = "GPU activities that end well after the next one on their stream began"


def test_a_row_that_stands_there_twice_is_one_launch() -> None:
    """GIVEN the second of three launches again, last WHEN read THEN three launches."""
    found = plausible(timeline([100, 200, 300, 200], [10, 20, 30, 20]))
    assert found.kernels["start_ns"].to_pylist() == [100, 200, 300]
    assert found.sources[0].launches == 3
    assert notes(found) == {TWICE: 1}


@pytest.mark.parametrize("far", [2**63 - 1, 2**62, -(2**62), -(2**63)])
def test_a_start_that_no_clock_shows_is_unknown(far: int) -> None:
    """GIVEN starts at the end of int64 (2^62 ns is the year 2116) THEN unknown, and host calls there
    are left out: their end would be before their start."""
    found = timeline([far, 200, 2**62 - 1], [10, 20, 30])
    rows = [{"source": 0, "start_ns": start, "duration_ns": 1} for start in (far, 5)]
    calls = pa.Table.from_pylist(rows, schema=HOST_CALLS)
    found = plausible(replace(found, host_calls=calls))
    assert found.kernels["start_ns"].to_pylist() == [None, 200, 2**62 - 1]
    assert found.host_calls["start_ns"].to_pylist() == [5]
    assert notes(found) == {
        "starts that no clock shows: unknown": 1,
        "calls and ranges of the host that start where no clock is, left out": 1,
    }


@pytest.mark.parametrize(
    "differs", [{"stream": [7, 8]}, {"device": [0, 1]}, {"kernel_name": ["k", "j"]},
                {"graph_id": ["1", "1"]}, {"correlation_id": [1, 2]}],
)  # fmt: skip
def test_launches_of_one_start_that_differ_stay(differs: dict[str, list[object]]) -> None:
    """GIVEN equal times on two streams, GPUs, or in the branches of a graph THEN two launches."""
    found = plausible(timeline([100, 100], [10, 10], **differs))
    assert found.kernels.num_rows == 2
    assert notes(found) == {}


def test_counters_of_equal_launches_stay_apart() -> None:
    """GIVEN two results without start, equal but for one metric THEN both stay; a third that equals
    the second in all of them is a copy, and its metrics go with it."""
    raw: list[dict[str, object]] = [
        {"row": row, "section": "", "metric": "inst", "unit": "", "value": value, "text": None}
        for row, value in ((0, 5.0), (1, 6.0), (2, 6.0))
    ]
    made = recording(
        {"kernel_name": ["k"] * 3, "launch_id": ["0"] * 3, "duration_ns": [2400] * 3},
        raw_metrics=_raw(raw),
    )
    found = plausible(made)
    assert found.kernels.num_rows == 2
    assert found.raw_metrics["row"].to_pylist() == [0, 1]
    assert notes(found) == {TWICE: 1}


def _raw(rows: list[dict[str, object]]) -> object:
    import pyarrow as pa

    return pa.Table.from_pylist(rows, schema=RAW_METRICS)


def test_a_duration_over_all_that_follows_is_unknown() -> None:
    """GIVEN 9 launches of 50 us and one of 1 s in front of them THEN its duration is unknown; one
    that reaches over a single launch is doubted only, the branch of a graph is not."""
    start: list[int | None] = [n * 100_000 for n in range(10)]
    lasts: list[int | None] = [10**9, *[50_000] * 9]
    found = plausible(timeline(start, lasts))
    assert found.kernels["duration_ns"].to_pylist() == [None, *[50_000] * 9]
    assert notes(found) == {FAR: 1}
    alone = plausible(timeline(start, lasts, kernel_name=["once", *["k"] * 9]))
    assert notes(alone) == {FAR: 1}
    late = plausible(timeline([0, 100_000], [150_000, 50_000]))
    assert late.kernels["duration_ns"].null_count == 0
    assert notes(late) == {OVER: 1}
    assert notes(plausible(timeline(start, lasts, graph_id=["1"] * 10))) == {}
    assert notes(plausible(timeline(start, lasts, stream=list(range(10))))) == {}


WRONG = "rows of a summary that contradict themselves (calls, total and mean time)"


@pytest.mark.parametrize(
    ("total", "mean", "least", "most", "wrong"),
    [
        (1000, 100, 50, 150, 0),
        (1009, 100, 50, 150, 0),  # the mean is printed as a whole number
        (2000, 100, 50, 150, 1),
        (1000, 100, 120, 150, 1),
        (1000, 100, 50, 90, 1),
        (nan, 100, nan, nan, 0),
    ],
)
def test_ten_calls(total: float, mean: float, least: float, most: float, wrong: int) -> None:
    found = contradictions([10], [total], [mean], least=[least], most=[most])
    assert {note.text: note.count for note in found} == ({WRONG: 1} if wrong else {})


def test_shares_that_are_of_more_rows() -> None:
    """GIVEN 60 % and 30 % of a summary THEN 90.0 % of it is there; all of it says nothing."""
    calls, mean = np.ones(3), np.array([600.0, 300.0, 100.0])
    pct = np.array([60.0, 30.0, 10.0])
    assert contradictions(calls, mean, mean, share_pct=pct) == []
    (note,) = contradictions(calls[:2], mean[:2], mean[:2], share_pct=pct[:2])
    assert note.severe
    assert note.text.startswith("by its shares a summary holds 90.0 % of the time")


@pytest.mark.parametrize(
    ("launches", "duration", "counts", "times", "said"),
    [
        (2**63 - 1, 100, [1, 3], [None, 50], "numbers of launches that cannot be (over 10^12): one launch of unknown time"),
        (10**9, 10**12, [10**9, 3], [None, 50], "times of over a month: unknown"),
        (10**12, 1_000, [10**12, 3], [1_000, 50], None),
    ],
)  # fmt: skip
def test_what_cannot_be_added_up_is_unknown(
    launches: int, duration: int, counts: list[int], times: list[int | None], said: str | None
) -> None:
    """GIVEN a summary with more launches or more time than can be THEN no sum overflows."""
    made = recording(
        {"kernel_name": ["k", "j"], "launch_count": [launches, 3], "duration_ns": [duration, 50]},
        time_basis="timeline",
    )
    found = plausible(made)
    assert found.kernels["launch_count"].to_pylist() == counts
    assert found.kernels["duration_ns"].to_pylist() == times
    assert notes(found) == ({said: 1} if said else {})


def test_a_time_with_a_damaged_upper_half_is_unknown() -> None:
    """GIVEN four launches of one kernel of 1 to 1.2 ms, the last 2^32 ns longer, with nothing behind it
    THEN its time is unknown; a launch that is longer by another amount stays."""
    start: list[int | None] = [0, 10**7, 2 * 10**7, 3 * 10**7]
    usual: list[int | None] = [1_000_000, 1_100_000, 1_200_000]
    found = plausible(timeline(start, [*usual, 1_100_000 + 2**32]))
    assert found.kernels["duration_ns"].to_pylist() == [*usual, None]
    found = plausible(timeline(start, [*usual, 100_000_000 + 2**32]))
    assert found.kernels["duration_ns"].null_count == 0


def test_a_start_a_month_from_all_others_is_unknown() -> None:
    """GIVEN three copies without a duration, one 116 days after the others THEN its start is unknown."""
    found = plausible(timeline([10**15, 10**15 + 5, 10**16 + 10**15], [None] * 3))
    assert found.kernels["start_ns"].to_pylist() == [10**15, 10**15 + 5, None]
