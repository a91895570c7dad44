"""The charts of a report as pictures, for a wiki or a slide: SVG and PNG, drawn by kaleido."""

import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from traceroof.compare import Comparison
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.errors import TraceroofError
from traceroof.report.common.output import write_bytes
from traceroof.report.html import change_figures, figures
from traceroof.report.html.changes import Changes

_WIDTH = 900
_FORMATS = ("svg", "png")


def write_pictures(what: Diagnosis | Comparison, folder: Path) -> list[str]:
    """Write every chart of the report into ``folder``, one file a format, and return the files' names.

    Raises TraceroofError where kaleido, or the browser that it draws with, is missing.
    """
    if find_spec("kaleido") is None:
        raise TraceroofError(
            "charts become pictures with kaleido, which is not installed",
            "pip install 'kaleido>=1'; it draws with an installed Chrome or Chromium",
        )
    if isinstance(what, Comparison):
        made = change_figures.charts(Changes(what))
    else:
        made = figures.charts(what)
    charts = [chart for chart in made.values() if chart]
    with tempfile.TemporaryDirectory() as work:
        drawn = [
            (chart.figure, Path(work) / f"{chart.name}.{format}")
            for chart in charts
            for format in _FORMATS
        ]
        _draw([_on_paper(figure) for figure, _ in drawn], [path for _, path in drawn])
        return [write_bytes(path.read_bytes(), str(folder / path.name)) for _, path in drawn]


def _on_paper(figure: Any) -> Any:
    """The figure on white, as a page wants it."""
    white = {"paper_bgcolor": "white", "plot_bgcolor": "white"}
    return {"data": figure["data"], "layout": {**figure["layout"], **white}}


def _draw(drawings: Sequence[Any], paths: Sequence[Path]) -> None:
    import plotly.io

    try:
        plotly.io.write_images(
            drawings,
            paths,
            scale=2,
            width=_WIDTH,
            height=[drawing["layout"]["height"] for drawing in drawings],
        )
    except Exception as error:  # noqa: BLE001 - whatever kaleido and its browser raise
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TraceroofError(
            f"kaleido could not draw the charts: {reason}",
            "it needs an installed Chrome or Chromium",
        ) from None
