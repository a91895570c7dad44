"""The charts of a report: figures made by plotly.py, each with the same numbers as a table.

Only bars and scatters are used: the page carries Plotly's *basic* bundle. Plotly takes text for
markup, so every name goes through ``plain``. Charts show the kernels with the most time; what is
left out is said in the caption.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from traceroof.core.units import percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.report.html import clock_figure, timeline_figures
from traceroof.report.html.chart import (
    Chart,
    axis,
    beside,
    layout,
    number,
    pattern,
    plain_json,
    time_unit,
)
from traceroof.report.html.marks import MOST_MARKS, class_legend, mark_traces, names_of, of_all
from traceroof.report.html.palette import COLORS, FAMILIES, look
from traceroof.report.html.roofline_figure import roofline

# Where Nsight Compute's SpeedOfLight rule, and the classes, draw the line.


def charts(diagnosis: Diagnosis) -> dict[str, Chart | None]:
    """Every chart by name, in the order of the report; None where there is nothing to show."""
    return {
        "categories": categories(diagnosis),
        "roofline": roofline(diagnosis),
        "use": use(diagnosis),
        "timeline": timeline_figures.timelines(diagnosis),
        "clocks": clock_figure.course(diagnosis),
        "idle": timeline_figures.idle(diagnosis),
        "steps": timeline_figures.steps(diagnosis),
    }


def _family_bars(
    names: Sequence[str], parts: Mapping[tuple[str, str], float], factor: float
) -> list[Any]:
    """One trace per family of walls that any of the categories hit."""
    import plotly.graph_objects as go

    traces: list[Any] = []
    for family in FAMILIES:
        times = [parts.get((name, family.name), 0) for name in names]
        if not any(times):
            continue
        traces.append(
            go.Bar(
                orientation="h",
                y=names,
                x=[number(time / factor) for time in times],
                name=family.title,
                marker={
                    "color": COLORS[family.name],
                    "line": {"width": 0},
                    "pattern": pattern(family.pattern),
                },
                hoverinfo="text",
                hovertext=[
                    f"{name}, {family.title}: {quantity(time, 'ns')}"
                    for name, time in zip(names, times, strict=True)
                ],
            )
        )
    return traces


def categories(diagnosis: Diagnosis) -> Chart | None:
    """GPU time by operator category, each bar divided by the wall that its kernels hit."""
    import plotly.graph_objects as go

    if not any(one.time_ns for one in diagnosis.categories):
        return None
    parts = time_by_family(diagnosis)
    factor, unit = time_unit(max(one.time_ns for one in diagnosis.categories))
    names = [one.category for one in diagnosis.categories]
    traces = _family_bars(names, parts, factor)
    traces.append(
        go.Scatter(
            **beside(
                [number(one.time_ns / factor) for one in diagnosis.categories],
                names,
                [percent(one.share) for one in diagnosis.categories],
            )
        )
    )
    figure = go.Figure(
        traces,
        layout(
            barmode="stack",
            bargap=0.3,
            height=90 + 26 * len(names),
            xaxis=axis(f"GPU time, {unit}", range=[0, number(1.25 * _longest(diagnosis) / factor)]),
            yaxis={**axis(""), "autorange": "reversed", "showgrid": False},
        ),
    )
    first = diagnosis.categories[0]
    return Chart(
        name="categories",
        title="Time by operator category",
        summary=f"Bars of GPU time by operator category; {first.category} has the most, "
        f"{quantity(first.time_ns, 'ns')} ({percent(first.share)}).",
        caption="Divided by the wall that the kernels of the category hit.",
        legend=[
            (family.name, family.sign, family.title)
            for family in FAMILIES
            if any(parts.get((name, family.name)) for name in names)
        ],
        figure=plain_json(figure),
        header=(("Category", False), ("Time", True), ("Share of GPU time", True), ("Launches", True),
                ("Walls hit", False)),
        rows=[
            (
                one.category,
                quantity(one.time_ns, "ns"),
                percent(one.share),
                f"{one.launches:,}",
                walls_hit(one.category, one.time_ns, parts),
            )
            for one in diagnosis.categories
        ],
    )  # fmt: skip


def time_by_family(diagnosis: Diagnosis) -> Mapping[tuple[str, str], int]:
    """(category, family) -> ns. Copies and fills are no kernels; what has no class is unknown."""
    parts: dict[tuple[str, str], int] = {}
    for kernel in diagnosis.kernels:
        key = (kernel.category, look(kernel.primary_class).family)
        parts[key] = parts.get(key, 0) + (kernel.time_ns or 0)
    for one in diagnosis.categories:
        if one.category in ("memcpy", "memset"):
            parts[one.category, "moving"] = one.time_ns
    return parts


def walls_hit(category: str, time_ns: int, parts: Mapping[tuple[str, str], int]) -> str:
    found = [(parts.get((category, family.name), 0), family.title) for family in FAMILIES]
    hit = sorted((one for one in found if one[0]), reverse=True)
    if len(hit) == 1:
        return hit[0][1]
    return ", ".join(f"{title} {percent(time / time_ns)}" for time, title in hit)


def _longest(diagnosis: Diagnosis) -> int:
    return max(one.time_ns for one in diagnosis.categories)


def _wall_lines() -> list[Any]:
    """Where one of the two uses is at a wall, and where it is busy."""
    import plotly.graph_objects as go

    lines = (
        (WALL_PCT, "ink", "dash", "at a wall"),
        (BUSY_PCT, "soft", "dot", "busy"),
    )
    return [
        go.Scatter(
            x=[0, pct, pct],
            y=[pct, pct, 0],
            mode="lines",
            line={"color": COLORS[color], "width": 1.2, "dash": dash},
            name=f"{pct} %: {label}",
            hoverinfo="name",
            hoverlabel={"namelength": -1},
        )
        for pct, color, dash, label in lines
    ]


def use(diagnosis: Diagnosis) -> Chart | None:
    """Compute use against memory use, for what no operation count places on the roofline."""
    import plotly.graph_objects as go

    known = [
        (index, kernel)
        for index, kernel in enumerate(diagnosis.kernels)
        if isinstance(kernel.metrics.get("compute_pct"), float | int)
        and isinstance(kernel.metrics.get("memory_pct"), float | int)
    ]
    if not known:
        return None
    shown = known[:MOST_MARKS]
    names = names_of(shown)
    xs = [float(kernel.metrics["memory_pct"]) for _, kernel in shown]
    ys = [float(kernel.metrics["compute_pct"]) for _, kernel in shown]
    edge = 104.0
    traces = _wall_lines()
    traces += mark_traces(shown, names, xs, ys, logarithmic=False)
    figure = go.Figure(
        traces,
        layout(
            height=460,
            xaxis=axis("memory use, % of peak", range=[-3, max([edge, *xs])]),
            yaxis=axis("compute use, % of peak", range=[-3, max([edge, *ys])]),
        ),
    )
    return Chart(
        name="use",
        title="Compute and memory use",
        summary=f"{len(shown)} kernels by memory use and compute use in percent of peak; the "
        "numbers are in the table below.",
        caption=f"{of_all(shown, known)} Near the end of an axis: at that wall. Lower left: neither is busy.",
        figure=plain_json(figure),
        header=(("#", True), ("Kernel", False), ("Class", False), ("Memory", True),
                ("Compute", True), ("DRAM", True), ("Time", True)),
        rows=[
            (
                str(index + 1),
                names[kernel.kernel],
                kernel.primary_class,
                quantity(kernel.metrics["memory_pct"], "%"),
                quantity(kernel.metrics["compute_pct"], "%"),
                quantity(kernel.metrics.get("dram_pct"), "%"),
                quantity(kernel.time_ns, "ns"),
            )
            for index, kernel in shown
        ],
        kernels=[index for index, _ in shown],
        legend=[
            ("ink", "┄", f"{WALL_PCT:g} %: at a wall"),
            ("soft", "┈", f"{BUSY_PCT:g} %: busy"),
            *class_legend(shown),
        ],
    )  # fmt: skip
