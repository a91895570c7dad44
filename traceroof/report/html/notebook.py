"""Results as the output of a notebook: parts of the page, which need no script, in light and dark.

``core.displayed`` looks these two functions up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import TYPE_CHECKING, Any

from traceroof.compare import Comparison
from traceroof.core import kernel_table, recording
from traceroof.core.kernel_names import demangled, short_names
from traceroof.core.recording import Run
from traceroof.core.units import one_line, percent, quantity
from traceroof.diagnosis import caveats
from traceroof.diagnosis.card import KernelCard
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.errors import TraceroofError
from traceroof.report.html import change_figures, figures, page, provenance, scoped
from traceroof.report.html.changes import Changes
from traceroof.report.html.chart import Chart
from traceroof.report.html.fixes import fixes as fixes_of
from traceroof.report.html.palette import COLORS
from traceroof.report.html.templates import template_of
from traceroof.report.run import operator_card, summary
from traceroof.report.run.verdict import Figure, verdict

if TYPE_CHECKING:
    import plotly.graph_objects as go

# What fits under a cell; attributes and the page have the rest.
_FIXES, _KERNELS, _FILES, _NOTES = 5, 10, 12, 5
_NAME, _LONGEST_NAME = 72, 400


def html_of(what: Any) -> str:
    """A result as HTML for a notebook."""
    from markupsafe import Markup

    made = {"scope": scoped.SCOPE, "style": Markup(scoped.style()), "changes": None}
    return template_of("notebook.html.j2").render(made | _context(what))


@singledispatch
def _context(what: Any) -> dict[str, Any]:
    raise TypeError(type(what).__name__)


@_context.register
def _(run: Run) -> dict[str, Any]:
    kernels = run.recording.judged().kernels
    launches = kernel_table.launches(kernels)
    time = quantity(kernel_table.known_time_ns(kernels), "ns")
    names = kernel_table.by_name(kernels)
    known = sum(one or 0 for _, one, _ in names)
    short = short_names((name for name, _, _ in names[:_KERNELS]), _NAME)
    sources = run.recording.all_sources
    files = provenance.file_names([one.path for one in sources[:_FILES]])
    devices = dict.fromkeys(one.name for one in run.recording.devices if one.name)
    about = [run.name, ", ".join(devices) or "GPU not named in the file"]
    if run.id:
        about.append(f"run {run.id}")
    return {
        "kind": "run",
        "about": [" · ".join([*about, summary.TIMES[run.recording.time_basis]])],
        "numbers": [
            Figure(time, "kernel time"),
            Figure(f"{launches:,}", "kernel launches"),
            Figure(f"{len(names):,}", "kernels by name"),
        ],
        "files": [
            (name, one.format, one.role or "-", f"{one.launches:,}")
            for name, one in zip(files, sources, strict=False)
        ],
        "names": [
            (
                short[name],
                quantity(ns, "ns") if ns else "unknown",
                percent(ns / known if ns and known else None),
                f"{launches:,}",
            )
            for name, ns, launches in names[:_KERNELS]
        ],
        "notes": recording.note_lines(run.recording.sources)[:_NOTES],
    }


@_context.register
def _(diagnosis: Diagnosis) -> dict[str, Any]:
    fixes = fixes_of(diagnosis)
    rows, _ = page.rows(diagnosis, fixes, most=_KERNELS)
    # Numbers are those of the whole run, whatever it is narrowed to.
    number = {at: one.number for at, one in enumerate(diagnosis.kernels) if one.number}
    rows = [replace(one, index=number.get(one.index - 1, one.index)) for one in rows]
    fixes = [replace(one, kernel=_renumbered(one.kernel, number)) for one in fixes]
    beside = [*summary.settings(diagnosis), *summary.clocks(diagnosis)]
    if diagnosis.narrowed:
        beside.append(summary.total(diagnosis))
    return {
        "kind": "diagnosis",
        "about": [summary.about(diagnosis), *beside],
        "verdict": verdict(diagnosis),
        "care": caveats.care(diagnosis),
        "fixes_shown": fixes[:_FIXES],
        "fixes_left": max(len(fixes) - _FIXES, 0),
        "whole_words": summary.whole_words(diagnosis),
        "rows": rows,
        "rows_left": len(diagnosis.kernels) - len(rows),
        "not_judged": diagnosis.not_judged,
    }


def _renumbered(kernel: int | None, number: Mapping[int, int]) -> int | None:
    return None if kernel is None else number.get(kernel, kernel + 1) - 1


@_context.register
def _(comparison: Comparison) -> dict[str, Any]:
    changes, kernels = Changes(comparison), comparison.kernels
    return {
        "kind": "comparison",
        "about": [summary.about(comparison.head)],
        "changes": changes,
        "now": comparison.head.headline,
        "verdict": verdict(comparison.head),
        "lines": changes.lines(kernels[:_KERNELS]),
        "lines_left": max(len(kernels) - _KERNELS, 0),
    }


@_context.register
def _(card: KernelCard) -> dict[str, Any]:
    name = one_line(demangled(card.kernel.kernel))
    return {
        "kind": "card",
        "about": [summary.about(card.diagnosis)],
        "number": card.kernel.number,
        "name": name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…",
        "sections": operator_card.sections(card.kernel, card.findings),
        "also_meant": card.also_meant,
    }


class Figures:
    """The charts of a report as Plotly figures, one method each.

    dark: in the colours of the dark theme. A chart of which nothing is known raises TraceroofError.
    """

    def __init__(self, charts: Mapping[str, Chart | None]) -> None:
        self._charts = {name: chart for name, chart in charts.items() if chart is not None}

    def __dir__(self) -> list[str]:
        return list(self._charts)

    def roofline(self, *, dark: bool = False) -> "go.Figure":
        """Operations per byte against the rate reached, under the ceilings of the device."""
        return self._made("roofline", dark)

    def use(self, *, dark: bool = False) -> "go.Figure":
        """Compute use against memory use."""
        return self._made("use", dark)

    def categories(self, *, dark: bool = False) -> "go.Figure":
        """GPU time by operator category, divided by the walls that were hit."""
        return self._made("categories", dark)

    def timeline(self, *, dark: bool = False) -> "go.Figure":
        """How the time of each GPU went by."""
        return self._made("timeline", dark)

    def idle(self, *, dark: bool = False) -> "go.Figure":
        """Why each GPU was idle."""
        return self._made("idle", dark)

    def steps(self, *, dark: bool = False) -> "go.Figure":
        """The time of each step."""
        return self._made("steps", dark)

    def clocks(self, *, dark: bool = False) -> "go.Figure":
        """Clock and power along the run, from a log beside it."""
        return self._made("clocks", dark)

    def _made(self, name: str, dark: bool) -> "go.Figure":
        import plotly.graph_objects as go

        made = self._charts.get(name)
        if made is None:
            known = ", ".join(self._charts)
            raise TraceroofError(
                f"there is no {name} chart: the files hold no data for it",
                f"there are {known}" if known else "",
            )
        return go.Figure(_in_theme(made.figure, dark))


def figures_of(what: Any) -> Figures:
    """The charts of a run, a diagnosis, a comparison or a card."""
    if isinstance(what, Run):
        import traceroof

        what = traceroof.diagnose(what)
    if isinstance(what, KernelCard):
        what = what.diagnosis
    if isinstance(what, Comparison):
        made = change_figures.charts(Changes(what))
    else:
        made = figures.charts(what)
    return Figures(made)


def _in_theme(figure: Mapping[str, Any], dark: bool) -> dict[str, Any]:
    """The figure on paper of its theme: a notebook's own background may be any."""
    paper = scoped.colors(dark=dark)
    there = {light: paper[name] for name, light in COLORS.items()} if dark else {}
    ground = {"paper_bgcolor": paper["paper"], "plot_bgcolor": paper["paper"]}
    layout = {**_recoloured(figure["layout"], there), **ground}
    return {"data": _recoloured(figure["data"], there), "layout": layout}


def _recoloured(value: Any, there: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return there.get(value, value)
    if isinstance(value, Mapping):
        return {key: _recoloured(one, there) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_recoloured(one, there) for one in value]
    return value
