"""Counters of several passes brought together: long tables into rows, other runs to one.

A GPU counts only a few things at once, so a tool runs a dispatch, or the whole program, again for
each group of counters. What was counted in different runs stays in different passes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_table
from traceroof.core.recording import Note
from traceroof.parsers.amd.counters import Pass, Reals
from traceroof.parsers.amd.dispatches import Dispatches, duration_reals, masked
from traceroof.parsers.amd.gpus import Gpu
from traceroof.parsers.amd.values import Integers

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
    by_counters: list[list[Dispatches]] = []
    for run in runs:
        if not run.timeline:
            group = next((one for one in by_counters if _same_counters(one[0], run)), None)
            if group is None:
                by_counters.append([run])
            else:
                group.append(run)
    if not by_counters:
        return traced, True
    passes = [stacked(group) for group in by_counters]
    if traced:
        return [join_passes(stacked(traced), passes)], True
    # The pass with most launches that have a duration; equal ones in the order of the files.
    passes.sort(key=lambda run: -int((~np.isnan(duration_reals(run.columns, len(run)))).sum()))
    if len(passes) == 1 and len(runs) > 1:
        return list(runs), False
    return [join_passes(passes[0], passes[1:])], False


def _same_counters(one: Dispatches, other: Dispatches) -> bool:
    """Whether two runs collected the same: more than half, where multiplexing left gaps.

    Every group of counters has the clocks of the whole GPU (GRBM_*) beside its own.
    """
    a, b = (
        {name for name in run.counters if not name.startswith("GRBM_")} or run.counters
        for run in (one, other)
    )
    return a == b or 2 * len(a & b) > min(len(a), len(b))


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
        return pa.nulls(size, kernel_table.column(name).type)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return pa.array(values, from_pandas=True).cast(kernel_table.column(name).type)


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
