"""Charts that place kernels by their rates, with a tail from where each was in the base."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from traceroof.core.kernel_names import short_names
from traceroof.core.units import count, digits, quantity
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.report.html.change_words import DASH
from traceroof.report.html.changes import Changes
from traceroof.report.html.chart import Chart, log_axis, number, plain, plain_json
from traceroof.report.html.palette import COLORS

Place = Callable[[KernelGroup], tuple[float, float] | None]


@dataclass(frozen=True)
class How:
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


#: The charts that place kernels by their rates, by name.
PLACED: Mapping[str, How] = {
    "roofline": How(
        _on_roofline, True, ("Base FLOP/byte", "Base rate"),
        (digits, lambda value: quantity(value, "FLOP/s")),
    ),
    "use": How(
        _by_use, False, ("Base memory", "Base compute"),
        (lambda value: quantity(value, "%"), lambda value: quantity(value, "%")),
    ),
}  # fmt: skip


def placed(changes: Changes, chart: Chart, how: How) -> Chart:
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


def _base_place(changes: Changes, index: int, how: How) -> tuple[float, float] | None:
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
    how: How,
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
