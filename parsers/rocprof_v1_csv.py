"""rocprof v1 (``rocprof``, ROCm up to 6): ``results.csv`` and the folder it lies in.

One row per dispatch: launch, counters, and four timestamps where they were asked for. Headers vary
with age, and fragments without any are in circulation. A folder often holds the same launches as
CSV, database and JSON: they are taken once.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.folders import readable
from traceroof.parser import Options, Progress
from traceroof.parsers import rocprof_v1_db, rocprof_v1_json
from traceroof.parsers.amd import kinds
from traceroof.parsers.amd.calls import Calls
from traceroof.parsers.amd.dispatches import Dispatches, by_launch, of_wide
from traceroof.parsers.amd.folder import Family, Survey, survey
from traceroof.parsers.amd.gpus import Gpu, of_sysinfo, only
from traceroof.parsers.amd.kinds import Kind, layout
from traceroof.parsers.amd.passes import joined_runs
from traceroof.parsers.amd.rocminfo import rocminfo_text
from traceroof.parsers.amd.run import Part, part_of, recording
from traceroof.parsers.amd.text import read_table
from traceroof.parsers.amd_kernel_stats import read_statistics

_MINE = frozenset({Kind.V1, Kind.V1_BARE})
_MOST_DESCRIPTION = 4 << 20


class RocprofV1Csv:
    """Reader of rocprof v1 tables and folders."""

    name = "rocprof-v1-csv"
    title = "rocprof v1: results.csv, with or without counters, and its folder"
    gives = "launches with registers and LDS; HBM, cache and occupancy where counters are there"
    collect = "rocprof --timestamp on -i counters.txt -o results.csv COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            found = survey(path) if path.is_dir() else None
            return 2 if found is not None and found.family is Family.V1 else 0
        table = layout(head)
        return 2 if table is not None and table.kind in _MINE else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if source.is_dir():
            return _read_folder(source, progress, options)
        one = _dispatches(source, progress, options)
        gpu, explaining = _described(source, progress, options)
        one.gpus = {None: gpu} if gpu else {}
        basis: Literal["timeline", "counter-tool"] = "timeline" if one.timeline else "counter-tool"
        return recording(
            PARSER.name, basis, [part_of(one, options), *explaining], [gpu] if gpu else []
        )


PARSER = RocprofV1Csv()


def _dispatches(source: Path, progress: Progress, options: Options) -> Dispatches:
    one = by_launch(of_wide(read_table(source, options, progress), source.name))
    if not len(one):
        raise TraceroofError(
            f"{source} lists no kernel", "did the program launch one while it was profiled?"
        )
    return one


def _described(source: Path, progress: Progress, options: Options) -> tuple[Gpu | None, list[Part]]:
    """The GPU from the file beside a table that describes the machine."""
    stem = source.name.lower().removesuffix(".gz").removesuffix(".csv")
    for name in (f"{source.name[: len(stem)]}.sysinfo.txt", "sysinfo.csv"):
        path = source.parent / name
        found = kinds.look(path) if path.is_file() else None
        if found is not None and found.kind is Kind.COMPUTE_SYSTEM:
            gpu, notes = of_sysinfo(read_table(path, options, progress))
            return gpu, [Part(path, notes=notes)]
        if found is not None and found.kind is Kind.ROCMINFO:
            return _of_rocminfo(path), [Part(path)]
    return None, []


def _of_rocminfo(path: Path) -> Gpu | None:
    """The GPU of the machine, where all of its GPUs are of one kind."""
    with path.open("rb") as file:
        text = file.read(_MOST_DESCRIPTION).decode("utf-8", "replace")
    return only(rocminfo_text(text))


def _read_folder(folder: Path, progress: Progress, options: Options) -> Recording:
    found = survey(folder)
    if found is None or found.family is not Family.V1:
        raise TraceroofError(f"{folder} is not the output folder of one rocprof run")
    gpu, explaining = _folder_gpu(found)
    tables, notes = readable(
        found.of(Kind.V1, Kind.V1_BARE),
        lambda one: _dispatches(one.path, progress, options),
        lambda one: one.path,
    )
    parts: list[Part] = []
    calls: list[tuple[Path, Calls]] = []
    # Databases and JSON hold the same launches once more, and the copies and host calls besides.
    containers: Sequence[Path] = found.databases or found.documents
    reader = rocprof_v1_db.read_tables if found.databases else rocprof_v1_json.read_tables
    if tables:
        joined, timeline = joined_runs(tables)
        for one in joined:
            one.gpus = {None: gpu} if gpu else {}
            parts.append(part_of(one, options))
        passes = {one.path for one in joined}
        parts += [Part(one.path) for one in tables if one.path not in passes]
    else:
        timeline = True
    for path in containers:
        content = reader(path, options, kernels=not tables)
        calls += [(path, content.calls)] if content.calls is not None else []
        parts.append(content.part)
        gpu = gpu or only(content.gpus)
    if not any(part.kernels is not None and part.kernels.num_rows for part in parts):
        for summary in found.of(Kind.STATISTICS):
            parts += read_statistics(summary.path, progress, options, strict=False)
    if not any(part.kernels is not None and part.kernels.num_rows for part in parts):
        raise TraceroofError(f"{folder} holds no kernel of rocprof")
    parts[0].notes += [*found.notes, *notes]
    return recording(
        PARSER.name,
        "timeline" if timeline else "counter-tool",
        [*parts, *explaining],
        [gpu] if gpu else [],
        calls,
    )


def _folder_gpu(found: Survey) -> tuple[Gpu | None, list[Part]]:
    for one in found.of(Kind.ROCMINFO):
        return _of_rocminfo(one.path), [Part(one.path)]
    return None, []
