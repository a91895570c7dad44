"""The tracks of one GPU: its streams, its steps, why it was idle, and what the advice is about."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names
from traceroof.core.dictionary import Coded, coded, together
from traceroof.core.kernel_table import UNKNOWN, as_reals
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnose import Rows as Belonging
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.report.html.palette import look
from traceroof.report.perfetto.events import Counter, Label, Times, Track
from traceroof.timeline import CAUSES, Timeline, intervals
from traceroof.timeline.idle_parts import IdleParts
from traceroof.timeline.lanes import Lane

Whole = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

# chrome://tracing's own colours, by the family of a class; Perfetto colours by name.
_COLORS: Mapping[str, str] = {
    "memory": "rail_load",
    "compute": "rail_animation",
    "balanced": "rail_response",
    "below": "olive",
    "waiting": "yellow",
    "moving": "good",
    "unknown": "generic_work",
}
_COPIES = ("memcpy", "memset")


@dataclass(frozen=True)
class Kernels:
    """The rows of a kernel table with the label of each; group: kernel group, -1 for copies."""

    table: pa.Table
    category: Coded
    group: Whole
    label: Whole
    labels: tuple[Label, ...]
    groups: Sequence[KernelGroup]

    @classmethod
    def of(cls, table: pa.Table, diagnosis: Diagnosis, rows: Belonging) -> "Kernels":
        """Label the rows: those of one kernel group and name are called the same."""
        names = coded(table["kernel_name"])
        copies = coded(table["copy_kind"])
        columns = (
            rows.group,
            names.codes.astype(np.int64),
            rows.category.codes.astype(np.int64),
            copies.codes.astype(np.int64),
        )
        label, first = together(columns)
        found = _findings(diagnosis)
        called = names.at(first)
        copied = copies.at(first)
        labels = tuple(
            _label(
                kernel_names.demangled(name or "(no name)"),
                diagnosis.kernels[group] if group >= 0 else None,
                str(category),
                copy,
                found.get(group, ()),
            )
            for category, group, name, copy in zip(
                rows.category.at(first), rows.group[first].tolist(), called, copied, strict=True
            )
        )
        return cls(table, rows.category, rows.group, label, labels, diagnosis.kernels)

    def track(self, name: str, rows: Whole, start: Times, duration: Times) -> Track:
        """Some rows as a thread."""
        used, label = np.unique(self.label[rows], return_inverse=True)
        return Track(name, start, duration, label, [self.labels[one] for one in used.tolist()])


def _findings(diagnosis: Diagnosis) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for one in diagnosis.fired():
        if one.scope == "kernel" and one.subject_index is not None:
            found.setdefault(one.subject_index, []).append(f"{one.rule}: {one.because}")
    return found


def _label(
    name: str, group: KernelGroup | None, category: str, copy: str | None, found: Sequence[str]
) -> Label:
    if group is None:
        color = _color("copy")
        return Label(name, category, {"copy": copy} if copy else {}, color)
    args: dict[str, Any] = {
        "class": group.primary_class,
        "category": category,
        "kernel": f"#{group.number}",
        "share of kernel time": None if group.share is None else percent(group.share),
        "grid": _shape(group.grid),
        "block": _shape(group.block),
        "operator": group.where.operator or group.operator,
        "module": group.where.module,
        "source": group.where.source,
        "findings": list(found),
    }
    known = {key: value for key, value in args.items() if value}
    return Label(name, group.primary_class, known, _color(group.primary_class))


def _color(primary_class: str) -> str:
    return _COLORS.get(look(primary_class).family, _COLORS["unknown"])


def _shape(size: tuple[int, int, int] | None) -> str | None:
    return "x".join(map(str, size)) if size else None


@dataclass(frozen=True)
class Placed:
    """Rows of one GPU with their times in ns; streams: the number of each row's stream."""

    rows: Whole
    start: Times
    duration: Times
    streams: Whole

    @classmethod
    def of(cls, lane: Lane) -> "Placed":
        """The rows of a lane."""
        streams = np.asarray(lane.stream)
        start = np.asarray(lane.start)
        return cls(lane.rows.at[lane.at], start, np.asarray(lane.end) - start, streams)


def streams(kernels: Kernels, placed: Placed) -> Iterator[Track]:
    """A thread per stream."""
    for stream in np.unique(placed.streams).tolist():
        at = np.flatnonzero(placed.streams == stream)
        name = "stream unknown" if stream == UNKNOWN else f"stream {stream}"
        yield kernels.track(name, placed.rows[at], placed.start[at], placed.duration[at])


