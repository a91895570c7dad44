"""rocprofv2 tables (``results_*.csv`` of ROCm 5.5 to 6.x), and single passes of rocprof-compute.

One row per dispatch, or per dispatch and die when every XCC was asked for alone. No raw file
of rocprofv2 itself was at hand: the layout is that of its writer and of the passes that
rocprof-compute keeps.
"""

from pathlib import Path
from typing import Literal

from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.folders import readable
from traceroof.parser import Options, Progress
from traceroof.parsers.amd import kinds
from traceroof.parsers.amd.dispatches import Dispatches, by_launch, of_wide
from traceroof.parsers.amd.folder import Family, survey
from traceroof.parsers.amd.gpus import Gpu, of_sysinfo
from traceroof.parsers.amd.kinds import Kind, layout
from traceroof.parsers.amd.passes import joined_runs
from traceroof.parsers.amd.run import Part, part_of, recording
from traceroof.parsers.amd.text import read_table

_MINE = (Kind.V2, Kind.V2_OPERATIONS)


class Rocprofv2Csv:
    """Reader of rocprofv2 tables and folders."""

    name = "rocprofv2-csv"
    title = "rocprofv2: results_*.csv, and single passes of rocprof-compute (SQ_LEVEL_WAVES.csv, …)"
    gives = "launches with registers and LDS; HBM, cache and occupancy where counters are there"
    collect = "rocprofv2 --kernel-trace -d FOLDER --plugin file COMMAND"

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            found = survey(path) if path.is_dir() else None
            return 2 if found is not None and found.family is Family.V2 else 0
        table = layout(head)
        return 2 if table is not None and table.kind in _MINE else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        if source.is_dir():
            return _read_folder(source, progress, options)
        one = _dispatches(source, progress, options)
        gpu, explaining = _described(source, progress, options)
        one.gpus = {None: gpu} if gpu else {}
        return recording(
            PARSER.name,
            "timeline" if one.timeline else "counter-tool",
            [part_of(one, options), *explaining],
            [gpu] if gpu else [],
        )


PARSER = Rocprofv2Csv()


def _dispatches(source: Path, progress: Progress, options: Options) -> Dispatches:
    one = by_launch(of_wide(read_table(source, options, progress), source.name))
    if not len(one):
        raise TraceroofError(
            f"{source} lists no kernel", "did the program launch one while it was profiled?"
        )
    return one


def _described(source: Path, progress: Progress, options: Options) -> tuple[Gpu | None, list[Part]]:
    """The GPU, from the description beside a pass of a profile folder."""
    path = source.parent / "sysinfo.csv"
    found = kinds.look(path) if path.is_file() else None
    if found is None or found.kind is not Kind.COMPUTE_SYSTEM:
        return None, []
    gpu, notes = of_sysinfo(read_table(path, options, progress))
    return gpu, [Part(path, notes=notes)]


def _read_folder(folder: Path, progress: Progress, options: Options) -> Recording:
    found = survey(folder)
    if found is None or found.family is not Family.V2:
        raise TraceroofError(f"{folder} is not the output folder of one rocprofv2 run")
    # The operation trace lists the same dispatches once more.
    tables = found.of(Kind.V2) or found.of(Kind.V2_OPERATIONS)
    runs, notes = readable(
        tables, lambda one: _dispatches(one.path, progress, options), lambda one: one.path
    )
    joined, timeline = joined_runs(runs)
    parts = [part_of(one, options) for one in joined]
    parts[0].notes += [*found.notes, *notes]
    used = {one.path for one in joined}
    parts += [Part(one.path) for one in runs if one.path not in used]
    return recording(PARSER.name, "timeline" if timeline else "counter-tool", parts, [])
