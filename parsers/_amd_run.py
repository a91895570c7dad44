"""From the dispatches and counters of AMD's tools to a recording.

Every reader of an AMD format brings its dispatches into one shape (``Dispatches``); what follows
is the same for all: passes are joined, counters become columns, registers and LDS give occupancy.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof import table
from traceroof.errors import TraceroofError
from traceroof.parsers._amd_counters import Derived, Pass, Reals, derive, without_dead_counters
from traceroof.parsers._amd_gpus import Gpu
from traceroof.parsers._amd_text import Integers, Mask, TextTable, Times, length_of, reals, times
from traceroof.recording import HOST_CALLS, RAW_METRICS, SPANS, Note, Recording, Source, TimeBasis

#: Where stall shares come from when all that is known is how long waves waited.
COARSE = "wait fractions (coarse)"

# What symbol tables append to a kernel's name.
_SUFFIX = r"\s*(?:\[clone \.kd\]|\(\.kd\)|\.kd)+\s*$"
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
    spent = length_of(start, end)
    good = recorded & (spent > 0)
    backwards = int((recorded & (spent < 0)).sum())
    if backwards:
        notes.append(Note("dispatches that end before they begin: duration unknown", backwards))
    still = int((recorded & (spent == 0)).sum())
    if still:
        notes.append(Note("dispatches that last 0 ns: duration unknown", still))
    if coarse.any():
        notes += _time_notes(good, coarse)
    silent = int((~recorded & ~coarse).sum())
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
# Tables with one row a dispatch: rocprof v1 and v2, rocprof-compute, hipprof

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
    "kernelname", "queueindex", "tid", "threadid", "fbar", "wavesize", "sig", "obj", "dispatchns",
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
    shape, work, group = shape_columns([source.integers(*_GRID)], [source.integers(*_GROUP)])
    start, end, spent = (times_of(source, *names) for names in (_START, _END, _SPENT))
    timed, notes = time_columns(start, end, spent, count)
    columns |= shape | timed
    counters: dict[str, Reals] = {}
    for name, squashed, cells in zip(source.header, source.names, source.cells, strict=True):
        if cells is not None and is_counter(squashed) and name.strip() not in counters:
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


def times_of(source: TextTable, *names: str) -> Times | None:
    """The first of these columns (squashed names) as points in time."""
    cells = source.text(*names)
    return None if cells is None else times(cells)


def _dies_added(found: Dispatches, source: TextTable) -> Dispatches:
    """One row a dispatch where rocprofv2 wrote one for each die (XCC_Index)."""
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


# --------------------------------------------------------------------------------------------
# Long tables: one row for each counter of each dispatch


# More runs of one dispatch than any tool makes: then its number is no number of a dispatch.
_MOST_RUNS = 256


@dataclass(frozen=True)
class Pivot:
    """A long table brought into rows.

    first: for each of n dispatches the row of the long table that shows it first.
    passes: the counters. notes: what was noticed.
    """

    first: Integers
    passes: list[Pass]
    notes: list[Note]


def pivot(
    dispatch: Integers,
    name: pa.Array,
    value: Reals,
    start: Integers | None,
    spent: Reals | None,
    label: str,
    merged: bool = False,
) -> Pivot:
    """Bring counters from rows into columns.

    dispatch: a number per row, equal for rows of one dispatch. name, value: the counter. start:
    when that run of the dispatch began; a dispatch that was replayed has several, each a pass of
    its own, so that nothing is added up or counted twice. Without start, the k-th value of a
    counter belongs to the k-th run. spent: duration of that run, NaN where unknown. merged: add a
    pass that holds the counters of all runs (see ``Pass``).
    """
    import pandas as pd

    notes: list[Note] = []
    counter, counters = pd.factorize(name.to_numpy(zero_copy_only=False), sort=False)
    rows, run = _runs(dispatch, counter, start)
    if len(run) and run.max() >= _MOST_RUNS:
        text = "dispatch numbers repeat too often to be replays: taken as different dispatches"
        notes.append(Note(text))
        dispatch = pd.factorize(rows * (int(run.max()) + 1) + run)[0].astype(np.int64)
        rows, run = pd.factorize(dispatch)[0].astype(np.int64), np.zeros_like(run)
    count = int(rows.max(initial=-1)) + 1
    first = np.full(count, -1, dtype=np.int64)
    first[rows[::-1]] = np.arange(len(rows) - 1, -1, -1)
    runs = int(run.max(initial=-1)) + 1
    columns: list[dict[str, Reals]] = [{} for _ in range(runs)]
    durations = np.full((runs, count), np.nan)
    if spent is not None:
        durations[run, rows] = spent
    # One sort brings the values of each run and counter together.
    cell = run * len(counters) + counter
    order = np.argsort(cell, kind="stable")
    edges = np.flatnonzero(np.diff(cell[order], prepend=-1))
    for mine in np.split(order, edges[1:]) if len(order) else []:
        number, code = divmod(int(cell[mine[0]]), len(counters))
        values = np.full(count, np.nan)
        values[rows[mine]] = value[mine]
        columns[number][str(counters[code])] = values
    passes = [
        Pass(label if runs == 1 else f"{label}, run {number + 1}", found, durations[number])
        for number, found in enumerate(columns)
    ]
    replayed = len(np.unique(rows[run > 0]))
    if merged:
        passes = [*passes, _merged(passes, label)] if runs > 1 else passes
    elif replayed:
        text = "dispatches ran several times to collect all counters; each counts once"
        notes.append(Note(text, replayed, severe=False))
    return Pivot(first, passes, notes)


def _runs(
    dispatch: Integers, counter: npt.NDArray[np.intp], start: Integers | None
) -> tuple[Integers, Integers]:
    """For each row of a long table: which dispatch (0, 1, …) and which run of it."""
    import pandas as pd

    rows = pd.factorize(dispatch, sort=False)[0].astype(np.int64)
    if start is None:
        frame = pd.DataFrame({"row": rows, "counter": counter})
        repeat = frame.groupby(["row", "counter"], sort=False).cumcount()
        return rows, repeat.to_numpy().astype(np.int64)
    order = np.lexsort((start, rows))
    new_row = np.diff(rows[order], prepend=-1) != 0
    new_run = new_row | (np.diff(start[order], prepend=0) != 0)
    number = np.cumsum(new_run)
    base = np.maximum.accumulate(np.where(new_row, number, 0))
    run = np.empty(len(rows), dtype=np.int64)
    run[order] = number - base
    return rows, run


def row_numbers(source: TextTable, *names: str) -> Integers:
    """A number per row, equal for rows that have the same cells in these columns (squashed)."""
    import pandas as pd

    codes = np.zeros(source.num_rows, dtype=np.int64)
    for name in names:
        cells = source.text(name)
        if cells is not None:
            part = np.asarray(cells.combine_chunks().dictionary_encode().indices, dtype=np.int64)
            mixed = codes * (int(part.max(initial=0)) + 1) + part
            codes = pd.factorize(mixed)[0].astype(np.int64)
    return codes


def middle_duration(passes: Sequence[Pass]) -> pa.Array | None:
    """The median duration of each dispatch over its runs, in whole ns; None for a single run."""
    if len(passes) < 2:
        return None
    middle = next((one.duration_ns for one in passes if one.merged), None)
    if middle is None:
        middle = _middle(passes)
    known = ~np.isnan(middle)
    return masked(np.where(known, np.round(middle), 0).astype(np.int64), known)


def _middle(passes: Sequence[Pass]) -> Reals:
    spent = np.stack([one.duration_ns for one in passes])
    return np.array([_median(column) for column in spent.T], dtype=np.float64)


def _merged(passes: Sequence[Pass], label: str) -> Pass:
    counters: dict[str, Reals] = {}
    for one in passes:
        for name, values in one.counters.items():
            before = counters.get(name)
            filled = values if before is None else np.where(np.isnan(before), values, before)
            counters[name] = filled
    return Pass(label, counters, _middle(passes), merged=True)


def _median(values: Reals) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


# --------------------------------------------------------------------------------------------
# Passes that are other runs of the same program


def join_passes(base: Dispatches, others: Sequence[Dispatches]) -> Dispatches:
    """Add the counters of other runs to the dispatches of ``base``.

    Numbers differ from run to run, so a dispatch is recognised by its kernel, its sizes and how
    many such dispatches came before it. What finds no partner is counted in a note.
    """
    if not others:
        return base
    passes = list(base.passes)
    left_over = 0
    for other in others:
        mine, theirs = _keys(base, other)
        order = np.argsort(theirs, kind="stable")
        place = np.searchsorted(theirs[order], mine)
        place = np.minimum(place, max(len(theirs) - 1, 0))
        found = np.full(len(mine), -1, dtype=np.int64)
        if len(theirs):
            hit = theirs[order][place] == mine
            found[hit] = order[place[hit]]
        left_over += len(theirs) - int((found >= 0).sum())
        passes += [one.take(found) for one in other.passes]
    notes = [*base.notes, *(note for other in others for note in other.notes)]
    if left_over:
        text = "dispatches of other passes have no partner: the program launched differently"
        notes.append(Note(text, left_over))
    return replace(base, passes=passes, notes=notes)


def joined_runs(runs: Sequence[Dispatches]) -> tuple[list[Dispatches], bool]:
    """Several runs of one program as one; also whether its durations are those of a timeline.

    Runs that collected different counters are passes over the same dispatches; runs with the same
    counters, or with none, are processes beside one another. Traced times are preferred.
    """
    traced = [run for run in runs if run.timeline]
    by_counters: dict[frozenset[str], list[Dispatches]] = {}
    for run in runs:
        if not run.timeline:
            by_counters.setdefault(run.counters, []).append(run)
    if not by_counters:
        return traced, True
    passes = [stacked(group) for group in by_counters.values()]
    if traced:
        return [join_passes(stacked(traced), passes)], True
    # The pass with most launches that have a duration; equal ones in the order of the files.
    passes.sort(key=lambda run: -int((~np.isnan(duration_reals(run.columns, len(run)))).sum()))
    if len(passes) == 1 and len(runs) > 1:
        return list(runs), False
    return [join_passes(passes[0], passes[1:])], False


def stacked(runs: Sequence[Dispatches]) -> Dispatches:
    """The dispatches of several processes below one another."""
    if len(runs) == 1:
        return runs[0]
    sizes = [len(run) for run in runs]
    names = dict.fromkeys(name for run in runs for name in run.columns)
    columns = {
        name: pa.concat_arrays([_typed(name, run.columns.get(name), len(run)) for run in runs])
        for name in names
    }
    gpus: dict[int | None, Gpu] = {}
    for run in runs:
        gpus = {**run.gpus, **gpus}
    return replace(
        runs[0],
        columns=columns,
        passes=[
            _stacked_pass([run.passes[k] if k < len(run.passes) else None for run in runs], sizes)
            for k in range(max(len(run.passes) for run in runs))
        ],
        gpus=gpus,
        notes=[note for run in runs for note in run.notes],
        work_items=np.concatenate([run.work_items for run in runs]),
        group_items=np.concatenate([run.group_items for run in runs]),
    )


def _typed(name: str, values: Any, size: int) -> pa.Array:
    if values is None:
        return pa.nulls(size, table.column(name).type)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return pa.array(values, from_pandas=True).cast(table.column(name).type)


def _stacked_pass(passes: Sequence[Pass | None], sizes: Sequence[int]) -> Pass:
    known = [one for one in passes if one is not None]
    names = dict.fromkeys(name for one in known for name in one.counters)

    def column(name: str) -> Reals:
        return np.concatenate(
            [
                one.counters[name]
                if one is not None and name in one.counters
                else np.full(size, np.nan)
                for one, size in zip(passes, sizes, strict=True)
            ]
        )

    duration = np.concatenate(
        [
            one.duration_ns if one is not None else np.full(size, np.nan)
            for one, size in zip(passes, sizes, strict=True)
        ]
    )
    counters = {name: column(name) for name in names}
    return Pass(known[0].label, counters, duration, known[0].merged)


def _keys(base: Dispatches, other: Dispatches) -> tuple[Integers, Integers]:
    """Numbers for the dispatches of both, equal where they are the same one."""
    import pandas as pd

    split = len(base)
    parts: list[npt.NDArray[Any]] = [
        np.concatenate(
            [one.columns["kernel_name"].to_numpy(zero_copy_only=False) for one in (base, other)]
        )
    ]
    for sizes in ("work_items", "group_items"):
        mine, theirs = getattr(base, sizes), getattr(other, sizes)
        if (mine >= 0).all() and (theirs >= 0).all():
            parts.append(np.concatenate([mine, theirs]))
    codes = pd.factorize(parts[0])[0].astype(np.int64)
    for part in parts[1:]:
        more = pd.factorize(part)[0]
        codes = pd.factorize(codes * (int(more.max(initial=0)) + 1) + more)[0].astype(np.int64)
    numbers = [
        pd.Series(part).groupby(part).cumcount().to_numpy()
        for part in (codes[:split], codes[split:])
    ]
    occurrence = np.concatenate(numbers) if len(codes) else codes
    keys = codes * (len(codes) + 1) + occurrence
    return keys[:split], keys[split:]


# --------------------------------------------------------------------------------------------
# Columns that follow from others


def complete(found: Dispatches) -> tuple[pa.Table, pa.Table, list[Note]]:
    """The kernel table and the raw metrics of some dispatches, and what was noticed."""
    count = len(found)
    columns = dict(found.columns)
    duration = duration_reals(columns, count)
    notes: list[Note] = []
    raw: list[pa.Table] = []
    for gpu, rows in _by_gpu(found, count):
        part = [one.take(rows) for one in found.passes]
        part, dead = without_dead_counters(part, gpu.arch)
        facts = gpu.facts()
        derived = derive(part, gpu.arch, facts, duration[rows])
        notes += [*dead, *derived.notes]
        _put(columns, derived, gpu, rows, count)
        _put_occupancy(columns, gpu, facts, rows, count)
        raw.append(_raw_metrics(part, derived, rows))
    table_of_kernels = table.kernel_table(columns)
    return table_of_kernels, pa.concat_tables(raw) if raw else RAW_METRICS.empty_table(), notes


def _by_gpu(found: Dispatches, count: int) -> list[tuple[Gpu, Integers]]:
    """The GPUs and the rows that ran on each kind."""
    device = found.columns.get("device")
    fallback = found.gpus.get(None, Gpu())
    if device is None or not found.gpus:
        return [(fallback, np.arange(count, dtype=np.int64))]
    numbers = as_reals(device)
    groups: dict[Gpu, list[Integers]] = {}
    for number in np.unique(numbers):
        key = None if np.isnan(number) else int(number)
        gpu = replace(found.gpus.get(key, fallback), index=None)
        same = np.isnan(numbers) if key is None else numbers == number
        groups.setdefault(gpu, []).append(np.flatnonzero(same).astype(np.int64))
    return [(gpu, np.sort(np.concatenate(rows))) for gpu, rows in groups.items()]


def _put(columns: dict[str, Any], derived: Derived, gpu: Gpu, rows: Integers, count: int) -> None:
    """Write what the counters of some rows say into the columns of all."""
    here = dict(derived.columns)
    if "dram_read_bytes" in here and "dram_write_bytes" in here:
        here["dram_bytes"] = here["dram_read_bytes"] + here["dram_write_bytes"]
    pipes = [values for name, values in here.items() if name.startswith("pipe_")]
    if pipes:
        here["sm_busy_pct"] = _largest(pipes)
        # Half an answer is none: a GEMM leaves the VALU idle while the matrix units are full.
        arch = gpu.architecture
        has_matrix = arch is not None and "F16" in arch.flop
        if "pipe_valu_pct" in here and ("pipe_tensor_pct" in here or not has_matrix):
            both = ["pipe_valu_pct", *(["pipe_tensor_pct"] if has_matrix else [])]
            decidable = np.all([~np.isnan(here[name]) for name in both], axis=0)
            here["sm_throughput_pct"] = np.where(decidable, here["sm_busy_pct"], np.nan)
    for name, values in here.items():
        _scatter(columns, name, values, rows, count)
    if pipes:
        busy = ~np.isnan(here["sm_busy_pct"])
        _scatter_text(columns, "pipe_basis", "elapsed", rows[busy], count)
    if "wait_dependency" in here and "stalls_from" not in columns:
        known = ~np.isnan(here["wait_dependency"])
        _scatter_text(columns, "stalls_from", COARSE, rows[known], count)
    matrix = derived.tensor_dtype
    for dtype in {one for one in matrix if one}:
        _scatter_text(columns, "tensor_dtype", dtype, rows[matrix == dtype], count)
    _put_peaks(columns, gpu, matrix, rows, count)


def _largest(values: Sequence[Reals]) -> Reals:
    stacked = np.stack(values)
    known = ~np.isnan(stacked)
    highest = np.where(known, stacked, -np.inf).max(axis=0)
    return np.where(known.any(axis=0), highest, np.nan)


# The names of matrix types in this module's peaks and in the kernel table.
_MATRIX = {
    "fp64": "F64", "fp32": "F32", "fp16": "F16", "bf16": "BF16", "fp8": "F8", "fp4": "F6F4",
    "int8": "I8",
}  # fmt: skip


def _put_peaks(
    columns: dict[str, Any],
    gpu: Gpu,
    matrix: npt.NDArray[np.object_],
    rows: Integers,
    count: int,
) -> None:
    """What the file itself says about the peaks; the device table fills the gaps later."""
    measured = dict(gpu.calibrated)
    if gpu.cu:
        _scatter(columns, "sm_count", np.full(len(rows), float(gpu.cu)), rows, count)
    peaks = {
        "dram_bytes": (gpu.dram_bytes_per_s, measured.get("dram")),
        "fp64_flops": (gpu.peak_flops_per_s("fp64"), measured.get("fp64")),
        "fp32_flops": (gpu.peak_flops_per_s("fp32"), measured.get("fp32")),
    }
    for name, (nominal, rate) in peaks.items():
        for prefix, value in (("peak", nominal), ("calibrated", rate)):
            if value:
                _scatter(columns, f"{prefix}_{name}_per_s", np.full(len(rows), value), rows, count)
    for dtype, kind in _MATRIX.items():
        mine = rows[matrix == dtype]
        for prefix, value in (
            ("peak", gpu.peak_flops_per_s(kind)),
            ("calibrated", measured.get(kind)),
        ):
            if len(mine) and value:
                name = f"{prefix}_tensor_flops_per_s"
                _scatter(columns, name, np.full(len(mine), value), mine, count)
    if any(nominal for nominal, _ in peaks.values()):
        sources = " and ".join(one for one in (gpu.told_by, gpu.calibrated_by) if one)
        _scatter_text(columns, "peaks_from", sources, rows, count)


def _put_occupancy(
    columns: dict[str, Any],
    gpu: Gpu,
    facts: Mapping[str, float | None],
    rows: Integers,
    count: int,
) -> None:
    """How many workgroups fit on a compute unit, from registers, LDS and wave slots.

    Limits per compute unit: LLVM AMDGPU usage (register allocation); at most 16 workgroups of
    more than one wave (rocprofiler-compute, workgroup manager).
    """
    arch = gpu.architecture
    if arch is None or not arch.registers or not arch.max_waves or "block_x" not in columns:
        return

    def of(name: str) -> Reals:
        values = columns.get(name)
        return np.full(len(rows), np.nan) if values is None else as_reals(values)[rows]

    slots = float(facts["max_waves"] or arch.max_waves)
    simds = 4
    threads = of("block_x") * of("block_y") * of("block_z")
    with np.errstate(divide="ignore", invalid="ignore"):
        waves = np.ceil(threads / arch.wave)
        given = _stepped(of("registers_per_thread"), arch.register_step)
        extra = of("accumulation_registers_per_thread")
        if arch.unified:
            total = _stepped(of("registers_per_thread") + extra, arch.register_step)
            per_simd = np.floor(arch.registers / np.maximum(total, arch.register_step))
        else:
            most = np.fmax(given, _stepped(extra, arch.register_step))
            per_simd = np.floor(arch.registers / np.maximum(most, arch.register_step))
        per_simd = np.minimum(per_simd, slots / simds)
        lds = of("shared_memory_static_bytes")
        limits = {
            "occupancy_limit_registers": np.floor(per_simd * simds / waves),
            "occupancy_limit_warps": np.floor(slots / waves),
            "occupancy_limit_blocks": np.where(waves > 1, 16.0, np.where(waves > 0, slots, np.nan)),
        }
        if arch.lds_bytes:
            fits = np.floor(arch.lds_bytes / np.maximum(lds, 1))
            limits["occupancy_limit_shared_memory"] = np.where(lds > 0, fits, np.nan)
        least = np.stack(list(limits.values()))
        known = ~np.isnan(limits["occupancy_limit_registers"]) & ~np.isnan(lds)
        fitting = np.where(np.isnan(least), np.inf, least).min(axis=0)
        fitting = np.where(known & (fitting > 0), fitting, np.nan)
        blocks = of("grid_x") * of("grid_y") * of("grid_z")
        limits["theoretical_occupancy_pct"] = np.minimum(100 * fitting * waves / slots, 100)
        limits["waves_per_sm"] = blocks / (fitting * (facts["cu"] or np.nan))
    for name, values in limits.items():
        _scatter(columns, name, values, rows, count)


def _stepped(values: Reals, step: int) -> Reals:
    """Registers as they are given out: in whole steps."""
    return np.asarray(np.ceil(values / step) * step, dtype=np.float64)


def _scatter(columns: dict[str, Any], name: str, values: Reals, rows: Integers, count: int) -> None:
    known = ~np.isnan(values)
    if not known.any():
        return
    before = columns.get(name)
    whole = np.full(count, np.nan) if before is None else as_reals(before)
    whole[rows[known]] = values[known]
    columns[name] = whole


def _scatter_text(
    columns: dict[str, Any], name: str, text: str, rows: Integers, count: int
) -> None:
    if len(rows):
        whole = columns.get(name)
        if whole is None:
            whole = np.full(count, None, dtype=object)
        whole[rows] = text
        columns[name] = whole


def _raw_metrics(passes: Sequence[Pass], derived: Derived, rows: Integers) -> pa.Table:
    """Every counter and every derived figure without a column, one row a value."""
    parts: list[pa.Table] = []
    # A merged table repeats what its parts hold: only what differs from it is shown again.
    shown = {name: values for one in passes if one.merged for name, values in one.counters.items()}
    units = {"FETCH_SIZE": "KB", "WRITE_SIZE": "KB", "FetchSize": "KB", "WriteSize": "KB"}
    for one in passes:
        for name, values in one.counters.items():
            if not one.merged and name in shown:
                values = np.where(values == shown[name], np.nan, values)
            parts.append(_metric_rows(one.label, name, units.get(name, ""), values, rows))
    for name, unit, values in derived.metrics:
        parts.append(_metric_rows("derived", name, unit, values, rows))
    return pa.concat_tables(parts) if parts else RAW_METRICS.empty_table()


def _metric_rows(section: str, name: str, unit: str, values: Reals, rows: Integers) -> pa.Table:
    known = np.flatnonzero(~np.isnan(values))
    size = len(known)
    return pa.Table.from_arrays(
        [
            pa.array(rows[known], pa.int64()),
            pa.repeat(pa.scalar(section, pa.string()), size),
            pa.repeat(pa.scalar(name, pa.string()), size),
            pa.repeat(pa.scalar(unit, pa.string()), size),
            pa.array(values[known], pa.float64()),
            pa.nulls(size, pa.string()),
        ],
        schema=RAW_METRICS,
    )


# --------------------------------------------------------------------------------------------
# The recording


@dataclass
class Part:
    """One file of a run: its rows of the kernel table (none for a file that only explains)."""

    path: Path
    kernels: pa.Table | None = None
    raw_metrics: pa.Table | None = None
    notes: list[Note] = field(default_factory=list)


def part_of(found: Dispatches) -> Part:
    """The part of a recording that some dispatches make up."""
    kernels, raw, notes = complete(found)
    return Part(found.path, kernels, raw, [*found.notes, *notes])


def recording(
    format: str,
    time_basis: TimeBasis,
    parts: Sequence[Part],
    gpus: Iterable[Gpu],
    calls: Sequence[tuple[Path, "Calls"]] = (),
    ranges: Sequence[tuple[Path, "Calls"]] = (),
) -> Recording:
    """Put the files of one run together: one source a file, rows in the order given.

    calls, ranges: host calls and named ranges, with the file that they come from.
    """
    number = {
        path: place
        for place, path in enumerate(
            dict.fromkeys([part.path for part in parts] + [path for path, _ in (*calls, *ranges)])
        )
    }
    kernels: list[pa.Table] = []
    raw: list[pa.Table] = []
    launches = dict.fromkeys(number, 0)
    notes: dict[Path, list[Note]] = {path: [] for path in number}
    rows = 0
    for part in parts:
        notes[part.path] += part.notes
        if part.kernels is None:
            continue
        place = part.kernels.column_names.index("source")
        column = pa.repeat(pa.scalar(number[part.path], pa.int64()), part.kernels.num_rows)
        own = part.kernels.set_column(place, part.kernels.schema.field(place), column)
        kernels.append(own)
        launches[part.path] += table.launches(own)
        if part.raw_metrics is not None and part.raw_metrics.num_rows:
            shifted = pc.add(part.raw_metrics["row"], rows)
            raw.append(part.raw_metrics.set_column(0, RAW_METRICS.field(0), shifted))
        rows += own.num_rows
    host = [found.table(number[path]) for path, found in calls]
    named = [found.spans(number[path]) for path, found in ranges]
    return Recording(
        format=format,
        time_basis=time_basis,
        kernels=table.stack(kernels),
        sources=tuple(
            Source(str(path), format, launches[path], tuple(_gathered(notes[path])))
            for path in number
        ),
        devices=tuple(dict.fromkeys(gpu.info() for gpu in gpus)),
        raw_metrics=pa.concat_tables(raw) if raw else RAW_METRICS.empty_table(),
        host_calls=pa.concat_tables(host) if host else HOST_CALLS.empty_table(),
        spans=pa.concat_tables(named) if named else SPANS.empty_table(),
    )


@dataclass
class Process:
    """What one profiled process left: its dispatches and what surrounds them.

    parts: copies and fills, and files that only explain.
    """

    path: Path
    dispatches: Dispatches | None = None
    calls: list[tuple[Path, "Calls"]] = field(default_factory=list)
    ranges: list[tuple[Path, "Calls"]] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def has_rows(self) -> bool:
        """Whether there is any GPU activity."""
        return self.dispatches is not None or any(
            part.kernels is not None and part.kernels.num_rows for part in self.parts
        )


def of_processes(format: str, processes: Sequence[Process]) -> Recording:
    """The processes and passes of one run as one recording."""
    runs = [one.dispatches for one in processes if one.dispatches is not None]
    joined, timeline = joined_runs(runs) if runs else ([], True)
    parts = [part_of(one) for one in joined]
    for one in processes:
        parts.append(Part(one.path, notes=one.notes))
        parts += one.parts
    return recording(
        format,
        "timeline" if timeline else "counter-tool",
        parts,
        dict.fromkeys(gpu for one in processes for gpu in one.gpus),
        calls=[pair for one in processes for pair in one.calls],
        ranges=[pair for one in processes for pair in one.ranges],
    )


def _gathered(notes: Iterable[Note]) -> list[Note]:
    """Equal notes as one, their counts added."""
    found: dict[tuple[str, bool], int] = {}
    for note in notes:
        found[note.text, note.severe] = found.get((note.text, note.severe), 0) + note.count
    return [Note(text, count, severe) for (text, severe), count in found.items()]


def by_launch(found: Dispatches) -> Dispatches:
    """The rows in the order in which the program launched them, as far as the file says it."""
    keys = [found.columns.get(name) for name in ("launch_id", "process_id")]
    known = [as_reals(one) for one in keys if one is not None]
    if not known or np.isnan(known[0]).any():
        return found
    order = np.lexsort(known)
    return found if (np.diff(order) > 0).all() else found.take(order.astype(np.int64))


# --------------------------------------------------------------------------------------------
# Host calls, ranges and copies


@dataclass(frozen=True)
class Calls:
    """n host calls or ranges of one process; arrays of int64 (null where unknown) and text."""

    process_id: pa.Array
    thread_id: pa.Array
    category: pa.Array
    name: pa.Array
    start_ns: pa.Array
    duration_ns: pa.Array
    correlation_id: pa.Array

    def __len__(self) -> int:
        return len(self.name)

    def where(self, mask: Mask) -> "Calls":
        """Some of the calls."""
        keep = pa.array(mask)
        return Calls(*(getattr(self, name).filter(keep) for name in _CALL_FIELDS))

    def table(self, source: int) -> pa.Table:
        """The calls as ``HOST_CALLS``, read from the source of this number."""
        column = pa.repeat(pa.scalar(source, pa.int64()), len(self))
        values = {name: getattr(self, name) for name in _CALL_FIELDS} | {"source": column}
        return pa.Table.from_arrays(
            [values[entry.name].cast(entry.type) for entry in HOST_CALLS], schema=HOST_CALLS
        )

    def spans(self, source: int) -> pa.Table:
        """The calls as ``SPANS`` of kind range."""
        size = len(self)
        values = {name: getattr(self, name) for name in _CALL_FIELDS} | {
            "source": pa.repeat(pa.scalar(source, pa.int64()), size),
            "kind": pa.repeat(pa.scalar("range"), size),
        }
        return pa.Table.from_arrays(
            [values[entry.name].cast(entry.type) for entry in SPANS], schema=SPANS
        )


_CALL_FIELDS = (
    "process_id",
    "thread_id",
    "category",
    "name",
    "start_ns",
    "duration_ns",
    "correlation_id",
)


def joined_calls(calls: Sequence[Calls]) -> Calls:
    """Several lists of calls below one another."""
    return Calls(
        *(pa.concat_arrays([getattr(one, name) for one in calls]) for name in _CALL_FIELDS)
    )


def spent(start: pa.Array, end: pa.Array) -> pa.Array:
    """Durations in ns; null where an end is unknown or lies before its start."""
    # Unchecked: times at the far ends of int64 wrap, and a wrapped duration is negative or huge.
    difference = pc.subtract(end, start)
    return pc.if_else(pc.greater_equal(difference, 0), difference, None)


def launched_by(columns: dict[str, Any], calls: Calls) -> None:
    """Add when the host launched each row, from the call with its correlation number.

    ``columns`` and ``calls`` must be of one process. Where several calls share a number, the one
    whose name speaks of a launch counts, else the first.
    """
    correlation = columns.get("correlation_id")
    if correlation is None or not len(calls):
        return
    import pandas as pd

    frame = pd.DataFrame(
        {
            "number": as_reals(calls.correlation_id),
            "start": as_reals(calls.start_ns),
            "row": np.arange(len(calls)),
            "other": ~np.asarray(
                pc.match_substring_regex(calls.name, "(?i)launch").fill_null(False)
            ),
        }
    ).dropna()
    frame = frame.sort_values(["number", "other", "start"]).drop_duplicates("number")
    numbers = frame["number"].to_numpy()
    wanted = as_reals(correlation)
    place = np.clip(np.searchsorted(numbers, wanted), 0, max(len(numbers) - 1, 0))
    if not len(numbers):
        return
    hit = numbers[place] == wanted
    row = pa.array(frame["row"].to_numpy()[place], mask=~hit)
    columns["host_launch_ns"] = calls.start_ns.take(row)
    columns["host_launch_duration_ns"] = calls.duration_ns.take(row)


_COPIES = {
    "HOST_TO_DEVICE": "HtoD",
    "HOSTTODEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICETOHOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "DEVICETODEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
    "HOSTTOHOST": "HtoH",
}


def copy_kind(name: str) -> str:
    """``MEMORY_COPY_HOST_TO_DEVICE`` and ``CopyHostToDevice`` are HtoD; others stay as they are."""
    upper = name.upper()
    return next((short for long, short in _COPIES.items() if long in upper), name)
