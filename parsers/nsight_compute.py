"""Nsight Compute's CSV output: details, raw, summary and source pages, and logs that hold them.

``ncu --csv`` prints a row per metric (details), a column per metric (raw), or figures per kernel
(``--print-summary``); which columns there are depends on the version and on the options, so they
are found by their titles. Everything else in the file is program output and is skipped.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np

from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options, Progress
from traceroof.parsers import nsight_compute_text
from traceroof.parsers.nsight.launches import PERMISSION_HINT, Launch, Launches
from traceroof.parsers.nsight.numbers import DecimalSign, number, whole
from traceroof.parsers.nsight.source import kernel_line, read_source_table
from traceroof.parsers.nsight.tables import (
    NO_KERNELS,
    PERMISSION,
    PROGRESS,
    TRACEBACK,
    Header,
    Lines,
    Skipped,
    encoding_of,
    head_text,
    header_of,
    is_binary,
    is_metric_title,
    nvtx_path,
    records,
    title_parts,
)

FORMAT = "nsight-compute-csv"
_COLLECT = "ncu --set full --csv --page raw --log-file kernels.csv ./program"

Row = Sequence[str]


class _NsightComputeCsv:
    """The parser of Nsight Compute's CSV pages."""

    name = FORMAT
    title = "Nsight Compute: CSV pages (details, raw, summary, source), also inside a log"
    gives = "one row per profiled launch: utilisation, traffic, occupancy, stalls, verdicts"
    collect = _COLLECT

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head or is_binary(head):
            return 0
        text = head_text(head)
        kinds = {header.kind for line in text.splitlines() if (header := header_of(line))}
        if kinds - {"pivot"}:
            return 2
        if kinds:
            return 1
        if nsight_compute_text.PARSER.recognises(head, path):
            return 0
        # The table may start after more program output than we were shown.
        return 1 if PROGRESS in text or PERMISSION in text else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        size = source.stat().st_size if source.is_file() else 0
        with open_inflated(source, options) as stream:
            head = stream.peek(1 << 12)
            _refuse_other_kinds(source, head)
            text = io.TextIOWrapper(stream, encoding=encoding_of(head), errors="replace")
            lines = Lines(text, lambda: progress(stream.consumed, size))
            reading = _Reading()
            reading.read(lines)
            notes = (*stream.notes, *reading.skipped.notes(lines.replaced))
        if not reading.launches.found:
            if reading.is_page and not reading.kinds:
                return nsight_compute_text.PARSER.read(source, progress, options)
            raise _why_nothing(source, reading)
        progress(size, size)
        return reading.launches.recording(str(source), FORMAT, notes)


PARSER = _NsightComputeCsv()


@dataclass
class _Reading:
    """What one pass over the lines of a file finds.

    kinds: the kinds of table that had a header. is_page: a line of the text page was seen.
    """

    launches: Launches = field(default_factory=Launches)
    skipped: Skipped = field(default_factory=Skipped)
    kinds: set[str] = field(default_factory=set)
    is_page: bool = False
    _kernel: str = ""

    def read(self, lines: Lines) -> None:
        """Read all tables."""
        for line in lines:
            header = header_of(line)
            if header is None:
                self._kernel = kernel_line(line) or self._kernel
                self.is_page = self.is_page or nsight_compute_text.is_page_line(line)
                self.skipped.line(line)
                continue
            self.skipped.line(header.before)
            self.kinds.add(header.kind)
            self._read_table(header, records(lines, header, self.skipped))

    def _read_table(self, header: Header, rows: Iterator[Row]) -> None:
        self.launches.spreadsheet |= header.spreadsheet
        if header.kind in ("long", "summary"):
            _LongTable(header, self.launches, self.skipped).read(rows)
        elif header.kind == "wide":
            if not _WideTable(header, self.launches, self.skipped).read(rows):
                self.kinds.add("pivot")
        elif header.kind == "source":
            self._kernel = read_source_table(header, rows, self._kernel, self.launches)
        else:
            for _ in rows:
                pass


# --- identity ----------------------------------------------------------------------------------

# Field of Launch -> the column that gives it.
_IDENTITY = {
    "name": "kernel name",
    "process_id": "process id",
    "process_name": "process name",
    "launch_id": "id",
    "context": "context",
    "stream": "stream",
    "device": "device",
    "compute_capability": "cc",
    "grid": "grid size",
    "block": "block size",
    "launches": "invocations",
}


