"""Source lines as a user sees them: tables, cards, JSON, and source text only where it is asked for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import run
from tests.parsers.test_source_page import RAW, cuda_sass, sass, title
from tests.report.pages import data_of
from tests.runs import recording
from traceroof.core.source_lines import source_table
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.lines import SourceLine
from traceroof.report.html import render as page
from traceroof.report.run import kernel_cards, source_lines
from traceroof.report.run.source_lines import Sources

SECRET = "float x = y[threadIdx.x * 32];"


def made(**more: Any) -> Diagnosis:
    table = source_table(
        {
            "row": [0, 0, 0], "file": ["../src/gemv.cu"] * 2 + [None], "line": [2, 1, None],
            "function": ["f"] * 3, "address": [0, 16, 32], "samples": [60, 30, 10],
            "samples_long_scoreboard": [57, 0, 0], "samples_wait": [3, 30, 0],
            "instruction": ["LDG.E R2, [R4]", "FADD", "EXIT"],
            **more,
        },
        3,
    )  # fmt: skip
    one = recording({"kernel_name": ["f(float *)"], "duration_ns": [1_000_000]})
    return diagnose(replace(one, source_lines=table))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "code/src").mkdir(parents=True)
    (tmp_path / "code/src/gemv.cu").write_text(f"__global__ void f() {{\n  {SECRET}\n}}\n")
    return tmp_path / "code"


def test_table_for_a_terminal() -> None:
    text = source_lines.render(made(), width=100)
    assert "100 samples; 90.0 % of them at a known source line" in text
    row = next(one for one in text.splitlines() if one.startswith("gemv.cu:2"))
    assert row.split() == ["gemv.cu:2", "60", "(60.0", "%)", "600", "µs", "long", "scoreboard", "95.0", "%,", "wait", "5.0", "%", "LDG.E", "R2,", "[R4]"]  # fmt: skip


def test_a_line_number_is_never_wrapped() -> None:
    long = made(file=["../some/folder/silu-triton.py"] * 2 + [None], line=[153, 1570, None])
    text = source_lines.render(long, width=70)
    assert "silu-triton.py:1570" in text


def test_columns_without_anything_are_left_out() -> None:
    text = source_lines.render(
        made(expected_samples=[1000.0] * 3, instruction=[None] * 3), width=100
    )
    [header] = [one for one in text.splitlines() if one.startswith("line")]
    assert header.split() == ["line", "samples", "where", "warps", "wait"]
    assert "only 10.0 % of the kernel's time was sampled" in text


def test_kernels_without_lines_say_how_to_get_them() -> None:
    plain = diagnose(recording({"kernel_name": ["f()"], "duration_ns": [1_000]}))
    for text in (source_lines.render(plain), source_lines.render_markdown(plain)):
        assert "SourceCounters" in text


def test_markdown_and_json() -> None:
    text = source_lines.render_markdown(made())
    assert "| gemv.cu:2 | 60 (60.0 %) | 600 µs | long scoreboard 95.0 %, wait 5.0 % | `LDG.E R2, [R4]` |" in text  # fmt: skip
    [kernel] = source_lines.LinesOf(made()).to_dict()["kernels"]
    first = kernel["source_lines"]["lines"][0]
    assert (first["place"], first["line"], first["counts"]["samples"]) == ("gemv.cu:2", 2, 60)


def test_source_text_only_where_a_folder_is_given(root: Path) -> None:
    diagnosis = made()
    assert SECRET in source_lines.render(diagnosis, texts=Sources(root), width=120)
    assert SECRET in source_lines.render_markdown(diagnosis, texts=Sources(root))
    plain = page.render(diagnosis)
    lines = data_of(plain)["cards"][0]["lines"]
    assert [one[0] for one in lines[:2]] == ["gemv.cu:2", "gemv.cu:1"]
    assert SECRET not in plain
    assert SECRET in page.render(diagnosis, source_root=root)
    assert "gemv.cu:2" in kernel_cards.render(diagnosis, left_out=0)


@pytest.mark.parametrize("file", ["../../etc/passwd", "/etc/passwd", "../code/../../outside.cu"])
def test_nothing_outside_of_the_folder_is_read(root: Path, file: str) -> None:
    (root.parent / "outside.cu").write_text("outside\n")
    (root / "link.cu").symlink_to(root.parent / "outside.cu")
    for name in (file, "link.cu"):
        line = replace(_first(), file=name, line=1)
        assert Sources(root).text(line) is None


def _first() -> SourceLine:
    found = made().kernels[0].source_lines
    assert found is not None
    return found.lines[0]


def test_lines_behind_the_end_and_files_that_are_no_text(root: Path) -> None:
    assert Sources(root).text(replace(_first(), line=99)) is None
    (root / "src/gemv.cu").write_bytes(b"\xff\xfe\n\xff")
    assert Sources(root).text(_first()) == "\ufffd"


# --- the command line --------------------------------------------------------------------------


def test_lines_of_one_kernel(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(RAW + "\n" + cuda_sass() + sass("g"))
    (tmp_path / "src").mkdir()
    (tmp_path / "src/f.cu").write_text("\n" * 11 + "x = y[i];\n")
    text = run("diagnose", "log.csv", "--lines", "f", cwd=tmp_path).stdout
    assert "f.cu:12" in text
    assert "LDG.E R2, [R4]" in text
    shown = run("diagnose", "log.csv", "--lines", "f", "--source-root", "src", cwd=tmp_path).stdout
    assert "x = y[i];" in shown
    found = run("diagnose", "log.csv", "--lines", "1", "--format", "json", cwd=tmp_path).stdout
    assert json.loads(found)["kernels"][0]["source_lines"]["samples"] == 100
    clash = run("diagnose", "log.csv", "--lines", "1", "--card", "1", cwd=tmp_path, expect=2)
    assert "--card and --lines answer two questions" in clash.stderr
    refused = run("diagnose", "log.csv", "--lines", "1", "-f", "csv", cwd=tmp_path, expect=2)
    assert "source lines have no CSV form" in refused.stderr


def test_lines_of_a_stored_run(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(RAW + "\n" + cuda_sass())
    direct = run("diagnose", "log.csv", "--lines", "f", "-f", "json", cwd=tmp_path).stdout
    run("ingest", "log.csv", cwd=tmp_path)
    assert run("diagnose", "--lines", "f", "-f", "json", cwd=tmp_path).stdout == direct


def test_a_report_shows_source_only_if_asked(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(title("File Path", "f.cu") + cuda_sass().split("\n", 1)[1])
    (tmp_path / "f.cu").write_text("\n" * 11 + f"{SECRET}\n")
    run("report", "log.csv", "-o", "a.html", cwd=tmp_path)
    run("report", "log.csv", "-o", "b.html", "--source-root", ".", cwd=tmp_path)
    assert SECRET not in (tmp_path / "a.html").read_text()
    assert SECRET in (tmp_path / "b.html").read_text()
