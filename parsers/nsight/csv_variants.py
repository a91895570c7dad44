"""From the bytes of a captured output to the tables in it.

A file may hold program output, ``==PROF==`` lines, several tables, quoted line breaks, and any
encoding that a Windows shell chooses. ``Lines`` gives its lines with one step back, ``header_of``
knows a table's first line, ``csv_records`` gives the rows below it.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.hardware import device_lookup
from traceroof.parsers.nsight.line_prefix import line_prefix
from traceroof.parsers.nsight.metrics import METRIC_NAME, is_metric_name
from traceroof.parsers.nsight.source_metrics import ALL_SAMPLES, column_of_title

#: The formats of tables and of pages, and how both are collected.
CSV = "nsight-compute-csv"
TEXT = "nsight-compute-text"
COLLECT = "ncu --set full --csv --page raw --log-file kernels.csv ./program"

#: A longer line is read in pieces: no table row is longer, and a binary file may be one line.
MAX_LINE = 1 << 22
_REPORT_EVERY = 8192

_ESCAPES = regex.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07\x1b]{0,500}\x07|[@-Z\\-_])")


def encoding_of(head: bytes) -> str:
    """The encoding of a text from its first bytes; ``utf-8-sig`` unless they say otherwise.

    PowerShell writes UTF-16 with and without a byte-order mark, a Windows console its code page.
    """
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "utf-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    sample = head[:4096]
    half = max(len(sample) // 2, 1)
    # Text in Latin letters has a zero in every second byte.
    if sample[1::2].count(0) > 0.6 * half and sample[0::2].count(0) < 0.1 * half:
        return "utf-16-le"
    if sample[0::2].count(0) > 0.6 * half and sample[1::2].count(0) < 0.1 * half:
        return "utf-16-be"
    return "cp1252" if _GROUPED_IN_1252.search(sample) else "utf-8-sig"


# A French Windows console groups digits by a byte that no UTF-8 text has behind a digit.
_GROUPED_IN_1252 = regex.compile(rb"\d\xa0\d{3}(?!\d)")


def head_text(head: bytes) -> str:
    """The first bytes as text, for a look at what they are; a cut letter at the end is lost."""
    lines = _head_lines(head)
    if (prefix := line_prefix(lines)) is not None:
        lines = [prefix.sub("", line, count=1) for line in lines]
    return "\n".join(lines)


def _head_lines(head: bytes) -> list[str]:
    text = head.decode(encoding_of(head), errors="replace")
    return [plain_line(line) for line in text.splitlines()]


def is_binary(head: bytes) -> bool:
    """Whether the first bytes are no text in any encoding that we read."""
    return encoding_of(head) in ("utf-8-sig", "cp1252") and head[:4096].count(0) > 0


def plain_line(line: str) -> str:
    """A line without what a terminal, a CI log or an editor put around its text.

    Colours; the time stamps of a CI log; a UTF-8 mark that was read as Latin-1.
    """
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if line[4:5] == "-" and line[10:11] == "T" and (stamp := _TIME_STAMP.match(line)):
        line = line[stamp.end() :]
    if line.startswith(("\ufeff", "ï»¿")):
        line = line.removeprefix("\ufeff").removeprefix("ï»¿")
    return line


def prefix_of(head: bytes) -> re.Pattern[str] | None:
    """What a log puts before each line of a text, and is none of it; None where nothing is."""
    return line_prefix(_head_lines(head))


_TIME_STAMP = regex.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z ?")


@dataclass
class Lines:
    """The lines of a text stream, each without its line end; the last one can be given back.

    prefix: what each line stands behind.
    """

    stream: io.TextIOBase
    advanced: Callable[[], None] = lambda: None
    prefix: re.Pattern[str] | None = None
    replaced: int = 0
    _back: str | None = None
    _count: int = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._back is not None:
            line, self._back = self._back, None
            return line
        line = self.stream.readline(MAX_LINE)
        if not line:
            raise StopIteration
        self._count += 1
        if self._count % _REPORT_EVERY == 0:
            self.advanced()
        if "\ufffd" in line:
            self.replaced += 1
        line = plain_line(line.rstrip("\n"))
        return self.prefix.sub("", line, count=1) if self.prefix is not None else line

    def give_back(self, line: str) -> None:
        """Let ``line`` be the next one again."""
        self._back = line


Kind = Literal["long", "summary", "wide", "source", "pivot"]

# Column titles that mean something to us, lower case.
_ROLES = frozenset(
    {
        "id", "process id", "process name", "host name", "kernel name", "kernel time", "context",
        "stream", "block size", "grid size", "device", "cc", "invocations", "section name",
        "body item label", "metric name", "metric unit", "metric value", "minimum", "maximum",
        "average", "rule name", "rule type", "rule description", "estimated speedup type",
        "estimated speedup",
    }
)  # fmt: skip
_WITH_UNIT = regex.compile(rf"(?P<metric>{METRIC_NAME.pattern})\s*[(\[](?P<unit>[^()\[\]]*)[)\]]")
# What may stand among metric titles: older metrics are single words; pandas adds row numbers.
_LIKE_A_METRIC = regex.compile(r"[a-z][a-z0-9_:.]*|Unnamed: \d+|")
#: A line of the source page as text, which is for people: its columns are cut.
SOURCE_AS_TEXT = regex.compile(r"\s*(?:File Path|Function Name): \S")
# What every header has one of. Searched in lower case by words, for every file is asked: one pattern of
# all of them takes ten times as long.
_WORDS = ("metric name", "kernel name", "warp stall sampling")
_IN_METRIC = regex.compile(r"__[a-z]")
_NO_WORD = regex.compile(r"\W?$")
_SOURCE_CELL = regex.compile(r"source\"?[,;\t]")
# Where a row of the source page stands: by address, by line, or by number.
_SOURCE_PLACES = frozenset({"address", "line no", "line", "#"})
_TABLE_START = regex.compile(r'"(?:ID|Process ID)","(?:Process |Kernel )')


@dataclass(frozen=True)
class Header:
    """The first line of a table.

    kind: long (a row per metric), summary (the same with minimum, maximum and average), wide (a
    column per metric: the raw page), source (a row per instruction), pivot (a wide table that
    another program made).
    at: column title in lower case -> position. cells: the titles as they stand.
    """

    kind: Kind
    cells: tuple[str, ...]
    at: dict[str, int]
    delimiter: str
    quoted: bool
    before: str = ""

    def position(self, *titles: str) -> int | None:
        """The position of the first of these columns that the table has."""
        return next((self.at[title] for title in titles if title in self.at), None)

    @property
    def spreadsheet(self) -> bool:
        """Whether a spreadsheet wrote this table: Nsight Compute separates by commas."""
        return self.delimiter != ","

    @property
    def ranges(self) -> tuple[int, ...]:
        """Positions of the columns with NVTX ranges: push/pop first."""
        return tuple(
            self.at[title]
            for part in ("push/pop_range", "start/stop_range")
            for title in self.at
            if part in title
        )


def may_hold_header(text: str) -> bool:
    """Whether a text has a word of any header; most have none."""
    lower = text.lower()
    return (
        any(word in lower for word in _WORDS)
        or ("__" in lower and any("a" <= one <= "z" for one in _before(_IN_METRIC, lower)))
        or ("source" in lower and any(map(_NO_WORD.match, _before(_SOURCE_CELL, lower))))
    )


def _before(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """The letter before each place where a pattern is found; at the start of the text none."""
    return (text[max(found.start() - 1, 0) : found.start()] for found in pattern.finditer(text))


def header_of(line: str) -> Header | None:
    """The header in a line, which may follow program output; None where there is none."""
    if not may_hold_header(line):
        return None
    before = ""
    if not line.startswith('"') and (start := _TABLE_START.search(line)):
        before, line = line[: start.start()], line[start.start() :]
    delimiter = _delimiter(line)
    try:
        cells = tuple(
            cell.strip().strip("\ufeff") for cell in next(csv.reader([line], delimiter=delimiter))
        )
    except (csv.Error, StopIteration):
        return None
    at: dict[str, int] = {}
    for position, cell in enumerate(cells):
        at.setdefault(cell.lower(), position)
    kind = _kind(cells, at)
    if kind is None:
        return None
    return Header(kind, cells, at, delimiter, line.lstrip().startswith('"'), before)


def headers_of(text: str) -> Iterator[Header]:
    """The headers in the lines of a text. Most texts have no word of any."""
    if may_hold_header(text):
        yield from (found for line in text.splitlines() if (found := header_of(line)))


def _is_of_source(title: str) -> bool:
    return title in ALL_SAMPLES or column_of_title(title) is not None


_SOURCE_TITLE = regex.compile(
    r'"?(Kernel Name|File Path|File Name|Function Name)"?[,;\t]', re.IGNORECASE
)


def source_title(line: str) -> tuple[str, str] | None:
    """("kernel name", "f(int)") of a line ``"Kernel Name","f(int)",`` above a table of the source
    page; None for any other line."""
    found = _SOURCE_TITLE.match(line)
    if found is None:
        return None
    try:
        cells = next(csv.reader([line], delimiter=line[found.end() - 1]), [])
    except csv.Error:
        return None
    if len(cells) < 2 or any(cell.strip() for cell in cells[2:]):
        return None
    # A raw page of one metric has two titles too.
    if "." in cells[1] and is_metric_title(cells[1]):
        return None
    return found[1].lower(), cells[1].strip()


def _delimiter(line: str) -> str:
    if line.startswith('"') and (match := re.match(r'"[^"]*"([,;\t|])', line)):
        return match[1]
    counts = Counter({sign: line.count(sign) for sign in ",;\t|"})
    return counts.most_common(1)[0][0] if any(counts.values()) else ","


def _kind(cells: tuple[str, ...], at: dict[str, int]) -> Kind | None:
    named = "kernel name" in at or "id" in at or "process id" in at
    if "metric name" in at and (named or "section name" in at):
        if "metric value" in at:
            return "long"
        if "average" in at:
            return "summary"
    metrics = [cell for cell in cells if is_metric_title(cell)]
    others = [cell for cell in cells if cell.lower() not in _ROLES and not is_metric_title(cell)]
    if "source" in at and at.keys() & _SOURCE_PLACES and any(map(_is_of_source, at)):
        return "source"
    if cells and cells[0].lower() == "metric name" and metrics:
        return "pivot"
    # Two cells are a line of the source page: "Kernel Name","name".
    if "kernel name" in at and metrics and (len(cells) > 2 or "." in metrics[0]):
        return "wide"
    # The raw page with its first columns cut off: metric titles and nothing else.
    foreign = [cell for cell in others if not _LIKE_A_METRIC.fullmatch(cell)]
    if len(metrics) >= 2 and not foreign:
        return "wide"
    return None


def is_metric_title(cell: str) -> bool:
    """Whether a column title is a metric's name, alone or with its unit in parentheses."""
    return is_metric_name(cell) or (len(cell) < 400 and _WITH_UNIT.fullmatch(cell) is not None)


