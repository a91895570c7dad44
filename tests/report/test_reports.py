"""Every report shows the same diagnosis, safe for where it is read."""

import csv
import io
import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.runs import recording, two_kernels
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import Note, Run
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.advice import advice_of
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.nothing_to_gain import OPEN, OpenTime
from traceroof.diagnosis.savings import pool_of
from traceroof.errors import TraceroofError
from traceroof.report.common import json as json_report
from traceroof.report.common import markdown as md
from traceroof.report.common import output as report
from traceroof.report.html.fixes import fixes as fixes_of
from traceroof.report.run import csv as csv_report
from traceroof.report.run import markdown, summary, terminal
from traceroof.report.run.export import export_kernels


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return diagnose(two_kernels())


def _finding(rule: str, bound: int | None, likely: int | None, **more: Any) -> Finding:
    return Finding(
        topic="gemm-efficiency",
        rule=rule, title=f"title of {rule}", state="fired", scope="kernel",
        **{
            "subject": "copy<float>(float *)", "subject_index": 0, "severity": "low",
            "confidence": 0.9, "kind": "hard", "role": "cause", "time_saved_bound_ns": bound,
            "time_saved_likely_ns": likely, "because": "it `waits`.",
            "fix": "Run `this --now`, then look.", "refute": "", **more,
        },
    )  # fmt: skip


def _with(diagnosis: Diagnosis, *findings: Finding) -> Diagnosis:
    times = np.array([one.time_ns for one in diagnosis.kernels], dtype=float)
    pool = pool_of(times, [one.category for one in diagnosis.kernels], ())
    return replace(diagnosis, findings=findings, advice=advice_of(findings, pool))


def test_an_entry_shows_first_what_it_is_ordered_by(diagnosis: Diagnosis) -> None:
    """GIVEN a cause of 8 µs (likely 5) at confidence 0.9 beside its class of 12 µs, of 100 µs: the
    class is explained, and 4.5 µs are to be expected."""
    made = _with(
        diagnosis,
        _finding("cause", 8_000, 5_000),
        _finding("wall", 12_000, 3_000, role="class", severity="high"),
    )
    (one,) = made.advice
    assert (one.lead.rule, one.bound_ns, one.likely_ns, one.expected_ns, one.severity) == (
        "cause", 8_000, 5_000, 4_500, "medium",
    )  # fmt: skip
    assert [finding.rule for finding in one.folded] == ["wall"]
    gain = "Expect 4.50 µs (4.5 %); at most 8 µs (8.0 %), likely 5 µs"
    assert summary.gain(one) == gain
    assert f"{gain}; confidence 0.9" in " ".join(terminal.render(made).split())
    assert gain in markdown.render(made)
    (fix,) = fixes_of(made)
    assert (fix.expected, fix.bound, fix.share, fix.likely) == ("4.50 µs", "8 µs", "8.0 %", "5 µs")


def test_a_saving_of_nothing_is_not_said(diagnosis: Diagnosis) -> None:
    made = _with(diagnosis, _finding("nothing", 0, 0))
    worth = terminal.render(made).partition("Worth trying")[2]
    assert "nothing: it" in worth
    assert "at most" not in worth
    (fix,) = fixes_of(made)
    assert (fix.bound, fix.unsaved) == ("", "saving not estimable")


def test_a_saving_of_an_unknown_time_is_a_share_on_every_page(diagnosis: Diagnosis) -> None:
    made = _with(diagnosis, _finding("share", None, None, bound_share=0.2))
    (fix,) = fixes_of(made)
    assert fix.unsaved == "Saves at most 20.0 % of its time"
    assert fix.unsaved in terminal.render(made)


def test_a_reason_is_never_cut(diagnosis: Diagnosis) -> None:
    reason = "one reason of some words, " * 20 + "and its end"
    made = _with(diagnosis, _finding("long", 8_000, 5_000, because=reason))
    assert "and its end" in " ".join(terminal.render(made).split())


