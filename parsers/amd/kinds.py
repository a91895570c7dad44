"""Which of the many AMD and Hygon tables a text file holds, told by its header alone.

The tools rename columns from release to release (``KernelName``, ``Kernel_Name``; ``arch_vgpr``,
``Arch_VGPR``, ``Vgpr_Count``), so names are compared without case and separators, and a table is
known by the columns that no other table has together.
"""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from traceroof.core import regex
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import head as head_of
from traceroof.parser import HEAD_BYTES

# Lines that tools print before the table when their output was redirected ("RPL: on ...").
_MOST_NOISE_LINES = 400
# A header cell longer than this is no column name.
_LONGEST_NAME = 200

_SEPARATORS = regex.compile(r"[-_\s]+")
# A log may begin with "[profiling]".
_JSON = regex.compile(rb"\s*(?:\{|\[\s*[\[{\"\]])")
_DELIMITERS = (",", ";", "\t")
#: Above the table that ``rocprofv3 --summary`` prints.
PRINTED_TITLES = regex.compile(
    r"\|\s*NAME\s*\|\s*DOMAIN\s*\|\s*CALLS\s*\|\s*DURATION \((?P<unit>[num]?sec)\)\s*\|"
)
_KD = regex.compile(r"(\[clone \.kd\]|\.kd)\"?$")
_HEX = regex.compile(r"0x[0-9a-fA-F]+$")


class Kind(Enum):
    """What one table is."""

    V1 = "rocprof v1 kernels"
    V1_BARE = "rocprof v1 kernels without a header"
    V2 = "rocprofv2 kernels"
    V2_OPERATIONS = "rocprofv2 operation trace"
    V3_KERNELS = "rocprofv3 kernel trace"
    V3_COUNTERS = "rocprofv3 counters"
    V3_COPIES = "rocprofv3 memory copies"
    V3_API = "host API calls"
    V3_AGENTS = "the list of the machine's devices"
    V3_SAMPLES = "program-counter samples"
    V3_ALLOCATIONS = "memory allocations"
    V3_SCRATCH = "scratch-memory allocations"
    STATISTICS = "call statistics"
    HIPPROF = "hipprof counters"
    COMPUTE_WIDE = "rocprof-compute counters, one row per dispatch"
    COMPUTE_LONG = "rocprof-compute counters, one row per counter"
    COMPUTE_SYSTEM = "the rocprof-compute description of the machine"
    COMPUTE_ROOFLINE = "the measured ceilings of rocprof-compute"
    COMPUTE_LIST = "the rocprof-compute list of kernels"
    COUNTER_ROWS = "AMD counters in the layout of Nsight Compute, one row per counter"
    ROCMINFO = "the machine description that rocminfo prints"
    COUNTER_LIST = "a list of counters to collect"
    SETTINGS = "the settings of a rocprof-compute run"
    LOG = "the log of a rocprof-compute run"


