"""RPD traces (``.rpd``, rocmProfileData): operations of the GPU and calls of the host, in SQLite.

The tables share a prefix with rocpd but are older and simpler: numbers are unique, names lie in
one table of strings. The Chrome trace that ``rpd2tracing`` makes of a file is read too; it has
whole microseconds only.
"""

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex
from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import json_words
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.sqlite import Database, open_database
from traceroof.ingest.typed_columns import numbers, row_count, texts, wholes
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.calls import (
    Calls,
    copy_kind,
    launched_by,
    spent,
)
from traceroof.parsers.amd.dispatches import cleaned_names, exact, time_columns
from traceroof.parsers.amd.run import Part, recording
from traceroof.parsers.amd.sqlite import Schema, schema_of
from traceroof.parsers.amd.times import table_of

# rpd2tracing writes one event a line after an empty one.
_TRACE = regex.compile(rb'\s*\[\s*\{\s*\}\s*,\s*\{\s*"name"')


class Rpd:
    """Reader of rocmProfileData."""

    name = "rpd"
    title = "rocmProfileData: trace (.rpd) and its Chrome trace"
    gives = "launches on the timeline with their shape, copies, host calls"
    collect = "runTracer.sh -o trace.rpd COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if schema_of(head, path) is Schema.RPD:
            return 2
        return 2 if _TRACE.match(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        with open_inflated(source, options) as stream:
            is_trace = stream.peek(64).lstrip()[:1] == b"["
        if is_trace:
            kernels, notes = _of_json(source, options)
            calls = []
        else:
            with open_database(source, options) as database:
                host = _calls(database)
                kernels, notes = _operations(database, host)
                notes += database.notes
                calls = [(source, host)]
        if not kernels.num_rows:
            raise TraceroofError(f"{source} holds no kernel and no copy")
        part = Part(source, kernels, notes=notes)
        return recording(PARSER.name, "timeline", [part], [], calls)


PARSER = Rpd()

_OP = ("id", "gpuId", "queueId", "start", "end", "description_id", "opType_id")
_KERNEL_CALL = (
    "api_ptr_id", "gridX", "gridY", "gridZ", "workgroupX", "workgroupY", "workgroupZ",
    "groupSegmentSize", "privateSegmentSize", "kernelName_id",
)  # fmt: skip


def _strings(database: Database) -> dict[Any, Any]:
    rows = database.read("rocpd_string", ("id", "string"))
    return dict(zip(rows.get("id", []), rows.get("string", []), strict=False))


def _calls(database: Database) -> Calls:
    strings = _strings(database)
    rows = database.read("rocpd_api", ("id", "pid", "tid", "start", "end", "apiName_id"))
    size = row_count(rows)
    start, end = wholes(rows.get("start"), size), wholes(rows.get("end"), size)
    return Calls(
        process_id=wholes(rows.get("pid"), size),
        thread_id=wholes(rows.get("tid"), size),
        category=pa.nulls(size, pa.string()),
        name=texts([strings.get(one) for one in rows.get("apiName_id", [None] * size)], size),
        start_ns=start,
        duration_ns=spent(start, end),
        correlation_id=wholes(rows.get("id"), size),
    )


def _operations(database: Database, host: Calls) -> tuple[pa.Table, list[Note]]:
    strings = _strings(database)
    rows = database.read("rocpd_op", _OP)
    size = row_count(rows)
    links = database.read("rocpd_api_ops", ("api_id", "op_id"))
    call_of = dict(zip(links.get("op_id", []), links.get("api_id", []), strict=False))
    calls = [call_of.get(one) for one in rows.get("id", [None] * size)]
    does = [str(strings.get(one) or "") for one in rows.get("opType_id", [None] * size)]
    kind = [_kind_of(one) for one in does]
    launches = _launches(database, calls)
    names = [strings.get(one) for one in rows.get("description_id", [None] * size)]
    named = [strings.get(launch.get("kernelName_id")) for launch in launches]
    # A copy has no name of its own: what it does is its kind.
    own = [None if is_a == "kernel" else what for is_a, what in zip(kind, does, strict=True)]
    timed, notes = time_columns(
        exact(wholes(rows.get("start"), size)), exact(wholes(rows.get("end"), size)), None, size
    )
    columns: dict[str, Any] = {
        "kind": pa.array(kind, pa.string()),
        "kernel_name": cleaned_names(
            texts([a or b or c for a, b, c in zip(names, named, own, strict=True)], size)
        ),
        "launch_id": wholes(rows.get("id"), size),
        "device": wholes(rows.get("gpuId"), size),
        "stream": wholes(rows.get("queueId"), size),
        "correlation_id": wholes(calls, size),
        **_shape_columns(launches, kind),
        **_copy_columns(_by_call(database, "rocpd_copyapi", ("api_ptr_id", "size")), calls, does),
        **timed,
    }
    columns["process_id"] = _process_of(columns, host)
    launched_by(columns, host)
    kernels, impossible = table_of(columns)
    return kernels, [*notes, *impossible]


def _launches(database: Database, calls: list[Any]) -> list[dict[str, Any]]:
    """What the call of each operation asked for; empty where it launched no kernel."""
    shapes = _by_call(database, "rocpd_kernelapi", _KERNEL_CALL)
    return [shapes.get(call) or {} for call in calls]


def _shape_columns(launches: list[dict[str, Any]], kind: list[str]) -> dict[str, Any]:
    """Grid, block and memory of kernels. Grids are those of the HIP call: in workgroups, not
    work-items."""
    size = len(kind)

    def field(name: str) -> list[Any]:
        return [
            launch.get(name) if is_a == "kernel" else None
            for launch, is_a in zip(launches, kind, strict=True)
        ]

    columns: dict[str, Any] = {
        "shared_memory_static_bytes": numbers(field("groupSegmentSize"), size),
        "scratch_bytes_per_thread": numbers(field("privateSegmentSize"), size),
    }
    for axis in "xyz":
        columns[f"grid_{axis}"] = wholes(field(f"grid{axis.upper()}"), size)
        columns[f"block_{axis}"] = wholes(field(f"workgroup{axis.upper()}"), size)
    return columns


def _copy_columns(
    sizes: dict[Any, dict[str, Any]], calls: list[Any], does: list[str]
) -> dict[str, Any]:
    """Bytes and direction of copies."""
    is_copy = [_kind_of(one) == "memcpy" for one in does]
    copied = [
        (sizes.get(call) or {}).get("size") if wanted else None
        for call, wanted in zip(calls, is_copy, strict=True)
    ]
    direction = [
        copy_kind(one) if wanted else None for one, wanted in zip(does, is_copy, strict=True)
    ]
    return {"copy_bytes": numbers(copied, len(does)), "copy_kind": texts(direction, len(does))}


def _process_of(columns: dict[str, Any], host: Calls) -> pa.Array:
    processes = dict(zip(host.correlation_id.to_pylist(), host.process_id.to_pylist(), strict=True))
    return pa.array(
        [processes.get(one) for one in columns["correlation_id"].to_pylist()], pa.int64()
    )


def _kind_of(operation: str) -> str:
    if operation.startswith("Copy"):
        return "memcpy"
    return "memset" if operation.startswith("Fill") else "kernel"


def _by_call(database: Database, name: str, columns: tuple[str, ...]) -> dict[Any, dict[str, Any]]:
    rows = database.read(name, columns)
    keys = rows.get("api_ptr_id", [])
    return {
        key: {field: values[place] for field, values in rows.items()}
        for place, key in enumerate(keys)
    }


class _Event(msgspec.Struct):
    ph: str | None = None
    name: str | None = None
    pid: str | int | None = None
    tid: str | int | None = None
    ts: str | int | float | None = None
    dur: str | int | float | None = None
    args: Any = None


def _of_json(path: Path, options: Options) -> tuple[pa.Table, list[Note]]:
    with open_inflated(path, options) as stream:
        data = stream.read()
        notes = list(stream.notes)
    try:
        events = msgspec.json.decode(data, type=list[_Event])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceroofError(
            f"{path} begins like an RPD trace but is not complete JSON: {json_words.why(error)}",
            "it may have been cut short: make it again from the .rpd file",
        ) from None
    mine = [
        (event, desc)
        for event in events
        if event.ph == "X" and (desc := _description(event)) is not None
    ]
    size = len(mine)
    start = _nanoseconds([event.ts for event, _ in mine])
    length = _nanoseconds([event.dur for event, _ in mine])
    kinds = [_kind_of(desc) for _, desc in mine]
    spans = numbers(length.to_pylist(), size)
    unreadable = length.null_count + start.null_count
    if unreadable:
        notes.append(Note("times that are not numbers: unknown", unreadable))
    backwards = spans < 0
    if backwards.any():
        text = "operations that end before they begin: duration unknown"
        notes.append(Note(text, int(backwards.sum())))
    early = numbers(start.to_pylist(), size) <= 0
    if early.any():
        text = "operations that begin at 0 ns or before: start and duration unknown"
        notes.append(Note(text, int(early.sum())))
    short = np.asarray(length.is_valid()) & (spans == 0)
    if short.any():
        text = "operations under a microsecond, the resolution of this file: duration unknown"
        notes.append(Note(text, int(short.sum())))
    columns: dict[str, Any] = {
        "kind": pa.array(kinds, pa.string()),
        "kernel_name": cleaned_names(texts([event.name or desc for event, desc in mine], size)),
        "device": wholes([event.pid for event, _ in mine], size),
        "stream": wholes([event.tid for event, _ in mine], size),
        "copy_kind": texts(
            [
                copy_kind(desc) if one == "memcpy" else None
                for (_, desc), one in zip(mine, kinds, strict=True)
            ],
            size,
        ),
        "start_ns": pc.if_else(pa.array(early), None, start),
        "duration_ns": pc.if_else(pa.array((spans <= 0) | early), None, length),
    }
    kernels, impossible = table_of(columns)
    return kernels, [*notes, *impossible]


def _description(event: _Event) -> str | None:
    """What an operation of the GPU is; None for everything else."""
    desc = event.args.get("desc") if isinstance(event.args, dict) else None
    if not isinstance(desc, str):
        return None
    is_operation = desc == "KernelExecution" or re.fullmatch(r"Copy\w+|FillBuffer", desc)
    return desc if is_operation else None


def _nanoseconds(values: list[Any]) -> pa.Array:
    """Microseconds as written to whole nanoseconds, exactly."""
    from traceroof.parsers.amd.values import times

    found = times(
        pa.chunked_array([[None if one is None else str(one) for one in values]], pa.string())
    )
    sane = found.known & (np.abs(found.values) < 2**53)
    return pa.array(np.where(sane, found.values, 0) * 1000, mask=~sane)
