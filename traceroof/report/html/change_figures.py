"""The charts of a report with its base in them, made from the charts without it.

Bars of both sides for the categories; for the kernels placed by their rates a tail from where the
base was. Where times do not compare, the tables have both sides and the pictures the head alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from traceroof.compare.changes import Change
from traceroof.core.kernel_names import short_names
from traceroof.core.units import (
    count,
    digits,
    percent,
    quantity,
)
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.report.html import figures
from traceroof.report.html.change_words import DASH, delta, mark_of, sides_of
from traceroof.report.html.changes import Changes
from traceroof.report.html.chart import (
    Chart,
    axis,
    beside,
    layout,
    log_axis,
    number,
    pattern,
    plain,
    plain_json,
    time_unit,
)
from traceroof.report.html.palette import COLORS, FAMILIES
from traceroof.report.html.timeline_figures import gpu_labels

Place = Callable[[KernelGroup], tuple[float, float] | None]


def charts(changes: Changes) -> dict[str, Chart | None]:
    """Every chart of the head by name, in the order of the report, with its base."""
    made = figures.charts(changes.comparison.head)
    made["categories"] = _categories(changes, made["categories"])
    for name, how in _PLACED.items():
        chart = made[name]
        made[name] = chart and _placed(changes, chart, how)
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
            "The upper bar is now, divided by the wall that the kernels hit; the lower one is the base."
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


# --- kernels by their rates -------------------------------------------------------------------


@dataclass(frozen=True)
class _How:
    """Where a chart places a kernel, its axes, and how a place is written."""

    place: Place
    logarithmic: bool
    titles: tuple[str, str]
    written: tuple[Callable[[float], str], Callable[[float], str]]


def _on_roofline(kernel: KernelGroup) -> tuple[float, float] | None:
    roof = kernel.roofline or {}
    x, y = roof.get("intensity"), roof.get("achieved_flops_per_s")
    return (x, y) if x and y else None


def _by_use(kernel: KernelGroup) -> tuple[float, float] | None:
    x, y = kernel.metrics.get("memory_pct"), kernel.metrics.get("compute_pct")
    return (
        (float(x), float(y)) if isinstance(x, float | int) and isinstance(y, float | int) else None
    )


_PLACED: Mapping[str, _How] = {
    "roofline": _How(
        _on_roofline, True, ("Base FLOP/byte", "Base rate"),
        (digits, lambda value: quantity(value, "FLOP/s")),
    ),
    "use": _How(
        _by_use, False, ("Base memory", "Base compute"),
        (lambda value: quantity(value, "%"), lambda value: quantity(value, "%")),
    ),
}  # fmt: skip


def _placed(changes: Changes, chart: Chart, how: _How) -> Chart:
    """The chart with a tail at each mark, from where the kernel of the base was."""
    kernels = changes.comparison.head.kernels
    base = [_base_place(changes, index, how) for index in chart.kernels]
    last = len(chart.header) - 1
    rows = [
        (
            *row[:last],
            *((how.written[0](was[0]), how.written[1](was[1])) if was else (DASH, DASH)),
            row[last],
            changes.kernel(index).times,
            changes.kernel(index).delta,
        )
        for row, was, index in zip(chart.rows, base, chart.kernels, strict=True)
    ]
    made = replace(
        chart,
        header=(
            *chart.header[:last],
            *((title, True) for title in how.titles),
            chart.header[last],
            (f"Base → now, {changes.unit}", True),
            ("Change", True),
        ),
        rows=rows,
    )
    known = [was for was in base if was]
    moved = [
        (index, was, now)
        for index, was in zip(chart.kernels, base, strict=True)
        if was and (now := how.place(kernels[index])) and _moved(was, now)
    ]
    if not moved or not changes.comparison.compared:
        return made
    here = (
        f" {count(len(known) - len(moved), 'kernel')} moved by less than 2 %."
        if len(known) > len(moved)
        else ""
    )
    return replace(
        made,
        caption=f"{chart.caption} A tail begins where the base was.{here}",
        figure=_with_tails(changes, chart.figure, moved, how),
        legend=[*chart.legend, ("ink", "•─", "from the base")],
    )


def _moved(was: tuple[float, float], now: tuple[float, float]) -> bool:
    return any(abs(one - other) > _STILL * abs(one) for one, other in zip(was, now, strict=True))


# A move by less is not seen.
_STILL = 0.02


def _base_place(changes: Changes, index: int, how: _How) -> tuple[float, float] | None:
    base, now = changes.base_of(index), changes.comparison.head.kernels[index]
    if base is None:
        return None
    # Counted work and modelled work have other places for the same kernel.
    traffic = [(one.roofline or {}).get("traffic_basis") for one in (base, now)]
    return how.place(base) if not how.logarithmic or traffic[0] == traffic[1] else None


def _with_tails(
    changes: Changes,
    figure: Mapping[str, Any],
    moved: Sequence[tuple[int, tuple[float, float], tuple[float, float]]],
    how: _How,
) -> Mapping[str, Any]:
    import plotly.graph_objects as go

    names = short_names(
        [changes.comparison.head.kernels[index].kernel for index, _, _ in moved], 60
    )
    lines: tuple[list[float | None], list[float | None]] = ([], [])
    for _, was, now in moved:
        for at in (0, 1):
            lines[at].extend((number(was[at]), number(now[at]), None))
    tails = [
        go.Scatter(
            x=lines[0],
            y=lines[1],
            mode="lines",
            line={"color": COLORS["ink"], "width": 1.2},
            hoverinfo="skip",
            showlegend=False,
        ),
        go.Scatter(
            x=[number(was[0]) for _, was, _ in moved],
            y=[number(was[1]) for _, was, _ in moved],
            mode="markers",
            name="base",
            marker={"color": COLORS["ink"], "symbol": "circle", "size": 5},
            customdata=[index + 1 for index, _, _ in moved],
            hoverinfo="text",
            hovertext=[
                plain(
                    f"#{index + 1} {names[changes.comparison.head.kernels[index].kernel]} in the "
                    f"base: {how.written[0](was[0])}, {how.written[1](was[1])}"
                )
                for index, was, _ in moved
            ],
            showlegend=False,
        ),
    ]
    drawn = plain_json(go.Figure(tails))["data"]
    layout_of = dict(figure["layout"])
    for at, name in enumerate(("xaxis", "yaxis")):
        values = [was[at] for _, was, _ in moved]
        layout_of[name] = _wide_enough(layout_of[name], values, logarithmic=how.logarithmic)
    # On top: the marks of large kernels are larger than most moves.
    return {"data": [*figure["data"], *drawn], "layout": layout_of}


def _wide_enough(of: Mapping[str, Any], values: Sequence[float], *, logarithmic: bool) -> Any:
    """The axis, wide enough for further values."""
    low, high = of["range"]
    if not logarithmic:
        return {**of, "range": [min(low, *values), max(high, *values)]}
    low, high = 10.0**low, 10.0**high
    if min(values) / 2 >= low and max(values) * 2 <= high:
        return of
    return log_axis(of["title"]["text"], min(low, min(values) / 2), max(high, max(values) * 2))


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
