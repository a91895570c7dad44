"""Comma-separated tables as AMD's tools write them: read fast, and repaired where they are broken.

rocprofv3 does not escape a quotation mark inside a name, tools print lines between the rows,
files are concatenated with their headers, and the last line of a killed run is cut. Every cell
stays text here; numbers are taken out by ``integers``, ``reals`` and ``times``.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import HEAD_BYTES, Options, Progress
from traceroof.parsers.amd.kinds import (
    Layout,
    cells_of,
    layout,
    squash,
)
from traceroof.parsers.amd.locale import FREE_TEXT, in_plain_numbers
from traceroof.parsers.amd.values import Integers, Mask, Reals, integers, reals

# Rows are parsed in blocks, so that one broken line costs one block the slow way.
_BLOCK_BYTES = 8 << 20
# No table has lines this long (2,718 columns take 60 KB); what does is no table.
_LONGEST_LINE = 4 << 20
_MOST_COLUMNS = 20_000
_NUMERIC = regex.compile(
    r"\s*\"?(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?|0x[0-9a-fA-F]+)\"?\s*"
)


@dataclass
class TextTable:
    """The cells of one file as text.

    path: the file. header: column names as written. names: the same, squashed. cells: one Arrow
    array of text a column, in the order of the header.
    """

    path: Path
    header: tuple[str, ...]
    cells: list[pa.ChunkedArray]
    notes: list[Note] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = tuple(squash(name) for name in self.header)
        # The first column of a name counts: repeats are leftovers of a join.
        self._place: dict[str, int] = {}
        for place, name in enumerate(self.names):
            self._place.setdefault(name, place)

    @property
    def num_rows(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def has(self, name: str) -> bool:
        """Whether there is a column of this squashed name."""
        return name in self._place

    def text(self, *names: str) -> pa.ChunkedArray | None:
        """The first of these columns (squashed names) that the file has, as text."""
        for name in names:
            if name in self._place:
                return self.cells[self._place[name]]
        return None

    def integers(self, *names: str) -> pa.Array | None:
        """The first of these columns as int64, null where it holds no whole number."""
        column = self.text(*names)
        return None if column is None else integers(column)

    def reals(self, *names: str) -> Reals | None:
        """The first of these columns as float64, NaN where it holds no finite number."""
        column = self.text(*names)
        return None if column is None else reals(column)

    def take(self, rows: Integers | Mask) -> "TextTable":
        """The same table with only these rows."""
        picked = rows if rows.dtype != bool else np.flatnonzero(rows)
        indices = pa.array(picked)
        cells = [one.take(indices) for one in self.cells]
        return TextTable(self.path, self.header, cells, list(self.notes))


def read_table(path: Path, options: Options, progress: Progress) -> TextTable:
    """Read the AMD table in a file. Raises TraceroofError when it holds none."""
    with open_inflated(path, options) as stream:
        head = stream.read(HEAD_BYTES)
        found = layout(head)
        if found is None or not found.header:
            raise TraceroofError(f"{path} holds no table that an AMD profiler writes")
        size = max(path.stat().st_size, 1)
        source = io.BufferedReader(_Rest(head, stream))
        header = _skip(source, found)
        if len(header) > _MOST_COLUMNS:
            raise TraceroofError(
                f"{path} has a table of more than {_MOST_COLUMNS:,} columns, which no profiler writes",
                "export it again with the counters that you need",
            )
        reader = _Reader(header, found.delimiter)
        for block in _blocks(source):
            reader.add(block)
            progress(min(stream.consumed, size), size)
        table = reader.table(path)
        table.notes += stream.notes
        return table


class _Rest(io.RawIOBase):
    """A stream that begins with bytes which were already read from it."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = memoryview(head)
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        data = self._stream.read(len(view))
        view[: len(data)] = data
        return len(data)


def _skip(source: BinaryIO, found: Layout) -> tuple[str, ...]:
    """Go behind the header; the header itself, complete (the head may have ended inside it)."""
    line = b""
    for _ in range(found.skip):
        line = source.readline(_LONGEST_LINE)
    if found.kind.name == "V1_BARE":
        return found.header
    text = line.decode("utf-8", "replace").removeprefix("\ufeff")
    return tuple(cells_of(text, found.delimiter))


