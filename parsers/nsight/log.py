"""A captured output of Nsight Compute: tables as CSV and pages as text, in any order."""

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import HEAD_BYTES, Options, Progress
from traceroof.parsers.nsight.csv_records import records
from traceroof.parsers.nsight.csv_tables import LongTable, Row, WideTable
from traceroof.parsers.nsight.csv_variants import (
    COLLECT,
    CSV,
    NO_KERNELS,
    PERMISSION,
    SOURCE_AS_TEXT,
    TEXT,
    TRACEBACK,
    Header,
    Lines,
    Skipped,
    encoding_of,
    head_text,
    header_of,
    is_binary,
    prefix_of,
)
from traceroof.parsers.nsight.launches import Launches
from traceroof.parsers.nsight.page import Page, begins_page
from traceroof.parsers.nsight.recording import recording
from traceroof.parsers.nsight.source import SourcePages
from traceroof.parsers.nsight.unmeasured import PERMISSION_HINT


def read_log(source: Path, progress: Progress, options: Options) -> Recording:
    """Read every table and page of a file. Raises TraceroofError where none has a launch."""
    size = source.stat().st_size if source.is_file() else 0
    with open_inflated(source, options) as stream:
        head = stream.peek(HEAD_BYTES)
        _refuse_other_kinds(source, head)
        text = io.TextIOWrapper(stream, encoding=encoding_of(head), errors="replace")
        lines = Lines(text, lambda: progress(stream.consumed, size), prefix_of(head))
        log = _Log(quoted=_is_quoted(head))
        log.read(lines)
        notes = (*stream.notes, *log.skipped.notes(lines.replaced))
    launches = log.launches
    if not launches.found or (log.is_source_text and not log.kinds):
        raise _why_nothing(source, log)
    if not log.kinds and not any(launch.name for launch in launches.found):
        launches.note("the text does not name its kernels", severe=False)
    progress(size, size)
    format = f"{CSV}+{TEXT}" if log.kinds and log.is_page else CSV if log.kinds else TEXT
    return recording(launches, str(source), format, notes, log.skipped.reason, log.skipped.gpus)


def _is_quoted(head: bytes) -> bool:
    """Whether every line stands behind quotation marks, as in a mail or a comment."""
    lines = [line for line in head_text(head).splitlines() if line.strip()]
    return sum(line.startswith(">") for line in lines) * 2 > len(lines)


@dataclass
class _Log:
    """What one pass over the lines of a file finds.

    kinds: the kinds of table that had a header. is_page: a line of the text page was seen.
    """

    quoted: bool = False
    launches: Launches = field(default_factory=Launches)
    skipped: Skipped = field(default_factory=Skipped)
    kinds: set[str] = field(default_factory=set)
    is_page: bool = False
    is_source_text: bool = False

    def __post_init__(self) -> None:
        self._sources = SourcePages(self.launches)

    def read(self, lines: Lines) -> None:
        """Read all tables and pages."""
        page = Page(self.quoted, self.launches, self.skipped)
        for line in lines:
            if self._sources.title(line):
                continue
            self.is_source_text = self.is_source_text or bool(SOURCE_AS_TEXT.match(line))
            header = header_of(line)
            # A sentence on a page may name two metrics; a table names its kernels, or their code.
            if header is None or (
                page.begun
                and header.kind != "source"
                and not {"kernel name", "id"} & header.at.keys()
            ):
                self.is_page = self.is_page or begins_page(line)
                page.read(line)
                continue
            page.end()
            page = Page(self.quoted, self.launches, self.skipped)
            self.skipped.line(header.before)
            self.kinds.add(header.kind)
            self._read_table(header, records(lines, header, self.skipped, begins_page))
        page.end()
        self._sources.close()

    def _read_table(self, header: Header, rows: Iterator[Row]) -> None:
        self.launches.spreadsheet |= header.spreadsheet
        if header.kind in ("long", "summary"):
            LongTable(header, self.launches, self.skipped).read(rows)
        elif header.kind == "wide":
            if not WideTable(header, self.launches, self.skipped).read(rows):
                self.kinds.add("pivot")
        elif header.kind == "source":
            self._sources.table(header, rows)
        else:
            for _ in rows:
                pass


