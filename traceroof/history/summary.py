"""A run in a hundred figures: what its history needs, so that no launch is read again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import as_reals
from traceroof.core.recording import Recording
from traceroof.hardware.device_lookup import find
from traceroof.kernels.categories import coded_categories, row_categories
from traceroof.patterns.launch_part import LaunchPart, part_of_run
from traceroof.store.summaries import Figure, Level, Summary
from traceroof.timeline.lanes import Rows, lanes, unions_of
from traceroof.timeline.partial import partial_of_run
from traceroof.timeline.steps import Step, steps_of

Mask = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Kernels with a smaller part of the time, and beyond so many, have no series of their own.
_LEAST_SHARE = 0.001
_MOST_KERNELS = 300
# Steps count where at least this part of the kernel time lies in them (as in a comparison).
_STEPS_COVER = 0.5


@dataclass(frozen=True)
class _Seen:
    """Launches, one by one or those of a variant in a step together, and the timelines they ran on.

    kernels, categories: what ``row`` of each refers to. time, launches: of each; inside: whether in
    a steady step. steps: of each timeline, with its span and idle time, ns.
    """

    kernels: pa.Table
    categories: Sequence[str]
    row: Ints
    time: Reals
    launches: Reals
    inside: Mask
    steps: Sequence[Sequence[Step]]
    spans: Sequence[int]
    idle: Sequence[int]


def summary_of(recording: Recording) -> Summary:
    """The figures of a recording, repeats left out: each for a steady step where steps are known
    and hold most of the kernel time, else for the whole run."""
    recording = recording.judged()
    known = any(isinstance(one, LaunchPart) for one in recording.summaries)
    seen = _of_parts(recording) if known else _of_rows(recording)
    kinds = coded(seen.kernels["kind"])
    is_kernel = (kinds.is_("kernel") | kinds.is_("graph"))[seen.row]
    # A step of several ranks is one.
    count = len({one.name for listed in seen.steps for one in listed if not one.warm_up})
    whole = float(seen.time[is_kernel].sum())
    steady = float(seen.time[is_kernel & seen.inside].sum())
    per_step = count > 0 and whole > 0 and steady >= _STEPS_COVER * whole
    kept = seen.inside if per_step else np.ones(len(seen.time), dtype=bool)
    parts = count if per_step else 1
    weights = np.where(kept, seen.time, 0.0) / parts, np.where(kept, seen.launches, 0.0) / parts
    categories = np.asarray(seen.categories, dtype=object)[seen.row].tolist()
    figures = [
        *_metrics(seen, per_step, weights, is_kernel),
        *_sums("category", categories, np.ones(len(seen.time), dtype=bool), weights),
        *_kernels(seen, is_kernel, weights),
    ]
    return Summary(_device(recording), "step" if per_step else "run", tuple(figures))


def _of_rows(recording: Recording) -> _Seen:
    """The launches of a recording, row by row."""
    kernels = recording.kernels
    categories = coded_categories(kernels)
    launches = as_reals(kernels["launch_count"])
    timed = recording.time_basis == "timeline" and kernels.num_rows > 0
    rows = Rows(kernels, categories) if timed else None
    found = lanes(rows) if rows is not None and len(rows.at) else []
    steps = [steps_of(lane, unions_of(lane), {}) for lane in found]
    inside = np.zeros(kernels.num_rows, dtype=bool)
    for lane, listed in zip(found, steps, strict=True):
        steady = {one.name for one in listed if not one.warm_up}
        known = np.array([*(str(one) in steady for one in lane.rows.step_names), False])
        inside[lane.rows.at[lane.at]] = known[lane.step]
    spans = [int(lane.end.max() - lane.start.min()) for lane in found]
    busy = [unions_of(lane).busy for lane in found]
    return _Seen(
        kernels,
        categories.values().tolist(),
        np.arange(kernels.num_rows),
        np.nan_to_num(launches * as_reals(kernels["duration_ns"])),
        launches,
        inside,
        steps,
        spans,
        [span - int((one.ends - one.starts).sum()) for span, one in zip(spans, busy, strict=True)],
    )


def _of_parts(recording: Recording) -> _Seen:
    """The launches of a recording, from what was worked out of its files."""
    of_row = coded_categories(recording.kernels)
    part, _ = part_of_run(recording, of_row)
    variants = part.variants
    categories = row_categories(variants.kernels)
    lines = partial_of_run(recording, of_row).timelines
    number = {name: at for at, name in enumerate(variants.steps)}
    entries = variants.by_step
    steady = np.zeros((len(recording.sources), len(number) + 1), dtype=bool)
    for line in lines:
        named = [number[one.name] for one in line.steps if not one.warm_up and one.name in number]
        steady[np.ix_(line.sources, named)] = True
    return _Seen(
        variants.kernels,
        categories,
        entries["variant"],
        entries["time_ns"].astype(np.float64),
        entries["launches"].astype(np.float64),
        steady[entries["source"], entries["step"]],
        [line.steps for line in lines],
        [line.span_ns for line in lines],
        [line.idle_ns for line in lines],
    )


def _metrics(
    seen: _Seen, per_step: bool, weights: tuple[Reals, Reals], is_kernel: Mask
) -> Iterator[Figure]:
    time, launches = weights
    yield Figure("metric", "kernel-time", float(time[is_kernel].sum()))
    yield Figure("metric", "launches", float(launches[is_kernel].sum()))
    if per_step:
        steady = [[one for one in listed if not one.warm_up] for listed in seen.steps]
        for name, of in (("step-time", "span_ns"), ("idle-time", "idle_ns")):
            each = [np.median([getattr(one, of) for one in listed]) for listed in steady if listed]
            yield Figure("metric", name, float(max(each)))
    elif seen.spans:
        yield Figure("metric", "wall-time", float(max(seen.spans)))
        yield Figure("metric", "idle-time", float(max(seen.idle)))


def _sums(
    level: Level, names: Sequence[str], chosen: Mask, weights: tuple[Reals, Reals]
) -> Iterator[Figure]:
    distinct = sorted(set(names))
    place = {name: at for at, name in enumerate(distinct)}
    code = np.array([place[name] for name in names], dtype=np.int64)[chosen]
    time, launches = (np.bincount(code, one[chosen], len(distinct)) for one in weights)
    for at, name in enumerate(distinct):
        if launches[at] > 0:
            yield Figure(level, name, float(time[at]), float(launches[at]))


def _kernels(seen: _Seen, is_kernel: Mask, weights: tuple[Reals, Reals]) -> Iterator[Figure]:
    """The kernels with the most time, under one spelling of their names."""
    names = coded(seen.kernels["kernel_name"])
    texts = [*(kernel_names.key(one) for one in names.texts), ""]
    distinct = sorted(set(texts))
    place = {name: at for at, name in enumerate(distinct)}
    code = names.spread(np.array([place[one] for one in texts], dtype=np.int64))[seen.row][
        is_kernel
    ]
    time, launches = (np.bincount(code, one[is_kernel], len(distinct)) for one in weights)
    order = np.argsort(-time, kind="stable")[:_MOST_KERNELS]
    for at in order.tolist():
        if distinct[at] and time[at] > 0 and time[at] >= _LEAST_SHARE * time.sum():
            yield Figure("kernel", distinct[at], float(time[at]), float(launches[at]))


def _device(recording: Recording) -> str:
    """The GPUs by name: runs on others have a history of their own."""
    named = []
    for one in recording.devices:
        known = find(one.name, sm_count=one.sm_count) if one.name else None
        of_chip = one.gfx_target or (one.compute_capability and f"sm {one.compute_capability}")
        named.append(known.name if known else one.name or of_chip or "unknown GPU")
    return " + ".join(sorted(set(named))) or "unknown GPU"
