"""Names from files reach a terminal, a table, a comment and an error as text, never as a command."""

import csv as csv_module
import io
import re
import sys
import unicodedata
from pathlib import Path

import pytest

import traceroof
from traceroof.cli.main import main
from traceroof.report.run import csv, markdown, terminal

ESC, BEL, CSI, OSC = "\x1b", "\x07", "\x9b", "\x9d"
PAYLOADS = (
    f"{ESC}[31mred", f"{ESC}[2J", f"{ESC}]0;title{BEL}", f"{ESC}]8;;http://x.example{BEL}link{ESC}]8;;{BEL}",
    f"{ESC}]52;c;Y2F0{BEL}", f"{ESC}P1$r0m{ESC}\\", f"{CSI}31m", f"{OSC}0;t{BEL}", f"{ESC}c", f"{ESC}[6n",
    "a\rb", "a\nb", "a\vb", "a\fb", "a\bb", "a\x7fb", "a\x85b", "a\u2028b", "a\u2029b",
    "\u202eevil", "\u2066x\u2069", "\u200fx", "\ufeffx", "a\u200bb",
    "::error::owned", "x\n::set-output name=a::b", "::add-mask::x", "x\r\n::warning::y",
    "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "<img src=x onerror=alert(1)>",
    "[a](javascript:alert(1))", "![a](http://x.example/p.png)", "#123", "@octocat", "http://x.example/a",
    "| a | b |", "`code`", "</details><h1>x", "https://x.example/?a=b&c",
)  # fmt: skip


def written(folder: Path, name: str) -> Path:
    """A details page of one kernel of this name."""
    text = io.StringIO()
    table = csv_module.writer(text, quoting=csv_module.QUOTE_ALL)
    table.writerow(["ID", "Process ID", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
                    "Device", "CC", "Section Name", "Metric Name", "Metric Unit", "Metric Value"])  # fmt: skip
    for metric, unit, value in (
        ("gpu__time_duration.sum", "us", "300"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "12"),
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "%", "93"),
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "93"),
    ):
        table.writerow(["0", "1", name, "1", "7", "(256, 1, 1)", "(64, 1, 1)", "0", "8.0", "s",
                        metric, unit, value])  # fmt: skip
    path = folder / "page.csv"
    path.write_text(text.getvalue(), encoding="utf-8", newline="")
    return path


def commands(text: str) -> list[str]:
    """What of a text is a command to a terminal or to a CI system."""
    kinds = {"Cc", "Cf", "Zl", "Zp"}
    found = [one for one in text if unicodedata.category(one) in kinds and one != "\n"]
    return found + re.findall(r"^\s*::[\w-]+.*::", text, re.MULTILINE)


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_a_name_is_no_command(tmp_path: Path, number: int) -> None:
    """GIVEN a kernel of a hostile name WHEN its run is printed THEN nothing of it is a command."""
    diagnosis = traceroof.diagnose(written(tmp_path, PAYLOADS[number]))
    assert len(diagnosis.kernels) == 1
    for text in (terminal.render(diagnosis), csv.render(diagnosis), markdown.render(diagnosis)):
        assert commands(text) == []
    comment = markdown.render(diagnosis)
    for active in ("<script", "<img", "](javascript", "![a](http", "</details><h1"):
        # Between backticks it is text.
        assert active not in re.sub(r"`[^`\n]*`", "", comment)


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
def test_a_name_of_a_file_is_no_command(
    tmp_path: Path, number: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN a file of a hostile name that cannot be read WHEN it is diagnosed THEN the refusal on
    stderr is no command."""
    path = tmp_path / f"{PAYLOADS[number].replace('/', '_')}.csv"
    path.write_text("nothing that a profiler writes")
    monkeypatch.setattr(sys, "argv", ["traceroof", "diagnose", "--no-config", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert "traceroof: " in said.err
    assert commands(said.err) == []
