"""The files of one run as a recording: processes, passes, copies, host calls, and what explains."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table
from traceroof.core.recording import (
    CALL_SUMS,
    HOST_CALLS,
    RAW_METRICS,
    SPANS,
    Note,
    Recording,
    Source,
    TimeBasis,
)
from traceroof.parser import Options
from traceroof.parsers.amd.calls import Calls
from traceroof.parsers.amd.columns import complete
from traceroof.parsers.amd.dispatches import Dispatches
from traceroof.parsers.amd.gpus import Gpu, of_name
from traceroof.parsers.amd.passes import joined_runs


@dataclass
class Part:
    """One file of a run: its rows of the kernel table (none for a file that only explains)."""

    path: Path
    kernels: pa.Table | None = None
    raw_metrics: pa.Table | None = None
    call_sums: pa.Table | None = None
    notes: list[Note] = field(default_factory=list)


def part_of(found: Dispatches, options: Options) -> Part:
    """The part of a recording that some dispatches make up."""
    kernels, raw, notes = complete(found, of_name(options.device))
    return Part(found.path, kernels, raw, notes=[*found.notes, *notes])


def recording(
    format: str,
    time_basis: TimeBasis,
    parts: Sequence[Part],
    gpus: Iterable[Gpu],
    calls: Sequence[tuple[Path, Calls]] = (),
    ranges: Sequence[tuple[Path, Calls]] = (),
) -> Recording:
    """Put the files of one run together: one source a file, rows in the order given.

    gpus: those of the run; a GPU of which nothing else is known is at least AMD's or Hygon's.
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
    sums: list[pa.Table] = []
    launches = dict.fromkeys(number, 0)
    notes: dict[Path, list[Note]] = {path: [] for path in number}
    rows = 0
    for part in parts:
        notes[part.path] += part.notes
        if part.call_sums is not None:
            sums.append(_from(part.call_sums, number[part.path]))
        if part.kernels is None:
            continue
        own = _from(part.kernels, number[part.path])
        kernels.append(own)
        launches[part.path] += kernel_table.launches(own)
        if part.raw_metrics is not None and part.raw_metrics.num_rows:
            shifted = pc.add(part.raw_metrics["row"], rows)
            raw.append(part.raw_metrics.set_column(0, RAW_METRICS.field(0), shifted))
        rows += own.num_rows
    host = [found.table(number[path]) for path, found in calls]
    named = [found.spans(number[path]) for path, found in ranges]
    return Recording(
        format=format,
        time_basis=time_basis,
        kernels=kernel_table.stack(kernels),
        sources=tuple(
            Source(str(path), format, launches[path], tuple(_gathered(notes[path])))
            for path in number
        ),
        devices=tuple(dict.fromkeys(gpu.info() for gpu in gpus)) or (Gpu().info(),),
        raw_metrics=pa.concat_tables(raw) if raw else RAW_METRICS.empty_table(),
        host_calls=pa.concat_tables(host) if host else HOST_CALLS.empty_table(),
        spans=pa.concat_tables(named) if named else SPANS.empty_table(),
        call_sums=pa.concat_tables(sums) if sums else CALL_SUMS.empty_table(),
    )


def _from(table: pa.Table, source: int) -> pa.Table:
    """The table with all rows from this source."""
    place = table.column_names.index("source")
    column = pa.repeat(pa.scalar(source, pa.int64()), table.num_rows)
    return table.set_column(place, table.schema.field(place), column)


@dataclass
class Process:
    """What one profiled process left: its dispatches and what surrounds them.

    parts: copies and fills, and files that only explain. lines: source tables of its samples, by the
    number of the dispatch.
    """

    path: Path
    dispatches: Dispatches | None = None
    calls: list[tuple[Path, Calls]] = field(default_factory=list)
    ranges: list[tuple[Path, Calls]] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    lines: list[pa.Table] = field(default_factory=list)

    @property
    def has_rows(self) -> bool:
        """Whether there is any GPU activity."""
        return self.dispatches is not None or any(
            part.kernels is not None and part.kernels.num_rows for part in self.parts
        )


def of_processes(format: str, processes: Sequence[Process], options: Options) -> Recording:
    """The processes and passes of one run as one recording."""
    runs = [one.dispatches for one in processes if one.dispatches is not None]
    joined, timeline = joined_runs(runs) if runs else ([], True)
    parts = [part_of(one, options) for one in joined]
    for one in processes:
        parts.append(Part(one.path, notes=one.notes))
        parts += one.parts
    made = recording(
        format,
        "timeline" if timeline else "counter-tool",
        parts,
        dict.fromkeys(gpu for one in processes for gpu in one.gpus),
        calls=[pair for one in processes for pair in one.calls],
        ranges=[pair for one in processes for pair in one.ranges],
    )
    lines = [_placed(one, made.kernels) for one in processes if one.lines]
    return replace(made, source_lines=pa.concat_tables(lines)) if lines else made


def _placed(process: Process, kernels: pa.Table) -> pa.Table:
    """The source tables of a process, ``row`` being that of the kernel table. Samples of dispatches
    that are in no row are left out."""
    lines = pa.concat_tables(process.lines)
    wanted = pc.is_valid(kernels["launch_id"])
    own = process.dispatches.columns.get("process_id") if process.dispatches is not None else None
    ids = [] if own is None else pc.unique(own).drop_null().to_pylist()
    if ids:
        wanted = pc.and_(wanted, pc.is_in(kernels["process_id"], pa.array(ids, pa.int64())))
    rows = np.flatnonzero(np.asarray(wanted.combine_chunks()))
    numbers = kernels["launch_id"].combine_chunks().take(pa.array(rows))
    place = pc.index_in(lines["row"].combine_chunks(), value_set=numbers)
    at = lines.schema.get_field_index("row")
    placed = lines.set_column(at, lines.schema.field(at), pa.array(rows).take(place))
    return placed.filter(pc.is_valid(placed["row"]))


def _gathered(notes: Iterable[Note]) -> list[Note]:
    """Equal notes as one, their counts added."""
    found: dict[tuple[str, bool], int] = {}
    for note in notes:
        found[note.text, note.severe] = found.get((note.text, note.severe), 0) + note.count
    return [Note(text, count, severe) for (text, severe), count in found.items()]