def steps(line: Timeline) -> Iterator[Track]:
    """The steps of a GPU, if it has some."""
    if not line.steps:
        return
    labels = [
        Label(
            one.name,
            "step",
            {
                "busy": quantity(one.busy_ns, "ns"),
                "idle": quantity(one.idle_ns, "ns"),
                "exposed communication": quantity(one.exposed_communication_ns, "ns"),
                "kernels": one.kernels,
                "warm-up": one.warm_up,
            },
        )
        for one in line.steps
    ]
    start = np.array([one.start_ns for one in line.steps], dtype=np.int64)
    span = np.array([one.span_ns for one in line.steps], dtype=np.int64)
    yield Track("steps", start, span, np.arange(len(labels)), labels, tiles=True)


def idle(parts: IdleParts) -> Iterator[Track]:
    """When the GPU was idle, by cause; without the gaps between kernels back to back."""
    if not len(parts.start):
        return
    labels = [
        Label(cause.replace("_", " "), "idle", {"meaning": meaning})
        for cause, meaning in CAUSES.items()
    ]
    yield Track("idle, by cause", parts.start, parts.duration, parts.cause, labels, tiles=True)


def advice(
    diagnosis: Diagnosis, kernels: Kernels, placed: Placed, number: int | None
) -> Iterator[Track]:
    """A thread per entry of the advice: the launches that it is about; the whole span where it is
    about the timeline or the run. number: of the timeline, from 0 on."""
    for entry in diagnosis.advice:
        where = _concerned(entry, kernels, placed, number)
        if not len(where):
            continue
        label = Label(
            entry.title,
            f"advice,{entry.severity}",
            {
                "saves at most": quantity(entry.bound_ns, "ns"),
                "because": entry.because,
                "try": entry.fix,
                "findings": [one.rule for one in entry.found],
            },
        )
        length = where.ends - where.starts
        none = np.zeros(len(where), dtype=np.int64)
        yield Track(f"advice {entry.rank}: {entry.title}", where.starts, length, none, [label])


def _concerned(
    entry: Entry, kernels: Kernels, placed: Placed, number: int | None
) -> intervals.Intervals:
    """When a GPU ran what an entry is about."""
    mine = np.zeros(len(placed.rows), dtype=bool)
    group = kernels.group[placed.rows]
    category = kernels.category.take(placed.rows)
    for one in entry.found:
        if one.scope == "kernel" and one.subject_index is not None:
            mine |= group == one.subject_index
        elif one.scope == "category":
            mine |= category.is_(one.subject)
        elif one.scope != "timeline" or one.subject_index in (None, number):
            mine[:] = len(mine) > 0
            ends = placed.start + placed.duration
            return intervals.union(placed.start.min(keepdims=True), ends.max(keepdims=True))
    return intervals.union(placed.start[mine], (placed.start + placed.duration)[mine])


def rates(kernels: Kernels, placed: Placed) -> Iterator[Counter]:
    """What the GPU moved at each time: DRAM by counters, else by the operators' models; copies."""
    counted = _per_group(kernels, "dram_bytes")
    modelled = _per_group(kernels, "model_bytes")
    copied = as_reals(kernels.table["copy_bytes"])
    of_rows: Sequence[tuple[str, Callable[[Whole], Reals]]] = (
        ("DRAM", lambda rows: counted[kernels.group[rows]]),
        ("memory by the operators' models", lambda rows: modelled[kernels.group[rows]]),
        ("copies", lambda rows: copied[rows]),
    )
    for name, bytes_of in of_rows:
        moved = bytes_of(placed.rows)
        # Bytes per ns are GB/s.
        known = np.flatnonzero((moved > 0) & (placed.duration > 0))
        if len(known):
            yield _added_up(
                name,
                placed.start[known],
                placed.duration[known],
                moved[known] / placed.duration[known],
            )


def _per_group(kernels: Kernels, metric: str) -> Reals:
    """A metric of each group per launch; the last is that of no group: NaN."""
    found = [one.metrics.get(metric) for one in kernels.groups]
    known = [float(one) if isinstance(one, int | float) else np.nan for one in found]
    return np.array([*known, np.nan])


def _added_up(name: str, start: Times, duration: Times, rate: Reals) -> Counter:
    """What runs side by side adds up."""
    time = np.concatenate((start, start + duration))
    change = np.concatenate((rate, -rate))
    running = np.concatenate((np.ones(len(rate), dtype=int), -np.ones(len(rate), dtype=int)))
    times, place = np.unique(time, return_inverse=True)
    value = np.cumsum(np.bincount(place, weights=change))
    busy = np.cumsum(np.bincount(place, weights=running)) > 0.5
    return Counter(name, "GB/s", times, np.where(busy, np.maximum(value, 0.0), 0.0))