@lru_cache(maxsize=8192)
def title_parts(cell: str) -> tuple[str, str | None]:
    """A column title as (metric, unit); the unit is None where the title does not give one."""
    match = _WITH_UNIT.fullmatch(cell) if len(cell) < 400 else None
    return (match["metric"], match["unit"]) if match else (cell, None)


@dataclass
class Skipped:
    """What was between and inside the tables and is no row.

    errors: what the profiler said of trouble, and how often. signs: substrings of ``_SIGNS``
    that were seen. report: the report file that the profiler says it wrote. exception: the last
    line of a Python traceback. gpus: GPUs of the device table that the program's output names.
    """

    output: int = 0
    broken: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    signs: set[str] = field(default_factory=set)
    report: str = ""
    exception: str = ""
    gpus: set[str] = field(default_factory=set)

    def line(self, line: str) -> None:
        """Take note of a line that belongs to no table."""
        text = line.strip()
        if not text:
            return
        self.signs.update(sign for sign in _SIGNS if sign in text)
        if (
            TRACEBACK in self.signs
            and _EXCEPTION.match(text)
            or not self.exception
            and _FAILURE.search(text)
            and not text.startswith("==")
        ):
            self.exception = text[:300]
        if text.startswith("==ERROR=="):
            error = text.removeprefix("==ERROR==").strip()[:300]
            if error in self.errors or len(self.errors) < _MAX_ERRORS:
                self.errors[error] += 1
        elif text.startswith("==PROF== Report:"):
            self.report = text.removeprefix("==PROF== Report:").strip()
        elif not text.startswith(("==PROF==", "==WARNING==", "==NOTE==")):
            self.output += 1
            if gpu := device_lookup.printed_in(text):
                self.gpus.add(gpu)

    @property
    def reason(self) -> str:
        """What the profiler said of why it failed: its first error that says more than that."""
        telling = (text for text in self.errors if not _SAYS_LITTLE.match(text))
        return next(telling, next(iter(self.errors), ""))

    def notes(self, replaced: int) -> Iterator[Note]:
        """The notes that this leaves. replaced: lines with letters that could not be decoded."""
        if self.broken:
            yield Note("table rows that are cut short or broken left out", self.broken)
        for text, count in self.errors.items():
            yield Note(f"the profiler reported an error: {text}", count, severe=False)
        if self.output:
            yield Note("lines of program output skipped", self.output, severe=False)
        if replaced:
            yield Note("lines with letters of another encoding", replaced, severe=False)


