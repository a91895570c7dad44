"""rocprofv3 JSON (``*_results.json``): everything of one or several processes in one document."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa

from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest import json_words
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.typed_columns import numbers, texts, wholes
from traceroof.parser import Options, Progress
from traceroof.parsers.amd.calls import (
    Calls,
    copy_kind,
    launched_by,
    spent,
)
from traceroof.parsers.amd.dispatches import (
    Dispatches,
    by_launch,
    cleaned_names,
    exact,
    shape_columns,
    time_columns,
)
from traceroof.parsers.amd.folder import V3_JSON
from traceroof.parsers.amd.gpus import Gpu, of_agent
from traceroof.parsers.amd.kinds import squash
from traceroof.parsers.amd.passes import middle_duration, pivot
from traceroof.parsers.amd.physical import put_gpus
from traceroof.parsers.amd.rocprofv3_document import (
    Correlation,
    Counted,
    Counter,
    Dispatch,
    Handle,
    Symbol,
    Tool,
    tools_of,
)
from traceroof.parsers.amd.run import Part, Process, of_processes
from traceroof.parsers.amd.samples import Samples, put_samples, reason_name
from traceroof.parsers.amd.times import table_of


class Rocprofv3Json:
    """Reader of rocprofv3 JSON."""

    name = "rocprofv3-json"
    title = "rocprofv3: *_results.json"
    gives = "launches on the timeline, copies, host calls; counters where collected"
    collect = "rocprofv3 --kernel-trace --memory-copy-trace -f json -- COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        return 2 if V3_JSON.match(head) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        found = of_processes(PARSER.name, processes_of(source, progress, options), options)
        if not found.kernels.num_rows:
            raise TraceroofError(
                f"{source} lists no kernel and no copy",
                "collect them with: rocprofv3 --kernel-trace -f json -- COMMAND",
            )
        return found


PARSER = Rocprofv3Json()


def processes_of(path: Path, progress: Progress, options: Options) -> list[Process]:
    """The processes in a document."""
    with open_inflated(path, options) as stream:
        data = stream.read()
        notes = list(stream.notes)
    try:
        tools, mistyped = tools_of(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise TraceroofError(
            f"{path} begins like rocprofv3 output but is not complete JSON: {json_words.why(error)}",
            "it may have been cut short: copy it again",
        ) from None
    if mistyped:
        notes.append(Note("values of another type than rocprofv3 writes, left out", mistyped))
    size = len(data)
    del data
    progress(size, size)
    found = [_process(path, tool) for tool in tools]
    if found:
        found[0].notes += notes
    return found


def _process(path: Path, tool: Tool) -> Process:
    gpus = _gpus(tool.agents)
    calls = _calls(tool)
    dispatches = _dispatches(path, tool, gpus)
    if dispatches is not None and calls is not None:
        launched_by(dispatches.columns, calls)
    copies, notes = _copies(tool, gpus)
    lines = put_samples(_samples(tool), dispatches) if dispatches is not None else []
    return Process(
        path,
        dispatches,
        [(path, calls)] if calls is not None else [],
        gpus=list(gpus.values()),
        parts=[Part(path, copies, notes=notes)],
        lines=lines,
    )


def _samples(tool: Tool) -> list[Samples]:
    """The program-counter samples of both methods."""
    found = []
    known = tool.strings
    for taken, has_reasons in (
        (tool.buffer_records.pc_sample_stochastic, True),
        (tool.buffer_records.pc_sample_host_trap, False),
    ):
        size = len(taken)
        if not size:
            continue
        at = [one.inst_index for one in taken]
        records = [one.record for one in taken]
        stalled = [one.snapshot.stall_reason if one.snapshot else None for one in records]
        issued = [one.wave_issued in (1, True) for one in records]
        found.append(
            Samples.made(
                wholes([one.dispatch_id for one in records], size),
                texts(_picked(known.pc_sample_instructions, at), size),
                texts(_picked(known.pc_sample_comments, at), size),
                wholes([int(one) for one in issued], size) if has_reasons else None,
                texts([reason_name(one) for one in stalled], size) if has_reasons else None,
                numbers([one.wave_cnt for one in records], size) if has_reasons else None,
                wholes([one.pc.code_object_offset for one in records], size),
            )
        )
    return found


def _picked(listed: list[str | None], at: list[Any]) -> list[str | None]:
    places = range(len(listed))
    return [listed[one] if isinstance(one, int) and one in places else None for one in at]


def _gpus(agents: list[dict[str, Any]]) -> dict[int, Gpu]:
    """Handle -> GPU. Type 1 is a CPU, 2 a GPU."""
    found: dict[int, Gpu] = {}
    for agent in agents:
        handle = agent.get("id")
        number = handle.get("handle") if isinstance(handle, dict) else None
        if agent.get("type") == 2 and isinstance(number, int):
            fields = {squash(str(name)): value for name, value in agent.items()}
            ordinal = agent.get("logical_node_type_id")
            found[number] = of_agent(fields, ordinal if isinstance(ordinal, int) else len(found))
    return found


def _handle(one: Handle | None) -> int | None:
    return None if one is None else one.handle


def _internal(one: Correlation | None) -> int | None:
    return None if one is None else one.internal


def _dispatches(path: Path, tool: Tool, gpus: Mapping[int, Gpu]) -> Dispatches | None:
    """Traced dispatches with their counters; counted ones alone where there is no trace."""
    counted = tool.callback_records.counter_collection
    traced = tool.buffer_records.kernel_dispatch
    rows = traced or _once([one.dispatch_data for one in counted])
    if not rows:
        return None
    size = len(rows)
    symbols = {one.kernel_id: one for one in tool.kernel_symbols}
    infos = [one.dispatch_info for one in rows]
    symbol = [symbols.get(info.kernel_id, Symbol()) for info in infos]
    device = [gpus.get(_handle(info.agent_id) or 0) for info in infos]
    names = texts([_name_of(one) for one in symbol], size)

    def reals(values: list[int | None]) -> Any:
        return np.array([np.nan if one is None else one for one in values], dtype=np.float64)

    columns: dict[str, Any] = {
        "kernel_name": cleaned_names(names),
        "launch_id": wholes([info.dispatch_id for info in infos], size),
        "device": wholes([gpu.index if gpu else None for gpu in device], size),
        "stream": wholes([_handle(one.stream_id) for one in rows], size),
        "correlation_id": wholes([_internal(one.correlation_id) for one in rows], size),
        "process_id": pa.repeat(pa.scalar(tool.metadata.pid, pa.int64()), size),
        "shared_memory_static_bytes": reals([info.group_segment_size for info in infos]),
        "scratch_bytes_per_thread": reals([info.private_segment_size for info in infos]),
        "registers_per_thread": reals([one.arch_vgpr_count for one in symbol]),
        "accumulation_registers_per_thread": reals([one.accum_vgpr_count for one in symbol]),
        "scalar_registers_per_wave": reals([one.sgpr_count for one in symbol]),
    }
    shape, work, group = shape_columns(
        [wholes([getattr(info.grid_size, axis) for info in infos], size) for axis in "xyz"],
        [wholes([getattr(info.workgroup_size, axis) for info in infos], size) for axis in "xyz"],
    )
    timed, notes = time_columns(
        exact(wholes([one.start_timestamp for one in rows], size)),
        exact(wholes([one.end_timestamp for one in rows], size)),
        None,
        size,
    )
    found = Dispatches(
        path,
        columns | shape | timed,
        gpus={gpu.index: gpu for gpu in gpus.values()},
        timeline=not counted,
        notes=notes,
        work_items=work,
        group_items=group,
    )
    # The tool calls its folder after the machine.
    put_gpus(found, path.parent.name)
    if counted:
        _put_counters(found, counted, tool.counters)
    return by_launch(found)


def _name_of(symbol: Symbol) -> str | None:
    return symbol.formatted_kernel_name or symbol.demangled_kernel_name or symbol.kernel_name


def _once(rows: list[Dispatch]) -> list[Dispatch]:
    """Each dispatch once, as it was first recorded."""
    seen: dict[tuple[int | None, int | None], Dispatch] = {}
    for one in rows:
        seen.setdefault((one.dispatch_info.dispatch_id, one.dispatch_info.kernel_id), one)
    return list(seen.values())


def _put_counters(found: Dispatches, counted: list[Counted], counters: list[Counter]) -> None:
    """Counters by dispatch number; several values of one counter are its instances, added up."""
    names = {one.id.handle: one.name for one in counters}
    # The part of a handle that names the counter: the rest tells its instances apart.
    sums: dict[tuple[int, int, str], float] = {}
    nameless = 0
    for run, one in enumerate(counted):
        number = one.dispatch_data.dispatch_info.dispatch_id
        for record in one.records:
            name = names.get(record.counter_id.handle)
            if name is None or number is None or record.value is None:
                nameless += 1
                continue
            key = (number, run, name)
            sums[key] = sums.get(key, 0.0) + record.value
    if nameless:
        text = "counter values without a known counter or dispatch were left out"
        found.notes.append(Note(text, nameless))
    if not sums:
        return
    keys = list(sums)
    took = np.array([_length(one.dispatch_data) for one in counted], dtype=np.float64)
    runs = np.array([run for _, run, _ in keys], dtype=np.int64)
    numbers = np.array([number for number, _, _ in keys], dtype=np.int64)
    turned = pivot(
        numbers,
        pa.array([name for _, _, name in keys], pa.string()),
        np.array(list(sums.values()), dtype=np.float64),
        runs,
        took[runs],
        "counters",
    )
    place = {number: row for row, number in enumerate(numbers[turned.first].tolist())}
    rows = np.array(
        [place.get(one, -1) for one in found.columns["launch_id"].to_pylist()], dtype=np.int64
    )
    found.passes = [one.take(rows) for one in turned.passes]
    found.notes += turned.notes
    middle = middle_duration(found.passes)
    if middle is not None:
        found.columns["duration_ns"] = middle


def _length(one: Dispatch) -> float:
    if one.start_timestamp is None or one.end_timestamp is None:
        return float("nan")
    length = one.end_timestamp - one.start_timestamp
    return float(length) if length > 0 else float("nan")


def _calls(tool: Tool) -> Calls | None:
    records = [
        (domain, one)
        for domain, calls in (
            ("HIP_API", tool.buffer_records.hip_api),
            ("HSA_API", tool.buffer_records.hsa_api),
            ("RCCL_API", tool.buffer_records.rccl_api),
        )
        for one in calls
    ]
    if not records:
        return None
    size = len(records)
    start = wholes([one.start_timestamp for _, one in records], size)
    end = wholes([one.end_timestamp for _, one in records], size)
    return Calls(
        process_id=pa.repeat(pa.scalar(tool.metadata.pid, pa.int64()), size),
        thread_id=wholes([one.thread_id for _, one in records], size),
        category=texts([domain for domain, _ in records], size),
        name=texts([_operation(tool, one.kind, one.operation) for _, one in records], size),
        start_ns=start,
        duration_ns=spent(start, end),
        correlation_id=wholes([_internal(one.correlation_id) for _, one in records], size),
    )


def _operation(tool: Tool, kind: int | None, operation: int | None) -> str | None:
    """The name of a call or copy, from the document's own table of names."""
    table_of_names = tool.strings.buffer_records
    if kind is None or operation is None or not 0 <= kind < len(table_of_names):
        return None
    names = table_of_names[kind].operations
    return names[operation] if 0 <= operation < len(names) else None


