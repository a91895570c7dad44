"""The charts of a report: figures made by plotly.py, each with the same numbers as a table.

Only bars and scatters are used: the page carries Plotly's *basic* bundle. Plotly takes text for
markup, so every name goes through ``plain``. Charts show the kernels with the most time; what is
left out is said in the caption.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceroof.core.kernel_names import short_names
from traceroof.core.units import digits, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.hardware.devices import DTYPES
from traceroof.report.html import timeline_figures
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
from traceroof.report.html.palette import COLORS, FAMILIES, look

#: A chart shows at most so many kernels, the ones with the most time.
MOST_MARKS = 60

# Marks: the largest has this diameter in pixels, the smallest stays visible.
_LARGEST, _SMALLEST = 42, 7
# So many marks, the largest, carry the number of their kernel, unless it would lie on another's:
# closer than this share of the chart's width and height.
_NUMBERED = 8
_APART = (0.10, 0.06)

# Where Nsight Compute's SpeedOfLight rule, and the classes, draw the line.
_WALL_PCT, _BUSY_PCT = 80, 60


def charts(diagnosis: Diagnosis) -> dict[str, Chart | None]:
    """Every chart by name, in the order of the report; None where there is nothing to show."""
    return {
        "categories": categories(diagnosis),
        "roofline": roofline(diagnosis),
        "use": use(diagnosis),
        "timeline": timeline_figures.timelines(diagnosis),
        "idle": timeline_figures.idle(diagnosis),
        "steps": timeline_figures.steps(diagnosis),
    }


def categories(diagnosis: Diagnosis) -> Chart | None:
    """GPU time by operator category, each bar divided by the wall that its kernels hit."""
    import plotly.graph_objects as go

    if not any(one.time_ns for one in diagnosis.categories):
        return None
    parts = time_by_family(diagnosis)
    factor, unit = time_unit(max(one.time_ns for one in diagnosis.categories))
    names = [one.category for one in diagnosis.categories]
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
            xaxis=axis(f"GPU time, {unit}", range=[0, number(1.12 * _longest(diagnosis) / factor)]),
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


def roofline(diagnosis: Diagnosis) -> Chart | None:
    """Operations per DRAM byte against the rate reached, under the ceilings of the device."""
    import plotly.graph_objects as go

    placed = [
        (index, kernel)
        for index, kernel in enumerate(diagnosis.kernels)
        if kernel.roofline
        and kernel.roofline["intensity"]
        and kernel.roofline["achieved_flops_per_s"]
    ]
    if not placed:
        return None
    shown = placed[:MOST_MARKS]
    names = _names(shown)
    xs = [kernel.roofline["intensity"] for _, kernel in shown if kernel.roofline]
    ys = [kernel.roofline["achieved_flops_per_s"] for _, kernel in shown if kernel.roofline]
    ceilings = _ceilings([kernel for _, kernel in shown])
    modelled = sum(_is_modelled(kernel) for _, kernel in shown)
    left = min([*xs, *(one.ridge for one in ceilings if one.ridge)]) / 4
    right = max([*xs, *(one.ridge for one in ceilings if one.ridge)]) * 6
    traces = [
        *_ceiling_traces(ceilings, left, right),
        *_mark_traces(shown, names, xs, ys, logarithmic=True),
    ]
    tops = [one.flops_per_s for one in ceilings if one.flops_per_s]
    bottom, top = _with_room(min(ys) / 4, max([*ys, *tops]) * 3, marks=(min(ys), max(ys)))
    left, right = _with_room(left, right, marks=(min(xs), max(xs)))
    figure = go.Figure(
        traces,
        layout(
            height=460,
            xaxis=log_axis("operations per DRAM byte, FLOP/byte", left, right),
            yaxis=log_axis("rate reached, FLOP/s", bottom, top),
        ),
    )
    return Chart(
        name="roofline",
        title="Rate against operations per byte",
        summary=f"{len(shown)} kernels by operations per DRAM byte and rate reached, with the "
        "ceilings of device memory and arithmetic; the numbers are in the table below.",
        caption=f"{_of_all(shown, placed)} A mark's area is its time; open marks are short of a "
        f"wall.{_by_model(modelled, len(shown))}{_unplaced(len(diagnosis.kernels) - len(placed))}",
        figure=plain_json(figure),
        header=(("#", True), ("Kernel", False), ("Class", False), ("FLOP/byte", True),
                ("Rate reached", True), ("Roof there", True), ("Of the roof", True),
                ("Work", False), ("Time", True)),
        rows=[_roofline_row(index, kernel, names) for index, kernel in shown],
        kernels=[index for index, _ in shown],
        legend=[*_ceiling_legend(ceilings), *_class_legend(shown)],
    )  # fmt: skip


def _with_room(low: float, high: float, marks: tuple[float, float]) -> tuple[float, float]:
    """A logarithmic axis so long that the marks at its ends are whole: over many decades a factor
    is less than the radius of a large mark."""
    room = (high / low) ** _ROOM
    return min(low, marks[0] / room), max(high, marks[1] * room)


# The radius of the largest mark, as a share of the shortest axis (the upright one, 460 px high less
# its labels), and a little more.
_ROOM = 0.09


def _class_legend(shown: Sequence[tuple[int, KernelGroup]]) -> list[tuple[str, str, str]]:
    present = dict.fromkeys(kernel.primary_class for _, kernel in shown)
    return [(look(name).family, look(name).mark, name) for name in present]


def _unplaced(count: int) -> str:
    if not count:
        return ""
    kernels = "1 kernel has" if count == 1 else f"{count:,} kernels have"
    return f" {kernels} no place here: operations or DRAM bytes are unknown."


def _is_modelled(kernel: KernelGroup) -> bool:
    """Whether operations and bytes are those of the operator's model, not counted."""
    return (kernel.roofline or {}).get("traffic_basis") == "model"


