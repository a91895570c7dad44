"""Kernels as marks of a chart: shape by class, size by time, numbers where there is room."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from traceroof.core.kernel_names import short_names
from traceroof.core.units import digits, percent, quantity
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.report.html.chart import (
    number,
    plain,
)
from traceroof.report.html.palette import COLORS, look

#: A chart shows at most so many kernels, the ones with the most time.
MOST_MARKS = 60

# Marks: the largest has this diameter in pixels, the smallest stays visible.
_LARGEST, _SMALLEST = 42, 7
# So many marks, the largest, carry the number of their kernel, unless it would lie on another's:
# closer than this share of the chart's width and height.
_NUMBERED = 8
_APART = (0.10, 0.06)


def class_legend(shown: Sequence[tuple[int, KernelGroup]]) -> list[tuple[str, str, str]]:
    present = dict.fromkeys(kernel.primary_class for _, kernel in shown)
    return [(look(name).family, look(name).mark, name) for name in present]


def unplaced(count: int) -> str:
    if not count:
        return ""
    kernels = "1 kernel has" if count == 1 else f"{count:,} kernels have"
    return f" {kernels} no place here: operations or DRAM bytes are unknown."


def mark_traces(
    shown: Sequence[tuple[int, KernelGroup]],
    names: Mapping[str, str],
    xs: Sequence[float],
    ys: Sequence[float],
    *,
    logarithmic: bool,
) -> list[Any]:
    """One trace a class, so that the legend names the marks."""
    import plotly.graph_objects as go

    numbered = _numbered(xs, ys, logarithmic)
    largest = max((kernel.time_ns or 0 for _, kernel in shown), default=0) or 1
    traces = []
    for primary in dict.fromkeys(kernel.primary_class for _, kernel in shown):
        at = [n for n, (_, kernel) in enumerate(shown) if kernel.primary_class == primary]
        appearance = look(primary)
        traces.append(
            go.Scatter(
                x=[number(xs[n]) for n in at],
                y=[number(ys[n]) for n in at],
                mode="markers+text",
                text=[f"#{shown[n][0] + 1}" if n in numbered else "" for n in at],
                textposition="middle right",
                textfont={"color": COLORS["soft"], "size": 11},
                cliponaxis=False,
                name=primary,
                marker={
                    "color": COLORS[appearance.family],
                    "symbol": appearance.symbol,
                    "size": [shown[n][1].time_ns or 0 for n in at],
                    "sizemode": "area",
                    "sizeref": 2 * largest / _LARGEST**2,
                    "sizemin": _SMALLEST,
                    "opacity": 0.85,
                    # Open marks are drawn with the line alone; filled ones are set apart by it.
                    "line": {"width": 2 if appearance.symbol.endswith("open") else 0.8}
                    | ({} if appearance.symbol.endswith("open") else {"color": COLORS["paper"]}),
                },
                customdata=[shown[n][0] + 1 for n in at],
                hoverinfo="text",
                hovertext=[_hover(*shown[n], names) for n in at],
            )
        )
    return traces


def _numbered(xs: Sequence[float], ys: Sequence[float], logarithmic: bool) -> set[int]:
    """The marks that carry a number: the first ones, where there is room beside them."""
    placed = [_in_unit(values, logarithmic) for values in (xs, ys)]
    kept: list[int] = []
    for n in range(min(_NUMBERED, len(xs))):
        apart = all(
            any(
                abs(axis_of[n] - axis_of[other]) > least
                for axis_of, least in zip(placed, _APART, strict=True)
            )
            for other in kept
        )
        if apart:
            kept.append(n)
    return set(kept)


def _in_unit(values: Sequence[float], logarithmic: bool) -> list[float]:
    """Places on an axis that runs from 0 to 1 over the values."""
    scaled = [math.log10(value) for value in values] if logarithmic else list(values)
    low, high = min(scaled), max(scaled)
    return [(value - low) / (high - low or 1) for value in scaled]


def _hover(index: int, kernel: KernelGroup, names: Mapping[str, str]) -> str:
    """The kernel's card in a few lines."""
    roof = kernel.roofline or {}
    time = f"{quantity(kernel.time_ns, 'ns')} ({percent(kernel.share)})"
    calls = f"{kernel.launches:,} call{'s' * (kernel.launches != 1)}"
    lines = [
        f"#{index + 1} {names[kernel.kernel]}",
        f"{kernel.category} · {kernel.primary_class}",
        f"{time}, {calls} of {quantity(kernel.median_ns, 'ns')}",
    ]
    uses = [
        f"{label} {quantity(kernel.metrics[name], '%')}"
        for label, name in (("compute", "compute_pct"), ("memory", "memory_pct"),
                            ("DRAM", "dram_pct"))
        if name in kernel.metrics
    ]  # fmt: skip
    if uses:
        lines.append(", ".join(uses))
    if roof.get("intensity") and roof.get("achieved_flops_per_s"):
        reached = f"{digits(roof['intensity'])} FLOP/byte, " + quantity(
            roof["achieved_flops_per_s"], "FLOP/s"
        )
        if roof.get("utilisation") is not None:
            reached += f", {percent(roof['utilisation'])} of the roof"
        lines.append(reached)
    return "<br>".join(plain(line) for line in lines)


def names_of(shown: Sequence[tuple[int, KernelGroup]]) -> Mapping[str, str]:
    return short_names([kernel.kernel for _, kernel in shown], 60)


def of_all(shown: Sequence[object], known: Sequence[object]) -> str:
    if len(shown) == len(known):
        return f"{len(known):,} kernel{'s' * (len(known) != 1)}."
    return f"The {len(shown)} of {len(known):,} kernels with the most time."
