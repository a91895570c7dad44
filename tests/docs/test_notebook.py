"""The notebook of docs/ runs from top to bottom, and shows what it speaks of."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient


def outputs(cell: Any) -> dict[str, str]:
    """What a cell shows, by MIME type; what it prints as text."""
    found: dict[str, str] = {}
    for one in cell.get("outputs", ()):
        found |= one.get("data", {})
        if "text" in one:
            found["text/plain"] = found.get("text/plain", "") + one["text"]
    return found


@pytest.fixture(scope="module")
def executed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The notebook after it ran, in a folder with the samples."""
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "sample_traces").symlink_to(root / "sample_traces")
    notebook = nbformat.read(root / "docs/notebook.ipynb", 4)  # type: ignore[no-untyped-call]
    client = NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def test_every_result_is_shown_as_html_and_as_a_line(executed: Any) -> None:
    """GIVEN the notebook WHEN executed THEN five results with our HTML and one line of text each."""
    shown = [outputs(cell) for cell in executed.cells if cell.cell_type == "code"]
    ours = [one for one in shown if 'class="traceroof"' in one.get("text/html", "")]
    assert len(ours) == 5
    for one in ours:
        assert "<script" not in one["text/html"]
        assert "\n" not in one["text/plain"]


def test_figures_and_tables_are_there(executed: Any) -> None:
    shown = [outputs(cell) for cell in executed.cells if cell.cell_type == "code"]
    figures = [one for one in shown if "application/vnd.plotly.v1+json" in one]
    assert len(figures) == 2
    series = next(one for one in shown if "Name: duration_ns" in one.get("text/plain", ""))
    assert "11214667" in series["text/plain"]
    assert any(one.get("text/plain", "").startswith("17.0 % of kernel time") for one in shown)


def test_it_is_kept_without_outputs(root: Path) -> None:
    """What it shows is made by whoever runs it: a kept output would be true for one version only."""
    notebook = nbformat.read(root / "docs/notebook.ipynb", 4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells)
