"""rocprof v1 traces as JSON (``results.json``): a Chrome trace with a machine description behind.

The first event is empty, every number is text, and ``ts`` and ``dur`` lost their last digits: the
exact times are among the arguments. ``otherData`` holds what rocminfo said about the machine.
"""

from bisect import bisect_right
from pathlib import Path
from typing import Any, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table
from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import json_words
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.typed_columns import texts, wholes
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.calls import Calls, spent
from traceroof.parsers.amd.folder import V1_JSON
from traceroof.parsers.amd.rocminfo import rocminfo_mapping
from traceroof.parsers.amd.run import Part
from traceroof.parsers.rocprof_v1_db import Content, Host, activity_table, of_content

_ARGUMENTS = {"begin": "BeginNs", "end": "EndNs", "spent": "DurationNs", "label": "Name"}


class _Arguments(msgspec.Struct, rename=_ARGUMENTS):
    begin: str | int | None = None
    end: str | int | None = None
    spent: str | int | None = None
    label: str | None = None
    pid: str | int | None = None
    tid: str | int | None = None
    args: Any = None
    name: Any = None
    device: str | int | None = msgspec.field(default=None, name="dev-id")
    queue: str | int | None = msgspec.field(default=None, name="queue-id")


class _Event(msgspec.Struct):
    ph: str | None = None
    name: str | None = None
    pid: str | int | None = None
    tid: str | int | None = None
    ts: str | int | float | None = None
    id: str | int | None = None
    args: _Arguments | None = None


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]
    otherData: dict[str, Any] = {}


class RocprofV1Json:
    """Reader of rocprof v1 JSON traces."""

    name = "rocprof-v1-json"
    title = "rocprof v1: results.json"
    gives = "launches on the timeline, copies, host calls, the machine's GPUs"
    collect = "rocprof --hip-trace -o results.csv COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if V1_JSON.match(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        return of_content(PARSER.name, read_tables(source, options, kernels=True))


PARSER = RocprofV1Json()


def read_tables(path: Path, options: Options, kernels: bool) -> Content:
    """The content of a trace; without its kernels where they were read from elsewhere."""
    with open_inflated(path, options) as stream:
        data = stream.read()
        notes = list(stream.notes)
    try:
        trace = msgspec.json.decode(data, type=_Trace)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceroofError(
            f"{path} begins like a rocprof trace but is not complete JSON: {json_words.why(error)}",
            "it may have been cut short; results.csv or results.db beside it hold the same run",
        ) from None
    del data
    # Process numbers are the trace's own; their names say what runs in each.
    roles = {
        str(event.pid): str(event.args.name or "")
        for event in trace.traceEvents
        if event.ph == "M" and event.name == "process_name" and event.args is not None
    }
    timed = [
        one for one in trace.traceEvents if one.args is not None and one.args.begin is not None
    ]
    events = [one for one in timed if one.ph == "X"]
    if len(events) < len(timed):
        notes.append(
            Note("events with times and an unknown phase, left out", len(timed) - len(events))
        )
    calls = [one for one in events if _role(roles, one) == "host"]
    host = _host(calls, roles)
    launched = _launches(trace.traceEvents, calls)
    tables: list[pa.Table] = []
    for kind, role in (("kernel", "gpu"), ("memcpy", "copy")):
        mine = [one for one in events if _role(roles, one) == role]
        if mine and (kernels or kind != "kernel"):
            numbers = [launched.get((str(one.pid), str(one.tid), str(one.ts))) for one in mine]
            found, more = _activity(kind, mine, numbers, host)
            tables.append(found)
            notes += more
    strange = sum(_role(roles, one) == "" for one in events)
    if strange:
        notes.append(Note("events of unknown processes were skipped", strange))
    part = Part(path, kernel_table.stack(tables), notes=notes)
    return Content(part, host.calls if host else None, rocminfo_mapping(trace.otherData))


def _role(roles: dict[str, str], event: _Event) -> str:
    name = roles.get(str(event.pid), "").upper()
    if name.startswith("GPU"):
        return "gpu"
    if name.startswith("COPY"):
        return "copy"
    return "host" if "API" in name or name.startswith(("CPU", "MARKERS")) else ""


def _launches(events: list[_Event], calls: list[_Event]) -> dict[tuple[str, str, str], int]:
    """Where a flow arrow ends (process, thread, time as written) -> number of the host call.

    The arrow starts, in whole microseconds, somewhere inside the call.
    """
    starts: dict[str, list[tuple[int, int]]] = {}
    for number, call in enumerate(calls):
        at = _microseconds(call.ts)
        if at is not None:
            starts.setdefault(str(call.tid), []).append((at, number))
    for times in starts.values():
        times.sort()
    begun: dict[str, int] = {}
    for event in events:
        at = _microseconds(event.ts)
        if event.ph == "s" and at is not None:
            times = starts.get(str(event.tid), [])
            place = bisect_right(times, (at, len(calls))) - 1
            if place >= 0:
                begun[str(event.id)] = times[place][1]
    return {
        (str(event.pid), str(event.tid), str(event.ts)): begun[str(event.id)]
        for event in events
        if event.ph in ("t", "f") and str(event.id) in begun
    }


def _microseconds(text: str | float | None) -> int | None:
    try:
        return None if text is None else int(float(text))
    except (ValueError, OverflowError):
        return None


def _activity(
    kind: str, events: list[_Event], numbers: list[int | None], host: Host | None
) -> tuple[pa.Table, list[Note]]:
    size = len(events)
    arguments = [one.args or _Arguments() for one in events]
    begin, end, spent_ns = (
        wholes([getattr(one, name) for one in arguments], size)
        for name in ("begin", "end", "spent")
    )
    table, notes = activity_table(
        kind=kind,
        names=texts(
            [one.label or event.name for one, event in zip(arguments, events, strict=True)], size
        ),
        begin=begin,
        end=end,
        columns={
            "device": wholes([one.device for one in arguments], size),
            "stream": wholes([one.queue for one in arguments], size),
            "process_id": wholes([one.pid for one in arguments], size),
            "correlation_id": wholes(numbers, size),
        },
        host=host,
    )
    known = table["duration_ns"]
    wrong = pc.not_equal(known, spent_ns).fill_null(False)
    count = pc.sum(wrong).as_py() or 0
    if not count:
        return table, notes
    at = table.column_names.index("duration_ns")
    table = table.set_column(at, table.schema.field(at), pc.if_else(wrong, None, known))
    text = "times that contradict their stated duration: duration unknown"
    return table, [Note(text, count), *notes]


def _host(events: list[_Event], roles: dict[str, str]) -> Host | None:
    if not events:
        return None
    size = len(events)
    arguments = [one.args or _Arguments() for one in events]
    start = wholes([one.begin for one in arguments], size)
    end = wholes([one.end for one in arguments], size)
    calls = Calls(
        process_id=wholes([one.pid for one in arguments], size),
        thread_id=wholes([one.tid for one in arguments], size),
        category=texts([roles.get(str(one.pid)) for one in events], size),
        name=texts(
            [one.label or event.name for one, event in zip(arguments, events, strict=True)], size
        ),
        start_ns=start,
        duration_ns=spent(start, end),
        # Calls have no numbers in this file; arrows show which of them launched what.
        correlation_id=pa.array(range(size), pa.int64()),
    )
    said = [one.args if isinstance(one.args, str) else None for one in arguments]
    return Host(calls, texts(said, size))