@dataclass
class _Identity:
    """Reads what a row says about its launch."""

    header: Header

    def __post_init__(self) -> None:
        at = self.header.at
        self._fields = [(name, at[title]) for name, title in _IDENTITY.items() if title in at]
        self._ranges = self.header.ranges
        self.numbered = "id" in at

    @property
    def positions(self) -> list[int]:
        """The columns that tell one launch from another."""
        at = self.header.at
        if self.numbered:
            return [at[title] for title in ("id", "process id", "kernel name") if title in at]
        return sorted({position for _, position in self._fields} | set(self._ranges))

    def launch(self, row: Row) -> Launch | None:
        """The launch that a row belongs to; None where the row is none of a table."""
        values = {name: row[position] for name, position in self._fields if position < len(row)}
        if self.numbered and whole(values.get("launch_id")) is None:
            return None
        paths = [nvtx_path(row[position]) for position in self._ranges if position < len(row)]
        if not values.get("name") and "kernel name" not in self.header.at:
            values["name"] = self._name_of_many(values, paths)
        return Launch(
            **values,
            range=" > ".join(path for path in paths if path),
            runs=not self.numbered and self.header.kind == "long",
        )

    def _name_of_many(self, values: dict[str, str], paths: list[str]) -> str:
        """A name for the rows of a summary that is not per kernel."""
        if self.header.kind != "summary":
            return ""
        if any(paths):
            return f"(all kernels in {next(path for path in paths if path)})"
        return f"(all kernels of device {values.get('device') or 'unknown'})"


# --- details and summary pages -----------------------------------------------------------------


@dataclass
class _LongTable:
    """A table with a row per metric of a launch, or per metric of a kernel (summary)."""

    header: Header
    launches: Launches
    skipped: Skipped

    def __post_init__(self) -> None:
        at = self.header.at
        self._identity = _Identity(self.header)
        self._metric = at["metric name"]
        self._section = at.get("section name")
        self._body = at.get("body item label")
        self._unit = at.get("metric unit")
        if self.header.kind == "summary":
            statistics = ("minimum", "maximum")
            self._figures = [(at["average"], "")]
            self._figures += [(at[name], name) for name in statistics if name in at]
        else:
            self._figures = [(at["metric value"], "")]

    def read(self, rows: Iterator[Row]) -> None:
        """Read all rows."""
        metric, figure = self._metric, self._figures[0][0]
        single = len(self._figures) == 1
        add = self.launches.add_metric
        slots: dict[tuple[str, ...], int] = {}
        kind_of = _picker(self._kind_positions)
        for launch, row in self._placed(rows):
            if not row[metric].strip():
                self._read_rule(launch, row)
            elif single:
                kind = kind_of(row)
                slot = slots.get(kind)
                if slot is None:
                    slot = slots[kind] = self._slot(row, "")
                add(launch, slot, row[figure])
            else:
                for position, statistic in self._figures:
                    add(launch, self._slot(row, statistic), _cell(row, position))

    @property
    def _kind_positions(self) -> list[int]:
        """The columns that say what a row measures."""
        columns = (self._section, self._body, self._metric, self._unit)
        return [position for position in columns if position is not None]

    def _placed(self, rows: Iterator[Row]) -> Iterator[tuple[int, Row]]:
        """The complete rows, each with the number of its launch."""
        identity = self._identity.positions
        # Cells that every row has: only those of rules may be missing.
        needed = max(self._figures[0][0], *identity, *self._kind_positions) + 1
        key_of = _picker(identity)
        numbers: dict[Any, int | None] = {}
        last_key: Any = None
        launch: int | None = None
        for row in rows:
            if len(row) < needed:
                self._leave_out(row)
                continue
            key = key_of(row)
            if key != last_key:
                last_key = key
                if key not in numbers:
                    found = self._identity.launch(row)
                    numbers[key] = None if found is None else self.launches.add_launch(found)
                launch = numbers[key]
            if launch is None:
                self._leave_out(row)
            else:
                yield launch, row

    def _slot(self, row: Row, statistic: str) -> int:
        return self.launches.slot(
            _cell(row, self._section),
            _cell(row, self._body),
            row[self._metric],
            _cell(row, self._unit),
            statistic,
        )

    def _leave_out(self, row: Row) -> None:
        """A row that is none of the table: cut off, or program output that begins like one."""
        if len(row) >= 5:
            self.skipped.broken += 1
        else:
            self.skipped.line(" ".join(row))

    def _read_rule(self, launch: int, row: Row) -> None:
        at = self.header.at

        def cell(title: str) -> str:
            return _cell(row, at.get(title)).strip()

        text, level = cell("rule description"), cell("rule type")
        if text or level or cell("rule name"):
            scope = cell("estimated speedup type").lower()
            self.launches.add_verdict(
                launch,
                _cell(row, self._section).strip(),
                cell("rule name"),
                level,
                text,
                scope,
                cell("estimated speedup"),
            )
            if level == "ERR":
                self.launches.note("rules that failed in the profiler (ERR)", severe=False)
        else:
            self.launches.note("rows that name neither a metric nor a rule", severe=False)


def _cell(row: Row, position: int | None) -> str:
    return row[position] if position is not None and position < len(row) else ""


