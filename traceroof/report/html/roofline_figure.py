"""The roofline: operations per byte against the rate reached, under the ceilings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from traceroof.core.units import digits, percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.hardware.devices import DTYPES
from traceroof.report.html.chart import (
    Chart,
    layout,
    log_axis,
    number,
    plain,
    plain_json,
)
from traceroof.report.html.marks import (
    MOST_MARKS,
    class_legend,
    mark_traces,
    names_of,
    of_all,
    unplaced,
)
from traceroof.report.html.palette import COLORS


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
    names = names_of(shown)
    xs = [kernel.roofline["intensity"] for _, kernel in shown if kernel.roofline]
    ys = [kernel.roofline["achieved_flops_per_s"] for _, kernel in shown if kernel.roofline]
    ceilings = _ceilings([kernel for _, kernel in shown])
    modelled = sum(_is_modelled(kernel) for _, kernel in shown)
    left = min([*xs, *(one.ridge for one in ceilings if one.ridge)]) / 4
    right = max([*xs, *(one.ridge for one in ceilings if one.ridge)]) * 6
    traces = [
        *_ceiling_traces(ceilings, left, right),
        *mark_traces(shown, names, xs, ys, logarithmic=True),
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
        caption=f"{of_all(shown, placed)} A mark's area is its time; open marks are short of a "
        f"wall.{_by_model(modelled, len(shown))}{unplaced(len(diagnosis.kernels) - len(placed))}",
        figure=plain_json(figure),
        header=(("#", True), ("Kernel", False), ("Class", False), ("FLOP/byte", True),
                ("Rate reached", True), ("Roof there", True), ("Of the roof", True),
                ("Work", False), ("Time", True)),
        rows=[_roofline_row(index, kernel, names) for index, kernel in shown],
        kernels=[index for index, _ in shown],
        legend=[*_ceiling_legend(ceilings), *class_legend(shown)],
    )  # fmt: skip


def _with_room(low: float, high: float, marks: tuple[float, float]) -> tuple[float, float]:
    """A logarithmic axis so long that the marks at its ends are whole: over many decades a factor
    is less than the radius of a large mark."""
    room = (high / low) ** _ROOM
    return min(low, marks[0] / room), max(high, marks[1] * room)


# The radius of the largest mark, as a share of the shortest axis (the upright one, 460 px high less
# its labels), and a little more.
_ROOM = 0.09


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
    return made + _at_the_clock(kernels, memory) + _measured(kernels)


def _at_the_clock(kernels: Iterable[KernelGroup], memory: float | None) -> list[Ceiling]:
    """The nominal FLOP rates at the clock that a log saw, of the kernel with the most time."""
    found: dict[str, tuple[float, float]] = {}
    for kernel in kernels:
        roof = kernel.roofline or {}
        if roof.get("dtype") and roof.get("clock_flops_per_s"):
            found.setdefault(roof["dtype"], (roof["clock_flops_per_s"], roof["clock_hz"]))
    return [
        Ceiling(dtype, memory, peak, f"at {quantity(clock, 'Hz')}, the clock log's")
        for dtype, (peak, clock) in found.items()
    ]


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