# Kind -> (columns that must be there, columns that must not). The first that fits wins.
_SIGNATURES: tuple[tuple[Kind, str, str], ...] = (
    (Kind.V3_KERNELS, "kind agentid kernelname starttimestamp", ""),
    (Kind.V3_COUNTERS, "countername countervalue dispatchid agentid", ""),
    (Kind.COMPUTE_LONG, "countername countervalue dispatchid gpuid", ""),
    (Kind.V3_COPIES, "kind direction sourceagentid destinationagentid", ""),
    (Kind.V3_ALLOCATIONS, "kind operation agentid allocationsize", ""),
    (Kind.V3_SCRATCH, "kind operation agentid allocflags", ""),
    (Kind.V3_AGENTS, "nodeid agenttype gfxtargetversion", ""),
    (Kind.V3_SAMPLES, "sampletimestamp execmask dispatchid instruction", ""),
    (Kind.V2_OPERATIONS, "domain operation kernelname starttimestamp stoptimestamp", ""),
    (Kind.V3_API, "domain function correlationid starttimestamp", ""),
    (Kind.V2, "dispatchid gpuid kernelname queueid grd", ""),
    (Kind.V2, "dispatchid gpuid kernelname queueid gridsize", ""),
    (Kind.COMPUTE_WIDE, "dispatchid gpuid kernelname gridsize ldsperworkgroup", "queueid"),
    (Kind.HIPPROF, "index kernelname gpuid grd archvgpr sig", "obj"),
    (Kind.V1, "kernelname gpuid grd wgr", ""),
    (Kind.STATISTICS, "name calls totaldurationns averagens percentage", ""),
    (Kind.COMPUTE_SYSTEM, "workloadname ipblocks gpusoc", ""),
    (Kind.COMPUTE_SYSTEM, "workloadname ipblocks gpuarch", ""),
    (Kind.COMPUTE_ROOFLINE, "device hbmbw l2bw", ""),
    (Kind.COMPUTE_LIST, "kernelname count sum(ns)", ""),
    (Kind.COMPUTE_LIST, "dispatchid kernelname gpuid", "gridsize grd counterid"),
    (Kind.COMPUTE_LIST, "index kernelname gpuid", "grd gridsize"),
)

# Nsight Compute's long layout, filled with AMD counters.
_FOREIGN_COLUMNS = frozenset({"kernelname", "metricname", "metricvalue"})
_AMD_COUNTER = regex.compile(rb"\b(?:SQC?|TCC|TCP|GRBM|SPI|TA|TD|GL2C)_[A-Z]|FetchSize|WriteSize")

# Files that are no table but lie beside one: a piece of text that only they have.
_TEXTS: tuple[tuple[Kind, re.Pattern[bytes]], ...] = (
    (Kind.ROCMINFO, regex.compile(rb"HSA System Attributes|ROCk module is loaded")),
    (Kind.SETTINGS, regex.compile(rb"^format_rocprof_output:", re.MULTILINE)),
    (
        Kind.LOG,
        regex.compile(rb"^(?:omniperf|rocprofiler-compute) version:", re.MULTILINE | re.IGNORECASE),
    ),
    (Kind.COUNTER_LIST, regex.compile(rb"\A\s*pmc\s*:", re.MULTILINE)),
)


@dataclass(frozen=True)
class Layout:
    """A table found in a text.

    kind: what it holds. header: its column names as written (for ``V1_BARE`` the names that the
    cells have by their position). skip: lines before its first row. delimiter: a spreadsheet may
    have saved the table with another than the comma.
    """

    kind: Kind
    header: tuple[str, ...]
    skip: int
    delimiter: str = ","


@dataclass(frozen=True)
class Found:
    """A file of a folder and what it holds."""

    path: Path
    kind: Kind
    header: tuple[str, ...]


def squash(name: str) -> str:
    """A column name without case and separators: ``Kernel-Name`` is ``kernelname``."""
    return _SEPARATORS.sub("", name.strip()).lower()


@lru_cache(maxsize=4)  # a dozen readers look at the same head, one after the other
def layout(head: bytes) -> Layout | None:
    """The AMD table at the start of a file, or None. ``head`` may end anywhere."""
    if head.startswith(b"SQLite format 3") or _JSON.match(head):
        return None
    for number, line in enumerate(_lines(head)):
        if number == _MOST_NOISE_LINES:
            break
        found = _header(line, number, head) or _bare(line, number)
        if found:
            return found
    for kind, pattern in _TEXTS:
        if pattern.search(head):
            return Layout(kind, (), 0)
    return None


def is_printed(head: bytes) -> bool:
    """Whether a text holds a table that ``rocprofv3 --summary`` prints."""
    return b"DOMAIN" in head and PRINTED_TITLES.search(head.decode("utf-8", "replace")) is not None


def _lines(head: bytes) -> Iterator[str]:
    text = head.decode("utf-8", "replace").removeprefix("\ufeff")
    return (line for line in text.split("\n"))


