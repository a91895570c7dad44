"""What every chart of a report shares: its shape, axes, colours and how text becomes safe."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceroof.core.units import one_line
from traceroof.report.html.palette import COLORS

_PREFIXES = ("", "k", "M", "G", "T", "P")
_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))

Header = Sequence[tuple[str, bool]]


@dataclass(frozen=True)
class Chart:
    """A figure and what stands around it.

    summary: what the chart shows, for those who do not see it. header: column titles of the
    table, True where numbers align right. kernels: the kernel index of each table row, for links.
    legend: (colour name, mark, label) of what a page explains beside the figure, which then does
    without its own.
    """

    name: str
    title: str
    summary: str
    caption: str
    figure: Mapping[str, Any]
    header: Header
    rows: Sequence[Sequence[str]]
    kernels: Sequence[int] = ()
    legend: Sequence[tuple[str, str, str]] = ()


def plain(text: str) -> str:
    """Text that Plotly shows as it is: nothing in it is markup."""
    return html.escape(one_line(text), quote=False)


def layout(**more: Any) -> dict[str, Any]:
    """What all charts share: no decoration, colours of the page."""
    layout: dict[str, Any] = {
        "template": {},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 12, "color": COLORS["ink"]},
        "margin": {"l": 8, "r": 16, "t": 8, "b": 8},
        "hovermode": "closest",
        "hoverlabel": {
            "align": "left",
            "bgcolor": COLORS["paper"],
            "bordercolor": COLORS["soft"],
            "font": {"color": COLORS["ink"], "size": 12},
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.0,
            "yanchor": "bottom",
            "itemsizing": "constant",
            "traceorder": "normal",
        },
        "showlegend": True,
    }
    return layout | more


def beside(x: Sequence[float], y: Sequence[Any], texts: Sequence[str]) -> dict[str, Any]:
    """What makes a ``go.Scatter`` the labels at the ends of bars."""
    return {
        "x": x,
        "y": y,
        "mode": "text",
        "text": [f" {text}" for text in texts],
        "textposition": "middle right",
        "textfont": {"color": COLORS["soft"]},
        "cliponaxis": False,
        "hoverinfo": "skip",
        "showlegend": False,
    }


def pattern(shape: str) -> dict[str, Any]:
    """A pattern for bars, in the colour of the paper over the bar's own."""
    return {
        "shape": shape,
        "fillmode": "overlay",
        "fgcolor": COLORS["paper"],
        "fgopacity": 0.55,
        "size": 7,
        "solidity": 0.2,
    }


def axis(title: str, **more: Any) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": title, "font": {"color": COLORS["soft"], "size": 12}, "standoff": 10},
        "automargin": True,
        "gridcolor": COLORS["line"],
        "linecolor": COLORS["line"],
        "zeroline": False,
        "tickcolor": COLORS["line"],
        "fixedrange": True,
    }
    return axis | more


def log_axis(title: str, low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis from ``low`` to ``high``, with ticks at powers of ten.

    The ticks are made here: Plotly writes 10 with a raised 15, and sets the small 15 by a style
    that the policy of the page does not allow.
    """
    first, last = math.log10(low), math.log10(high)
    powers = range(math.ceil(first), math.floor(last) + 1)
    powers = powers[:: max(1, len(powers) // 8)]
    return axis(
        title,
        type="log",
        range=[number(first), number(last)],
        tickvals=[number(10.0**power) for power in powers],
        ticktext=[_power_of_ten(power) for power in powers],
        fixedrange=False,
    )


def _power_of_ten(power: int) -> str:
    """0.01, 1, 100, 10k, 1T; 1e18 beyond what has a common prefix."""
    if -3 <= power < 0:
        return f"{10.0**power:.{-power}f}"
    if 0 <= power < 3 * len(_PREFIXES):
        return f"{10 ** (power % 3)}{_PREFIXES[power // 3]}"
    return f"1e{power}"


def plain_json(figure: Any) -> Mapping[str, Any]:
    """The figure as plain data. Plotly checked it; nothing random or dated is in it."""
    made: dict[str, Any] = figure.to_plotly_json()
    return {"data": made["data"], "layout": made["layout"]}


def time_unit(largest_ns: float) -> tuple[float, str]:
    return next((unit for unit in _TIME_UNITS if largest_ns >= unit[0]), _TIME_UNITS[-1])


def number(value: float) -> float:
    """Six digits are more than a screen shows."""
    return float(f"{value:.6g}")
