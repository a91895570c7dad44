"""The examples of docs/python.md run one after another, and print what their comments say."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

import traceroof

CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
SAYS = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the samples in it, as in a checkout."""
    (tmp_path / "sample_traces").symlink_to(root / "sample_traces")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_print_what_the_page_says(folder: Path, root: Path) -> None:
    blocks = CODE.findall((root / "docs/python.md").read_text("utf-8"))
    assert len(blocks) == 8
    namespace: dict[str, Any] = {}
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "docs/python.md", "exec"), namespace)  # noqa: S102
        lines = printed.getvalue().splitlines()
        for says in SAYS.findall(block):
            assert says in lines
    for made in ("report.html", "changes.html", "kernels.parquet"):
        assert (folder / made).stat().st_size > 1000


def test_the_page_names_every_function(root: Path) -> None:
    page = (root / "docs/python.md").read_text("utf-8")
    for name in traceroof.__all__:
        if name[0].islower():
            assert f"`traceroof.{name}(" in page


def test_a_run_is_meant_as_the_command_means_it(folder: Path) -> None:
    """GIVEN a stored run WHEN named by nothing, id, beginning of the id, name, path, or itself THEN
    the same diagnosis; WHEN its name is none THEN the same sentence as the command's."""
    sample = "sample_traces/nsight_compute/transformer_layer.raw.csv"
    run = traceroof.ingest(sample)
    for named in (None, run.id, run.id[:4], run.name, sample, Path(sample), [sample], run):
        assert traceroof.diagnose(named).totals.launches == 17
    with pytest.raises(traceroof.TraceroofError, match="no run"):
        traceroof.diagnose("nosuchrun")
    other = folder / "other"
    with pytest.raises(traceroof.TraceroofError, match="no store"):
        traceroof.runs(store=other)


def test_json_lines_are_an_object_per_launch(folder: Path) -> None:
    """GIVEN 17 launches WHEN exported as JSON lines THEN 17 objects, whole numbers whole, unknown
    null."""
    import json

    sample = "sample_traces/nsight_compute/transformer_layer.raw.csv"
    rows = [
        json.loads(line)
        for line in traceroof.export(sample, "kernels.jsonl").read_text("utf-8").splitlines()
    ]
    frame = traceroof.read(sample).kernels
    assert [row["duration_ns"] for row in rows] == frame["duration_ns"].tolist()
    assert [row["kernel_name"] for row in rows] == frame["kernel_name"].tolist()
    assert {type(row["grid_x"]) for row in rows} == {int}
    assert {row["rank"] for row in rows} == {None}
