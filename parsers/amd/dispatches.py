"""The kernel dispatches that one run of a program lists, whatever AMD table they come from.

A dispatch has a name, a shape in work-items, times on some clock, and counters. Every reader
brings its rows into this form (``Dispatches``); what follows is the same for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.parsers.amd.counters import Pass, Reals
from traceroof.parsers.amd.gpus import Gpu
from traceroof.parsers.amd.text import TextTable
from traceroof.parsers.amd.values import Integers, Mask, Times, length_of, reals, times

# What symbol tables append to a kernel's name.
_SUFFIX = r"(?:\s*(?:\[clone \.kd\]|\(\.kd\)|\.kd))+\s*$"
# What ends later did not begin at 0.
_FIRST_NS = 1_000_000_000
# A host that saw the end before it came: rocprof fits the GPU's clock to the host's this well (in the
# samples by 7 us); clocks that count from elsewhere differ by seconds.
_CLOCKS_APART_NS = 100_000
UNKNOWN_KERNEL = "(unknown kernel)"


@dataclass
class Dispatches:
    """The n kernel dispatches that one run of a program lists.

    path: the file they come from. columns: kernel-table columns that the file says outright.
    passes: counters, aligned to the rows. gpus: ``device`` of a row -> its GPU; the key None
    stands for every other. timeline: durations come from tracing, not from collecting counters.
    work_items, group_items: sizes as the file gives them, to recognise the dispatch in another
    pass; -1 where unknown.
    """

    path: Path
    columns: dict[str, Any]
    passes: list[Pass] = field(default_factory=list)
    gpus: Mapping[int | None, Gpu] = field(default_factory=dict)
    timeline: bool = False
    notes: list[Note] = field(default_factory=list)
    work_items: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    group_items: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.columns["kernel_name"])

    @property
    def counters(self) -> frozenset[str]:
        """The names of all counters."""
        return frozenset(name for one in self.passes for name in one.counters)

    def take(self, rows: Integers) -> "Dispatches":
        """Some of the rows, in this order."""
        indices = pa.array(rows)
        columns = {
            name: values.take(indices)
            if isinstance(values, pa.Array | pa.ChunkedArray)
            else np.asarray(values)[rows]
            for name, values in self.columns.items()
        }
        return replace(
            self,
            columns=columns,
            passes=[one.take(rows) for one in self.passes],
            work_items=self.work_items[rows],
            group_items=self.group_items[rows],
        )


def cleaned_names(names: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Kernel names without the suffix of the symbol table (``.kd``, ``[clone .kd]``)."""
    flat = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    encoded = flat.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    plain = pc.replace_substring_regex(encoded.dictionary.cast(pa.string()), _SUFFIX, "")
    plain = pc.if_else(pc.equal(plain, ""), UNKNOWN_KERNEL, plain)
    return plain.take(encoded.indices).fill_null(UNKNOWN_KERNEL)


def shape_columns(
    grid: Sequence[pa.Array | None], group: Sequence[pa.Array | None]
) -> tuple[dict[str, Any], Integers, Integers]:
    """Launch shape from work-items: columns grid_* and block_*, and both totals.

    AMD counts a grid in work-items, the kernel table in blocks. Where a file has only the product
    over x, y and z, the whole grid is shown in x.
    """
    flat = len(grid) == 1
    columns: dict[str, Any] = {}
    totals = []
    for axis in range(3):
        if flat and axis:
            items = size = None
        else:
            items, size = grid[axis], group[axis]
        if items is None or size is None:
            if flat and axis and grid[0] is not None and group[0] is not None:
                both = pc.and_(pc.is_valid(grid[0]), pc.is_valid(group[0]))
                one = pc.if_else(both, pa.scalar(1, pa.int64()), None)
                columns[f"grid_{'xyz'[axis]}"] = columns[f"block_{'xyz'[axis]}"] = one
            continue
        size = pc.if_else(pc.greater(size, 0), size, None)
        items = pc.if_else(pc.greater(items, 0), items, None)
        blocks = pc.divide(pc.add(items, pc.subtract(size, 1)), size)
        columns[f"grid_{'xyz'[axis]}"] = blocks
        columns[f"block_{'xyz'[axis]}"] = size
        totals.append((items, size))
    work = group_total = None
    for items, size in totals:
        work = items if work is None else pc.multiply(work, items)
        group_total = size if group_total is None else pc.multiply(group_total, size)
    return columns, _filled(work), _filled(group_total)


def _filled(values: pa.Array | None) -> Integers:
    if values is None:
        return np.empty(0, dtype=np.int64)
    return np.asarray(values.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)


