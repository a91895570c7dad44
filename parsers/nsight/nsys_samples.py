"""GPU metrics that Nsight Systems samples beside the timeline (``--gpu-metrics-devices``).

Samples are of the whole GPU, at 10 kHz by default: context, and a mean for launches that are long
enough to hold some. No real export with them was at hand: the layout is that of the tool's own
recipes (``typeId & 0xFF`` is the GPU, values are percent, early samples have negative times).
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.recording import RAW_METRICS, Note, empty
from traceroof.ingest.sqlite import UNKNOWN, Whole
from traceroof.parsers.host.arrow import Texts, reals, wholes
from traceroof.parsers.nsight.nsys_devices import Gpus
from traceroof.parsers.nsight.nsys_kernels import Activities
from traceroof.parsers.nsight.nsys_tables import Export

_TABLE: Final = "GPU_METRICS"
_SECTION: Final = "GPU metrics"
# A mean of fewer samples says nothing about a launch.
_FEWEST: Final = 3
# So many metrics stand in the note, in this order, then by name.
_FIRST: Final = ("SMs Active", "SM Issue", "Tensor Active", "DRAM Read", "DRAM Write")
_SHOWN: Final = 8


def samples_of(export: Export, done: Activities, gpus: Gpus) -> tuple[pa.Table, list[Note]]:
    """Means of the metrics per launch, as ``RAW_METRICS``, and over the time in which each GPU
    worked, as notes."""
    rows = export.database.wholes(_TABLE, ("timestamp", "typeId", "metricId", "value"))
    if not len(rows["timestamp"]):
        return empty(RAW_METRICS), []
    time = export.on_clock(rows["timestamp"])
    known = (time != UNKNOWN) & (rows["value"] >= 0) & (rows["value"] <= 100)
    names = _names(export)
    parts: list[tuple[str, Whole, npt.NDArray[np.float64]]] = []
    notes = []
    for number, gpu in gpus.ids.items():
        here = known & (rows["typeId"] & 0xFF == gpu)
        mine = np.flatnonzero((gpus.number == number) & (done.duration > 0))
        means = {}
        for kind, metric in sorted(names):
            at = np.flatnonzero(here & (rows["typeId"] == kind) & (rows["metricId"] == metric))
            if not len(at) or not len(mine):
                continue
            at = at[np.argsort(time[at], kind="stable")]
            found = _Series(time[at], rows["value"][at])
            parts.append((names[kind, metric], *found.means(done, mine)))
            means[names[kind, metric]] = found.while_busy(done, mine)
        if means:
            notes.append(_note(number, {name: one for name, one in means.items() if one >= 0}))
    return _table(parts), [one for one in notes if one is not None]


def _names(export: Export) -> dict[tuple[int, int], str]:
    """(type, metric) -> the name of each metric in percent; metric numbers are not unique."""
    rows = export.database.read("TARGET_INFO_GPU_METRICS", ("typeId", "metricId", "metricName"))
    if len(rows) < 3:
        return {}
    return {
        (kind, metric): name.partition(" [")[0]
        for kind, metric, name in zip(*rows.values(), strict=True)
        if isinstance(name, str) and "%" in name and isinstance(kind, int)
    }


class _Series:
    """The samples of one metric on one GPU, by time."""

    def __init__(self, time: Whole, value: Whole) -> None:
        self._time = time
        self._sum = np.concatenate(([0], np.cumsum(value)))

    def _within(self, start: Whole, end: Whole) -> tuple[Whole, Whole]:
        low, high = np.searchsorted(self._time, start), np.searchsorted(self._time, end)
        return high - low, self._sum[high] - self._sum[low]

    def means(self, done: Activities, rows: Whole) -> tuple[Whole, npt.NDArray[np.float64]]:
        """The launches that hold enough samples, and their mean."""
        start = done.start[rows]
        count, total = self._within(start, start + done.duration[rows])
        enough = count >= _FEWEST
        return rows[enough], total[enough] / count[enough]

    def while_busy(self, done: Activities, rows: Whole) -> float:
        """The mean of the samples in which anything ran; -1 where there is none."""
        start, end = done.start[rows], done.start[rows] + done.duration[rows]
        reach = np.concatenate(([start[0]], np.maximum.accumulate(end)[:-1]))
        count, total = self._within(np.maximum(start, reach), np.maximum(end, reach))
        return float(total.sum() / count.sum()) if count.sum() else -1.0


def _note(number: int, means: dict[str, float]) -> Note | None:
    if not means:
        return None
    order = sorted(
        means, key=lambda name: (min((n for n, one in enumerate(_FIRST) if name.startswith(one)),
                                     default=len(_FIRST)), name)
    )  # fmt: skip
    shown = ", ".join(f"{name} {means[name]:.0f} %" for name in order[:_SHOWN])
    return Note(f"GPU metrics sampled while GPU {number} worked: {shown}", severe=False)


def _table(parts: list[tuple[str, Whole, npt.NDArray[np.float64]]]) -> pa.Table:
    if not parts:
        return empty(RAW_METRICS)
    rows = np.concatenate([rows for _, rows, _ in parts])
    code = np.repeat(np.arange(len(parts)), [len(rows) for _, rows, _ in parts])
    values = np.concatenate([values for _, _, values in parts])
    size = len(rows)
    columns = {
        "row": wholes(rows.astype(np.int64)),
        "section": Texts([_SECTION]).at(np.zeros(size, dtype=np.int64)),
        "metric": Texts([name for name, _, _ in parts]).at(code),
        "unit": Texts(["%"]).at(np.zeros(size, dtype=np.int64)),
        "value": reals(values),
        "text": pa.nulls(size, pa.string()),
    }
    return pa.Table.from_arrays(
        [columns[one.name].cast(one.type) for one in RAW_METRICS], schema=RAW_METRICS
    )
