"""rocprofv3 tables (``*_kernel_trace.csv``, ``*_counter_collection.csv``, …) and output folders.

A process leaves one file a kind, tied together by the start of their names; every group of
counters is another run of the program, in a folder of its own (``pmc_1``, ``pass_1``) or beside
the first. A folder may also hold databases (the default from ROCm 7 on) and JSON of the same
processes: each process is read once, from the table if there is one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex
from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.folders import left_out, readable
from traceroof.parser import Options, Progress
from traceroof.parsers import rocpd, rocprofv3_json
from traceroof.parsers.amd import kinds as amd_kinds
from traceroof.parsers.amd.agents import Agents
from traceroof.parsers.amd.calls import (
    joined_calls,
    launched_by,
)
from traceroof.parsers.amd.dispatches import (
    Dispatches,
    by_launch,
)
from traceroof.parsers.amd.folder import Family, survey
from traceroof.parsers.amd.gpus import AgentList, of_agent_table
from traceroof.parsers.amd.kinds import Found, Kind, layout
from traceroof.parsers.amd.passes import stacked
from traceroof.parsers.amd.physical import put_gpus
from traceroof.parsers.amd.rocprofv3_tables import (
    calls_of,
    copies_of,
    dispatch_numbers,
    of_counters,
    of_trace,
    where_of,
)
from traceroof.parsers.amd.run import Part, Process, of_processes
from traceroof.parsers.amd.samples import Samples, put_samples
from traceroof.parsers.amd.text import TextTable, read_table
from traceroof.parsers.amd_kernel_stats import read_statistics

_KINDS = frozenset(
    {
        Kind.V3_KERNELS,
        Kind.V3_COUNTERS,
        Kind.V3_COPIES,
        Kind.V3_API,
        Kind.V3_AGENTS,
        Kind.V3_SAMPLES,
        Kind.V3_ALLOCATIONS,
        Kind.V3_SCRATCH,
    }
)
# A document or a database of all that a process recorded.
_WHOLE = regex.compile(r"_results\.(?:json|db)(?:\.gz)?$", re.IGNORECASE)
_ROWS = frozenset({Kind.V3_KERNELS, Kind.V3_COUNTERS, Kind.V3_COPIES})

# What the tool puts behind the name of a process (a number, or what -o said).
_SUFFIX = regex.compile(
    r"_?(?:kernel_trace|counter_collection|agent_info|memory_copy_trace|memory_allocation_trace"
    r"|scratch_memory_trace|(?:hip|hsa|marker|rccl|rocdecode|rocjpeg|ompt)\w*_trace"
    r"|(?:kernel|domain|hip|hsa|marker|memory_copy|memory_allocation|rccl|scratch_memory)\w*_stats"
    r"|pc_sampling_\w+|results)\.(?:csv|json|db)(?:\.gz)?$",
    re.IGNORECASE,
)


class Rocprofv3Csv:
    """Reader of rocprofv3 tables and folders."""

    name = "rocprofv3-csv"
    title = "rocprofv3: tables (kernel_trace, counter_collection, …) and output folders"
    gives = "launches on the timeline; HBM, cache, compute and waits where counters are there"
    collect = "rocprofv3 --kernel-trace --stats -f csv -d FOLDER -- COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            found = survey(path) if path.is_dir() else None
            return 2 if found is not None and found.family is Family.V3 else 0
        table_found = layout(head)
        return 2 if table_found is not None and table_found.kind in _ROWS else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if source.is_dir():
            return _read_folder(source, progress, options)
        found = amd_kinds.look(source)
        if found is None or found.kind not in _ROWS:
            raise TraceroofError(f"{source} holds no kernels of rocprofv3")
        named = [one for one in map(amd_kinds.look, _of_process(source, options.beside)) if one]
        agents = (
            None if any(one.kind is Kind.V3_AGENTS for one in named) else _agents_beside(source)
        )
        group = _Group(
            source.parent, _prefix(source), [found, *named, *([agents] if agents else [])]
        )
        process = _read_group(group, progress, options)
        return _checked(of_processes(PARSER.name, [process], options), source)

    def explaining(self, paths: Sequence[Path]) -> frozenset[Path]:
        """Which of some files only explain another one of them: the calls, devices and allocations
        of a process whose kernels, counters or copies are among them, and the same launches once
        more in another of the tool's formats."""
        by_process: dict[tuple[Path, str], list[Path]] = {}
        for path in paths:
            if _SUFFIX.search(path.name) and path.is_file():
                by_process.setdefault((path.parent, _prefix(path)), []).append(path)
        found = set()
        for files in by_process.values():
            kinds = {path: look.kind for path in files if (look := amd_kinds.look(path))}
            if len(files) > 1 and _ROWS & {*kinds.values()}:
                found |= {path for path, kind in kinds.items() if kind in _KINDS - _ROWS}
            if Kind.V3_KERNELS in kinds.values():
                found |= {path for path in files if _WHOLE.search(path.name)}
        return frozenset(found)


