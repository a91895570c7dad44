"""Nsight Systems from the file to every output of the command line."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import traceroof
from tests.parsers.test_nsight_systems import SECRET, with_secrets
from traceroof.cli.main import app


def test_the_sample_waits_for_its_data(samples: Path) -> None:
    """GIVEN steps that read 9 ms of each batch from a file (make_nsight_systems.py) WHEN diagnosed
    THEN the idle time is that of the data, and the copies from pageable memory are named."""
    diagnosis = traceroof.diagnose(samples / "nsight_systems/training.sqlite")
    [line] = diagnosis.timelines
    assert len(line.steps) == 5
    # Four gaps between steps, each with a read of 9 ms.
    assert line.idle_by_cause["data_loader"] >= 4 * 9_000_000
    assert line.idle_by_cause["data_loader"] >= 0.95 * line.idle_ns
    fired = {one.rule for one in diagnosis.findings}
    assert {"memcpy-exposed", "memcpy-pageable"} <= fired


def test_a_summary_and_a_trace_of_the_sample_say_the_same(samples: Path) -> None:
    folder = samples / "nsight_systems"
    whole, trace, summary = (
        traceroof.diagnose(folder / name).totals
        for name in ("training.sqlite", "training.gpu_trace.csv", "training.kern_sum.csv")
    )
    assert whole.launches == trace.launches == summary.launches == 120
    assert whole.kernel_time_ns == trace.kernel_time_ns
    assert abs(summary.kernel_time_ns - (whole.kernel_time_ns or 0)) <= 60


def test_a_secret_reaches_no_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN an export with a token in its environment, settings, strings and folders WHEN it goes
    through every command THEN the token is in no output, report or store."""
    path = tmp_path / "report.sqlite"
    with_secrets(path)
    monkeypatch.setenv("TRACEROOF_STORE", str(tmp_path / "store"))
    run = CliRunner()
    said = []
    for command in (
        ["ingest", str(path)],
        ["diagnose", "--format", "json"],
        ["diagnose", "--format", "markdown"],
        ["diagnose", str(path), "--format", "csv"],
        ["diagnose", str(path)],
        ["report", "-o", str(tmp_path / "report.html")],
        ["compare", str(path), str(path), "--format", "json"],
        ["export", str(path), "-o", str(tmp_path / "kernels.parquet")],
        ["runs"],
    ):
        result = run.invoke(app, command)
        assert result.exit_code == 0, (command, result.output)
        said.append(result.output)
    assert json.loads(said[1])
    assert SECRET not in "".join(said)
    written = [one for one in tmp_path.rglob("*") if one.is_file() and one != path]
    assert len(written) >= 3
    for one in written:
        assert SECRET.encode() not in one.read_bytes(), one
