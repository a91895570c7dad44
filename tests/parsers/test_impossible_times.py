"""Times that cannot be are unknown, with a note, whatever tool wrote them.

Twelve launches, 100 and 300 us in turn, one of which is damaged: 11 keep their time.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.parsers.amd_writers import WRITERS, Launch
from tests.parsers.nsys_fixtures import Writer
from traceroof.core.recording import Recording
from traceroof.ingest.detect import read as read_paths

START = 7_000_000_000_000
US = 1_000


def launches() -> list[Launch]:
    found: list[Launch] = []
    at = START
    for number in range(12):
        name, length = (
            ("copy_k(float*)", 100 * US) if number % 2 == 0 else ("gemm_k(float*)", 300 * US)
        )
        found.append((name, at, at + length))
        at += length + 4 * US
    return found


#: What is wrong -> the times of one launch (start, end), and whether the start is still known.
DAMAGE = {
    "start at 0": (0, None, False),
    "start at 1": (1, None, False),
    "start below 0": (-5, None, False),
    "start at 1, short": (1, 100_001, False),
    "end at 0": (None, 0, True),
    "end before start": (None, -1, True),
    "no duration": (None, "same", True),
    "overflow of 32 bits": (None, 2**32, True),
    "overflow of 40 bits": (None, 2**40, True),
    "largest end": (None, "largest", True),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    ("tool", "place"), [*((tool, 5) for tool in WRITERS), ("rocprofv3_csv", 0), ("rocpd", 11)]
)
def test_one_damaged_launch(tool: str, damage: str, place: int, tmp_path: Path) -> None:
    """GIVEN one launch of twelve with a time that cannot be THEN the others keep theirs."""
    start, end, has_start = DAMAGE[damage]
    rows = launches()
    name, began, ended = rows[place]
    assert isinstance(began, int)
    rows[place] = (
        name,
        began if start is None else start,
        ended if end is None else 0 if end == 0 else end if start is not None
        else began if end == "same" else 2**63 - 1 if end == "largest" else began + int(end),
    )  # fmt: skip
    if place == 11 and damage == "overflow of 32 bits":
        pytest.skip("nothing follows that contradicts four seconds")
    recording = read_paths([WRITERS[tool](tmp_path, rows)])
    found = {
        (one["kernel_name"], one["start_ns"]): one["duration_ns"]
        for one in recording.kernels.to_pylist()
    }
    expected = {(name, at): 100 * US if "copy" in name else 300 * US for name, at, _ in launches()}
    del expected[name, began]
    expected[name, began if has_start else None] = None  # type: ignore[assignment]
    assert found == expected
    assert [one.count for one in recording.notes if one.severe] == [1]


# --- torch -------------------------------------------------------------------------------------


def kineto(tmp_path: Path, place: int, **damaged: Any) -> Recording:
    """Twelve kernels of a torch trace, times in us with three decimals, one of them damaged."""
    events: list[dict[str, Any]] = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
         "ts": START / US - 50.5, "dur": 10, "args": {"correlation": 0}}
    ]  # fmt: skip
    for number, (name, start, end) in enumerate(launches()):
        assert isinstance(start, int)
        assert isinstance(end, int)
        times = {"ts": start / US + 0.001, "dur": (end - start) / US}
        events.append(
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7,
             "args": {"device": 0, "stream": 7, "correlation": number}}
            | (times | damaged if number == place else times)
        )  # fmt: skip
    path = tmp_path / "t.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return read_paths([path])


@pytest.mark.parametrize(
    ("damaged", "has_start", "has_duration"),
    [
        ({"dur": -5}, True, False),
        ({"dur": 0}, True, False),
        ({"dur": None}, True, False),
        ({"dur": 2**32 / 1000}, True, False),
        ({"dur": 2**63}, True, False),
        ({"dur": "x"}, True, False),
        ({"ts": 0}, False, True),
        ({"ts": -1}, False, True),
        ({"ts": 0.001}, False, False),
        ({"ts": 0.001, "dur": 7_000_000_500.0}, False, False),
    ],
)
def test_one_damaged_kernel(
    damaged: dict[str, Any], has_start: bool, has_duration: bool, tmp_path: Path
) -> None:
    """GIVEN a time that cannot be THEN it alone is unknown and 11 kernels keep theirs."""
    recording = kineto(tmp_path, 5, **damaged)
    starts, durations = (
        recording.kernels[name].to_pylist() for name in ("start_ns", "duration_ns")
    )
    assert starts.count(None) == (0 if has_start else 1)
    assert durations.count(None) == (0 if has_duration else 1)
    lengths = [one for one in durations if one is not None]
    assert sorted(lengths) == [100_000] * 6 + [300_000] * (6 if has_duration else 5)
    assert any(note.count == 1 and note.severe for note in recording.notes)


def test_short_kernels_of_whole_microseconds(tmp_path: Path) -> None:
    """GIVEN a file in whole us THEN 0 is a kernel shorter than one, as old files have hundreds."""
    path = tmp_path / "t.pt.trace.json"
    events = [
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1000 + 10 * at,
         "dur": at % 2, "args": {"device": 0, "stream": 7, "correlation": at}}
        for at in range(6)
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert sorted(read_paths([path]).kernels["duration_ns"].to_pylist()) == [0] * 3 + [1000] * 3


# --- Nsight Systems ----------------------------------------------------------------------------

_TRACE = ("Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
          "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name")  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value", "has_start", "has_duration"),
    [
        ("Duration (ns)", "-5", True, False), ("Duration (ns)", "0", True, False),
        ("Duration (ns)", "x", True, False), ("Duration (ns)", "4294967296", True, False),
        ("Start (ns)", "0", False, True), ("Start (ns)", "-5", False, True),
        ("Start (ns)", "x", False, True),
        ("Device", "", True, True), ("Name", "", True, True),
    ],
)  # fmt: skip
def test_one_damaged_row_of_a_gpu_trace(
    column: str, value: str, has_start: bool, has_duration: bool, tmp_path: Path
) -> None:
    """GIVEN one cell of twelve rows of ``nsys stats`` damaged THEN a severe note, and it alone is
    unknown."""
    titles = _TRACE.split(",")
    lines = [_TRACE]
    for at in range(12):
        cells = [str(2_000_000_000 + at * 20_000), "10000", str(at), *"811", "128", *"11", "32",
                 "0.000", "0.000", "", "", "", "", "NVIDIA A100 (0)", "1", "7", "k(int)"]  # fmt: skip
        if at == 5:
            cells[titles.index(column)] = value
        lines.append(",".join(cells))
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(lines) + "\n")
    recording = read_paths([path])
    starts, durations = (
        recording.kernels[name].to_pylist() for name in ("start_ns", "duration_ns")
    )
    assert starts.count(None) == (0 if has_start else 1)
    assert durations.count(None) == (0 if has_duration else 1)
    assert {*durations} - {None} == {10_000}
    assert any(note.severe and note.count == 1 for note in recording.notes)


@pytest.mark.parametrize(
    ("start", "end", "known"),
    [
        # The end stands in the file: the duration was computed from the start.
        (0, 2_000_500_000, (False, False)),
        (-5, 2_000_500_000, (False, False)),
        (2_000_500_000, 0, (True, False)),
        (2_000_500_000, 2_000_500_000, (True, False)),
        (2_000_500_000, 2_000_500_000 + 2**32, (True, False)),
    ],
)
def test_one_damaged_kernel_of_an_export(
    start: int, end: int, known: tuple[bool, bool], tmp_path: Path
) -> None:
    """GIVEN an export of Nsight Systems with one time of twelve that cannot be THEN 11 remain."""
    path = tmp_path / "n.sqlite"
    writer = Writer(path)
    writer.gpu()
    for at in range(12):
        begin = 2_000_000_000 + at * 100_000
        times = (start, end) if at == 5 else (begin, begin + 50_000)
        writer.kernel("k(int)", *times, at + 1)
    writer.close()
    recording = read_paths([path])
    starts, durations = (
        recording.kernels[name].to_pylist() for name in ("start_ns", "duration_ns")
    )
    assert (starts.count(None) == 0, durations.count(None) == 0) == known
    assert {*durations} - {None} == {50_000}
    assert any(note.severe and note.count == 1 for note in recording.notes)


def nvprof(start: str, duration: str) -> str:
    """Twelve kernels of 100.007 us from 2 s on, the sixth as given."""
    header = (
        '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
        '"Registers Per Thread","Device","Context","Stream","Name"'
    )
    lines = ["==1== NVPROF is profiling process 1", "==1== Profiling result:", header]
    lines.append("s,ms,,,,,,,,,,,")
    for at in range(12):
        times = (start, duration) if at == 5 else (f"{2 + at * 2e-4:.6f}", "0.100007")
        lines.append(f'{",".join(times)},64,1,1,256,1,1,10,"GTX 1080 (0)","1","7","k"')
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("start", "duration", "known"),
    [
        ("0.000000", "0.100007", (False, True)),
        ("-0.000005", "0.100007", (False, True)),
        ("0.000000", "2001.000007", (False, False)),
        ("2.001000", "0.000000", (True, False)),
        ("2.001000", "-0.100007", (True, False)),
        ("2.001000", "4294.967296", (True, False)),
    ],
)
def test_one_damaged_row_of_nvprof(
    start: str, duration: str, known: tuple[bool, bool], tmp_path: Path
) -> None:
    path = tmp_path / "n.log"
    path.write_text(nvprof(start, duration))
    recording = read_paths([path])
    starts, durations = (
        recording.kernels[name].to_pylist() for name in ("start_ns", "duration_ns")
    )
    assert (starts.count(None) == 0, durations.count(None) == 0) == known
    assert {*durations} - {None} == {100_007}
    assert any(note.severe and note.count == 1 for note in recording.notes)