PARSER = Rocprofv3Csv()


def _of_process(source: Path, paths: Sequence[Path]) -> list[Path]:
    """Those of some files that are of the same process."""
    return [
        path
        for path in paths
        if path != source and (path.parent, _prefix(path)) == (source.parent, _prefix(source))
    ]


def _checked(found: Recording, source: Path) -> Recording:
    if not found.kernels.num_rows:
        raise TraceroofError(
            f"{source} lists no kernel and no copy",
            "did the program launch one while it was profiled?",
        )
    return found


def _prefix(path: Path) -> str:
    return _SUFFIX.sub("", path.name)


def _agents_beside(source: Path) -> Found | None:
    """The device list of the same process."""
    prefix = _prefix(source)
    for name in (f"{prefix}_agent_info.csv", "agent_info.csv"):
        path = source.parent / name
        found = amd_kinds.look(path) if path.is_file() else None
        if found is not None and found.kind is Kind.V3_AGENTS:
            return found
    return None


# --------------------------------------------------------------------------------------------
# Folders


@dataclass
class _Group:
    """The files of one process."""

    folder: Path
    prefix: str
    tables: list[Found] = field(default_factory=list)
    databases: list[Path] = field(default_factory=list)
    documents: list[Path] = field(default_factory=list)

    def of(self, *kinds: Kind) -> list[Found]:
        return [found for found in self.tables if found.kind in kinds]


def _read_folder(folder: Path, progress: Progress, options: Options) -> Recording:
    found = survey(folder)
    if found is None or found.family is not Family.V3:
        raise TraceroofError(f"{folder} is not the output folder of one rocprofv3 run")
    groups: dict[tuple[Path, str], _Group] = {}
    for path in [*(one.path for one in found.tables), *found.databases, *found.documents]:
        key = (path.parent, _prefix(path))
        groups.setdefault(key, _Group(*key))
    for one in found.tables:
        groups[one.path.parent, _prefix(one.path)].tables.append(one)
    for path in found.databases:
        groups[path.parent, _prefix(path)].databases.append(path)
    for path in found.documents:
        groups[path.parent, _prefix(path)].documents.append(path)
    lists, notes = readable(
        groups.values(),
        lambda group: _processes(group, progress, options),
        lambda group: group.folder / group.prefix,
    )
    processes: list[Process] = [one for some in lists for one in some]
    if not any(one.has_rows for one in processes):
        processes += [
            Process(summary.path, parts=read_statistics(summary.path, progress, options, False))
            for group in groups.values()
            for summary in group.of(Kind.STATISTICS)
        ]
    if processes:
        processes[0].notes = [*processes[0].notes, *found.notes, *notes]
    return _checked(of_processes(PARSER.name, processes, options), folder)


def _processes(group: _Group, progress: Progress, options: Options) -> list[Process]:
    """One process, from its tables, else its database, else its JSON."""
    if group.of(*_ROWS):
        return [_read_group(group, progress, options)]
    for path in group.databases:
        return rocpd.processes_of(path, progress, options)
    for path in group.documents:
        return rocprofv3_json.processes_of(path, progress, options)
    return []


# --------------------------------------------------------------------------------------------
# One process