def cells_of(line: str, delimiter: str = ",") -> list[str]:
    """The cells of one CSV line; a broken one gives what can be told apart."""
    # A cell of the csv module is limited to 128 KB; longer lines are split plainly.
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:
        return line.rstrip("\r\n").split(delimiter)


def _header(line: str, number: int, head: bytes) -> Layout | None:
    delimiter = next((sign for sign in _DELIMITERS if sign in line), None)
    if delimiter is None:
        return None
    cells = cells_of(line, delimiter)
    names = {squash(cell) for cell in cells if len(cell) <= _LONGEST_NAME}
    for kind, present, absent in _SIGNATURES:
        if names.issuperset(present.split()) and names.isdisjoint(absent.split()):
            return Layout(kind, tuple(cells), number + 1, delimiter)
    if names.issuperset(_FOREIGN_COLUMNS) and _AMD_COUNTER.search(head):
        return Layout(Kind.COUNTER_ROWS, tuple(cells), number + 1, delimiter)
    return None


# Columns by position of a rocprof v1 row, up to the two addresses; the second layout has one
# column more (accum_vgpr, wave_size for fbar), which moves the addresses.
_BARE_COMMON = ["Index", "KernelName", "gpu-id", "queue-id", "queue-index", "pid", "tid"]
_BARE_SIZES = ["grd", "wgr", "lds", "scr"]
_BARE_REGISTERS = {
    14: ["vgpr", "sgpr", "fbar"],
    15: ["arch_vgpr", "accum_vgpr", "sgpr", "wave_size"],
}
_BARE_TIMES = ["DispatchNs", "BeginNs", "EndNs", "CompleteNs", "DurationNs"]


def _bare(line: str, number: int) -> Layout | None:
    """A rocprof v1 row without any header: counters cannot be named, so only plain rows count."""
    if ".kd" not in line:
        return None
    cells = cells_of(line)
    if not cells[0].strip().isdigit() or len(cells) < 2 or not _KD.search(cells[1].strip()):
        return None
    first = next((place for place, cell in enumerate(cells) if _HEX.match(cell.strip())), 0)
    times = cells[first + 2 :]
    if first not in _BARE_REGISTERS or not 4 <= len(times) <= 5:
        return None
    launch = [*_BARE_COMMON, *_BARE_SIZES, *_BARE_REGISTERS[first]]
    header = [*launch, "sig", "obj", *_BARE_TIMES[: len(times)]]
    return Layout(Kind.V1_BARE, tuple(header), number)


# How deep the tools nest: NAME/GPU/, pmc_1/HOST/PID_*.csv.
_DEEPEST = 4
_MOST_FILES = 4096


def scan(folder: Path) -> tuple[tuple[Found, ...], tuple[Path, ...]]:
    """Every AMD table below a folder, and the other files, both in name order."""
    tables: list[Found] = []
    others: list[Path] = []
    for path in files_below(folder):
        found = look(path)
        if found is None:
            others.append(path)
        else:
            tables.append(found)
    return tuple(tables), tuple(others)


def look(path: Path) -> Found | None:
    """Which AMD table a file holds; None for any other file, and for one that is unreadable."""
    try:
        found = layout(head_of(path, HEAD_BYTES))
    except TraceroofError:  # empty, or packed in a way that we do not read
        return None
    return None if found is None else Found(path, found.kind, found.header)


def files_below(folder: Path) -> list[Path]:
    """The files of a folder and its sub-folders, four levels deep, at most 4,096, in order."""
    files: list[Path] = []
    level = [folder]
    for _ in range(_DEEPEST):
        deeper: list[Path] = []
        for one in level:
            try:
                entries = sorted(one.iterdir())
            except OSError:
                continue
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    deeper.append(entry)
                elif entry.is_file():
                    files.append(entry)
            if len(files) > _MOST_FILES:
                return files[:_MOST_FILES]
        level = deeper
    return files
