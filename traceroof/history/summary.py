"""A run in a hundred figures: what its history needs, so that no launch is read again."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import as_reals
from traceroof.core.recording import Recording
from traceroof.hardware.devices import find
from traceroof.kernels.categories import row_categories
from traceroof.store.summaries import Figure, Level, Summary
from traceroof.timeline.lanes import Lane, Rows, lanes, unions_of
from traceroof.timeline.steps import Step, steps_of

Mask = npt.NDArray[np.bool_]
Reals = npt.NDArray[np.float64]

# Kernels with a smaller part of the time, and beyond so many, have no series of their own.
_LEAST_SHARE = 0.001
_MOST_KERNELS = 300
# Steps count where at least this part of the kernel time lies in them (as in a comparison).
_STEPS_COVER = 0.5


def summary_of(recording: Recording) -> Summary:
    """The figures of a recording, repeats left out: each for a steady step where steps are known
    and hold most of the kernel time, else for the whole run."""
    recording = recording.judged()
    kernels = recording.kernels
    categories = row_categories(kernels)
    launches = as_reals(kernels["launch_count"])
    time = np.nan_to_num(launches * as_reals(kernels["duration_ns"]))
    kinds = coded(kernels["kind"])
    is_kernel = kinds.is_("kernel") | kinds.is_("graph")
    timed = recording.time_basis == "timeline" and kernels.num_rows > 0
    rows = Rows(kernels, categories) if timed else None
    found = lanes(rows) if rows is not None and len(rows.at) else []
    steps = [steps_of(lane, unions_of(lane), {}) for lane in found]
    inside, count = _in_steps(kernels, found, steps)
    whole = float(time[is_kernel].sum())
    per_step = count > 0 and whole > 0 and time[is_kernel & inside].sum() >= _STEPS_COVER * whole
    kept = inside if per_step else np.ones(len(time), dtype=bool)
    parts = count if per_step else 1
    weights = np.where(kept, time, 0.0) / parts, np.where(kept, launches, 0.0) / parts
    figures = [
        *_metrics(found, steps if per_step else None, weights, is_kernel),
        *_sums("category", categories, np.ones(len(time), dtype=bool), weights),
        *_kernels(kernels, is_kernel, weights),
    ]
    return Summary(_device(recording), "step" if per_step else "run", tuple(figures))


def _in_steps(
    kernels: pa.Table, found: Sequence[Lane], steps: Sequence[Sequence[Step]]
) -> tuple[Mask, int]:
    """Which rows lie in steady steps, and how many steps there are; a step of several ranks is
    one."""
    inside = np.zeros(kernels.num_rows, dtype=bool)
    names: set[str] = set()
    for lane, listed in zip(found, steps, strict=True):
        steady = {one.name for one in listed if not one.warm_up}
        names |= steady
        known = np.array([*(str(one) in steady for one in lane.rows.step_names), False])
        inside[lane.rows.at[lane.at]] = known[lane.step]
    return inside, len(names)


def _metrics(
    found: Sequence[Lane],
    steps: Sequence[Sequence[Step]] | None,
    weights: tuple[Reals, Reals],
    is_kernel: Mask,
) -> Iterator[Figure]:
    time, launches = weights
    yield Figure("metric", "kernel-time", float(time[is_kernel].sum()))
    yield Figure("metric", "launches", float(launches[is_kernel].sum()))
    if steps is not None:
        steady = [[one for one in listed if not one.warm_up] for listed in steps]
        for name, of in (("step-time", "span_ns"), ("idle-time", "idle_ns")):
            each = [np.median([getattr(one, of) for one in listed]) for listed in steady if listed]
            yield Figure("metric", name, float(max(each)))
    elif found:
        spans = [int(lane.end.max() - lane.start.min()) for lane in found]
        busy = [unions_of(lane).busy for lane in found]
        idle = [span - int((one.ends - one.starts).sum())
                for span, one in zip(spans, busy, strict=True)]  # fmt: skip
        yield Figure("metric", "wall-time", float(max(spans)))
        yield Figure("metric", "idle-time", float(max(idle)))


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


def _kernels(kernels: pa.Table, is_kernel: Mask, weights: tuple[Reals, Reals]) -> Iterator[Figure]:
    """The kernels with the most time, under one spelling of their names."""
    names = coded(kernels["kernel_name"])
    texts = [*(kernel_names.key(one) for one in names.texts), ""]
    distinct = sorted(set(texts))
    place = {name: at for at, name in enumerate(distinct)}
    code = names.spread(np.array([place[one] for one in texts], dtype=np.int64))[is_kernel]
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