def _read_group(group: _Group, progress: Progress, options: Options) -> Process:
    tables: dict[Kind, list[TextTable]] = {}
    for found in group.tables:
        if found.kind in _KINDS:
            read = read_table(found.path, options, progress)
            tables.setdefault(found.kind, []).append(read)
    listed = AgentList()
    for source in tables.get(Kind.V3_AGENTS, []):
        one = of_agent_table(source)
        listed = AgentList(
            {**listed.by_node, **one.by_node}, {**listed.by_position, **one.by_position}
        )
    gpus = list(listed.gpus)
    numbered = Agents(listed)
    process = _process_number(group.prefix, tables)
    calls = [(source.path, calls_of(source, process)) for source in tables.get(Kind.V3_API, [])]
    dispatches = _dispatches(tables, numbered, process)
    named = [(source, where_of(host, ranges=True)) for source, host in calls]
    called = [(source, where_of(host, ranges=False)) for source, host in calls]
    lines: list[pa.Table] = []
    if dispatches is not None:
        if called:
            launched_by(dispatches.columns, joined_calls([host for _, host in called]))
        samples = [Samples.of(one) for one in tables.get(Kind.V3_SAMPLES, [])]
        lines = put_samples([one for one in samples if one is not None], dispatches)
    copies = [copies_of(source, numbered, process) for source in tables.get(Kind.V3_COPIES, [])]
    empty = [
        left_out(source.path, "lists no kernel")
        for kind in (Kind.V3_KERNELS, Kind.V3_COUNTERS)
        for source in tables.get(kind, [])
        if not source.num_rows
    ]
    path = dispatches.path if dispatches is not None else group.of(*_ROWS)[0].path
    explaining = [
        Part(source.path, notes=source.notes)
        for kind, sources in tables.items()
        if kind not in _ROWS
        for source in sources
    ]
    return Process(
        path,
        dispatches,
        [pair for pair in called if len(pair[1])],
        [pair for pair in named if len(pair[1])],
        gpus,
        [*copies, *explaining],
        notes=empty,
        lines=lines,
    )


def _process_number(prefix: str, tables: Mapping[Kind, list[TextTable]]) -> int | None:
    """The process: a column of the counters or calls, else the name of the files."""
    for kind in (Kind.V3_COUNTERS, Kind.V3_API):
        for source in tables.get(kind, []):
            numbers = source.integers("processid")
            distinct = [] if numbers is None else pc.unique(numbers.drop_null()).to_pylist()
            if len(distinct) == 1:
                return int(distinct[0])
    return int(prefix) if prefix.isdigit() and len(prefix) < 10 else None


def _dispatches(
    tables: Mapping[Kind, list[TextTable]], agents: Agents, process: int | None
) -> Dispatches | None:
    """The dispatches of a process: its trace, its counters, or both joined by dispatch number."""
    traced = [of_trace(source, agents, process) for source in tables.get(Kind.V3_KERNELS, [])]
    counted = [of_counters(source, agents) for source in tables.get(Kind.V3_COUNTERS, [])]
    found = [one for one in (*traced, *counted) if len(one)]
    if not found:
        return None
    base = stacked([one for one in traced if len(one)] or [found[0]])
    for one in counted:
        if one is not found[0] or traced:
            base = _joined(base, one)
    base.gpus = agents.gpus
    # The tool calls its folder after the machine.
    put_gpus(base, found[0].path.parent.name)
    return by_launch(base)


# More than this share is no damage: the files are of different runs.
_FEW_STRAYS = 0.1


def _joined(base: Dispatches, counted: Dispatches) -> Dispatches:
    """Add counters to the dispatches of the same process; its own clock, its own numbers."""
    if not len(counted):
        return base
    both = stacked([_bare(base), _bare(counted)])
    keys = dispatch_numbers(both)
    mine, theirs = keys[: len(base)], keys[len(base) :]
    order = np.argsort(theirs, kind="stable")
    place = np.minimum(np.searchsorted(theirs[order], mine), len(theirs) - 1)
    hit = theirs[order][place] == mine
    rows = np.where(hit, order[place], -1)
    base.passes = [*base.passes, *(one.take(rows) for one in counted.passes)]
    base.notes = [*base.notes, *counted.notes]
    # Counting serialises the dispatches: such times are none of a timeline.
    base.timeline = False
    alone = np.setdiff1d(np.arange(len(counted)), rows)
    # One that fits nothing, where the trace lacks as many, has a damaged number or name.
    if 0 < len(alone) <= min(int((~hit).sum()), _FEW_STRAYS * len(counted)):
        text = "dispatches with counters that fit none of the trace were left out"
        base.notes = [*base.notes, Note(text, len(alone))]
        return base
    if len(alone):
        rest = counted.take(alone.astype(np.int64))
        rest.notes = [
            Note("dispatches with counters are missing from the trace", len(alone), False)
        ]
        base = stacked([base, rest])
        base.timeline = False
    return base


def _bare(one: Dispatches) -> Dispatches:
    kept = ("kernel_name", "launch_id", "process_id")
    columns = {name: values for name, values in one.columns.items() if name in kept}
    return Dispatches(one.path, columns, work_items=one.work_items, group_items=one.group_items)
