"""The command line as a user meets it: exit codes, streams, sentences."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import PAGES
from traceroof.store import Store

SAMPLE = "nsight_compute/transformer_layer.raw.csv"


def run(
    *arguments: str | Path, cwd: Path, expect: int = 0, stdin: str | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """The installed command in a fresh process; asserts the exit code and that nothing crashed."""
    result = subprocess.run(
        [sys.executable, "-m", "traceroof", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        input=stdin,
        env={**os.environ, "COLUMNS": "100", **env},
        check=False,
    )
    assert "Traceback" not in result.stderr, result.stderr
    assert result.returncode == expect, result.stderr + result.stdout
    return result


def test_ingest_then_diagnose_the_newest_run(samples: Path, tmp_path: Path) -> None:
    first = run("ingest", samples / SAMPLE, cwd=tmp_path)
    assert first.stdout.startswith("run ")
    assert "17 kernel launches" in first.stdout
    again = run("ingest", samples / SAMPLE, cwd=tmp_path)
    assert again.stdout.split()[1] == first.stdout.split()[1], "the same bytes are the same run"
    listed = run("runs", cwd=tmp_path).stdout
    assert listed.count("transformer_layer") == 1
    shown = run("diagnose", "--top", "5", cwd=tmp_path)
    assert "Time by category" in shown.stdout
    assert "Kernels by time (5 of 17; shares of kernel time)" in shown.stdout
    by_id = run("diagnose", first.stdout.split()[1][:6], "--format", "json", cwd=tmp_path)
    assert json.loads(by_id.stdout)["run"]["id"] == first.stdout.split()[1]
    assert (tmp_path / ".traceroof" / ".gitignore").read_text().strip() == "*"


def test_diagnose_a_path_stores_nothing(samples: Path, tmp_path: Path) -> None:
    payload = json.loads(run("diagnose", samples / SAMPLE, "-f", "json", cwd=tmp_path).stdout)
    assert payload["run"]["id"] == ""
    assert list(tmp_path.iterdir()) == []


def test_output_goes_to_a_file_and_says_so_on_stderr(samples: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "report.md"
    result = run("diagnose", samples / SAMPLE, "--format", "markdown", "-o", target, cwd=tmp_path)
    assert result.stdout == ""
    assert "wrote" in result.stderr
    assert "### Worth trying" in target.read_text()


def test_gate_fails_with_1(samples: Path, tmp_path: Path) -> None:
    run("diagnose", samples / SAMPLE, "--fail-on", "info", cwd=tmp_path, expect=1)
    empty = tmp_path / "quiet.csv"
    empty.write_text((samples / SAMPLE).read_text())
    run("diagnose", samples / SAMPLE, "--fail-on", "high", cwd=tmp_path, expect=0)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"Traceback (most recent call last):\n  File x\nKeyError: 1\n", "traceback"),
        (b"<!DOCTYPE html><html></html>", "web page"),
        (b"NVR\x00\x01\x02", "binary Nsight Compute report"),
        (b"\x7fELF\x02\x01\x01\x00", "ELF"),
        (b"hello world\n", "begins with 'hello'"),
        (b'{"answer": 42}', "JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "LFS"),
    ],
)
def test_other_files_are_refused_in_one_sentence(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "given.csv"
    file.write_bytes(content)
    result = run("diagnose", file, cwd=tmp_path, expect=2)
    assert result.stdout == ""
    assert says.lower() in result.stderr.lower()
    assert "given.csv" in result.stderr
    assert len(result.stderr.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["diagnose", "missing.csv"], "missing.csv does not exist"),
        (["diagnose", "nothing-here"], "nothing-here"),
        (["diagnose"], "traceroof ingest"),
        (["runs", "show", "abc"], "no store"),
        (["rules", "dram-at-wal"], "did you mean dram-at-wall"),
        (["devices", "A100-SXM4-80BG"], "did you mean A100-SXM4-80GB"),
        (["ingest"], "PATH"),
        (["diagnose", "--format", "pdf"], "pdf"),
        (["nonsense"], "nonsense"),
    ],
)
def test_what_cannot_be_done_exits_with_2(arguments: list[str], says: str, tmp_path: Path) -> None:
    result = run(*arguments, cwd=tmp_path, expect=2)
    assert result.stdout == ""
    assert says in result.stderr


def test_card_of_a_kernel_by_number_and_by_name(samples: Path, tmp_path: Path) -> None:
    file = samples / SAMPLE
    by_number = run("diagnose", file, "--card", "10", cwd=tmp_path).stdout
    assert "#10 void at::native::sbtopk::gatherTopK" in by_number
    assert "small-grid" in by_number
    assert run("diagnose", file, "--card", "gathertopk", cwd=tmp_path).stdout == by_number
    several = run("diagnose", file, "--card", "GEMM", "--top", "1", cwd=tmp_path).stdout
    assert several.count("Launches") == 1
    assert "more kernels have that name" in several
    made = json.loads(run("diagnose", file, "--card", "#10", "-f", "json", cwd=tmp_path).stdout)
    assert [kernel["number"] for kernel in made["kernels"]] == [10]
    assert {found["subject_index"] for found in made["findings"]} == {0}
    written = run("diagnose", file, "--card", "10", "-f", "markdown", cwd=tmp_path).stdout
    assert "### #10 " in written
    table = run("diagnose", file, "--card", "10", "-f", "csv", cwd=tmp_path).stdout
    assert len(table.splitlines()) == 2


def test_explanation_of_a_finding(samples: Path, tmp_path: Path) -> None:
    file = samples / SAMPLE
    text = run("diagnose", file, "--explain", "small-grid", cwd=tmp_path).stdout
    for part in ("waves < 1", "0.07 < 1", "1 − blocks / sm_count", "1 − 8 / 108", "To refute"):
        assert part in " ".join(text.split())
    assert run("diagnose", file, "--explain", "small-grid:10", cwd=tmp_path).stdout == text
    # By its number among what is worth trying.
    first = run("diagnose", file, "--explain", "1", cwd=tmp_path).stdout
    assert first.split(":")[0] in run("diagnose", file, "--top", "1", cwd=tmp_path).stdout
    made = run("diagnose", file, "--explain", "small-grid", "-f", "json", cwd=tmp_path).stdout
    assert json.loads(made)["explanations"][0]["number"] == 10
    written = run("diagnose", file, "--explain", "small-grid", "-f", "markdown", cwd=tmp_path)
    assert "### small-grid" in written.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--card", "99"], "there is no kernel 99: this run has 17 kernels"),
        (["--card", "flsh_fwd"], "did you mean "),
        (["--explain", "small-gird"], "no rule is called small-gird"),
        (["--explain", "small-grid:0"], "there is no kernel 0"),
        (["--explain", "99"], "there is no entry 99"),
        (["--explain", "host-bound"], "judges timelines, and this run has none"),
        (["--explain", "small-grid", "--card", "1"], "answer two questions"),
        (["--explain", "small-grid", "-f", "csv"], "no CSV form"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_sentence(
    arguments: list[str], says: str, samples: Path, tmp_path: Path
) -> None:
    result = run("diagnose", samples / SAMPLE, *arguments, cwd=tmp_path, expect=2)
    assert result.stdout == ""
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 2


def test_strict_refuses_what_was_guessed_or_skipped(samples: Path, tmp_path: Path) -> None:
    cut = (samples / "nsight_compute/transformer_layer.details.csv").read_text()
    damaged = tmp_path / "damaged.csv"
    # A number that is none, in the first metric row that has one.
    damaged.write_text(cut.replace('"hz","1593000000"', '"hz","15x3"', 1))
    run("ingest", damaged, cwd=tmp_path)
    result = run("ingest", "--strict", damaged, cwd=tmp_path, expect=2)
    assert "--strict" in result.stderr


def test_device_name_decides_the_peaks(samples: Path, tmp_path: Path) -> None:
    sample = samples / "nsight_compute/transformer_layer.metrics.csv"
    named = run("diagnose", sample, "--device", "H100-SXM5", "-f", "json", cwd=tmp_path)
    assert json.loads(named.stdout)["run"]["devices"][0]["architecture"] == "Hopper"
    result = run("diagnose", sample, "--device", "Voodoo2", cwd=tmp_path, expect=2)
    assert "Voodoo2" in result.stderr


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_export_writes_the_kernel_table(suffix: str, samples: Path, tmp_path: Path) -> None:
    import pandas as pd

    run("ingest", samples / SAMPLE, "--name", "layer", cwd=tmp_path)
    target = tmp_path / f"kernels.{suffix}"
    run("export", "layer", "-o", target, cwd=tmp_path)
    frame = pd.read_parquet(target) if suffix == "parquet" else pd.read_csv(target)
    assert len(frame) == 17
    assert frame["launch_count"].tolist() == [1] * 17
    result = run("export", "layer", "-o", tmp_path / "kernels.xls", cwd=tmp_path, expect=2)
    assert ".parquet, .csv or .jsonl" in result.stderr


def test_runs_can_be_shown_and_removed(samples: Path, tmp_path: Path) -> None:
    run("ingest", samples / SAMPLE, "--name", "layer", cwd=tmp_path)
    assert "17 kernel launches" in run("runs", "show", "layer", cwd=tmp_path).stdout
    run("runs", "remove", "layer", cwd=tmp_path)
    assert "empty" in run("runs", cwd=tmp_path).stdout


def test_no_color_and_pipes_get_plain_text(samples: Path, tmp_path: Path) -> None:
    piped = run("diagnose", samples / SAMPLE, cwd=tmp_path)
    assert "\x1b" not in piped.stdout


def test_a_reader_that_stops_early_is_no_error(samples: Path, tmp_path: Path) -> None:
    command = f'"{sys.executable}" -m traceroof diagnose "{samples / SAMPLE}" -f json | head -c 10'
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_help_and_import_are_quick() -> None:
    """No heavy package may load for --help or import: counted, because a clock would flicker."""
    heavy = {"pandas", "pyarrow", "sqlalchemy", "plotly", "numpy", "msgspec"}
    code = (
        "import sys, traceroof, traceroof.cli.main\n"
        "from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(traceroof.cli.main.app, ['--help']).exit_code == 0\n"
        "print(' '.join(name for name in sys.modules if '.' not in name))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert not heavy & set(result.stdout.split())


@pytest.mark.parametrize(
    "files",
    [
        (SAMPLE,),
        ("torch/training.rank0.json",),
        ("torch/training.rank0.json", "torch/training.rank1.json"),
        ("nsight_systems/training.sqlite",),
        ("nvprof/scale.gpu_trace.csv",),
    ],
)
def test_a_file_is_diagnosed_without_pandas_or_a_catalogue(
    files: tuple[str, ...], samples: Path, tmp_path: Path
) -> None:
    """What a diagnosis does not need is not imported; a stored table becomes a frame all the same."""
    paths = [str(samples / one) for one in files]
    Store.open(tmp_path / ".traceroof")  # which holds no ceilings
    code = (
        "import sys\n"
        "from traceroof.cli.main import app\n"
        f"app(['diagnose', *{paths!r}, '-o', 'out.txt'], standalone_mode=False)\n"
        "print(' '.join(sys.modules))\n"
        "import pyarrow\n"
        "print(type(pyarrow.table({'a': [1]}).to_pandas()).__name__)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    modules, frame = result.stdout.splitlines()
    assert not {"pandas", "sqlalchemy", "plotly", "dask", "jinja2"} & set(modules.split())
    if files == ("torch/training.rank0.json",):  # nor the readers of other formats
        others = {"traceroof.parsers.amd.run", "traceroof.parsers.nsight.recording"}
        assert not others & set(modules.split())
    assert frame == "DataFrame"


@pytest.mark.parametrize("name", PAGES)
def test_generated_docs_are_current(name: str, root: Path) -> None:
    assert (root / "docs" / name).read_text("utf-8") == PAGES[name](), "run `make docs`"
