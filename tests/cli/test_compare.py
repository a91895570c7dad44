"""`traceroof compare` and `traceroof baseline` as a user meets them."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_cli import run

SAMPLE = "nsight_compute/transformer_layer.raw.csv"


@pytest.fixture
def slower(samples: Path, tmp_path: Path) -> Path:
    """The sample with its largest kernel one and a half times as long and 40 registers more."""
    header, units, *rows = csv.reader((samples / SAMPLE).read_text().splitlines())
    time, registers, grid = (
        header.index(name)
        for name in ("gpu__time_duration.sum", "launch__registers_per_thread", "Grid Size")
    )
    (largest,) = [row for row in rows if row[grid].startswith("(86,")]
    largest[time] = str(float(largest[time].replace(",", "")) * 1.5)
    largest[registers] = str(int(largest[registers]) + 40)
    changed = tmp_path / "head.csv"
    with changed.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([header, units, *rows])
    return changed


def test_compare_says_what_changed_and_gates(samples: Path, slower: Path, tmp_path: Path) -> None:
    base = samples / SAMPLE
    same = run("compare", base, base, "--fail-on", "regression", cwd=tmp_path)
    assert same.stdout.startswith("NO CHANGE: kernel time +0.0 %")
    made = run("compare", base, slower, "--fail-on", "regression", cwd=tmp_path, expect=1)
    # One run per side: the time of a kernel decides nothing, its registers do.
    assert made.stdout.startswith("SLOWER: kernel time +16.7 %")
    assert "per thread" in made.stdout
    assert "gate failed: regression" in made.stderr
    assert run("compare", base, slower, cwd=tmp_path).returncode == 0
    assert not (tmp_path / ".traceroof").exists()


def test_compare_writes_json_and_markdown(samples: Path, slower: Path, tmp_path: Path) -> None:
    base = samples / SAMPLE
    made = run("compare", base, slower, "-f", "json", "--min-ms", "0.5", cwd=tmp_path)
    payload = json.loads(made.stdout)
    assert payload["thresholds"]["least_ns"] == 500_000
    assert payload["schema"] == "traceroof/comparison/1"
    written = run(
        "compare", base, slower, "-f", "markdown", "--key", "ci", "-o", "out/c.md", cwd=tmp_path
    )
    assert "wrote out/c.md" in written.stderr
    page = (tmp_path / "out/c.md").read_text("utf-8")
    assert page.startswith("<!-- traceroof:pr-report:v1 key=ci -->\n### 🔴 traceroof: **slower**")


def test_a_baseline_stands_for_a_run(samples: Path, slower: Path, tmp_path: Path) -> None:
    run("ingest", samples / SAMPLE, "--name", "layer", cwd=tmp_path)
    assert "No baselines" in run("baseline", cwd=tmp_path).stdout
    made = run("baseline", "set", "main", "layer", cwd=tmp_path)
    assert made.stderr.startswith("baseline main is run ")
    assert "main" in run("baseline", cwd=tmp_path).stdout
    compared = run("compare", "main", slower, cwd=tmp_path)
    assert "base layer · NVIDIA A100-SXM4-80GB" in compared.stdout
    removed = run("runs", "remove", "main", cwd=tmp_path)
    assert "removed baseline main, which stood for it" in removed.stderr
    assert "No baselines" in run("baseline", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["missing.json", "missing.json"], "missing.json does not exist"),
        (["main", "main"], "no such file or run (there is no store"),
        (["a", "b", "--fail-on", "regresion"], "no gate"),
        (["a", "b", "--fail-on", "finding:cmp-bites-up"], "did you mean cmp-bytes-up"),
        (["a"], "HEAD"),
    ],
)
def test_what_cannot_be_compared_exits_with_2(
    arguments: list[str], says: str, tmp_path: Path
) -> None:
    made = run("compare", *arguments, cwd=tmp_path, expect=2)
    assert made.stdout == ""
    assert says in made.stderr
    assert run("baseline", "set", "main", "x", cwd=tmp_path, expect=2).stdout == ""
