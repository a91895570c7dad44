"""A history as one HTML page without scripts: a chart per series, changes marked, light and dark."""

import html
import itertools

import numpy as np

from traceroof.core.units import one_line, quantity
from traceroof.history.history import History, Series
from traceroof.report.history import words
from traceroof.report.html.templates import asset

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 190, 86, 12, 12, 26
# A longer series is drawn as medians of neighbours.
_MOST_POINTS = 800

_STYLE = """
svg.course { width: 100%; height: auto; display: block; margin: 0.3rem 0 1.6rem; }
svg.course text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg.course .run { fill: var(--soft); }
svg.course .level { stroke: var(--memory); stroke-width: 2; fill: none; }
svg.course .slower { stroke: var(--compute); }
svg.course .faster { stroke: var(--moving); }
svg.course .mark { stroke-width: 1.5; stroke-dasharray: 4 3; }
svg.course .axis { stroke: var(--line); }
table.changes td { vertical-align: top; }
"""


def escape(text: str) -> str:
    """Text of a page, also within an attribute: one line without markup."""
    return html.escape(one_line(text))


def render(history: History) -> str:
    """The page; the same history gives the same bytes."""
    title = escape(f"{history.workload} on {history.device}")
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        (
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
            "style-src 'unsafe-inline'\">"
        ),
        f"<title>History of {title}</title>",
        f"<style>{asset('report.css')}{_STYLE}</style></head><body><main>",
        f"<h1>History of {title}</h1>",
        f"<p>{escape(words.headline(history))}.</p>",
        *(f"<p>{escape(note)}.</p>" for note in history.notes),
        *_changes(history),
        "<h2>Series</h2>",
        (
            "<p>Points are runs, lines their levels. A dashed line is a change: slower where it is "
            "orange, faster where it is green.</p>"
        ),
        *(part for one in history.series for part in _chart(history, one)),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _changes(history: History) -> list[str]:
    found = history.events()
    if not found:
        return ["<h2>Changes</h2>", "<p>No change beyond the noise of the runs.</p>"]
    of = {(one.level, one.name): one for one in history.series}
    rows = []
    for event in found:
        lead = event.lead
        cells = (
            lead.first.when[:10],
            words.label(lead, 60),
            words.size(lead, of[lead.level, lead.series]),
            words.between(lead),
            words.with_it(event, history, 8),
        )
        rows.append("<tr>" + "".join(f"<td>{escape(one)}</td>" for one in cells) + "</tr>")
    header = "".join(f"<th>{one}</th>" for one in ("When", "What", "Change", "Between", "With it"))
    return [
        f"<h2>Changes, newest first ({len(found)})</h2>",
        f'<div class="scroll"><table class="changes"><thead><tr>{header}</tr></thead>',
        "<tbody>", *rows, "</tbody></table></div>",
    ]  # fmt: skip


def _chart(history: History, series: Series) -> list[str]:
    noise = series.levels.noise
    name = series.name if series.level == "kernel" else words.label(series)
    said = "" if np.isnan(noise) else f", noise {noise * 100:.1f} %"
    heading = (
        f'<h3 title="{escape(name)}">{escape(words.label(series, 80))}: '
        f"{escape(words.figure(series, float(series.values[-1])))}{said}</h3>"
    )
    return [heading, _svg(history, series)]


def _svg(history: History, series: Series) -> str:
    known, at = series.known, series.runs
    low, high = float(known.min()), float(known.max())
    room = max(high - low, 0.02 * high, np.finfo(float).tiny)
    low, high = (low + high - room) / 2 - 0.05 * room, (low + high + room) / 2 + 0.05 * room
    across = (_WIDTH - _LEFT - _RIGHT) / max(len(history.runs) - 1, 1)
    down = (_HEIGHT - _TOP - _BOTTOM) / (high - low)

    def x(run: float) -> str:
        return f"{_LEFT + run * across:.1f}"

    def y(value: float) -> str:
        return f"{_TOP + (high - value) * down:.1f}"

    summary = escape(f"{words.label(series)} over {len(history.runs)} runs")
    lines = [
        f'<svg class="course" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{summary}">'
    ]
    for value in np.linspace(low, high, 4)[1:-1].tolist():
        lines.append(f'<path class="axis" d="M{_LEFT} {y(value)}H{_WIDTH - _RIGHT}"/>')
        lines.append(
            f'<text x="{_LEFT - 6}" y="{y(value)}" text-anchor="end" dy="4">'
            f"{escape(quantity(value, series.unit))}</text>"
        )
    lines += _dots(history, series, x, y)
    level = series.level_at()
    bounds = [*series.levels.starts, len(at)]
    for first, end in itertools.pairwise(bounds):
        path = f"M{x(at[first])} {y(level[first])}H{x(at[end - 1])}"
        lines.append(f'<path class="level" d="{path}"/>')
    for one in series.changes:
        kind = "slower" if one.point.ratio > 0 else "faster"
        place = x(one.at - 0.5)
        tip = escape(f"{words.size(one, series)}; {words.between(one)}")
        lines.append(
            f'<path class="mark {kind}" d="M{place} {_TOP}V{_HEIGHT - _BOTTOM}">'
            f"<title>{tip}</title></path>"
        )
    for run, anchor in ((history.runs[0], "start"), (history.runs[-1], "end")):
        where = _LEFT if anchor == "start" else _WIDTH - _RIGHT
        text = escape(f"{run.when[:10]} {run.code}".strip())
        lines.append(f'<text x="{where}" y="{_HEIGHT - 6}" text-anchor="{anchor}">{text}</text>')
    return "".join(lines) + "</svg>"


def _dots(history: History, series: Series, x, y) -> list[str]:  # type: ignore[no-untyped-def]
    known, at = series.known, series.runs
    if len(at) > _MOST_POINTS:
        parts = np.array_split(np.arange(len(at)), _MOST_POINTS)
        return [
            f'<circle class="run" cx="{x(float(at[p].mean()))}" '
            f'cy="{y(float(np.median(known[p])))}" r="1.5"/>'
            for p in parts
        ]
    found = []
    for run, value in zip(at.tolist(), known.tolist(), strict=True):
        point = history.runs[run]
        tip = escape(
            f"{words.figure(series, value)} {point.code} {point.when[:10]} run {point.run}"
        )
        found.append(
            f'<circle class="run" cx="{x(run)}" cy="{y(value)}" r="2"><title>{tip}</title></circle>'
        )
    return found