def _by_model(modelled: int, shown: int) -> str:
    if not modelled:
        return ""
    whose = "All work" if modelled == shown else f"The work of {modelled}"
    return f" {whose} is by the operator's model: its operations and least traffic, not counted."


def _roofline_row(index: int, kernel: KernelGroup, names: Mapping[str, str]) -> Sequence[str]:
    roof = kernel.roofline or {}
    return (
        str(index + 1),
        names[kernel.kernel],
        kernel.primary_class,
        digits(roof["intensity"]),
        quantity(roof["achieved_flops_per_s"], "FLOP/s"),
        quantity(roof["attainable_flops_per_s"], "FLOP/s"),
        percent(roof["utilisation"]),
        "by model" if _is_modelled(kernel) else "counted",
        quantity(kernel.time_ns, "ns"),
    )


@dataclass(frozen=True)
class Ceiling:
    """The roof of one or more element types, or of device memory alone (no type).

    traffic: for which mix of reads and writes a measured bandwidth holds.
    """

    dtype: str | None
    bytes_per_s: float | None
    flops_per_s: float | None
    basis: str
    traffic: str = ""

    @property
    def ridge(self) -> float | None:
        """Where the two roofs meet, FLOP/byte."""
        if self.bytes_per_s is None or self.flops_per_s is None:
            return None
        return self.flops_per_s / self.bytes_per_s

    @property
    def is_measured(self) -> bool:
        """Whether the roof was measured on the device: drawn as a whole line."""
        return self.basis in ("measured", "calibrated")

    @property
    def label(self) -> str:
        """The roof in words, with where it comes from."""
        basis = _BASIS.get(self.basis, self.basis)
        if self.dtype:
            return f"{self.dtype} {quantity(self.flops_per_s, 'FLOP/s')}, {basis}"
        traffic = f" {self.traffic}" if self.traffic else ""
        return f"DRAM{traffic} {quantity(self.bytes_per_s, 'byte/s')}, {basis}"


_BASIS = {
    "report": "from the report",
    "device-table": "nominal, device table",
    "measured": "measured on this device",
    "calibrated": "calibrated",
}


def _ceilings(kernels: Sequence[KernelGroup]) -> list[Ceiling]:
    """The roofs to draw: per element type those of the kernel with the most time.

    Peaks that a report implies differ a little from kernel to kernel; one line is drawn. Types
    with one peak share it.
    """
    memory: float | None = None
    memory_basis = ""
    found: dict[str, tuple[float, str]] = {}
    for kernel in kernels:
        roof = kernel.roofline or {}
        if memory is None and roof.get("peak_bytes_per_s"):
            memory, memory_basis = roof["peak_bytes_per_s"], roof["ceiling_basis"]
        dtype, peak = roof.get("dtype"), roof.get("peak_flops_per_s")
        if dtype and peak:
            found.setdefault(dtype, (peak, roof["ceiling_basis"]))
    types_of: dict[tuple[float, str], list[str]] = {}
    for dtype, roof_of in sorted(found.items()):
        types_of.setdefault(roof_of, []).append(dtype)
    made = [
        Ceiling(_arithmetic(dtypes), memory, peak, basis)
        for (peak, basis), dtypes in sorted(types_of.items(), reverse=True)
    ]
    made = [Ceiling(None, memory, None, memory_basis), *made] if memory else made
    return made + _measured(kernels)


