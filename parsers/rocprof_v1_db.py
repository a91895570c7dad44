"""rocprof v1 databases (``results.db``): kernels, copies and host calls of a trace, in SQLite.

The table KERN, made for kernels, is usually empty: they are in OPS. A domain that was not traced
has no table.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from traceroof.core import kernel_table, regex
from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.sqlite import Database, open_database
from traceroof.ingest.typed_columns import row_count, texts, wholes
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.calls import (
    Calls,
    copy_kind,
    joined_calls,
    launched_by,
    spent,
)
from traceroof.parsers.amd.dispatches import cleaned_names, exact, time_columns
from traceroof.parsers.amd.gpus import Gpu
from traceroof.parsers.amd.run import Part, recording
from traceroof.parsers.amd.sqlite import Schema, schema_of
from traceroof.parsers.amd.times import table_of


@dataclass
class Content:
    """What a container (database or JSON) of a rocprof v1 trace holds.

    part: kernels and copies. calls: host calls. gpus: the machine's GPUs.
    """

    part: Part
    calls: Calls | None = None
    gpus: list[Gpu] = field(default_factory=list)


class RocprofV1Db:
    """Reader of rocprof v1 databases."""

    name = "rocprof-v1-db"
    title = "rocprof v1: results.db"
    gives = "launches on the timeline, copies, host calls"
    collect = "rocprof --hip-trace -o results.csv COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if schema_of(head, path) is Schema.ROCPROF_V1 else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        content = read_tables(source, options, kernels=True)
        return of_content(PARSER.name, content)


PARSER = RocprofV1Db()


def of_content(format: str, content: Content) -> Recording:
    """The recording of one container. Raises TraceroofError when it holds no GPU activity."""
    part = content.part
    if part.kernels is None or not part.kernels.num_rows:
        raise TraceroofError(
            f"{part.path} holds no kernel and no copy",
            "trace them with: rocprof --hip-trace COMMAND",
        )
    calls = [] if content.calls is None else [(part.path, content.calls)]
    return recording(format, "timeline", [part], content.gpus, calls)


_OPS = ("BeginNs", "EndNs", "dev-id", "queue-id", "Name", "pid", "stream-id", "Index")
_CALLS = ("BeginNs", "EndNs", "pid", "tid", "Name", "args", "Index")
# Domains of host calls, each in a table of its own.
_DOMAINS = ("HIP", "HSA", "ROCTX")

# Arguments of the calls that launch or copy: "numBlocks({z(1) y(1) x(3906250}) … sizeBytes(24)".
_ARGUMENTS = {
    "grid": regex.compile(r"numBlocks\(\{z\((\d{1,10})\) y\((\d{1,10})\) x\((\d{1,10})\}"),
    "block": regex.compile(r"dimBlocks\(\{z\((\d{1,10})\) y\((\d{1,10})\) x\((\d{1,10})\}"),
    "bytes": regex.compile(r"\bsizeBytes\((\d{1,18})\)"),
}


@dataclass(frozen=True)
class Host:
    """Host calls, and what their arguments say (text, null where there is none)."""

    calls: Calls
    arguments: pa.Array


def read_tables(path: Path, options: Options, kernels: bool) -> Content:
    """The content of a database; without its kernels where they were read from elsewhere."""
    with open_database(path, options) as database:
        host = [_calls(database, name) for name in _DOMAINS if name in database.tables]
        joined = joined_host(host)
        activity = [
            _activity(database, name, kind, joined)
            for name, kind in (("OPS", "kernel"), ("COPY", "memcpy"))
            if name in database.tables and (kernels or kind != "kernel")
        ]
        notes = [*database.notes, *(note for one in activity for note in one[1])]
    part = Part(path, kernel_table.stack([one for one, _ in activity]), notes=notes)
    return Content(part, joined.calls if joined else None)


def _activity(
    database: Database, name: str, kind: str, host: Host | None
) -> tuple[pa.Table, list[Note]]:
    rows = database.read(name, _OPS)
    size = row_count(rows)
    return activity_table(
        kind=kind,
        names=texts(rows.get("Name"), size),
        begin=wholes(rows.get("BeginNs"), size),
        end=wholes(rows.get("EndNs"), size),
        columns={
            "device": wholes(rows.get("dev-id"), size),
            "stream": wholes(rows.get("queue-id"), size),
            "process_id": wholes(rows.get("pid"), size),
            "correlation_id": wholes(rows.get("Index"), size),
        },
        host=host,
    )


def activity_table(
    *,
    kind: str,
    names: pa.Array,
    begin: pa.Array,
    end: pa.Array,
    columns: dict[str, Any],
    host: Host | None,
) -> tuple[pa.Table, list[Note]]:
    """Kernels or copies as a kernel table, with what their host calls say about them."""
    size = len(names)
    timed, notes = time_columns(exact(begin), exact(end), None, size)
    columns = {"kernel_name": cleaned_names(names)} | columns | timed
    columns |= kind_columns(kind, names, size)
    if host is not None:
        launched_by(columns, host.calls)
        columns |= _said_by_host(columns, host, kind)
    kernels, impossible = table_of(columns)
    return kernels, [*notes, *impossible]


def _said_by_host(columns: dict[str, Any], host: Host, kind: str) -> dict[str, Any]:
    """Launch shape or size of a copy, from the arguments of the call with the same number."""
    wanted = ("grid", "block") if kind == "kernel" else ("bytes",)
    said: dict[tuple[str, int | None], tuple[str, ...]] = {}
    for number, text in zip(
        host.calls.correlation_id.to_pylist(), host.arguments.to_pylist(), strict=True
    ):
        for name in wanted:
            match = _ARGUMENTS[name].search(text) if text and number is not None else None
            if match:
                said.setdefault((name, number), match.groups())
    numbers = columns["correlation_id"].to_pylist()
    found: dict[str, Any] = {}
    for name in wanted:
        values = [said.get((name, number)) for number in numbers]
        if not any(values):
            continue
        if name == "bytes":
            found["copy_bytes"] = [float(one[0]) if one else None for one in values]
            continue
        for axis, place in (("x", 2), ("y", 1), ("z", 0)):
            found[f"{name}_{axis}"] = pa.array(
                [int(one[place]) if one else None for one in values], pa.int64()
            )
    return found


def kind_columns(kind: str, names: pa.Array, size: int) -> dict[str, Any]:
    """Columns kind and copy_kind; rocprof lists fills among the copies."""
    if kind == "kernel":
        return {"kind": ["kernel"] * size}
    known = [name or "" for name in names.to_pylist()]
    kinds = ["memset" if "fill" in name.lower() else "memcpy" for name in known]
    copies = [
        copy_kind(name) if one == "memcpy" else None for name, one in zip(known, kinds, strict=True)
    ]
    return {"kind": kinds, "copy_kind": pa.array(copies, pa.string())}


def _calls(database: Database, name: str) -> Host:
    rows = database.read(name, _CALLS)
    size = row_count(rows)
    start, end = wholes(rows.get("BeginNs"), size), wholes(rows.get("EndNs"), size)
    calls = Calls(
        process_id=wholes(rows.get("pid"), size),
        thread_id=wholes(rows.get("tid"), size),
        category=pa.repeat(pa.scalar(name), size),
        name=texts(rows.get("Name"), size),
        start_ns=start,
        duration_ns=spent(start, end),
        correlation_id=wholes(rows.get("Index"), size),
    )
    return Host(calls, texts(rows.get("args"), size))


def joined_host(host: Sequence[Host]) -> Host | None:
    """The host calls of all domains below one another."""
    if not host:
        return None
    calls = joined_calls([one.calls for one in host])
    return Host(calls, pa.concat_arrays([one.arguments for one in host]))