def test_a_command_in_a_fix_is_never_cut(diagnosis: Diagnosis) -> None:
    """GIVEN a fix whose first sentence is longer than two lines THEN all of that is there, and the
    second is not."""
    command = "ncu --metrics " + ",".join(f"metric{number}.sum" for number in range(20))
    made = _with(diagnosis, _finding("m", 8_000, 5_000, fix=f"Collect with {command}. Then again."))
    text = "".join(terminal.render(made).split())
    assert "".join(f"Try: Collect with {command}.".split()) in text
    assert "Thenagain" not in text


def test_what_rests_on_no_rule_points_at_no_explanation(diagnosis: Diagnosis) -> None:
    """GIVEN an entry that no rule made THEN no page tells to explain it, or how to refute it."""
    said = replace(_finding(OPEN, None, None), scope="run", subject="run", subject_index=None)
    times = np.array([one.time_ns for one in diagnosis.kernels], dtype=float)
    pool = pool_of(times, [one.category for one in diagnosis.kernels], ())
    advice = advice_of([], pool, unexplained=OpenTime((0, 1), said))
    made = replace(diagnosis, findings=(), advice=advice)
    assert [one.lead.rule for one in made.advice] == [OPEN]
    for page in (terminal.render(made), markdown.render(made)):
        worth = page.partition("Worth trying")[2]
        assert "title of" in worth
        assert "--explain" not in worth
        assert "refute" not in worth
    (fix,) = fixes_of(made)
    assert fix.commands == ()


def test_the_headline_adds_up_the_advice_and_shares_are_labelled(diagnosis: Diagnosis) -> None:
    text = terminal.render(diagnosis)
    bound = diagnosis.totals.time_saved_bound_ns
    assert bound == sum(one.bound_ns or 0 for one in diagnosis.advice)
    share = percent(bound / 100_000)
    headline = f"All advice together saves at most {quantity(bound, 'ns')} ({share} of kernel"
    assert headline in " ".join(text.split())
    assert "Time by category (shares of GPU time)" in text
    assert "Kernels by time (shares of kernel time)" in text
    page = markdown.render(diagnosis)
    assert headline in page
    assert "| Category | Time | Share of GPU time | Launches |" in page
    assert "| Share of kernel time |" in page


def test_markdown_shows_commands_as_code(diagnosis: Diagnosis) -> None:
    comment = markdown.render(_with(diagnosis, _finding("cause", 8_000, 5_000)))
    assert "try: Run `this --now`, then look." in comment
    assert "assumed; `traceroof calibrate` measures" in comment
    assert "\\`" not in comment.partition("### Worth trying")[2]
    assert md.prose("a_b `c_d` e") == "a\\_b `c_d` e"


def test_numbers_of_one_are_singular() -> None:
    """GIVEN one kernel, six categories of one launch each beside it."""
    alone = diagnose(recording({"kernel_name": ["k"], "duration_ns": [10]}))
    text = terminal.render(alone)
    assert "in 1 launch of 1 kernel." in text
    assert "the class of 1 kernel (" in text
    names = ["sgemm", "softmax_k", "layer_norm_k", "ncclKernel", "fmha_fwd", "k"]
    several = diagnose(recording({"kernel_name": names, "duration_ns": [10] * 6}))
    assert len(several.categories) == 6
    assert re.search(r"1 other  .* 1 launch$", terminal.render(several), re.MULTILINE)


def test_json_follows_its_schema(diagnosis: Diagnosis, root: Path) -> None:
    schema = json.loads((root / "docs/diagnosis.schema.json").read_text("utf-8"))
    payload = json.loads(json_report.render(diagnosis))
    jsonschema.validate(payload, schema)
    assert payload["totals"]["launches"] == 4
    assert payload["totals"]["kernel_time_ns"] == 100_000
    assert [kernel["class"] for kernel in payload["kernels"]] == ["dram-bound", "latency-bound"]
    assert [kernel["share"] for kernel in payload["kernels"]] == [0.9, 0.1]
    assert payload["run"]["sources"][0]["notes"] == ["lines that are no row, skipped (2 times)"]


