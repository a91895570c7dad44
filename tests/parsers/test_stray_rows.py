"""Rows of Nsight Compute's tables whose identity is damaged are no launches."""

import csv
from pathlib import Path

import pytest

from traceroof.core.recording import Recording
from traceroof.ingest.detect import read

HEADER = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context",
          "Stream", "Section Name", "Metric Name", "Metric Unit", "Metric Value")  # fmt: skip
METRICS = (
    ("gpu__time_duration.sum", "nsecond", "10000"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "20"),
    ("dram__bytes_read.sum", "byte", "4096"),
    ("launch__registers_per_thread", "register/thread", "32"),
    ("launch__waves_per_multiprocessor", "", "1.50"),
)


def table(path: Path, row: int | None = None, cell: int = 0, value: str = "") -> Recording:
    """Three launches of two kernels with five metrics each; one cell of one row damaged."""
    rows = [
        [str(number), "4711", "app", "host", name, "", "1", "7", "", *metric]
        for number, name in enumerate(("copy_k(float *)", "gemm_k(float *)", "copy_k(float *)"))
        for metric in METRICS
    ]
    if row is not None:
        rows[row][cell] = value
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([HEADER, *rows])
    return read([path])


@pytest.mark.parametrize("row", [0, 2, 4, 5, 7, 14])
@pytest.mark.parametrize(
    ("cell", "value"),
    [(0, "77"), (0, ""), (0, "x"), (1, "9"), (1, "x"), (4, "other(int)"), (4, "")],
)
def test_a_row_that_fits_no_launch(tmp_path: Path, row: int, cell: int, value: str) -> None:
    """GIVEN one damaged number, process or name THEN three launches, and the row is left out."""
    recording = table(tmp_path / "t.csv", row, cell, value)
    assert recording.kernels["kernel_name"].to_pylist() == [
        "copy_k(float *)", "gemm_k(float *)", "copy_k(float *)"
    ]  # fmt: skip
    durations = [10_000] * 3
    if row % 5 == 0:
        durations[row // 5] = None  # type: ignore[call-overload]
    assert recording.kernels["duration_ns"].to_pylist() == durations
    assert [note.count for note in recording.notes if note.severe] == [1]


def test_a_launch_with_few_metrics_is_one(tmp_path: Path) -> None:
    """GIVEN launches of other metrics, each whole THEN all are launches, without a note."""
    rows = [[str(at), "4711", "app", "host", "k(int)", "", "1", "7", "", *METRICS[0]]
            for at in range(3)]  # fmt: skip
    rows += [["3", "4711", "app", "host", "k(int)", "", "1", "7", "", *one] for one in METRICS]
    path = tmp_path / "t.csv"
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([HEADER, *rows])
    assert read([path]).kernels["duration_ns"].to_pylist() == [10_000] * 4
