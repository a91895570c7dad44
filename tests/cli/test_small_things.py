"""What a newcomer meets: what was meant, what is left out, what a shell offers."""

import json
import os
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
import typer

from tests.cli.test_cli import SAMPLE, run
from traceroof.cli.completion import complete_rule, complete_run
from traceroof.cli.main import app
from traceroof.cli.output import terminal
from traceroof.report.common.shapes import shapes, types


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (["diagnose", "--format", "jsn"], "'jsn' is not one of 'table', 'json'", "json?"),
        (["diagnose", "--fail-on", "hgih"], "'hgih' is not one of 'high'", "did you mean high?"),
        (["diagnose", "--by", "modul"], "'modul' is not one of", "did you mean module?"),
        (["compare", "a", "b", "--fail-on", "regresion"], "regresion is no gate", "regression?"),
        (["diagnose", "--tops", "3"], "no such option: --tops", "--help"),
    ],
)
def test_what_was_meant_in_our_own_words(
    arguments: list[str], says: str, hint: str, tmp_path: Path
) -> None:
    """GIVEN a misspelt value WHEN run THEN two lines: what is wrong, what was meant; no word of the
    libraries below."""
    said = run(*arguments, cwd=tmp_path, expect=2).stderr
    first, second = said.splitlines()
    assert says in first
    assert hint in second
    assert "Value error" not in said


def test_a_run_that_is_misspelt(samples: Path, tmp_path: Path) -> None:
    run("ingest", samples / SAMPLE, "--name", "before", cwd=tmp_path)
    said = run("diagnose", "befor", cwd=tmp_path, expect=2).stderr
    assert "did you mean before?" in said
    assert "it holds" in run("diagnose", "zzzz", cwd=tmp_path, expect=2).stderr


def test_a_name_that_a_run_has(samples: Path, tmp_path: Path) -> None:
    """GIVEN a name given twice WHEN ingested THEN the older keeps its id, and the reader is told."""
    first = run("ingest", samples / SAMPLE, "--name", "main", cwd=tmp_path)
    assert "also the name" not in first.stderr
    id = first.stdout.split()[1]
    other = samples / "nsight_systems/training.kern_sum.csv"
    again = run("ingest", other, "--name", "main", cwd=tmp_path)
    assert (
        f"note: main is also the name of run {id}; from now on it means the newest" in again.stderr
    )
    assert "17 kernel launches" in run("runs", "show", id, cwd=tmp_path).stdout


def test_equal_files_are_one_measurement(samples: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_bytes((samples / SAMPLE).read_bytes())
    both = tmp_path / "both"
    both.mkdir()
    (both / "a.csv").write_bytes(copy.read_bytes())
    (both / "b.csv").write_bytes(copy.read_bytes())
    said = run("compare", copy, both, cwd=tmp_path).stdout
    assert "one run per side" in said
    assert "(1 file with the same content as another: one measurement)" in " ".join(said.split())


def test_an_entry_says_how_to_go_on(samples: Path, tmp_path: Path) -> None:
    """GIVEN the first entry, on kernel #10 WHEN its commands are typed THEN they speak of it."""
    text = run("diagnose", samples / SAMPLE, cwd=tmp_path).stdout
    (more,) = (line for line in text.splitlines() if line.startswith("   More: --explain 1 "))
    assert more == "   More: --explain 1 or --card 10"
    assert " #10  " in text
    explained = run("diagnose", samples / SAMPLE, "--explain", "1", cwd=tmp_path).stdout
    assert "small-grid" in explained
    assert "kernel #10 " in explained
    assert run("diagnose", samples / SAMPLE, "--card", "10", cwd=tmp_path).stdout.count("#10 ") == 1


def test_what_is_left_out_is_said(samples: Path, tmp_path: Path) -> None:
    """GIVEN 80 and 60 columns WHEN printed THEN what is left out is named; --wide leaves none."""
    for columns, says in (
        ("80", "use of compute, memory and DRAM (--wide"),
        ("60", "calls, use of compute"),
    ):
        text = run("diagnose", samples / SAMPLE, cwd=tmp_path, COLUMNS=columns).stdout
        assert says in " ".join(text.split())
        wide = run("diagnose", samples / SAMPLE, "--wide", cwd=tmp_path, COLUMNS=columns).stdout
        assert "Left out" not in wide
        assert "DRAM" in wide
    assert "Left out" not in run("diagnose", samples / SAMPLE, cwd=tmp_path, COLUMNS="100").stdout


def test_colour_is_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """GIVEN no terminal WHEN FORCE_COLOR is set THEN colour; NO_COLOR goes before it."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    assert terminal(None)[1] is False
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert terminal(None)[1] is True
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal(None)[1] is False
    monkeypatch.setenv("FORCE_COLOR", "0")
    monkeypatch.delenv("NO_COLOR")
    assert terminal(None)[1] is False


def test_a_shell_offers_runs_baselines_and_rules(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("ingest", samples / SAMPLE, "--name", "before", cwd=tmp_path)
    run("baseline", "set", "main", "before", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    context = typer.Context(typer.main.get_command(app))
    context.params = {}
    assert [name for name, _ in complete_run(context, "")][:2] == ["main", "before"]
    assert [name for name, _ in complete_run(context, "be")] == ["before"]
    context.params = {"store": str(tmp_path / "nowhere")}
    assert complete_run(context, "") == []
    assert [name for name, _ in complete_rule("small-g")] == ["small-grid"]
    shell = {"_TRACEROOF_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    words = {"COMP_WORDS": "traceroof diagnose be"}
    offered = subprocess.run(
        [Path(sys.executable).parent / "traceroof"], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, **shell, **words},
    )  # fmt: skip
    assert offered.stdout.split() == ["before"]


def test_report_opens_the_page(
    samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def show(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    page = tmp_path / "page.html"
    app(["report", str(samples / SAMPLE), "-o", str(page), "--open"], standalone_mode=False)
    assert opened == [page.as_uri()]
    said = run("report", samples / SAMPLE, "-o", "-", "--open", cwd=tmp_path, expect=2).stderr
    assert "--open shows a file" in said


def test_inputs_of_an_operator_in_few_words() -> None:
    """GIVEN inputs as torch.profiler writes them WHEN shown THEN the tensors, equal ones once."""
    three = [[16, 559, 16, 64]] * 3
    assert shapes(json.dumps([*three, [], [], [1024]])) == "3 × 16x559x16x64, 1024"
    assert shapes(json.dumps([[[4, 8], [4, 8]], []])) == "(2 × 4x8)"
    assert types('["c10::BFloat16", "c10::BFloat16", "", "Scalar", "float"]') == (
        "2 × BFloat16, float"
    )
    assert shapes("(3, 4) float") == "(3, 4) float"


def test_the_demo_installs_what_it_needs(root: Path) -> None:
    """GIVEN the Makefile WHEN the demo is planned on a fresh clone THEN no test tools are installed."""
    planned = subprocess.run(
        ["make", "-n", "demo", "VENV=/nowhere/venv"],
        cwd=root, capture_output=True, text=True, check=True, env=os.environ,
    ).stdout  # fmt: skip
    assert "pip install --quiet --editable ." in planned
    assert "--group" not in planned