def time_columns(
    start: Times | None, end: Times | None, stated: Times | None, count: int
) -> tuple[dict[str, Any], list[Note]]:
    """Columns start_ns and duration_ns, unknown where the file's times cannot be right."""
    notes: list[Note] = []
    if start is None or end is None:
        if stated is None:
            return {}, []
        good = stated.known & (stated.values > 0)
        return {"duration_ns": masked(stated.values, good)}, _time_notes(good, stated.coarse)
    coarse = start.coarse | end.coarse
    recorded = start.known & end.known & ~((start.values == 0) & (end.values == 0))
    # Clocks count from the start of the machine: a zero is no time, unless the clock began there.
    early = recorded & ((start.values < 0) | ((start.values == 0) & (end.values > _FIRST_NS)))
    if early.any():
        text = "dispatches that begin at 0 ns or before: start and duration unknown"
        notes.append(Note(text, int(early.sum())))
    recorded &= ~early
    spent = length_of(start, end)
    good = recorded & (spent > 0)
    backwards = int((recorded & (spent < 0)).sum())
    if backwards:
        notes.append(Note("dispatches that end before they begin: duration unknown", backwards))
    beyond = recorded & (np.abs(end.values // 2 - start.values // 2) >= 2**61)
    if beyond.any():
        notes.append(Note("dispatches that last for decades: duration unknown", int(beyond.sum())))
    still = int((recorded & (spent == 0) & ~beyond).sum())
    if still:
        notes.append(Note("dispatches that last 0 ns: duration unknown", still))
    if coarse.any():
        notes += _time_notes(good, coarse)
    silent = int((~recorded & ~coarse & ~early).sum())
    if silent:
        text = "dispatches without timestamps: duration unknown"
        notes.append(Note(text, silent, severe=silent < count))
    return {
        "start_ns": masked(start.values, recorded),
        "duration_ns": masked(spent, good),
    }, notes


def _time_notes(good: Mask, coarse: Mask) -> list[Note]:
    if coarse.any():
        text = "timestamps lost their last digits (like 8.1097E+14), so the duration is unknown"
        return [Note(text, int(coarse.sum()))]
    bad = int((~good).sum())
    return [Note("durations of 0 or less are unknown", bad)] if bad else []


def exact(values: pa.Array) -> Times:
    """Whole nanoseconds as points in time."""
    known = np.asarray(values.is_valid())
    filled = np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
    return Times(filled, known, np.zeros(len(values), dtype=bool))


def masked(values: npt.NDArray[Any], known: Mask) -> pa.Array:
    """An Arrow array that is null where ``known`` is false."""
    return pa.array(values, mask=~known)


def duration_reals(columns: Mapping[str, Any], count: int) -> Reals:
    """The duration of every row in ns, NaN where unknown."""
    values = columns.get("duration_ns")
    return np.full(count, np.nan) if values is None else as_reals(values)


def as_reals(values: Any) -> Reals:
    """Any column as float64, NaN where unknown."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_numpy(zero_copy_only=False)
    return np.array(values, dtype=np.float64)


# --------------------------------------------------------------------------------------------
# Tables with one row per dispatch: rocprof v1 and v2, rocprof-compute, hipprof

# Kernel-table column -> what the tools call it, names squashed, newest first.
_WHOLE = {
    "launch_id": ("dispatchid", "index"),
    "device": ("gpuid",),
    "stream": ("queueid",),
    "process_id": ("pid", "processid"),
    "correlation_id": ("correlationid",),
}
_REAL = {
    "shared_memory_static_bytes": ("ldsperworkgroup", "ldsblocksize", "lds"),
    "scratch_bytes_per_thread": ("scratchperworkitem", "scratchsize", "scr"),
    "registers_per_thread": ("archvgpr", "vgprcount", "vgpr"),
    "accumulation_registers_per_thread": ("accumvgpr", "accumvgprcount"),
    "scalar_registers_per_wave": ("sgpr", "sgprcount"),
    "warp_size": ("wavesize",),
}
_GRID = ("gridsize", "grd")
_GROUP = ("workgroupsize", "wgr")
_START = ("starttimestamp", "beginns")
_END = ("endtimestamp", "endns", "stoptimestamp")
_SPENT = ("durationns", "duration")

_NO_COUNTERS = frozenset(
    name
    for group in (*_WHOLE.values(), *_REAL.values(), _GRID, _GROUP, _START, _END, _SPENT)
    for name in group
) | {
    "kernelname", "queueindex", "tid", "threadid", "fbar", "sig", "obj", "dispatchns",
    "completens", "countername", "countervalue", "kernelid", "xccindex", "guid", "agentid", "streamid",
}  # fmt: skip


def is_counter(name: str) -> bool:
    """Whether a squashed column name is a counter: not a launch column, nor its ``_1``, ``_2``."""
    return name not in _NO_COUNTERS and name.rstrip("0123456789") not in _NO_COUNTERS


def of_wide(source: TextTable, label: str) -> Dispatches:
    """The dispatches of a table with one row each and one column a counter."""
    names = source.text("kernelname")
    if names is None:
        raise TraceroofError(f"{source.path} has no column with kernel names")
    count = source.num_rows
    columns: dict[str, Any] = {"kernel_name": cleaned_names(names)}
    columns |= {name: source.integers(*others) for name, others in _WHOLE.items()}
    columns |= {name: source.reals(*others) for name, others in _REAL.items()}
    columns = {name: values for name, values in columns.items() if values is not None}
    if "warp_size" in columns:
        stated = columns["warp_size"]
        columns["warp_size"] = np.where((stated == 32) | (stated == 64), stated, np.nan)
    shape, work, group = shape_columns([source.integers(*_GRID)], [source.integers(*_GROUP)])
    start, end, spent = (times_of(source, *names) for names in (_START, _END, _SPENT))
    timed, notes = time_columns(start, end, spent, count)
    columns |= shape | timed
    queued = _queued(source, start, end)
    if queued is not None:
        launched, wrong = queued
        columns["host_launch_ns"] = launched
        wrong &= np.asarray(columns["duration_ns"].is_valid())
        if wrong.any():
            columns["duration_ns"] = pc.if_else(pa.array(wrong), None, columns["duration_ns"])
            notes.append(Note(_OUTSIDE, int(wrong.sum())))
    counters: dict[str, Reals] = {}
    for name, squashed, cells in zip(source.header, source.names, source.cells, strict=True):
        if is_counter(squashed) and name.strip() not in counters:
            values = reals(cells)
            if not np.isnan(values).all():
                counters[name.strip()] = values
    passes = [Pass(label, counters, duration_reals(columns, count))] if counters else []
    found = Dispatches(
        source.path,
        columns,
        passes,
        timeline=not counters and "duration_ns" in columns,
        notes=[*source.notes, *notes],
        work_items=work if len(work) else np.full(count, -1, dtype=np.int64),
        group_items=group if len(group) else np.full(count, -1, dtype=np.int64),
    )
    return _dies_added(found, source)


def _queued(
    source: TextTable, start: Times | None, end: Times | None
) -> tuple[pa.Array, Mask] | None:
    """When the host put each dispatch into its queue (rocprof v1), and which dispatches were not
    between that and their completion; None where the columns are of another clock than the times of
    the kernels, which the order of the events of nearly all shows."""
    queued, done = times_of(source, "dispatchns"), times_of(source, "completens")
    if queued is None or done is None or start is None or end is None:
        return None
    known = queued.known & done.known & start.known & end.known
    in_order = known & (queued.values <= start.values)
    in_order &= end.values <= done.values + _CLOCKS_APART_NS
    if not known.any() or in_order.sum() < _NEARLY_ALL * known.sum():
        return None
    return masked(queued.values, in_order), known & ~in_order


_NEARLY_ALL = 0.8
_OUTSIDE = "dispatches that begin before they were queued or end after they were complete: duration unknown"


def times_of(source: TextTable, *names: str) -> Times | None:
    """The first of these columns (squashed names) as points in time."""
    cells = source.text(*names)
    return None if cells is None else times(cells)


def spans_of(source: TextTable) -> tuple[Integers | None, npt.NDArray[np.float64] | None]:
    """Start of each row, 0 where unknown, and its duration, NaN where unknown, ns; None twice
    without such columns."""
    start, end = times_of(source, "starttimestamp"), times_of(source, "endtimestamp")
    if start is None or end is None:
        return None, None
    span = length_of(start, end).astype(np.float64)
    spent = np.where(start.known & end.known & (span > 0), span, np.nan)
    return np.where(start.known, start.values, 0), spent


def _dies_added(found: Dispatches, source: TextTable) -> Dispatches:
    """One row per dispatch where rocprofv2 wrote one for each die (XCC_Index)."""
    dies = source.integers("xccindex")
    ids = found.columns.get("launch_id")
    if dies is None or ids is None or not len(found) or pc.count_distinct(dies).as_py() < 2:
        return found
    import pandas as pd

    frame = pd.DataFrame({"id": ids.to_pandas(), "name": found.columns["kernel_name"].to_pandas()})
    if "process_id" in found.columns:
        frame["process"] = found.columns["process_id"].to_pandas()
    groups = frame.groupby(list(frame.columns), sort=False, dropna=False)
    number = groups.ngroup().to_numpy().astype(np.int64)
    first = np.flatnonzero(groups.cumcount().to_numpy() == 0)
    if len(first) == len(found):
        return found
    added = found.take(first.astype(np.int64))
    added.passes = [
        Pass(
            old.label,
            {name: _added(name, values, number) for name, values in old.counters.items()},
            new.duration_ns,
        )
        for old, new in zip(found.passes, added.passes, strict=True)
    ]
    text = "rows of single dies were added up to dispatches"
    added.notes = [*added.notes, Note(text, len(found), severe=False)]
    return added


def _added(name: str, values: Reals, number: Integers) -> Reals:
    import pandas as pd

    groups = pd.Series(values).groupby(number)
    if name.endswith("_max"):
        return as_reals(groups.max())
    if name.endswith(("_avr", "_avg", "Percent", "Util", "Busy", "Hit")):
        return as_reals(groups.mean())
    return as_reals(groups.sum(min_count=1))


def by_launch(found: Dispatches) -> Dispatches:
    """The rows in the order in which the program launched them, as far as the file says it."""
    keys = [found.columns.get(name) for name in ("launch_id", "process_id")]
    known = [as_reals(one) for one in keys if one is not None]
    if not known or np.isnan(known[0]).any():
        return found
    order = np.lexsort(known)
    return found if (np.diff(order) > 0).all() else found.take(order.astype(np.int64))