_EXCEPTION = regex.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b")
# What a program or its shell says as it ends, without a traceback.
_FAILURE = regex.compile(
    r"out of memory|CUDA error: |CUDA_ERROR_\w|Segmentation fault|Bus error|core dumped|bad_alloc|"
    r"MPI_ABORT was|terminate called|command not found|\bKilled\b|Aborted"
)
# Errors that follow from another.
_SAYS_LITTLE = regex.compile(
    r"The application returned an error|An error occurred while trying to profile|"
    r"Failed to profile|Failed to (?:create|access) |Error: ",
    re.IGNORECASE,
)
# So many different errors are told.
_MAX_ERRORS = 10

#: What explains a file without a table.
PERMISSION = "ERR_NVGPUCTRPERM"
NO_KERNELS = "No kernels were profiled"
PROGRESS = "==PROF=="
#: Its errors, which may stand alone.
ERROR = regex.compile(r"^==ERROR==", re.MULTILINE)
TRACEBACK = "Traceback (most recent call last)"
_SIGNS = (PERMISSION, NO_KERNELS, PROGRESS, TRACEBACK)


_NVTX_FIELDS_BEHIND = 6
_DEFAULT_DOMAIN = "<default domain>"


def nvtx_path(cell: str) -> str:
    """The NVTX ranges in a cell, outermost first: ``'9 "<default domain>:step:none:…"'``.

    Each quoted entry is Domain:Range and six fields of payload, colour and message; the range
    itself may hold colons. Returns "" for a launch outside all ranges.
    """
    ranges = []
    for entry in re.findall(r'"([^"]*)"', cell) or ([cell.strip()] if ":" in cell else []):
        fields = entry.split(":")
        if fields[0].strip().isdigit():  # start/stop ranges begin with their number
            fields = fields[1:]
        if len(fields) > 1:
            last = len(fields) - _NVTX_FIELDS_BEHIND if len(fields) > 7 else 2
            domain, name = fields[0].strip(), ":".join(fields[1:last]).strip()
            ranges.append(name if domain == _DEFAULT_DOMAIN else f"{domain}:{name}")
    return " > ".join(ranges) or cell.strip().strip('"')
