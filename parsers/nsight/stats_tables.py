"""The tables in what ``nsys stats`` prints: CSV, TSV, columns, and boxes.

Around the tables stand lines of the tool itself (``NOTICE:``, ``Processing [...]``, ``Generating``,
``SKIPPED:``). A header cell is a title and often a unit, which follows ``--timeunit``. Columns as
text and some locales group digits, and a locale may write a decimal comma: which of both a comma is
shows in the cells of the table.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Final

from traceroof.core import regex
from traceroof.core.locales import DecimalSign, plain, vote

_HEADER_CELL = regex.compile(r"(?P<title>.*?)\s*(?:\((?P<unit>[^()]*)\))?")
_RULER = regex.compile(r"\s*-{3,}(?:\s+-{3,})+\s*")
_BOX = regex.compile(r"[+|\s-]*-{3,}[+|\s-]*")
_SKIPPED = regex.compile(r"\s*SKIPPED: (?P<why>.*)")

#: Titles of older versions and of text columns, as the newest call them.
_TITLES: Final = {
    "Time(%)": "Time", "Time (%)": "Time", "Average": "Avg", "Minimum": "Min", "Maximum": "Max",
    "Calls": "Num Calls", "Duration (ns)": "Duration", "CorrID": "CorrId", "Operations": "Count",
}  # fmt: skip

_TIMES: Final = {
    "": 1, "ns": 1, "nsec": 1, "us": 10**3, "usec": 10**3, "μs": 10**3, "µs": 10**3, "ms": 10**6,
    "msec": 10**6, "s": 10**9, "sec": 10**9, "m": 60 * 10**9, "min": 60 * 10**9,
}  # fmt: skip
_SIZES: Final = {
    "B": 1, "b": 1, "byte": 1, "bytes": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10,
    "MiB": 1 << 20, "GiB": 1 << 30,
}  # fmt: skip

# Kinds of table by the columns that only they have, tried in this order.
_KINDS: Final = (
    ("trace", {"Start", "Duration", "CorrId"}),
    ("sizes", {"Total", "Count", "Operation"}),
    ("mixed", {"Total Time", "Instances", "Category", "Operation"}),
    ("copies", {"Total Time", "Operation"}),
    ("copies", {"Total Time", "Count", "Name"}),  # before 2021
    ("shapes", {"Total Time", "Instances", "GridXYZ", "Name"}),
    ("kernels", {"Total Time", "Instances", "Name"}),
    ("calls", {"Total Time", "Num Calls", "Name"}),
)


@dataclass(frozen=True)
class Table:
    """One table. kind: a key of the kinds, or "other". units: of each column, '' where none."""

    kind: str
    titles: tuple[str, ...]
    units: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    broken: int = 0

    def column(self, title: str) -> Sequence[str]:
        """The cells of a column; empty ones where the table does not have it."""
        if title not in self.titles:
            return [""] * len(self.rows)
        place = self.titles.index(title)
        return [row[place] for row in self.rows]

    def numbers(self, title: str) -> list[Decimal | None]:
        """The numbers of a column as they stand; None for an empty cell."""
        return [_number(cell, self.sign) for cell in self.column(title)]

    def times_ns(self, title: str) -> list[Decimal | None]:
        """A column of times in ns."""
        return self._scaled(title, _TIMES)

    def sizes(self, title: str) -> list[Decimal | None]:
        """A column of sizes in bytes."""
        return self._scaled(title, _SIZES)

    def unit(self, title: str) -> str:
        return self.units[self.titles.index(title)] if title in self.titles else ""

    def scale(self, title: str) -> int:
        """ns of one unit of a column of times; 1000 where it has none, or is in ns."""
        return max(_TIMES.get(self.unit(title), 1), 1000)

    def _scaled(self, title: str, scales: dict[str, int]) -> list[Decimal | None]:
        scale = scales.get(self.unit(title))
        if scale is None:
            return [None] * len(self.rows)
        return [None if one is None else one * scale for one in self.numbers(title)]

    @cached_property
    def sign(self) -> DecimalSign:
        """What begins decimals: one locale wrote the whole table."""
        return vote(self._separated(), spreadsheet=False).sign

    def _separated(self) -> Iterator[tuple[str, bool, bool]]:
        for title, unit in zip(self.titles, self.units, strict=True):
            whole = title in _WHOLE and _TIMES.get(unit) == 1
            if whole or title in _NUMBERS:
                for cell in self.column(title):
                    if "." in cell or "," in cell:
                        yield cell, whole, whole


@dataclass
class Printed:
    """What was printed. skipped: reports that the tool left out, with its reason."""

    tables: list[Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


# Counts, and times that are whole in ns; means and shares have decimals.
_WHOLE: Final = frozenset(
    {"Total Time", "Instances", "Min", "Max", "Count", "Num Calls", "Start", "Duration"}
)
_NUMBERS: Final = _WHOLE | {"Time", "Avg", "Med", "StdDev", "Total", "Bytes", "Throughput"}
_NUMBER = regex.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


def _number(cell: str, sign: DecimalSign) -> Decimal | None:
    if sign is DecimalSign.COMMA or not _NUMBER.fullmatch(cell):
        cell = plain(cell, sign)
    if not _NUMBER.fullmatch(cell) or len(cell) > 40:
        return None
    try:
        found = Decimal(cell)
    except InvalidOperation:
        return None
    # By its digits: to compare a number beyond what Decimal holds is an error.
    return found if found.adjusted() < 30 else None


def printed(text: str) -> Printed:
    """All tables in a text, in order."""
    found = Printed()
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        if skip := _SKIPPED.match(line):
            found.skipped.append(skip["why"])
            at += 1
            continue
        read = _delimited(lines, at) or _ruled(lines, at)
        if read is None:
            at += 1
            continue
        table, at = read
        if table is not None:
            found.tables.append(table)
    return found


def _delimited(lines: Sequence[str], at: int) -> tuple[Table | None, int] | None:
    """The CSV or TSV table whose header is this line; None where the line is no header."""
    line = lines[at]
    for delimiter in ",\t;":
        titles = next(csv.reader([line], delimiter=delimiter), [])
        if len(titles) < 3 or kind_of(_split(titles)[0]) is None:
            continue
        end = at + 1
        while end < len(lines) and lines[end].strip() and not _is_talk(lines[end]):
            end += 1
        rows = _records(lines[at + 1 : end], delimiter)
        return _table(titles, rows), end
    return None


def _records(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        try:
            yield next(reader)
        except StopIteration:
            return
        except csv.Error:  # a field longer than the module allows
            yield []


_TALK = regex.compile(
    r"(?:Processing|Generating|Exporting|Using) |NOTICE:|WARNING:|SKIPPED:|ERROR:"
)


def _is_talk(line: str) -> bool:
    return _TALK.match(line) is not None


def _ruled(lines: Sequence[str], at: int) -> tuple[Table | None, int] | None:
    """The table of text columns under this header: a line of dashes says where columns are."""
    if at + 1 >= len(lines):
        return None
    header, ruler = lines[at], lines[at + 1]
    if header.lstrip().startswith("|") and _BOX.fullmatch(ruler):
        return _boxed(lines, at)
    if not _RULER.fullmatch(ruler):
        return None
    bounds = _columns(ruler)
    titles = [header[low:high].strip() for low, high in bounds]
    end = at + 2
    rows = []
    while end < len(lines) and lines[end].strip():
        rows.append([lines[end][low:high].strip() for low, high in bounds])
        end += 1
    return (_table(titles, iter(rows)) if kind_of(_split(titles)[0]) else None), end


def _columns(ruler: str) -> list[tuple[int, int | None]]:
    """Where each column begins and ends. Cells are never wider than their dashes but the last."""
    starts = [found.start() for found in regex.compile(r"-+").finditer(ruler)]
    ends: list[int | None] = [*starts[1:], None]
    # A column begins where the one before it ended, so that a wide number is whole.
    return list(zip(starts, ends, strict=True))


def _boxed(lines: Sequence[str], at: int) -> tuple[Table | None, int]:
    def cells(line: str) -> list[str]:
        return [cell.strip() for cell in line.strip().strip("|").split("|")]

    titles = cells(lines[at])
    end = at + 1
    rows = []
    while end < len(lines) and (lines[end].lstrip().startswith(("|", "+"))):
        if not _BOX.fullmatch(lines[end]):
            rows.append(cells(lines[end]))
        end += 1
    return (_table(titles, iter(rows)) if kind_of(_split(titles)[0]) else None), end


def _split(titles: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Titles without their units, and the units."""
    names, units = [], []
    for title in titles:
        found = _HEADER_CELL.fullmatch(" ".join(title.split()))
        name, unit = (found["title"], found["unit"] or "") if found else (title, "")
        names.append(_TITLES.get(name, name))
        units.append(unit)
    return tuple(names), tuple(units)


def kind_of(titles: Sequence[str]) -> str | None:
    """The kind of table with these titles; None for what is no table of GPU work or CUDA calls."""
    given = set(titles)
    return next((kind for kind, signs in _KINDS if signs <= given), None)


def _table(header: Sequence[str], records: Iterator[list[str]]) -> Table:
    titles, units = _split(header)
    while titles and not titles[-1]:  # a comma at the end of every line
        titles, units = titles[:-1], units[:-1]
    rows: list[tuple[str, ...]] = []
    broken = 0
    for record in records:
        cells = [cell.strip() for cell in record]
        while len(cells) > len(titles) and not cells[-1]:
            cells.pop()
        if len(cells) > len(titles):
            # The name stands last and may hold commas without being quoted.
            last = len(titles) - 1
            cells = [*cells[:last], ",".join(record[last:]).strip(" ,")]
        if len(cells) < len(titles):
            broken += bool(cells)
            continue
        rows.append(tuple(cells))
    return Table(kind_of(titles) or "other", titles, units, tuple(rows), broken)