def _copies(tool: Tool, gpus: Mapping[int, Gpu]) -> tuple[pa.Table | None, list[Note]]:
    rows = tool.buffer_records.memory_copy
    if not rows:
        return None, []
    size = len(rows)
    names = [_operation(tool, one.kind, one.operation) or "memory copy" for one in rows]
    device = [
        gpus.get(_handle(one.dst_agent_id) or 0) or gpus.get(_handle(one.src_agent_id) or 0)
        for one in rows
    ]
    timed, notes = time_columns(
        exact(wholes([one.start_timestamp for one in rows], size)),
        exact(wholes([one.end_timestamp for one in rows], size)),
        None,
        size,
    )
    columns = {
        "kind": ["memcpy"] * size,
        "kernel_name": texts(names, size),
        "copy_kind": texts([copy_kind(name) for name in names], size),
        "copy_bytes": [None if one.bytes is None else float(one.bytes) for one in rows],
        "device": wholes([gpu.index if gpu else None for gpu in device], size),
        "stream": wholes([_handle(one.stream_id) for one in rows], size),
        "correlation_id": wholes([_internal(one.correlation_id) for one in rows], size),
        "process_id": pa.repeat(pa.scalar(tool.metadata.pid, pa.int64()), size),
    }
    kernels, impossible = table_of(columns | timed)
    return kernels, [*notes, *impossible]
