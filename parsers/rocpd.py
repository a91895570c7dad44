"""rocpd: the SQLite database that rocprofv3 writes by default from ROCm 7 on.

Every table carries the id of its run behind its name, and a merged database holds several runs;
ids are unique only together with ``guid``. Only the plain tables are read: the views that the
file brings along drop dispatches without a region and count replayed ones twice. The environment
of the profiled program lies in the file too and is never read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.plausible import TWICE
from traceroof.ingest.sqlite import Database, open_database
from traceroof.ingest.typed_columns import numbers, texts, wholes
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.calls import (
    Calls,
    copy_kind,
    launched_by,
    spent,
)
from traceroof.parsers.amd.counters import Reals
from traceroof.parsers.amd.dispatches import (
    Dispatches,
    cleaned_names,
    exact,
    masked,
    shape_columns,
    time_columns,
)
from traceroof.parsers.amd.gpus import Gpu, of_agent
from traceroof.parsers.amd.kinds import squash
from traceroof.parsers.amd.passes import pivot
from traceroof.parsers.amd.physical import put_gpus
from traceroof.parsers.amd.run import Part, Process, of_processes
from traceroof.parsers.amd.samples import SAMPLE, of_database, put_samples
from traceroof.parsers.amd.sqlite import ROCPD_TABLE, Schema, schema_of
from traceroof.parsers.amd.times import table_of

# Ranges that the program named itself (ROCTx), as opposed to calls of the runtime.
_MARKERS = "MARKER"


class Rocpd:
    """Reader of rocpd databases."""

    name = "rocpd"
    title = "rocpd: database of rocprofv3 (*_results.db)"
    gives = "launches on the timeline, copies, host calls and ranges; counters where collected"
    collect = "rocprofv3 --kernel-trace --hip-trace --memory-copy-trace -- COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if schema_of(head, path) is Schema.ROCPD else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        processes = processes_of(source, progress, options)
        found = of_processes(PARSER.name, processes, options)
        if not found.kernels.num_rows:
            raise TraceroofError(
                f"{source} is a rocpd database without kernel dispatches or copies",
                "collect them with: rocprofv3 --kernel-trace --memory-copy-trace -- COMMAND",
            )
        return found


PARSER = Rocpd()


def processes_of(path: Path, progress: Progress, options: Options) -> list[Process]:
    """The processes in a database: one, or several where databases were merged."""
    found: list[Process] = []
    with open_database(path, options) as database:
        runs = list(_runs(database))
        for number, run in enumerate(runs):
            dispatches = _dispatches(run)
            copies, notes = _copies(run)
            samples = of_database(run.read("pc_sampling", SAMPLE))
            lines = put_samples(samples, dispatches) if len(dispatches) else []
            found.append(
                Process(
                    path,
                    dispatches if len(dispatches) else None,
                    [(path, run.calls)] if len(run.calls) else [],
                    [(path, run.ranges)] if len(run.ranges) else [],
                    list(run.gpus.values()),
                    [Part(path, copies, notes=notes)],
                    lines=lines,
                )
            )
            progress(number + 1, len(runs))
        if found:
            found[-1].notes += database.notes
    return found


class _Run:
    """The tables of one run: those with the same id behind their names."""

    def __init__(self, database: Database, suffix: str) -> None:
        self.database = database
        self.path = database.path
        self._suffix = suffix
        agents = self.read("info_agent", _AGENT)
        self.gpus = _gpus(agents)
        nodes = _columns(self.read("info_node", _NODE), _NODE)
        names = {
            one for column in zip(*nodes, strict=True) if (one := next(filter(None, column), ""))
        }
        #: The machine, where all the run is of one.
        self.machine = str(names.pop()) if len(names) == 1 else ""
        strings = self.read("string", ("id", "guid", "string"))
        self.strings = _index(strings, strings.get("string", []))
        processes = self.read("info_process", ("id", "guid", "pid"))
        self.processes = _index(processes, processes.get("pid", []))
        threads = self.read("info_thread", ("id", "guid", "tid"))
        self.threads = _index(threads, threads.get("tid", []))
        events = self.read("event", ("id", "guid", "category_id", "stack_id", "correlation_id"))
        self.events = _index(events, list(zip(*_columns(events, _EVENT), strict=True)))
        host = self._host()
        marked = np.array(
            [_MARKERS in (text or "") for text in host.category.to_pylist()], dtype=bool
        )
        self.calls, self.ranges = host.where(~marked), host.where(marked)

    def read(self, name: str, columns: tuple[str, ...]) -> dict[str, list[Any]]:
        """Columns of the table with this short name; nothing where the run has no such table."""
        for table_name in (f"rocpd_{name}{self._suffix}", f"rocpd_{name}"):
            if table_name in self.database.tables:
                return self.database.read(table_name, columns)
        return {}

    def of(
        self, index: Mapping[tuple[Any, Any], Any], rows: dict[str, list[Any]], key: str
    ) -> list[Any]:
        """What the rows refer to by ``key``; None where it is not there."""
        size = _size(rows)
        guids = rows.get("guid", [None] * size)
        return [
            index.get((number, guid))
            for number, guid in zip(rows.get(key, [None] * size), guids, strict=True)
        ]

    def correlations(self, rows: dict[str, list[Any]]) -> list[int | None]:
        """The number that links a dispatch to the call that launched it."""
        return [
            None if event is None else (event[2] or event[1])
            for event in self.of(self.events, rows, "event_id")
        ]

    def _host(self) -> Calls:
        rows = self.read("region", ("guid", "pid", "tid", "start", "end", "name_id", "event_id"))
        size = _size(rows)
        categories = [
            None if event is None else self.strings.get((event[0], guid))
            for event, guid in zip(
                self.of(self.events, rows, "event_id"),
                rows.get("guid", [None] * size),
                strict=True,
            )
        ]
        start, end = wholes(rows.get("start"), size), wholes(rows.get("end"), size)
        return Calls(
            process_id=wholes(self.of(self.processes, rows, "pid"), size),
            thread_id=wholes(self.of(self.threads, rows, "tid"), size),
            category=texts(categories, size),
            name=texts(self.of(self.strings, rows, "name_id"), size),
            start_ns=start,
            duration_ns=spent(start, end),
            correlation_id=wholes(self.correlations(rows), size),
        )


_AGENT = (
    "id", "guid", "type", "absolute_index", "type_index", "uuid", "name", "product_name", "extdata",
)  # fmt: skip
_NODE = ("machine_id", "hostname")
_EVENT = ("category_id", "stack_id", "correlation_id")
_SYMBOL = (
    "id", "guid", "kernel_name", "display_name", "sgpr_count", "arch_vgpr_count",
    "accum_vgpr_count",
)  # fmt: skip
_AXES = ("x", "y", "z")
_DISPATCH = (
    "id", "guid", "pid", "tid", "agent_id", "kernel_id", "dispatch_id", "queue_id", "stream_id",
    "start", "end", "private_segment_size", "group_segment_size", "event_id",
    *(f"workgroup_size_{axis}" for axis in _AXES), *(f"grid_size_{axis}" for axis in _AXES),
)  # fmt: skip
_COPY = (
    "guid", "pid", "start", "end", "name_id", "dst_agent_id", "src_agent_id", "size", "stream_id",
    "event_id",
)  # fmt: skip


def _runs(database: Database) -> Iterator[_Run]:
    suffixes = {
        match.group(2) or ""
        for name in database.tables
        if (match := ROCPD_TABLE.match(name)) and match.group(1).lower() == "kernel_dispatch"
    }
    for suffix in sorted(suffixes):
        yield _Run(database, suffix)


def _size(rows: Mapping[str, list[Any]]) -> int:
    return len(next(iter(rows.values()), []))


def _columns(rows: Mapping[str, list[Any]], names: tuple[str, ...]) -> list[list[Any]]:
    size = _size(rows)
    return [rows.get(name, [None] * size) for name in names]


def _index(rows: Mapping[str, list[Any]], values: list[Any]) -> dict[tuple[Any, Any], Any]:
    """Rows by (id, guid): an id alone is not unique in a merged database."""
    ids, guids = _columns(rows, ("id", "guid"))
    return dict(zip(zip(ids, guids, strict=True), values, strict=False))


def _gpus(agents: dict[str, list[Any]]) -> dict[tuple[Any, Any], Gpu]:
    found: dict[tuple[Any, Any], Gpu] = {}
    for row in zip(*_columns(agents, _AGENT), strict=True):
        agent = dict(zip(_AGENT, row, strict=True))
        if agent["type"] != "GPU":
            continue
        fields = _extra(agent["extdata"])
        fields |= {
            "name": agent["name"],
            "productname": agent["product_name"],
            "deviceid": fields.get("deviceid") or agent["uuid"],
        }
        ordinal = agent["type_index"]
        index = ordinal if isinstance(ordinal, int) else len(found)
        found[agent["id"], agent["guid"]] = of_agent(fields, index)
    return found


def _extra(data: Any) -> dict[str, Any]:
    """The device facts in the JSON of an agent, names squashed."""
    try:
        fields = msgspec.json.decode(data) if isinstance(data, str | bytes) else None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        return {}
    return {squash(str(name)): value for name, value in fields.items()}


def _dispatches(run: _Run) -> Dispatches:
    rows = run.read("kernel_dispatch", _DISPATCH)
    size = _size(rows)
    symbols = run.read("info_kernel_symbol", _SYMBOL)
    known = _index(symbols, list(zip(*_columns(symbols, _SYMBOL[2:]), strict=True)))
    symbol = [one or (None,) * 5 for one in run.of(known, rows, "kernel_id")]
    names = texts([display or plain for plain, display, *_ in symbol], size)
    gpus = run.of(run.gpus, rows, "agent_id")
    columns: dict[str, Any] = {
        "kernel_name": cleaned_names(names),
        "launch_id": wholes(rows.get("dispatch_id"), size),
        "process_id": wholes(run.of(run.processes, rows, "pid"), size),
        "device": wholes([gpu.index if gpu else None for gpu in gpus], size),
        "stream": wholes(rows.get("stream_id"), size),
        "correlation_id": wholes(run.correlations(rows), size),
        "scalar_registers_per_wave": numbers([one[2] for one in symbol], size),
        "registers_per_thread": numbers([one[3] for one in symbol], size),
        "accumulation_registers_per_thread": numbers([one[4] for one in symbol], size),
        "shared_memory_static_bytes": numbers(rows.get("group_segment_size"), size),
        "scratch_bytes_per_thread": numbers(rows.get("private_segment_size"), size),
    }
    shape, work, group = shape_columns(
        [wholes(rows.get(f"grid_size_{axis}"), size) for axis in _AXES],
        [wholes(rows.get(f"workgroup_size_{axis}"), size) for axis in _AXES],
    )
    start, end = wholes(rows.get("start"), size), wholes(rows.get("end"), size)
    timed, notes = time_columns(exact(start), exact(end), None, size)
    columns |= shape | timed
    launched_by(columns, run.calls)
    found = Dispatches(
        run.path,
        columns,
        gpus={gpu.index: gpu for gpu in run.gpus.values()},
        timeline=True,
        notes=notes,
        work_items=work,
        group_items=group,
    )
    put_gpus(found, run.machine)
    return _with_counters(run, rows, found)


@dataclass(frozen=True)
class _Counts:
    """Counters per recorded run of a dispatch: row of the dispatch table, name, value."""

    row: np.ndarray[Any, np.dtype[np.int64]]
    name: pa.Array
    value: Reals


def _counts(run: _Run, rows: dict[str, list[Any]]) -> _Counts | None:
    """The counters, instances of one counter (dies, channels) added up."""
    import pandas as pd

    events = run.read("pmc_event", ("guid", "event_id", "pmc_id", "value"))
    info = run.read("info_pmc", ("id", "guid", "name"))
    size = _size(events)
    names = run.of(_index(info, info.get("name", [])), events, "pmc_id")
    of_event = {
        (event, guid): number
        for number, (event, guid) in enumerate(
            zip(*_columns(rows, ("event_id", "guid")), strict=True)
        )
        if event is not None
    }
    frame = pd.DataFrame(
        {
            "row": [-1 if one is None else one for one in run.of(of_event, events, "event_id")],
            "name": pd.Series(names, dtype=object),
            "value": numbers(events.get("value"), size),
        }
    )
    frame = frame[(frame["row"] >= 0) & frame["name"].notna()]
    if frame.empty:
        return None
    summed = frame.groupby(["row", "name"], sort=True)["value"].sum(min_count=1).reset_index()
    return _Counts(
        summed["row"].to_numpy().astype(np.int64),
        pa.array(summed["name"].astype(str), pa.string()),
        np.asarray(summed["value"], dtype=np.float64),
    )


def _with_counters(run: _Run, rows: dict[str, list[Any]], found: Dispatches) -> Dispatches:
    """Add the counters, and make one row of the runs of a replayed dispatch."""
    counts = _counts(run, rows)
    if counts is None:
        return found
    import pandas as pd

    size = len(found)
    keys = pd.DataFrame(
        {
            name: _columns(rows, (name,))[0]
            for name in ("guid", "pid", "agent_id", "dispatch_id", "kernel_id")
        }
    )
    same = keys.groupby(list(keys.columns), sort=False, dropna=False)
    number = same.ngroup().to_numpy().astype(np.int64)
    start = exact(wholes(rows.get("start"), size)).values
    duration = found.columns.get("duration_ns")
    took = np.full(size, np.nan) if duration is None else numbers(duration.to_pylist(), size)
    turned = pivot(
        number[counts.row],
        counts.name,
        counts.value,
        start[counts.row],
        took[counts.row],
        "counters",
    )
    # Dispatches without counters keep their rows: first of each dispatch, in recorded order.
    order = np.lexsort((np.arange(size), start, number))
    first = order[np.flatnonzero(np.diff(number[order], prepend=-1))]
    place = np.full(len(first), -1, dtype=np.int64)
    place[number[counts.row[turned.first]]] = np.arange(len(turned.first))
    once = found.take(first.astype(np.int64))
    once.passes = [one.take(place) for one in turned.passes]
    once.timeline = False
    once.notes = [*found.notes, *turned.notes]
    if len(first) < size:
        # Each run is a time of the same dispatch: their middle stands for it.
        runs = pd.DataFrame({"number": number, "start": start, "took": took})
        again = runs.duplicated() & (start > 0)
        once.notes += [Note(TWICE, int(again.sum()))] if again.any() else []
        middle = runs[~again].groupby("number")["took"].median().to_numpy()
        known = ~np.isnan(middle)
        once.columns["duration_ns"] = masked(
            np.where(known, np.round(middle), 0).astype(np.int64), known
        )
    return once


def _copies(run: _Run) -> tuple[pa.Table | None, list[Note]]:
    rows = run.read("memory_copy", _COPY)
    size = _size(rows)
    if not size:
        return None, []
    names = [name or "memory copy" for name in run.of(run.strings, rows, "name_id")]
    ends = [run.of(run.gpus, rows, key) for key in ("dst_agent_id", "src_agent_id")]
    gpus = [there or here for there, here in zip(*ends, strict=True)]
    start, end = wholes(rows.get("start"), size), wholes(rows.get("end"), size)
    timed, notes = time_columns(exact(start), exact(end), None, size)
    columns = {
        "kind": ["memcpy"] * size,
        "kernel_name": texts(names, size),
        "copy_kind": texts([copy_kind(name) for name in names], size),
        "copy_bytes": numbers(rows.get("size"), size),
        "process_id": wholes(run.of(run.processes, rows, "pid"), size),
        "device": wholes([gpu.index if gpu else None for gpu in gpus], size),
        "stream": wholes(rows.get("stream_id"), size),
        "correlation_id": wholes(run.correlations(rows), size),
    }
    launched_by(columns, run.calls)
    kernels, impossible = table_of(columns | timed)
    return kernels, [*notes, *impossible]