def _picker(positions: Sequence[int]) -> Callable[[Row], Any]:
    """The cells at these positions, as something to compare."""
    return itemgetter(*positions) if positions else lambda row: ()


# --- raw page ----------------------------------------------------------------------------------


@dataclass
class _WideTable:
    """A table with a column per metric; the row below its titles holds the units."""

    header: Header
    launches: Launches
    skipped: Skipped

    def read(self, rows: Iterator[Row]) -> bool:
        """Read all rows; False, and nothing read, when the table has no units."""
        identity = _Identity(self.header)
        metrics = self._metrics()
        first = next(rows, None)
        if first is None:
            return True
        units = self._units(first, identity, metrics)
        if units is None:
            if not all(title_parts(self.header.cells[position])[1] for position, _ in metrics):
                for _ in rows:
                    pass
                return False
            units = [title_parts(self.header.cells[position])[1] or "" for position, _ in metrics]
            self._read_row(first, identity, self._slots(metrics, units))
        slots = self._slots(metrics, units)
        for row in rows:
            self._read_row(row, identity, slots)
        if "kernel name" not in self.header.at:
            self.launches.note("the file does not name its kernels", severe=False)
        return True

    def _metrics(self) -> list[tuple[int, str]]:
        """Position and name of the metric columns: all that say nothing about the launch."""
        known = set(_IDENTITY.values()) | {"host name", "kernel time", ""}
        ranges = set(self.header.ranges)
        return [
            (position, title_parts(cell)[0])
            for position, cell in enumerate(self.header.cells)
            if cell.lower() not in known and position not in ranges and not _is_index(cell)
        ]

    def _units(
        self, row: Row, identity: _Identity, metrics: Sequence[tuple[int, str]]
    ) -> list[str] | None:
        """The units, if this is the row of units; None if it is a launch."""
        if identity.numbered and _cell(row, self.header.at["id"]).strip():
            return None
        cells = [_cell(row, position).strip() for position, _ in metrics]
        numeric = [
            cell
            for cell in cells
            if not np.isnan(number(cell, DecimalSign.POINT))
            or not np.isnan(number(cell, DecimalSign.COMMA))
        ]
        return None if numeric or not (identity.numbered or any(cells)) else cells

    def _slots(
        self, metrics: Sequence[tuple[int, str]], units: Sequence[str]
    ) -> list[tuple[int, int]]:
        return [
            (position, self.launches.slot("", "", name, unit))
            for (position, name), unit in zip(metrics, units, strict=True)
        ]

    def _read_row(self, row: Row, identity: _Identity, slots: Sequence[tuple[int, int]]) -> None:
        launch = identity.launch(row) if any(cell.strip() for cell in row) else None
        if launch is None or len(row) < 2:
            if any(cell.strip() for cell in row):
                self.skipped.broken += 1
            return
        if len(row) < slots[-1][0] + 1:
            self.skipped.broken += 1
        number_of_launch = self.launches.add_launch(launch)
        for position, slot in slots:
            if position < len(row) and (text := row[position]):
                self.launches.add_metric(number_of_launch, slot, text)


def _is_index(cell: str) -> bool:
    """Whether a column holds the row numbers that pandas adds when it saves a table."""
    return not is_metric_title(cell) and (not cell or cell.startswith("Unnamed:"))


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


def _why_nothing(path: Path, reading: _Reading) -> TraceroofError:
    """Why a file gave no launch, in one sentence."""
    skipped = reading.skipped
    if "pivot" in reading.kinds:
        return TraceroofError(
            f"{path} is a pivot table that another program made of Nsight Compute metrics: it has "
            "lost their units or the names of the kernels",
            "read the CSV that ncu itself printed",
        )
    if "source" in reading.kinds:
        return TraceroofError(
            f"{path} is a source page of Nsight Compute without samples per stall reason",
            f"collect the raw page: {_COLLECT}",
        )
    if reading.kinds:
        return TraceroofError(
            f"{path} has the header of an Nsight Compute table and no complete row below it",
            "the profiler may have been stopped: profile again",
        )
    if PERMISSION in skipped.signs:
        return TraceroofError(
            f"{path} holds no table: Nsight Compute was not permitted to read performance counters "
            "(ERR_NVGPUCTRPERM)",
            PERMISSION_HINT,
        )
    if NO_KERNELS in skipped.signs:
        return TraceroofError(
            f"{path} holds no table: Nsight Compute says that no kernels were profiled",
            "check --kernel-name, --launch-skip and --nvtx-include, and add --target-processes all "
            "where a launcher starts the program",
        )
    if skipped.errors:
        return TraceroofError(
            f"{path} holds no table: the profiler ended with the error "
            f"{next(iter(skipped.errors))!r}",
            "solve that and profile again",
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
    return TraceroofError(f"{path} holds no table of Nsight Compute", f"make one with: {_COLLECT}")