def test_json_is_cut_only_when_asked(diagnosis: Diagnosis) -> None:
    assert len(json.loads(json_report.render(diagnosis))["kernels"]) == 2
    cut = json.loads(json_report.render(diagnosis, top=1))
    assert [len(cut["kernels"]), len(cut["findings"])] == [1, 1]


def test_json_has_null_for_unknown_and_no_nan() -> None:
    unknown = recording({"kernel_name": ["k"], "duration_ns": [None]})
    payload = json.loads(json_report.render(diagnose(unknown)))
    kernel = payload["kernels"][0]
    assert [kernel["time_ns"], kernel["share"], kernel["median_ns"]] == [None, None, None]
    assert kernel["class"] == "not-evaluable"
    assert payload["totals"]["unknown_durations"] == 1
    assert "NaN" not in json_report.render(diagnose(unknown))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_terminal_keeps_to_its_width(diagnosis: Diagnosis, width: int) -> None:
    text = terminal.render(diagnosis, top=5, width=width)
    lines = text.splitlines()
    # A command to copy stays in one piece, however long.
    assert max(len(line) for line in lines if "collect it: " not in line) <= width
    assert not any(line != line.rstrip() for line in lines)
    assert "\x1b" not in text


def test_terminal_colours_only_when_asked(diagnosis: Diagnosis) -> None:
    assert "\x1b[" in terminal.render(diagnosis, color=True)


def test_terminal_takes_nothing_in_a_name_for_markup() -> None:
    named = recording({"kernel_name": ["k[bold](int)"], "duration_ns": [10]})
    assert "k[bold]" in terminal.render(diagnose(named))


def test_markdown_neutralises_names_and_notes(diagnosis: Diagnosis) -> None:
    page = markdown.render(diagnosis, top=None)
    for line in page.splitlines():
        if line.startswith("| 2 |"):
            # Seven cells: the pipe in the name is escaped and ends none.
            assert line.replace("\\|", "").count("|") == 8
            assert "`` wait\\|<b>`x`@me ``" in line or "wait" in line
    assert md.text("a|b*c*<d>@e") == "a\\|b\\*c\\*\\<d\\>@\u200be"
    assert md.code("a`b") == "``a`b``"
    assert md.code("`a") == "`` `a ``"


def test_markdown_is_a_comment_that_is_found_again(diagnosis: Diagnosis) -> None:
    first, verdict, *_ = markdown.render(diagnosis).splitlines()
    assert first == "<!-- traceroof:diagnosis:v1 key=made.csv -->"
    assert verdict.startswith("**")
    assert "dram-bound" in verdict
    assert markdown.render(diagnosis, key="a --> b").startswith(
        "<!-- traceroof:diagnosis:v1 key=a-b -->\n"
    )


def test_markdown_fits_into_a_comment_and_says_what_was_cut() -> None:
    """GIVEN 1,000 slow kernels with long names and a run of a long name, all asked for."""
    names = [f"k{at:04}<{'x|`@y<b>' * 40}{at}>(int)" for at in range(1000)]
    made = recording(
        {
            "kernel_name": names,
            "duration_ns": [1_000_000 if at < 180 else 100 for at in range(1000)],
            "sm_throughput_pct": [10.0] * 1000,
            "memory_throughput_pct": [90.0] * 1000,
            "dram_throughput_pct": [90.0] * 1000,
        },
        notes=tuple(Note(f"note {at} {'n' * 900}") for at in range(50)),
    )
    page = markdown.render(diagnose(Run(made, name="r" * 5000)), top=None)
    assert 20_000 < len(page) <= markdown.MOST_CHARACTERS
    assert len(page.encode()) < 2**20
    assert re.search(r"^\d+ more kernels not shown\.$", page, re.MULTILINE)
    # One fix of them all is one entry.
    assert len(re.findall(r"^\d+\. ", page, re.MULTILINE)) <= 3
    assert re.search(r"^- \d+ more \(`--format json` has all\)$", page, re.MULTILINE)
    rows = [line for line in page.splitlines() if line.startswith("| ") and "k0" in line]
    assert rows
    assert {line.replace("\\|", "").count("|") for line in rows} == {8}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_csv_cells_never_begin_a_formula(start: str) -> None:
    name = f"{start}cmd|' /C calc'!A0"
    named = recording({"kernel_name": [name], "duration_ns": [10]})
    rows = list(csv.DictReader(io.StringIO(csv_report.render(diagnose(named)), newline="")))
    # Control characters are escapes: they would break the row, or command a terminal.
    assert rows[0]["kernel"] == "'" + name.replace("\t", "\\t").replace("\r", "\\r")


