"""What each kind of table of rocprofv3 says: dispatches, counters, copies, host calls."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.errors import TraceroofError
from traceroof.parsers.amd.agents import Agents
from traceroof.parsers.amd.calls import (
    Calls,
    copy_kind,
    spent,
)
from traceroof.parsers.amd.dispatches import (
    Dispatches,
    cleaned_names,
    of_wide,
    shape_columns,
    spans_of,
    time_columns,
    times_of,
)
from traceroof.parsers.amd.passes import middle_duration, pivot
from traceroof.parsers.amd.run import Part
from traceroof.parsers.amd.stray_rows import fitting_rows, row_numbers
from traceroof.parsers.amd.text import TextTable
from traceroof.parsers.amd.times import table_of
from traceroof.parsers.amd.values import Integers


def dispatch_numbers(both: Dispatches) -> Integers:
    """Equal for equal dispatch number and kernel; repeats are told apart by their order."""
    import pandas as pd

    names = both.columns["kernel_name"].to_numpy(zero_copy_only=False)
    ids = both.columns.get("launch_id")
    numbers = np.zeros(len(both)) if ids is None else np.asarray(ids.to_numpy(zero_copy_only=False))
    frame = pd.DataFrame({"name": names, "id": numbers})
    return (
        frame.groupby(["name", "id"], sort=False, dropna=False).ngroup().to_numpy().astype(np.int64)
    )


def of_trace(source: TextTable, agents: Agents, process: int | None) -> Dispatches:
    count = source.num_rows
    names = source.text("kernelname")
    if names is None:
        raise TraceroofError(f"{source.path} has no column with kernel names")
    columns: dict[str, Any] = {
        "kernel_name": cleaned_names(names),
        "launch_id": source.integers("dispatchid"),
        "device": agents.ordinals(source.text("agentid"), count),
        "stream": source.integers("streamid", "queueid"),
        "correlation_id": source.integers("correlationid"),
        "shared_memory_static_bytes": source.reals("ldsblocksize", "groupsegmentsize"),
        "scratch_bytes_per_thread": source.reals("scratchsize", "privatesegmentsize"),
        "registers_per_thread": source.reals("vgprcount"),
        "accumulation_registers_per_thread": source.reals("accumvgprcount"),
        "scalar_registers_per_wave": source.reals("sgprcount"),
        "process_id": process_column(source, process, count),
    }
    shape, work, group = shape_columns(
        [source.integers(f"gridsize{axis}") for axis in "xyz"],
        [source.integers(f"workgroupsize{axis}") for axis in "xyz"],
    )
    timed, notes = time_columns(
        times_of(source, "starttimestamp"),
        times_of(source, "endtimestamp"),
        times_of(source, "durationns", "duration"),
        count,
    )
    columns = {name: values for name, values in columns.items() if values is not None}
    unknown = np.full(count, -1, dtype=np.int64)
    return Dispatches(
        source.path,
        columns | shape | timed,
        timeline=True,
        notes=[*source.notes, *notes],
        work_items=work if len(work) else unknown,
        group_items=group if len(group) else unknown,
    )


def process_column(source: TextTable, process: int | None, count: int) -> pa.Array | None:
    """The process of each row; where only a run's id tells them apart, numbered by it."""
    if source.has("processid"):
        return source.integers("processid")
    if process is not None:
        return pa.repeat(pa.scalar(process, pa.int64()), count)
    guid = source.text("guid")
    if guid is None:
        return None
    return guid.combine_chunks().dictionary_encode().indices.cast(pa.int64())


def of_counters(source: TextTable, agents: Agents) -> Dispatches:
    names, values = source.text("countername"), source.reals("countervalue")
    if names is None or values is None:
        raise TraceroofError(f"{source.path} has no counter names or values")
    identity = ("dispatchid", "processid", "guid", "kernelname", "agentid")
    fits, strays = fitting_rows(source, row_numbers(source, *identity))
    if strays:
        source = source.take(fits)
        source.notes += strays
        names, values = source.text("countername"), source.reals("countervalue")
        assert names is not None
        assert values is not None
    begun, took = spans_of(source)
    dispatch = row_numbers(source, *identity)
    turned = pivot(dispatch, names.combine_chunks(), values, begun, took, source.path.name)
    first = source.take(turned.first)
    found = of_wide(first, source.path.name)
    found.columns["device"] = agents.ordinals(first.text("agentid"), len(found))
    found.passes = turned.passes
    found.notes += turned.notes
    found.timeline = False
    middle = middle_duration(turned.passes)
    if middle is not None:
        found.columns["duration_ns"] = middle
    return found


def copies_of(source: TextTable, agents: Agents, process: int | None) -> Part:
    count = source.num_rows
    timed, notes = time_columns(
        times_of(source, "starttimestamp"), times_of(source, "endtimestamp"), None, count
    )
    direction = source.text("direction")
    names = (
        pa.nulls(count, pa.string()) if direction is None else direction.combine_chunks()
    ).fill_null("memory copy")
    kinds = [copy_kind(name) for name in names.to_pylist()]
    there = agents.ordinals(source.text("destinationagentid"), count)
    here = agents.ordinals(source.text("sourceagentid"), count)
    columns: dict[str, Any] = {
        "kind": ["memcpy"] * count,
        "kernel_name": names,
        "copy_kind": pa.array(kinds, pa.string()),
        # The GPU of a copy from it is where it comes from.
        "device": pc.if_else(pa.array([kind == "DtoH" for kind in kinds], pa.bool_()), here, there),
        "stream": source.integers("streamid"),
        "correlation_id": source.integers("correlationid"),
        "process_id": process_column(source, process, count),
    }
    columns = {name: values for name, values in columns.items() if values is not None}
    kernels, impossible = table_of(columns | timed)
    return Part(source.path, kernels, notes=[*source.notes, *notes, *impossible])


def calls_of(source: TextTable, process: int | None) -> Calls:
    count = source.num_rows

    def text(name: str) -> pa.Array:
        cells = source.text(name)
        return pa.nulls(count, pa.string()) if cells is None else cells.combine_chunks()

    def whole(name: str) -> pa.Array:
        cells = source.integers(name)
        return pa.nulls(count, pa.int64()) if cells is None else cells

    processes = whole("processid")
    if processes.null_count == count and process is not None:
        processes = pa.repeat(pa.scalar(process, pa.int64()), count)
    start, end = whole("starttimestamp"), whole("endtimestamp")
    return Calls(
        process_id=processes,
        thread_id=whole("threadid"),
        category=text("domain"),
        name=text("function"),
        start_ns=start,
        duration_ns=spent(start, end),
        correlation_id=whole("correlationid"),
    )


def where_of(host: Calls, ranges: bool) -> Calls:
    """The ranges that the program named (ROCTx), or the calls that it made."""
    marked = np.asarray(pc.match_substring(host.category, "MARKER").fill_null(False), dtype=bool)
    return host.where(marked if ranges else ~marked)