def _arithmetic(dtypes: Sequence[str]) -> str:
    """The types that a data sheet has a rate for; indices and masks are counted at their rate."""
    return ", ".join([dtype for dtype in dtypes if dtype in DTYPES] or dtypes)


def _measured(kernels: Iterable[KernelGroup]) -> list[Ceiling]:
    """The roofs that were measured, below the nominal ones; what is assumed is no roof to draw."""
    memory: dict[tuple[str, str], float] = {}
    types: dict[tuple[str, str], float] = {}
    for kernel in kernels:
        roof = kernel.roofline or {}
        if roof.get("likely_bytes_basis") in _BASIS and roof.get("likely_bytes_per_s"):
            traffic = roof.get("likely_bytes_ceiling") or ""
            traffic = "" if traffic == "dram" else traffic
            memory.setdefault((traffic, roof["likely_bytes_basis"]), roof["likely_bytes_per_s"])
        if roof.get("likely_flops_basis") in _BASIS and roof.get("likely_flops_per_s"):
            key = (roof.get("dtype") or "", roof["likely_flops_basis"])
            types.setdefault(key, roof["likely_flops_per_s"])
    fastest = max(memory.values(), default=None)
    return [
        *(Ceiling(None, rate, None, basis, traffic) for (traffic, basis), rate in memory.items()),
        *(Ceiling(dtype, fastest, rate, basis) for (dtype, basis), rate in types.items()),
    ]


def _ceiling_legend(ceilings: Sequence[Ceiling]) -> list[tuple[str, str, str]]:
    return [("ink", "─" if one.is_measured else "┄", one.label) for one in ceilings]


def _ceiling_traces(ceilings: Sequence[Ceiling], left: float, right: float) -> list[Any]:
    import plotly.graph_objects as go

    traces = []
    highest = max((one.ridge for one in ceilings if one.ridge), default=right)
    for one in ceilings:
        if one.flops_per_s:
            xs = [one.ridge or left, right]
            ys = [one.flops_per_s, one.flops_per_s]
            text = ["", one.dtype or ""]
        else:
            xs = [left, (left * highest) ** 0.5, highest]
            ys = [(one.bytes_per_s or 0) * x for x in xs]
            text = ["", "DRAM", ""]
        traces.append(
            go.Scatter(
                x=[number(x) for x in xs],
                y=[number(y) for y in ys],
                mode="lines+text",
                # A measured roof lies close below the nominal one: the legend names it.
                text=[""] * len(xs) if one.is_measured else text,
                # Above a roof is always room.
                textposition="top left",
                textfont={"color": COLORS["soft"], "size": 11},
                line={
                    "color": COLORS["ink"],
                    "width": 1.4,
                    "dash": "solid" if one.is_measured else "dash",
                },
                name=plain(one.label),
                hoverinfo="name",
                hoverlabel={"namelength": -1},
                showlegend=True,
            )
        )
    return traces


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
    names = _names(shown)
    xs = [float(kernel.metrics["memory_pct"]) for _, kernel in shown]
    ys = [float(kernel.metrics["compute_pct"]) for _, kernel in shown]
    edge = 104.0
    lines = (
        (_WALL_PCT, "ink", "dash", "at a wall"),
        (_BUSY_PCT, "soft", "dot", "busy"),
    )
    traces: list[Any] = [
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
    traces += _mark_traces(shown, names, xs, ys, logarithmic=False)
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
        caption=f"{_of_all(shown, known)} Near an axis end: at that wall. Lower left: waiting.",
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
            ("ink", "┄", f"{_WALL_PCT} %: at a wall"),
            ("soft", "┈", f"{_BUSY_PCT} %: busy"),
            *_class_legend(shown),
        ],
    )  # fmt: skip


def _mark_traces(
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


def _names(shown: Sequence[tuple[int, KernelGroup]]) -> Mapping[str, str]:
    return short_names([kernel.kernel for _, kernel in shown], 60)


def _of_all(shown: Sequence[object], known: Sequence[object]) -> str:
    if len(shown) == len(known):
        return f"{len(known):,} kernel{'s' * (len(known) != 1)}."
    return f"The {len(shown)} of {len(known):,} kernels with the most time."