def test_csv_has_a_row_per_group(diagnosis: Diagnosis) -> None:
    rows = list(csv.DictReader(io.StringIO(csv_report.render(diagnosis))))
    assert [row["launches"] for row in rows] == ["3", "1"]
    assert [row["class"] for row in rows] == ["dram-bound", "latency-bound"]
    assert rows[0]["grid"] == "1024x1x1"
    assert float(rows[0]["dram_throughput_pct"]) == 90.0


def test_reports_say_what_could_not_be_judged_and_how_to_collect_it() -> None:
    bare = recording({"kernel_name": ["lonely<int>(int)"], "duration_ns": [10_000]})
    for text in (terminal.render(diagnose(bare), width=120), markdown.render(diagnose(bare))):
        assert "Most telling next: the class" in text
        assert "--metrics sm__throughput." in text
        assert "lonely" in text


def test_write_makes_the_folder_and_the_whole_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.json"
    assert report.write("text", str(target)) == str(target)
    assert target.read_text() == "text\n"
    assert [entry.name for entry in target.parent.iterdir()] == ["report.json"]


def test_write_leaves_the_old_file_when_it_fails(tmp_path: Path) -> None:
    with pytest.raises(TraceroofError, match="is a folder"):
        report.write("text", str(tmp_path))
    blocked = tmp_path / "file"
    blocked.write_text("old")
    with pytest.raises(TraceroofError, match="cannot be written"):
        report.write("text", str(blocked / "below"))
    assert blocked.read_text() == "old"


def test_write_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert report.write("text", "-") is None
    assert report.write("text", None) is None
    assert capsys.readouterr().out == "text\ntext\n"


def test_write_goes_through_links_and_into_pipes(tmp_path: Path) -> None:
    """Replacing what stands there would destroy a link, a pipe, or /dev/null."""
    target, link = tmp_path / "target.md", tmp_path / "link.md"
    target.write_text("old")
    link.symlink_to(target)
    report.write("new", str(link))
    assert link.is_symlink()
    assert target.read_text() == "new\n"

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    report.write("through", str(pipe))
    assert reader.communicate(timeout=20)[0] == "through\n"
    assert pipe.is_fifo()


def test_an_exported_table_runs_no_formulas(tmp_path: Path) -> None:
    """GIVEN names that a spreadsheet would run: they are text in the CSV, and whole in Parquet."""
    import pandas as pd

    names = ["=cmd()", "@SUM(1)", "plain", None]
    kernels = kernel_table({"kernel_name": ["k"] * 4, "operator": names, "duration_ns": [1] * 4})
    export_kernels(kernels, tmp_path / "k.csv")
    frame = pd.read_csv(tmp_path / "k.csv")
    assert frame["operator"].tolist()[:3] == ["'=cmd()", "'@SUM(1)", "plain"]
    assert frame["operator"].isna().tolist() == [False, False, False, True]
    export_kernels(kernels, tmp_path / "k.parquet")
    assert pd.read_parquet(tmp_path / "k.parquet")["operator"].tolist()[:3] == names[:3]
