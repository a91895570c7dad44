"""The charts of a timeline: how each GPU's time went by, why it was idle, its steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from traceroof.core.units import percent, quantity
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.html.chart import (
    Chart,
    axis,
    layout,
    number,
    pattern,
    plain,
    plain_json,
    time_unit,
)
from traceroof.report.html.palette import COLORS
from traceroof.timeline import CAUSES, Timeline

#: A chart shows at most so many GPUs or steps.
MOST_BARS = 40

# The parts of a GPU's span, in the order in which they are drawn: title, colour, pattern, time.
_PARTS: Sequence[tuple[str, str, str, Callable[[Timeline], int]]] = (
    ("compute", "soft", "", lambda one: one.compute_ns),
    ("communication that nothing hides", "moving", "-", lambda one: one.exposed_communication_ns),
    ("copies that nothing hides", "moving", ".", lambda one: one.exposed_memcpy_ns),
    ("idle", "line", "/", lambda one: one.idle_ns),
)


def timelines(diagnosis: Diagnosis) -> Chart | None:
    """How the time of each GPU went by."""
    found = diagnosis.timelines
    if not found:
        return None
    shown = found[:MOST_BARS]
    labels = gpu_labels(diagnosis)
    parts = [
        (title, color, shape, [time_of(one) for one in shown])
        for title, color, shape, time_of in _PARTS
    ]
    figure = _stacked(
        labels[: len(shown)],
        [part for part in parts if any(part[3])],
        "time from the first activity to the last",
    )
    return Chart(
        name="timeline",
        title="How the time of each GPU went by",
        summary=f"One bar for each of {len(shown)} GPUs, divided into compute, communication and "
        "copies that nothing hides, and idle time; the numbers are in the table below.",
        caption=_cut_caption(len(shown), len(found), "GPUs"),
        figure=figure,
        header=(("GPU", False), ("Span", True), ("Busy", True), ("Compute", True),
                ("Communication", True), ("of it exposed", True), ("Copies", True),
                ("Idle", True), ("Idle share", True)),
        rows=[
            (
                label,
                *(
                    quantity(time, "ns")
                    for time in (one.span_ns, one.busy_ns, one.compute_ns, one.communication_ns,
                                 one.exposed_communication_ns, one.memcpy_ns, one.idle_ns)
                ),
                percent(one.idle_ns / one.span_ns if one.span_ns else None),
            )
            for label, one in zip(labels, shown, strict=False)
        ],
    )  # fmt: skip


def idle(diagnosis: Diagnosis) -> Chart | None:
    """Idle time by cause, all GPUs together."""
    import plotly.graph_objects as go

    total: dict[str, int] = {}
    for one in diagnosis.timelines:
        for cause, time in one.idle_by_cause.items():
            total[cause] = total.get(cause, 0) + time
    causes = sorted((cause for cause in total if total[cause]), key=lambda cause: -total[cause])
    if not causes:
        return None
    everything = sum(total.values())
    factor, unit = time_unit(max(total.values()))
    titles = [cause.replace("_", " ") for cause in causes]
    figure = go.Figure(
        [
            go.Bar(
                orientation="h",
                y=[plain(title) for title in titles],
                x=[number(total[cause] / factor) for cause in causes],
                marker={"color": COLORS["unknown"]},
                text=[f" {percent(total[cause] / everything)}" for cause in causes],
                textposition="outside",
                textfont={"color": COLORS["soft"]},
                cliponaxis=False,
                hoverinfo="text",
                hovertext=[
                    f"{title}: {quantity(total[cause], 'ns')}<br>{plain(CAUSES.get(cause, ''))}"
                    for title, cause in zip(titles, causes, strict=True)
                ],
            )
        ],
        layout(
            height=90 + 26 * len(causes),
            bargap=0.3,
            showlegend=False,
            xaxis=axis(
                f"idle time, {unit}", range=[0, number(1.12 * max(total.values()) / factor)]
            ),
            yaxis={**axis(""), "autorange": "reversed", "showgrid": False},
        ),
    )
    return Chart(
        name="idle",
        title="Why the GPU was idle",
        summary=f"Bars of idle time by cause; {titles[0]} has the most, "
        f"{quantity(total[causes[0]], 'ns')} ({percent(total[causes[0]] / everything)}).",
        caption="All GPUs together." if len(diagnosis.timelines) > 1 else "",
        figure=plain_json(figure),
        header=(("Cause", False), ("Idle time", True), ("Share", True), ("What it means", False)),
        rows=[
            (
                title,
                quantity(total[cause], "ns"),
                percent(total[cause] / everything),
                CAUSES.get(cause, ""),
            )
            for title, cause in zip(titles, causes, strict=True)
        ],
    )


def steps(diagnosis: Diagnosis) -> Chart | None:
    """The steps of the first GPU that has some."""
    stepped = (
        (label, one.steps)
        for label, one in zip(gpu_labels(diagnosis), diagnosis.timelines, strict=True)
        if len(one.steps) > 1
    )
    label, found = next(stepped, ("", ()))
    if not found:
        return None
    shown = found[:MOST_BARS]
    names = [f"{one.name}{' (warm-up)' if one.warm_up else ''}" for one in shown]
    figure = _stacked(
        [plain(name) for name in names],
        [("busy", "soft", "", [one.busy_ns for one in shown]),
         ("idle", "line", "/", [one.idle_ns for one in shown])],
        "time of the step on the GPU",
    )  # fmt: skip
    where = f" of {label}" if len(diagnosis.timelines) > 1 else ""
    return Chart(
        name="steps",
        title=f"Steps{where}",
        summary=f"One bar for each of {len(shown)} steps{where}, divided into busy and idle; the "
        "numbers are in the table below.",
        caption=_cut_caption(len(shown), len(found), "steps"),
        figure=figure,
        header=(("Step", False), ("Span", True), ("Busy", True), ("Idle", True),
                ("Compute", True), ("Communication", True), ("of it exposed", True),
                ("Copies", True), ("Kernels", True)),
        rows=[
            (
                name,
                *(
                    quantity(time, "ns")
                    for time in (one.span_ns, one.busy_ns, one.idle_ns, one.compute_ns,
                                 one.communication_ns, one.exposed_communication_ns,
                                 one.memcpy_ns)
                ),
                f"{one.kernels:,}",
            )
            for name, one in zip(names, shown, strict=True)
        ],
    )  # fmt: skip


def gpu_labels(diagnosis: Diagnosis) -> list[str]:
    """What to call each timeline: the fewest words that tell it from the others."""
    identities = [
        {"rank": one.rank, "GPU": one.device, "process": one.process} for one in diagnosis.timelines
    ]
    for keys in (("rank",), ("GPU",), ("rank", "GPU"), ("process", "GPU")):
        labels = [_label(identity, keys) for identity in identities]
        named = all(identity[key] is not None for identity in identities for key in keys)
        if named and len(set(labels)) == len(labels):
            return labels
    return [_label(identity, ("rank", "process", "GPU")) for identity in identities]


def _label(identity: Mapping[str, int | None], keys: Sequence[str]) -> str:
    known = [f"{key} {identity[key]}" for key in keys if identity[key] is not None]
    return ", ".join(known) or "GPU"


def _stacked(
    labels: Sequence[str],
    parts: Sequence[tuple[str, str, str, Sequence[int]]],
    measured: str,
) -> Mapping[str, Any]:
    """One horizontal bar a label, divided into parts: title, colour, pattern, ns per label."""
    import plotly.graph_objects as go

    factor, unit = time_unit(
        max(sum(times) for times in zip(*(one[3] for one in parts), strict=True))
    )
    # Labels need not differ (steps of one name): the axis counts, the ticks say the name.
    at = list(range(len(labels)))
    traces = [
        go.Bar(
            orientation="h",
            y=at,
            x=[number(time / factor) for time in times],
            name=title,
            marker={
                "color": COLORS[color],
                "pattern": pattern(shape),
            },
            hoverinfo="text",
            hovertext=[
                f"{label}, {title}: {quantity(time, 'ns')}"
                for label, time in zip(labels, times, strict=True)
            ],
        )
        for title, color, shape, times in parts
    ]  # fmt: skip
    figure = go.Figure(
        traces,
        layout(
            barmode="stack",
            bargap=0.3,
            height=112 + 24 * len(labels),
            xaxis=axis(f"{measured}, {unit}"),
            yaxis={
                **axis(""),
                "autorange": "reversed",
                "showgrid": False,
                "tickvals": at,
                "ticktext": list(labels),
            },
        ),
    )
    return plain_json(figure)


def _cut_caption(shown: int, known: int, things: str) -> str:
    return f"The first {shown} of {known:,} {things}." if shown < known else ""