# --- refusals ----------------------------------------------------------------------------------


def _refuse_other_kinds(path: Path, head: bytes) -> None:
    if head.startswith(b"NVR\0"):
        raise TraceroofError(f"{path} is a binary Nsight Compute report, not its CSV output")
    if is_binary(head):
        raise TraceroofError(
            f"{path} is a binary file, not Nsight Compute's CSV output",
            f"print the report as CSV: ncu --import REPORT --csv --page raw > {path.stem}.csv",
        )
    if head_text(head).lstrip()[:15].lower().startswith(("<!doctype html", "<html")):
        raise TraceroofError(
            f"{path} is a web page (HTML), not Nsight Compute's output",
            "download the file itself, for example by the raw link of its page",
        )


def _why_nothing(path: Path, log: _Log) -> TraceroofError:
    """Why a file gave no launch, in one sentence."""
    return _why_no_row(path, log) or _why_no_table(path, log.skipped)


def _why_no_row(path: Path, log: _Log) -> TraceroofError | None:
    """Why the tables and pages of a file hold no launch; None where it has none that says so."""
    if "pivot" in log.kinds:
        return TraceroofError(
            f"{path} is a pivot table that another program made of Nsight Compute metrics: it has "
            "lost their units or the names of the kernels",
            "read the CSV that ncu itself printed",
        )
    if log.is_source_text:
        return TraceroofError(
            f"{path} is Nsight Compute's source page as text, whose columns are cut for people to read",
            "print it as CSV: ncu --import REPORT --page source --print-source cuda,sass --csv",
        )
    if "source" in log.kinds:
        return TraceroofError(
            f"{path} is a source page of Nsight Compute without samples or counts per instruction",
            f"profile with --section SourceCounters; or collect the raw page: {COLLECT}",
        )
    skipped = log.skipped
    has_reason = skipped.exception or skipped.reason or PERMISSION in skipped.signs
    if log.kinds and not has_reason:
        return TraceroofError(
            f"{path} has the header of an Nsight Compute table and no complete row below it",
            "the profiler may have been stopped: profile again",
        )
    return None


def _why_no_table(path: Path, skipped: Skipped) -> TraceroofError:
    """What the lines of a file without a table say, from the plainest to a guess."""
    if PERMISSION in skipped.signs:
        return TraceroofError(
            f"{path} holds no table: Nsight Compute was not permitted to read performance counters "
            "(ERR_NVGPUCTRPERM)",
            PERMISSION_HINT,
        )
    # What the log itself says comes before any guess.
    if skipped.exception:
        return TraceroofError(
            f"{path} holds no table: the program ended with {skipped.exception!r}",
            "let the program run through without the profiler first",
        )
    if skipped.reason:
        return TraceroofError(
            f"{path} holds no table: Nsight Compute reports {skipped.reason!r}",
            "solve that and profile again",
        )
    if NO_KERNELS in skipped.signs:
        return TraceroofError(
            f"{path} holds no table: Nsight Compute says that no kernels were profiled",
            "check --kernel-name, --launch-skip and --nvtx-include, and add --target-processes all "
            "where a launcher starts the program",
        )
    if skipped.report:
        return TraceroofError(
            f"{path} holds no table: its measurements went into the report {skipped.report}",
            "read that report",
        )
    if TRACEBACK in skipped.signs:
        return TraceroofError(
            f"{path} holds a Python traceback and no table of Nsight Compute",
            "let the program run through without the profiler first",
        )
    return TraceroofError(
        f"{path} holds no table and no launch of Nsight Compute", f"make one with: {COLLECT}"
    )