def _blocks(source: BinaryIO) -> Iterator[bytes]:
    """The rest of the stream in blocks of whole lines."""
    pending = b""
    while data := source.read(_BLOCK_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut == 0:
            pending += data
            if len(pending) > _BLOCK_BYTES:
                # One line longer than a block is no row: give it up, keep what follows.
                pending = pending[-1:]
            continue
        yield pending + data[:cut]
        pending = data[cut:]
    if pending.strip():
        yield pending


class _Reader:
    """Turns blocks of lines into text columns."""

    def __init__(self, header: tuple[str, ...], delimiter: str) -> None:
        self.header = header
        self.delimiter = delimiter
        names = [squash(name) for name in header]
        self.free = next((place for place, name in enumerate(names) if name in FREE_TEXT), None)
        self.columns: list[list[pa.Array]] = [[] for _ in header]
        self.header_rows = 0
        self.broken = 0
        self.repaired = 0
        self.unquoted = 0

    def add(self, block: bytes) -> None:
        parts = self._fast(block)
        if parts is None:
            parts = self._slow(block)
        if parts and len(parts[0]):
            for column, part in zip(self.columns, parts, strict=True):
                column.append(part)

    def _fast(self, block: bytes) -> list[pa.Array] | None:
        """The columns by Arrow; None when a line is not as it should be."""
        import pyarrow.csv as pa_csv

        names = [str(place) for place in range(len(self.header))]
        broken: list[int] = []

        def refuse(row: pa_csv.InvalidRow) -> str:
            broken.append(row.actual_columns)
            return "skip"

        try:
            # Arrow cannot show a broken row that is no UTF-8.
            block.decode()
            found = pa_csv.read_csv(
                pa.BufferReader(block),
                read_options=pa_csv.ReadOptions(
                    column_names=names, block_size=len(block) + 1, use_threads=False
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self.delimiter, invalid_row_handler=refuse
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    strings_can_be_null=False,
                ),
            )
        except (UnicodeDecodeError, pa.ArrowInvalid):
            return None
        if broken:
            return None
        parts = [column.combine_chunks() for column in found.columns]
        # A quotation mark that survived shows an unescaped one, a line break an unclosed one; a
        # cell like its column's name is the header of a file that was appended.
        for place, part in enumerate(parts):
            suspect = (
                place == self.free
                and pc.any(pc.match_substring_regex(part, '["\n]'), min_count=0).as_py()
            )
            if suspect or (place == 0 and self._header_in(part, place)):
                return None
        return parts

    def _header_in(self, part: pa.Array, place: int) -> bool:
        return bool(pc.any(pc.equal(part, self.header[place]), min_count=0).as_py())

    def _slow(self, block: bytes) -> list[pa.Array]:
        rows: list[list[str]] = []
        for line in block.decode("utf-8", "replace").split("\n"):
            line = line.rstrip("\r")
            if not line.strip():
                continue
            cells = self._cells(line)
            if cells is None:
                self.broken += 1
            elif tuple(cells) == self.header:
                self.header_rows += 1
            else:
                rows.append(cells)
        return [
            pa.array([row[place] for row in rows], pa.string()) for place in range(len(self.header))
        ]

    def _cells(self, line: str) -> list[str] | None:
        """The cells of one line; None when it is no row."""
        count = len(self.header)
        try:
            cells = next(csv.reader([line], delimiter=self.delimiter, strict=True), [])
            if len(cells) == count:
                return cells
        except csv.Error:
            pass
        # The number of cells before and after the name is known: what is between is the name.
        parts = line.split(self.delimiter)
        if self.free is None or len(parts) < count:
            return None
        after = count - self.free - 1
        name = self.delimiter.join(parts[self.free : len(parts) - after])
        cells = [*parts[: self.free], name, *parts[len(parts) - after :]]
        if not name.startswith('"') or not name.endswith('"') or len(name) < 2:
            # A name that was not quoted: the numbers behind it say where it ends.
            if '"' in name or not after or not all(map(_NUMERIC.fullmatch, parts[-after:])):
                return None
            self.unquoted += 1
            return [_unquoted(cell) for cell in cells]
        self.repaired += 1
        return [_unquoted(cell) for cell in cells]

    def table(self, path: Path) -> TextTable:
        notes: list[Note] = []
        cells = in_plain_numbers(
            [squash(name) for name in self.header],
            [pa.chunked_array(parts, pa.string()) for parts in self.columns],
            notes,
        )
        if self.broken:
            notes.append(Note("lines that are not rows of the table were skipped", self.broken))
        if self.repaired:
            text = "kernel names with unescaped quotation marks were repaired"
            notes.append(Note(text, self.repaired, severe=False))
        if self.unquoted:
            text = "kernel names with commas and without quotation marks were joined"
            notes.append(Note(text, self.unquoted, severe=False))
        if self.header_rows:
            notes.append(Note("repeated header rows were skipped", self.header_rows, False))
        return TextTable(path, self.header, cells, notes)


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == '"' else cell
