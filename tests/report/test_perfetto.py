"""The timeline as a trace: read back, it holds the same kernels, sums and reasons."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import traceroof
from tests.runs import recording
from traceroof.cli.main import app
from traceroof.core.kernel_names import demangled
from traceroof.core.recording import Recording
from traceroof.diagnosis.diagnose import diagnose_rows
from traceroof.errors import TraceroofError
from traceroof.report.perfetto.events import Counter as Values
from traceroof.report.perfetto.events import Label, Process, Track, pieces
from traceroof.report.perfetto.export import export_trace
from traceroof.timeline import CAUSES

runner = CliRunner()


def traced(found: Recording, path: Path) -> tuple[Any, Any, tuple[str, ...]]:
    """The trace of a recording as read from its file, its diagnosis, and what was said."""
    diagnosis, rows = diagnose_rows(found)
    notes = export_trace(found, diagnosis, rows, path)
    text = path.read_bytes()
    made = json.loads(gzip.decompress(text) if path.suffix == ".gz" else text)
    return made, diagnosis, tuple(notes)


def slices(trace: Any, thread: str) -> list[dict[str, Any]]:
    """The slices of all threads whose name begins so."""
    threads = {
        (one["pid"], one["tid"])
        for one in trace["traceEvents"]
        if one["name"] == "thread_name" and one["args"]["name"].startswith(thread)
    }
    return [
        one
        for one in trace["traceEvents"]
        if one["ph"] == "X" and (one["pid"], one["tid"]) in threads
    ]


def ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def made_timeline() -> Recording:
    """Two kernels at once on stream 7, one on stream 9, and a copy; 1 µs = 1,000 ns."""
    return recording(
        {
            "kernel_name": ["a", "b", "c", "Memcpy HtoD (Pinned -> Device)"],
            "kind": ["kernel", "kernel", "kernel", "memcpy"],
            "start_ns": [10**18 + 1, 10**18 + 501, 10**18 + 20_001, 10**18 + 30_001],
            "duration_ns": [1000, 1000, 2500, 1000],
            "stream": [7, 7, 9, 9],
            "device": [0, 0, 0, 0],
            "copy_bytes": [None, None, None, 8000.0],
        },
        time_basis="timeline",
    )


def test_streams_are_threads_and_times_are_exact(tmp_path: Path) -> None:
    """GIVEN starts at 10^18 ns and kernels that overlap WHEN exported THEN each ns is kept, as
    decimals from the first start on, and no thread shows two slices at once."""
    trace, _, notes = traced(made_timeline(), tmp_path / "t.json")
    assert not notes
    assert trace["traceroof"]["schema"] == "traceroof/perfetto/1"
    assert trace["traceroof"]["base_ns"] == 10**18 + 1
    streams = slices(trace, "stream")
    assert [(one["name"], one["ts"], one["dur"]) for one in streams] == [
        ("a", 0.0, 1.0), ("b", 0.5, 1.0), ("c", 20.0, 2.5),
        ("Memcpy HtoD (Pinned -> Device)", 30.0, 1.0),
    ]  # fmt: skip
    assert len({one["tid"] for one in streams[:2]}) == 2
    names = [one["args"]["name"] for one in trace["traceEvents"] if one["name"] == "thread_name"]
    assert names[:4] == ["idle, by cause", "stream 7", "stream 7 (2)", "stream 9"]
    # 8,000 bytes in 1,000 ns are 8 GB/s, and nothing after.
    counted = [one for one in trace["traceEvents"] if one["ph"] == "C"]
    assert [(one["name"], one["ts"], one["args"]) for one in counted] == [
        ("copies", 30.0, {"GB/s": 8}), ("copies", 31.0, {"GB/s": 0}),
    ]  # fmt: skip


def test_slices_that_touch_keep_apart_where_a_viewer_rounds() -> None:
    """GIVEN tiles of 0.5 µs and calls within a call WHEN written THEN a tile is 1 ns short of the
    next, and calls nest in one thread while what crosses them has its own."""
    none = np.zeros(2, dtype=np.int64)
    tiles = Track("steps", np.array([0, 500]), np.array([500, 500]), none, [Label("s", "step")],
                  tiles=True)  # fmt: skip
    calls = Track("host", np.array([0, 10, 90]), np.array([100, 50, 50]),
                  np.zeros(3, dtype=np.int64), [Label("f", "host")], nested=True)  # fmt: skip
    clock = Values("core clock", "MHz", np.array([5]), np.array([1410.0]))
    made = json.loads(b"".join(pieces([Process("p", (tiles, calls), (clock,))], {"run": "r"})))
    found = [one for one in made["traceEvents"] if one["ph"] == "X"]
    assert [(one["ts"], one["dur"]) for one in found[:2]] == [(0.0, 0.499), (0.5, 0.5)]
    threads = [one["tid"] for one in found[2:]]
    assert threads[0] == threads[1] != threads[2]
    assert made["traceEvents"][-1]["args"] == {"MHz": 1410}
    # No thread has the number of a process: a viewer would take it for its main thread.
    assert not {one["tid"] for one in found} & {one["pid"] for one in found}


TRACES = (
    "torch/hta_nccl_data_a100.json.gz",
    "torch/tracelens_mi300_ddp_resnet18.json.gz",
    "nsys/2025.3.1_s3.20.2_T4_cupy_nvtx__nsightful.sqlite",
    "amd/ROCm__rocm-systems__projects__rocprofiler-sdk__source__docs__data__kernel_trace.csv",
)


@pytest.mark.corpus
@pytest.mark.parametrize("name", TRACES)
def test_a_real_trace_reads_back_to_the_same_kernels(
    name: str, corpus: Path, tmp_path: Path
) -> None:
    """GIVEN a profiler's trace WHEN its export is read back THEN the GPU's rows are the same, name
    by name and ns by ns, and idle time, steps and host calls add up to the diagnosis."""
    run = traceroof.read(corpus / name)
    trace, diagnosis, _ = traced(run.recording, tmp_path / "t.json.gz")
    base = trace["traceroof"]["base_ns"]
    found = Counter(
        (one["name"], ns(one["ts"]) + base, ns(one["dur"])) for one in slices(trace, "stream")
    )
    columns = ("kernel_name", "start_ns", "duration_ns")
    table = run.recording.kernels.select(columns).to_pylist()
    wanted = Counter(
        (demangled(one["kernel_name"]), one["start_ns"], one["duration_ns"])
        for one in table
        if None not in one.values()
    )
    assert found == wanted
    parts = slices(trace, "idle")
    for cause in CAUSES:
        mine = [ns(one["dur"]) for one in parts if one["name"] == cause.replace("_", " ")]
        told = sum(one.idle_by_cause[cause] for one in diagnosis.timelines)
        if cause != "back_to_back":
            assert 0 <= told - sum(mine) <= len(mine)  # tiles are 1 ns short
    told_steps = sum(len(one.steps) for one in diagnosis.timelines)
    assert len(slices(trace, "steps")) == told_steps
    entries = {one["name"] for one in slices(trace, "advice")}
    assert entries <= {one.title for one in diagnosis.advice}
    assert bool(entries) == bool(diagnosis.advice)


@pytest.mark.corpus
def test_a_file_without_times_stands_in_a_row_and_says_so(corpus: Path, tmp_path: Path) -> None:
    """GIVEN a counter tool's report WHEN exported THEN its kernels stand one after another, sums
    are kept, and one sentence says what is missing."""
    run = traceroof.read(corpus / "pair" / "kernel_0001.details.csv")
    trace, diagnosis, notes = traced(run.recording, tmp_path / "t.json")
    assert len(notes) == 1
    assert notes[0].startswith("The file holds no start times: kernels stand one after another")
    kernels = slices(trace, "kernels")
    assert sum(ns(one["dur"]) for one in kernels) == diagnosis.totals.kernel_time_ns
    assert {one["args"]["class"] for one in kernels} == {
        one.primary_class for one in diagnosis.kernels
    }


def test_rows_of_unknown_duration_are_counted(tmp_path: Path) -> None:
    made = recording({"kernel_name": ["a", "b"], "duration_ns": [None, 5]})
    trace, _, notes = traced(made, tmp_path / "t.json")
    assert [one["name"] for one in slices(trace, "kernels")] == ["b"]
    assert len(notes) == 2
    assert notes[0] == "1 row of unknown duration left out"
    assert notes[1].startswith("1 row without a start time: kernels stand one after another")


def test_an_export_is_refused_by_name(samples: Path, tmp_path: Path) -> None:
    """GIVEN what traceroof wrote WHEN given to it THEN it says so, and what to give instead."""
    sample = samples / "torch" / "decode.json"
    for name in ("t.json", "t.json.gz"):
        path = traceroof.export(sample, tmp_path / name, config=False)
        with pytest.raises(TraceroofError, match="a trace that `traceroof export` wrote") as error:
            traceroof.read(path)
        assert "the profiler's own file" in error.value.hint
    (tmp_path / "d.json").write_text(json.dumps(traceroof.diagnose(sample, config=False).to_dict()))
    with pytest.raises(TraceroofError, match="a diagnosis that traceroof wrote"):
        traceroof.read(tmp_path / "d.json")


def test_the_command_names_the_file(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN no file WHEN a trace is wanted THEN it has a name of its own; a table needs one."""
    sample = str(samples / "torch" / "decode.json")
    monkeypatch.chdir(tmp_path)
    done = runner.invoke(app, ["export", sample, "--format", "perfetto"])
    assert done.exit_code == 0, done.output
    assert "ui.perfetto.dev" in done.stderr
    assert json.loads(gzip.decompress(Path("trace.perfetto.json.gz").read_bytes()))
    done = runner.invoke(app, ["export", sample, "-f", "perfetto", "-o", "-"])
    assert json.loads(done.stdout)["traceroof"]["schema"] == "traceroof/perfetto/1"
    for wrong in ([], ["-o", "kernels.xlsx"], ["-o", "kernels.csv.gz"]):
        done = runner.invoke(app, ["export", sample, *wrong])
        assert isinstance(done.exception, TraceroofError)
        assert "name it" in done.exception.hint
