"""What a folder of AMD profiler output holds, so that one reader takes it as one run.

A tool leaves many files: one per process, per pass and per kind, and the same launches as CSV,
JSON and database beside one another. A folder is one run only when everything in it that looks
like a trace comes from one tool; any other folder is read file by file.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import head as head_of
from traceroof.ingest.folders import left_out, lost
from traceroof.ingest.sqlite import MAGIC, table_names
from traceroof.parser import HEAD_BYTES
from traceroof.parsers.amd.kinds import (
    Found,
    Kind,
    files_below,
    layout,
)
from traceroof.parsers.amd.sqlite import Schema, schema_of

# More candidates than this are no run but a home folder.
_MOST_CANDIDATES = 512
# So many names are listed in a note.
_LISTED = 5
_CANDIDATE = regex.compile(
    r"\.(csv|json|txt|db|rpd|sqlite|ncu-rep|nsys-rep)(\.gz)?$", re.IGNORECASE
)

#: The start of a rocprofv3 JSON file, and of a rocprof v1 one (its first event is empty).
V3_JSON = regex.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')
V1_JSON = regex.compile(rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*\}')


class Family(Enum):
    """The tool whose output a folder holds."""

    COMPUTE = "rocprof-compute"
    V3 = "rocprofv3"
    V2 = "rocprofv2"
    V1 = "rocprof v1"
    HIPPROF = "hipprof"
    SUMMARIES = "summaries without single launches"


_OF_TABLE = {
    Kind.V1: Family.V1,
    Kind.V1_BARE: Family.V1,
    Kind.V2: Family.V2,
    Kind.V2_OPERATIONS: Family.V2,
    Kind.HIPPROF: Family.HIPPROF,
    Kind.COMPUTE_WIDE: Family.COMPUTE,
    Kind.COMPUTE_LONG: Family.COMPUTE,
    Kind.COMPUTE_SYSTEM: Family.COMPUTE,
    Kind.V3_KERNELS: Family.V3,
    Kind.V3_COUNTERS: Family.V3,
}
_OF_DATABASE = {
    Schema.ROCPD: Family.V3,
    Schema.ROCPROF_V1: Family.V1,
    Schema.HIPPROF: Family.HIPPROF,
}


@dataclass(frozen=True)
class Survey:
    """A folder that is one run: its tool, and its files by what they hold, in name order.

    foreign: files that look like a profiler's output and are none of the tool's.
    """

    family: Family
    tables: tuple[Found, ...]
    databases: tuple[Path, ...]
    documents: tuple[Path, ...]
    others: tuple[Path, ...]
    foreign: tuple[Path, ...] = ()

    @property
    def notes(self) -> list[Note]:
        """What was left out: files that are none of the tool's."""
        damaged = [left_out(path, reason) for path in self.foreign if (reason := lost(path))]
        names = [path.name for path in self.foreign if not lost(path)]
        if not names:
            return damaged
        listed = ", ".join(names[:_LISTED]) + (", …" if names[_LISTED:] else "")
        text = f"files that are none of {self.family.value} left out: {listed}"
        return [*damaged, Note(text, len(names), severe=False)]

    def of(self, *kinds: Kind) -> tuple[Found, ...]:
        """The tables of these kinds."""
        return tuple(found for found in self.tables if found.kind in kinds)


def looks_like_trace(path: Path) -> bool:
    """Whether a file has the ending of a profiler's output, of any tool."""
    return _CANDIDATE.search(path.name) is not None


def survey(folder: Path) -> Survey | None:
    """Look through a folder; None when it is not the output of one AMD tool."""
    files = files_below(folder)
    candidates = [path for path in files if looks_like_trace(path)]
    if not candidates or len(candidates) > _MOST_CANDIDATES:
        return None
    families: set[Family] = set()
    tables: list[Found] = []
    databases: list[Path] = []
    documents: list[Path] = []
    foreign: list[Path] = []
    for path in candidates:
        state = path.stat()
        family, found, schema = _look(path, state.st_mtime_ns, state.st_size)
        if found is not None:
            tables.append(found)
        elif schema is not None:
            databases.append(path)
        elif family is not None:
            documents.append(path)
        elif is_other_trace(path):
            # The folder is a collection, not a run.
            return None
        elif not path.name.lower().endswith((".txt", ".txt.gz")):
            foreign.append(path)
        if family is not None:
            families.add(family)
    # A database of no family, RPD's, is read by itself, and the summaries beside it too.
    has_statistics = any(found.kind is Kind.STATISTICS for found in tables)
    if not families and not databases and has_statistics:
        families.add(Family.SUMMARIES)
    if len(families) != 1:
        return None
    known = {*(found.path for found in tables), *databases, *documents}
    others = tuple(path for path in files if path not in known)
    return Survey(
        families.pop(), tuple(tables), tuple(databases), tuple(documents), others, tuple(foreign)
    )


# What traces of other tools have at their beginning, or among their tables.
_OTHER_TRACE = regex.compile(
    rb'"traceEvents"|"ph"\s*:\s*"[XBEMsf]"|"Metric Name"|"Kernel Name"|==PROF==|==NVPROF'
)
_OTHER_TABLES = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS", "TARGET_INFO_GPU")
_REPORTS = (".ncu-rep", ".nsys-rep")


def is_other_trace(path: Path) -> bool:
    """Whether a file that is none of AMD's tools is the trace of another one."""
    state = path.stat()
    return _is_other_trace(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=_MOST_CANDIDATES)
def _is_other_trace(path: Path, changed: int, size: int) -> bool:
    if path.name.lower().endswith(_REPORTS):
        return True
    try:
        head = head_of(path, HEAD_BYTES) if size else b""
    except TraceroofError:
        return False
    if head.startswith(MAGIC):
        return any(name.startswith(_OTHER_TABLES) for name in table_names(head, path))
    return _OTHER_TRACE.search(head) is not None


@lru_cache(maxsize=_MOST_CANDIDATES)
def _look(path: Path, changed: int, size: int) -> tuple[Family | None, Found | None, Schema | None]:
    """What one file is; several readers ask about the same folder, one after the other."""
    if not size:
        return None, None, None
    try:
        head = head_of(path, HEAD_BYTES)
    except TraceroofError:
        return None, None, None
    if head.startswith(MAGIC):
        schema = schema_of(head, path)
        return (_OF_DATABASE.get(schema) if schema else None), None, schema
    if V3_JSON.match(head):
        return Family.V3, None, None
    if V1_JSON.match(head):
        return Family.V1, None, None
    table = layout(head)
    if table is None:
        return None, None, None
    return _OF_TABLE.get(table.kind), Found(path, table.kind, table.header), None
