"""Hygon's hipprof (DTK): counter tables ``pmc_results_*.csv``, databases and Chrome traces.

Counters come in presets (read, write, …), each a run of its own whose file holds only its own
counters. The database and JSON layouts are those that public notes describe; no such file was at
hand. The summaries (``*.hipkernel.csv``, with a last row "Total") are read as kernel statistics.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa

from traceroof.core import kernel_table, regex
from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import json_words
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.folders import readable
from traceroof.ingest.sqlite import Database, open_database
from traceroof.ingest.typed_columns import row_count, texts, wholes
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.dispatches import Dispatches, by_launch, of_wide
from traceroof.parsers.amd.folder import Family, survey
from traceroof.parsers.amd.gpus import HYGON, Gpu
from traceroof.parsers.amd.kinds import Kind, layout
from traceroof.parsers.amd.passes import joined_runs
from traceroof.parsers.amd.run import Part, part_of, recording
from traceroof.parsers.amd.sqlite import Schema, schema_of
from traceroof.parsers.amd.text import read_table
from traceroof.parsers.rocprof_v1_db import activity_table

# The tables do not name the device. Its counters are those of AMD's gfx9 under the same names.
_DEVICE = Gpu(arch=HYGON, told_by="hipprof")

_TRACE = regex.compile(rb'"cat"\s*:\s*"HIPOPS"')


class Hipprof:
    """Reader of hipprof output."""

    name = "hipprof"
    title = "Hygon hipprof: counters (pmc_results_*.csv), database or Chrome trace"
    gives = "launches; DRAM bytes and L2 figures where counters are there"
    collect = "hipprof --pmc-read --pmc-type 3 COMMAND, then --pmc-write in a second run"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            found = survey(path) if path.is_dir() else None
            return 2 if found is not None and found.family is Family.HIPPROF else 0
        if schema_of(head, path) is Schema.HIPPROF:
            return 2
        table_found = layout(head)
        if table_found is not None:
            return 2 if table_found.kind is Kind.HIPPROF else 0
        return 2 if head.lstrip()[:1] in (b"{", b"[") and _TRACE.search(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if source.is_dir():
            return _read_folder(source, progress, options)
        with open_inflated(source, options) as stream:
            start = stream.read(64)
        if start.startswith(b"SQLite format 3"):
            return recording(PARSER.name, "timeline", [_database(source, options)], [_DEVICE])
        if start.lstrip()[:1] in (b"{", b"["):
            part = _traced(source, *_of_json(source, options))
            return recording(PARSER.name, "timeline", [part], [_DEVICE])
        return _counted([_dispatches(source, progress, options)], options)


PARSER = Hipprof()


def _dispatches(source: Path, progress: Progress, options: Options) -> Dispatches:
    one = by_launch(of_wide(read_table(source, options, progress), source.name))
    if not len(one):
        raise TraceroofError(
            f"{source} lists no kernel", "did the program launch one while it was profiled?"
        )
    one.gpus = {None: _DEVICE}
    return one


def _read_folder(folder: Path, progress: Progress, options: Options) -> Recording:
    found = survey(folder)
    if found is None or found.family is not Family.HIPPROF:
        raise TraceroofError(f"{folder} is not the output folder of one hipprof run")
    tables = found.of(Kind.HIPPROF)
    if tables:
        runs, notes = readable(
            tables, lambda one: _dispatches(one.path, progress, options), lambda one: one.path
        )
        return _counted(runs, options, [*found.notes, *notes])
    # Every process of the run writes a database of its own.
    parts, notes = readable(
        found.databases, lambda path: _database(path, options), lambda path: path
    )
    for number, part in enumerate(parts):
        part.kernels = _of_process(part, _rank(part.path), number)
    parts[0].notes += [*found.notes, *notes]
    return recording(PARSER.name, "timeline", parts, [_DEVICE])


_RANK = regex.compile(r"rank[_-]?(\d{1,6})", re.IGNORECASE)


def _rank(path: Path) -> int | None:
    """The rank that the name of a file tells."""
    match = _RANK.search(path.name)
    return int(match.group(1)) if match else None


def _of_process(part: Part, rank: int | None, number: int) -> pa.Table:
    """The kernels of one database, marked as one process: its numbers are its own."""
    kernels = part.kernels
    assert kernels is not None  # a database of kernels
    for name, value in (("rank", rank), ("process_id", number)):
        place = kernels.column_names.index(name)
        column = pa.repeat(pa.scalar(value, pa.int64()), kernels.num_rows)
        kernels = kernels.set_column(place, kernels.schema.field(place), column)
    return kernels


def _counted(runs: list[Dispatches], options: Options, notes: Sequence[Note] = ()) -> Recording:
    joined, timeline = joined_runs(runs)
    parts = [part_of(one, options) for one in joined]
    parts[0].notes += notes
    used = {one.path for one in joined}
    parts += [Part(one.path) for one in runs if one.path not in used]
    return recording(PARSER.name, "timeline" if timeline else "counter-tool", parts, [_DEVICE])


def _database(source: Path, options: Options) -> Part:
    with open_database(source, options) as database:
        return _traced(source, _of_database(database), database.notes)


def _traced(source: Path, tables: list[pa.Table], notes: list[Note]) -> Part:
    kernels = kernel_table.stack(tables)
    if not kernels.num_rows:
        raise TraceroofError(f"{source} holds no kernel and no copy of hipprof")
    return Part(source, kernels, notes=notes)


_OPS = ("BeginNs", "EndNs", "dev_id", "queue_id", "Name", "_Index")


def _of_database(database: Database) -> list[pa.Table]:
    """Kernels and copies; names are numbers of STR_TABLE."""
    rows = database.read("STR_TABLE", ("STR_ID", "STR_NAME"))
    names = dict(zip(rows.get("STR_ID", []), rows.get("STR_NAME", []), strict=False))
    found: list[pa.Table] = []
    for name in sorted(database.tables):
        for prefix, kind in (("HIPOPS_", "kernel"), ("HIPCOPY_", "memcpy")):
            if name.startswith(prefix):
                kernels, notes = _activity(database.read(name, _OPS), kind, names)
                database.notes += notes
                found.append(kernels)
    return found


def _activity(
    rows: dict[str, list[Any]], kind: str, names: Mapping[Any, Any]
) -> tuple[pa.Table, list[Note]]:
    size = row_count(rows)
    return activity_table(
        kind=kind,
        names=texts([names.get(one, one) for one in rows.get("Name", [None] * size)], size),
        begin=wholes(rows.get("BeginNs"), size),
        end=wholes(rows.get("EndNs"), size),
        columns={
            "device": wholes(rows.get("dev_id"), size),
            "stream": wholes(rows.get("queue_id"), size),
            "launch_id": wholes(rows.get("_Index"), size),
        },
        host=None,
    )


class _Arguments(msgspec.Struct, rename={"begin": "BeginNs", "end": "EndNs"}):
    begin: str | int | None = None
    end: str | int | None = None
    index: str | int | None = None
    name: Any = None
    device: str | int | None = msgspec.field(default=None, name="devId")
    queue: str | int | None = msgspec.field(default=None, name="queueId")


class _Event(msgspec.Struct):
    ph: str | None = None
    name: str | None = None
    cat: str | None = None
    args: _Arguments | None = None


class _Trace(msgspec.Struct):
    traceEvents: list[_Event] = []


def _of_json(path: Path, options: Options) -> tuple[list[pa.Table], list[Note]]:
    """Kernels (category HIPOPS) and copies (HIPCOPY) of a Chrome trace."""
    with open_inflated(path, options) as stream:
        data = stream.read()
        notes = list(stream.notes)
    try:
        if data.lstrip()[:1] == b"[":
            events = msgspec.json.decode(data, type=list[_Event])
        else:
            events = msgspec.json.decode(data, type=_Trace).traceEvents
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceroofError(
            f"{path} begins like a hipprof trace but is not complete JSON: {json_words.why(error)}",
            "it may have been cut short: copy it again",
        ) from None
    tables: list[pa.Table] = []
    for category, kind in (("HIPOPS", "kernel"), ("HIPCOPY", "memcpy")):
        mine = [one for one in events if one.ph == "X" and one.cat == category]
        arguments = [one.args or _Arguments() for one in mine]
        rows = {
            "BeginNs": [one.begin for one in arguments],
            "EndNs": [one.end for one in arguments],
            "dev_id": [one.device for one in arguments],
            "queue_id": [one.queue for one in arguments],
            "Name": [event.name or one.name for event, one in zip(mine, arguments, strict=True)],
            "_Index": [one.index for one in arguments],
        }
        found, more = _activity(rows, kind, {})
        tables.append(found)
        notes += more
    return tables, notes
