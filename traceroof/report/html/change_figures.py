"""The charts of a report with its base in them, made from the charts without it.

Bars of both sides for the categories; for the kernels placed by their rates a tail from where the
base was. Where times do not compare, the tables have both sides and the pictures the head alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from traceroof.compare.changes import Change
from traceroof.core.units import (
    percent,
    quantity,
)
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.html import figures
from traceroof.report.html.change_words import DASH, delta, mark_of, sides_of
from traceroof.report.html.changes import Changes
from traceroof.report.html.chart import (
    Chart,
    axis,
    beside,
    layout,
    number,
    pattern,
    plain,
    plain_json,
    time_unit,
)
from traceroof.report.html.moved_kernels import PLACED, placed
from traceroof.report.html.palette import COLORS, FAMILIES
from traceroof.report.html.timeline_figures import gpu_labels


def charts(changes: Changes) -> dict[str, Chart | None]:
    """Every chart of the head by name, in the order of the report, with its base."""
    made = figures.charts(changes.comparison.head)
    made["categories"] = _categories(changes, made["categories"])
    for name, how in PLACED.items():
        chart = made[name]
        made[name] = chart and placed(changes, chart, how)
    timelines, idle = made["timeline"], made["idle"]
    made["timeline"] = timelines and _timelines(changes, timelines)
    made["idle"] = idle and _idle(changes, idle)
    return made


# --- categories -------------------------------------------------------------------------------


def _categories(changes: Changes, chart: Chart | None) -> Chart | None:
    """Time of a step or run by category: a bar for now, divided by walls, a thin one for the base."""
    comparison = changes.comparison
    found = [one for one in comparison.categories if one.slower_ns]
    if chart is None or not found:
        return chart
    totals = {one.category: one for one in comparison.head.categories}
    walls = {str(row[0]): row for row in chart.rows}
    return replace(
        chart,
        summary=f"Bars of GPU time {changes.unit} by operator category, now and in the base; the "
        "numbers are in the table beside.",
        caption=f"Time {changes.unit}, median. "
        + (
            "Upper bar: now, split by what bounds the kernels. Lower bar: the base."
            if comparison.compared
            else "Divided by the wall that the kernels of the category hit."
        ),
        figure=_bars(changes, found),
        header=(("Category", False), ("Base", True), ("Now", True), ("Change", True),
                ("Verdict", False), ("Share of GPU time", True), ("Launches", True), ("Walls hit", False)),
        rows=[
            (
                one.name,
                *(_ns(time) for time in sides_of(one)),
                delta(one),
                f"{mark_of(one).sign}\u00a0{mark_of(one).word}",
                percent(totals[one.name].share) if one.name in totals else DASH,
                f"{totals[one.name].launches:,}" if one.name in totals else DASH,
                walls[one.name][-1] if one.name in walls else DASH,
            )
            for one in found
        ],
    )  # fmt: skip


def _now_bars(
    head: Diagnosis, found: Sequence[Change], now_at: Sequence[float], factor: float
) -> list[Any]:
    """The time now, divided by the family of walls as the head's kernels of the category are."""
    import plotly.graph_objects as go

    parts = figures.time_by_family(head)
    totals = {one.category: one.time_ns for one in head.categories}
    traces: list[Any] = []
    for family in FAMILIES:
        times = [
            parts.get((one.name, family.name), 0)
            * (one.head.median_ns or 0.0)
            / (totals.get(one.name) or 1)
            for one in found
        ]
        if not any(times):
            continue
        traces.append(
            go.Bar(
                orientation="h",
                y=now_at,
                width=0.46,
                x=[number(time / factor) for time in times],
                name=family.title,
                marker={
                    "color": COLORS[family.name],
                    "line": {"width": 0},
                    "pattern": pattern(family.pattern),
                },
                hoverinfo="text",
                hovertext=[
                    f"{plain(one.name)}, now, {family.title}: {quantity(time, 'ns')}"
                    for one, time in zip(found, times, strict=True)
                ],
            )
        )
    return traces


def _bars(changes: Changes, found: Sequence[Change]) -> Mapping[str, Any]:
    import plotly.graph_objects as go

    comparison = changes.comparison
    both = comparison.compared
    longest = max(one.slower_ns for one in found) if both else max(
        (one.head.median_ns or 0.0) for one in found
    )  # fmt: skip
    factor, unit = time_unit(longest)
    # The axis counts, so that two bars of other widths stand at one name.
    now_at = [at - (0.14 if both else 0.0) for at in range(len(found))]
    traces = _now_bars(comparison.head, found, now_at, factor)
    if both:
        traces.append(
            go.Bar(
                orientation="h",
                y=[at + 0.24 for at in range(len(found))],
                width=0.2,
                x=[number((one.base.median_ns or 0.0) / factor) for one in found],
                name="base",
                marker={
                    "color": COLORS["line"],
                    "line": {"width": 1, "color": COLORS["soft"]},
                },
                hoverinfo="text",
                hovertext=[f"{plain(one.name)}, base: {_ns(sides_of(one)[0])}" for one in found],
            )
        )
        traces.append(
            go.Scatter(
                **beside(
                    [number(one.slower_ns / factor) for one in found],
                    list(range(len(found))),
                    [_label(one) for one in found],
                )
            )
        )
    figure = go.Figure(
        traces,
        layout(
            barmode="stack",
            bargap=0.3,
            height=110 + 34 * len(found),
            xaxis=axis(
                f"GPU time {changes.unit}, {unit}",
                # The labels take their place at the right.
                range=[0, number((1.45 if both else 1.05) * longest / factor)],
            ),
            yaxis={
                **axis(""),
                "autorange": "reversed",
                "showgrid": False,
                "tickvals": list(range(len(found))),
                "ticktext": [plain(one.name) for one in found],
            },
        ),
    )
    return plain_json(figure)


def _label(one: Change) -> str:
    mark = mark_of(one)
    figure = delta(one).partition(" (")[2].rstrip(")") or delta(one)
    return f"{figure} {mark.sign} {mark.word}"


# --- timeline ---------------------------------------------------------------------------------


def _timelines(changes: Changes, chart: Chart) -> Chart:
    """The table of GPUs with the idle share of the base, where both sides have the same GPUs."""
    base = changes.comparison.base
    shares = {
        label: one.idle_ns / one.span_ns if one.span_ns else None
        for label, one in zip(gpu_labels(base), base.timelines, strict=True)
    }
    head = changes.comparison.head.timelines
    rows = []
    for row, one in zip(chart.rows, head, strict=False):
        was = shares.get(str(row[0]))
        now = one.idle_ns / one.span_ns if one.span_ns else None
        rows.append((*row, DASH if was is None else percent(was), changes.points(was, now) or DASH))
    return replace(
        chart,
        header=(*chart.header, ("Base idle share", True), ("Change", True)),
        rows=rows,
    )


def _idle(changes: Changes, chart: Chart) -> Chart:
    """The table of idle causes as shares of the span on both sides."""
    last = len(chart.header) - 1
    rows = []
    for row in chart.rows:
        base, now, points = changes.idle_shares(str(row[0]).replace(" ", "_"))
        rows.append((*row[:last], base, now, points, row[last]))
    return replace(
        chart,
        header=(
            *chart.header[:last], ("Of the span, base", True), ("Now", True), ("Change", True),
            chart.header[last],
        ),
        rows=rows,
    )  # fmt: skip


def _ns(value: float | None) -> str:
    return DASH if value is None else quantity(value, "ns")
