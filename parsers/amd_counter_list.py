"""AMD counters in the layout of Nsight Compute: one row per counter, with its unit.

Published tables of rocprof's counters come in this form (instruction rooflines): identity, ``Metric
Name``, ``Metric Unit``, ``Metric Value``. The time of the kernel is a row of its own.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.counters import Pass, Reals
from traceroof.parsers.amd.dispatches import Dispatches, cleaned_names, duration_reals
from traceroof.parsers.amd.kinds import Kind, layout
from traceroof.parsers.amd.run import part_of, recording
from traceroof.parsers.amd.stray_rows import row_numbers
from traceroof.parsers.amd.text import TextTable, read_table
from traceroof.parsers.amd.values import reals

_IDENTITY = ("id", "processid", "kernelname")
_TIMES = frozenset({"time", "duration", "kerneltime", "durationns"})
_NANOSECONDS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "s": 1e9}
# rocprof gives sizes in KB of 1,024 bytes; a table that says bytes has been converted.
_SIZES = frozenset({"FetchSize", "WriteSize", "FETCH_SIZE", "WRITE_SIZE"})
_KB = 1024.0
_BYTES = frozenset({"byte", "bytes"})


class AmdCounterList:
    """Reader of AMD counters in Nsight Compute's layout."""

    name = "amd-counter-list"
    title = "AMD counters in the layout of Nsight Compute: Metric Name, Metric Unit, Metric Value"
    gives = "counters of each kernel, and its time if the file contains it"
    collect = "rocprof --timestamp on -i counters.txt -o results.csv COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        table = layout(head) if head else None
        return 2 if table is not None and table.kind is Kind.COUNTER_ROWS else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        one = _dispatches(read_table(source, options, progress), source)
        return recording(PARSER.name, "counter-tool", [part_of(one, options)], [])


PARSER = AmdCounterList()


def _fitting(table: TextTable) -> tuple[TextTable, list[Note]]:
    """The table without rows whose number, process or kernel is that of few others: every launch
    has the same metrics, so these belong to a launch that cannot be told."""
    number = row_numbers(table, *_IDENTITY)
    metrics = np.bincount(number)[number] if table.num_rows else number
    odd = metrics * 2 < metrics.max(initial=0)
    if not odd.any():
        return table, []
    text = "rows that fit no launch (number, process or kernel as in no other row), left out"
    return table.take(~odd), [Note(text, int(odd.sum()))]


def _dispatches(table: TextTable, source: Path) -> Dispatches:
    table, notes = _fitting(table)
    names, metrics, values = (
        table.text(one) for one in ("kernelname", "metricname", "metricvalue")
    )
    if names is None or metrics is None or values is None or not table.num_rows:
        raise TraceroofError(f"{source} lists no kernel")
    units = table.text("metricunit")
    number = row_numbers(table, *_IDENTITY)
    first = np.unique(number, return_index=True)[1]
    counters, duration, unread = _counters(
        metrics.to_pylist(),
        units.to_pylist() if units is not None else [""] * table.num_rows,
        reals(values),
        number,
        len(first),
    )
    notes += [Note("times whose unit is unknown", unread)] if unread else []
    below = int((duration <= 0).sum())
    notes += [Note("times that are not numbers, or below 0: unknown", below)] if below else []
    columns = {"kernel_name": cleaned_names(names).take(first)}
    if not np.isnan(duration).all():
        columns["duration_ns"] = np.where(duration > 0, np.round(duration), np.nan)
    return Dispatches(
        source,
        columns,
        [Pass(source.name, counters, duration_reals(columns, len(first)))],
        notes=[*table.notes, *notes],
        work_items=np.full(len(first), -1, dtype=np.int64),
        group_items=np.full(len(first), -1, dtype=np.int64),
    )


def _counters(
    metrics: list[str | None],
    units: list[str | None],
    values: Reals,
    number: np.ndarray[tuple[int], np.dtype[np.int64]],
    count: int,
) -> tuple[Mapping[str, Reals], Reals, int]:
    """Counters and durations of ``count`` kernels, and how many times have no unit that we know."""
    counters: dict[str, Reals] = {}
    duration = np.full(count, np.nan)
    unread = 0
    for metric, unit, value, row in zip(metrics, units, values, number.tolist(), strict=True):
        name, said = (metric or "").strip(), (unit or "").strip().lower()
        if name.lower().replace("_", "") in _TIMES:
            factor = _NANOSECONDS.get(said)
            unread += factor is None
            duration[row] = value * factor if factor else np.nan
        elif name:
            size = value / _KB if name in _SIZES and said in _BYTES else value
            counters.setdefault(name, np.full(count, np.nan))[row] = size
    return counters, duration, unread
