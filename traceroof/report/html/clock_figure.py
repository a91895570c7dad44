"""The strip of a clock log: core clock and power of a GPU over the run, and when a limit held it."""

from collections.abc import Iterable, Sequence
from typing import Any

from traceroof.core.units import quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.html.chart import Chart, axis, layout, number, plain, plain_json, time_unit
from traceroof.report.html.palette import COLORS
from traceroof.scopes.logged_clocks import Course

Values = Sequence[float | None]


def course(diagnosis: Diagnosis) -> Chart | None:
    """How clock and power of the busiest GPU of the log went; None without a log."""
    if diagnosis.clocks is None:
        return None
    gpus = [one for one in diagnosis.clocks.gpus if _drawn(one.course)]
    if not gpus:
        return None
    import plotly.graph_objects as go

    gpu = max(gpus, key=lambda one: (one.judged, one.loaded or 0))
    found = gpu.course
    aligned = not diagnosis.clocks.unaligned
    places, title, words = _axis(found, aligned)
    traces = list(_lines(found, places, words))
    shapes = list(_held(found, places))
    if aligned and diagnosis.totals.wall_ns and found.time_ns is not None:
        factor = time_unit(max(map(abs, found.time_ns)))[0]
        shapes += _edges((0.0, number(diagnosis.totals.wall_ns / factor)))
    name = "the GPU" if gpu.gpu is None else f"GPU {gpu.gpu}"
    figure = go.Figure(
        traces,
        layout(
            height=230,
            showlegend=False,
            shapes=shapes,
            xaxis={**axis(title), "showgrid": False, "anchor": "y2"},
            yaxis={**axis("core clock, GHz"), "domain": [0.55, 1.0], "rangemode": "tozero"},
            yaxis2={**axis("power, W"), "domain": [0.0, 0.45], "rangemode": "tozero"},
        ),
    )
    between = "between the dashed lines is the run" if aligned else diagnosis.clocks.unaligned
    return Chart(
        name="clocks",
        title=f"Clock and power of {name}",
        summary=f"Core clock and power of {name} over time by the clock log; the numbers are in the "
        "table below.",
        caption=f"Medians of neighbouring samples; bars at the foot of the upper strip mark where a "
        f"limit of power or temperature held the clock; {between}.",
        figure=plain_json(figure),
        header=(("Time", True), ("Core clock", True), ("Power", True), ("Held by a limit", False)),
        rows=[
            (word, quantity(clock, "Hz"), quantity(power, "W"), _HELD[limited])
            for word, clock, power, limited in zip(
                words, found.sm_clock_hz, found.power_w, found.limited, strict=True
            )
        ],
    )


_HELD = {None: "not told", True: "yes", False: "no"}


def _drawn(one: Course) -> bool:
    return any(value is not None for value in (*one.sm_clock_hz, *one.power_w))


def _axis(found: Course, aligned: bool) -> tuple[list[float], str, list[str]]:
    """Where the points stand, what the axis is called, and each point in words."""
    if found.time_ns is None:
        count = len(found.sm_clock_hz)
        return list(map(float, range(count))), "sample", [str(at + 1) for at in range(count)]
    factor, unit = time_unit(max(map(abs, found.time_ns)))
    since = "since the run began" if aligned else "since the first sample"
    return (
        [number(one / factor) for one in found.time_ns],
        f"time {since}, {unit}",
        [quantity(one, "ns") for one in found.time_ns],
    )


def _lines(found: Course, places: Sequence[float], words: Sequence[str]) -> Iterable[Any]:
    import plotly.graph_objects as go

    parts: Sequence[tuple[str, Values, float, str, str, str]] = (
        ("core clock", found.sm_clock_hz, 1e9, "Hz", "compute", "y"),
        ("power", found.power_w, 1.0, "W", "memory", "y2"),
    )
    for title, values, factor, unit, color, on in parts:
        yield go.Scatter(
            x=places,
            y=[None if one is None else number(one / factor) for one in values],
            yaxis=on,
            mode="lines+markers" if len(places) < 2 else "lines",
            line={"color": COLORS[color], "width": 1.6, "shape": "hvh"},
            hoverinfo="text",
            hovertext=[
                plain(f"{word}: {title} {quantity(one, unit)}")
                for word, one in zip(words, values, strict=True)
            ],
            name=title,
        )


def _held(found: Course, places: Sequence[float]) -> Iterable[dict[str, Any]]:
    """A bar under each stretch in which a limit held the clock."""
    start = None
    ends = [*places[1:], places[-1] + (places[-1] - places[0]) / max(len(places) - 1, 1)]
    for at, limited in enumerate([*found.limited, False]):
        if limited and start is None:
            start = at
        elif not limited and start is not None:
            yield {
                "type": "rect", "xref": "x", "yref": "paper", "x0": places[start],
                "x1": ends[at - 1], "y0": 0.55, "y1": 0.585, "line": {"width": 0},
                "fillcolor": COLORS["waiting"],
            }  # fmt: skip
            start = None


def _edges(at: Sequence[float]) -> list[dict[str, Any]]:
    return [
        {
            "type": "line", "xref": "x", "yref": "paper", "x0": one, "x1": one, "y0": 0, "y1": 1,
            "line": {"color": COLORS["soft"], "width": 1, "dash": "dash"},
        }
        for one in at
    ]  # fmt: skip
