"""What every report of a history says in words."""

import numpy as np

from traceroof.core.kernel_names import short_names
from traceroof.core.units import count, quantity
from traceroof.history.change_points import ChangePoint
from traceroof.history.history import Change, Event, History, Point, Series

_BARS = "▁▂▃▄▅▆▇█"


def headline(history: History) -> str:
    """'train on H100-SXM5: 200 runs, 2026-01-02 (1a2b3c4) to 2026-06-30 (9f8e7d6), times per step'."""
    first, last = history.runs[0], history.runs[-1]
    branch = f" of branch {history.branch}" if history.branch else ""
    runs = count(len(history.runs), "run")
    span = f"{_day(first)} to {_day(last)}" if len(history.runs) > 1 else _day(first)
    return (
        f"{history.workload} on {history.device}: {runs}{branch}, {span}, times per {history.per}"
    )


def _day(point: Point) -> str:
    return f"{point.when[:10]} ({point.code})" if point.code else point.when[:10]


def label(series: Series | Change, width: int = 44) -> str:
    """The series as people call it: 'step time', a category, a kernel's short name."""
    name = series.name if isinstance(series, Series) else series.series
    if series.level == "kernel":
        return short_names([name], width)[name]
    return name.replace("-", " ") if series.level == "metric" else f"{name} (category)"


def figure(series: Series, value: float | None) -> str:
    """A value of the series with its unit."""
    if value is None or np.isnan(value):
        return "-"
    return quantity(value, series.unit)


def sparkline(series: Series, width: int) -> str:
    """The values as so many bars at most, medians of neighbours; a blank where no run has one."""
    values = series.values
    parts = np.array_split(values, min(width, len(values)))
    middles = np.array(
        [np.median(p[~np.isnan(p)]) if (~np.isnan(p)).any() else np.nan for p in parts]
    )
    known = middles[~np.isnan(middles)]
    if not len(known):
        return ""
    low, high = float(known.min()), float(known.max())
    # Noise alone is no mountain range: the scale is 2 % of the value at least.
    room = max(high - low, 0.02 * high) or 1.0
    start = (low + high - room) / 2
    step = np.clip((np.nan_to_num(middles, nan=start) - start) / room * len(_BARS), 0, 7).astype(
        int
    )
    return "".join(
        " " if np.isnan(one) else _BARS[at]
        for one, at in zip(middles.tolist(), step.tolist(), strict=True)
    )


def signed_pct(ratio: float) -> str:
    """'+4.2 %'."""
    return f"{ratio * 100:+.1f} %"


def since_first(series: Series) -> str:
    """The newest level against the first; empty where there is none."""
    if len(series.runs) < 2:
        return ""
    level = series.level_at()
    return signed_pct(float(level[-1] / level[0]) - 1)


def size(change: Change, series: Series) -> str:
    """'+4.2 % ± 0.5 % (12.1 → 12.6 ms)'."""
    point: ChangePoint = change.point
    before, after = figure(series, point.before), figure(series, point.after)
    figure_, _, unit = before.partition(" ")
    start = figure_ if unit == after.partition(" ")[2] else before
    return f"{signed_pct(point.ratio)} ± {2 * point.error * 100:.1f} % ({start} → {after})"


def between(change: Change) -> str:
    """The runs, and commits, between which it happened."""
    before, after = change.last, change.first
    if change.same_code:
        return (
            f"between runs {before.run} and {after.run}, both of {after.code}: not the code "
            "(driver, clocks, machine)"
        )
    named = [
        f"{one.code} (run {one.run})" if one.code else f"run {one.run}" for one in (before, after)
    ]
    text = f"between {named[0]} and {named[1]}"
    return f"{text}, {after.origin.job}" if after.origin.job else text


def with_it(event: Event, history: History, most: int = 4) -> str:
    """What else changed there: 'flash_fwd +12.0 %, attention (category) +9.1 %'."""
    rest = event.changes[1:]
    named = [f"{label(one, 32)} {signed_pct(one.point.ratio)}" for one in rest[:most]]
    more = f" and {len(rest) - most} more" if len(rest) > most else ""
    return ", ".join(named) + more
