"""The table that ``rocprofv3 --summary`` (-S) prints: one row per kernel, copy or call of a domain.

Every domain may have a table of its own, and one holds all of them: a row counts once.
"""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Final

import pyarrow as pa

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options
from traceroof.parsers.amd.kinds import PRINTED_TITLES
from traceroof.parsers.amd.text import TextTable

_NS: Final = {"nsec": 1, "usec": 10**3, "msec": 10**6, "sec": 10**9}
# The printed mean has four digits: total and calls know it better.
_HEADER: Final = ("Name", "Calls", "TotalDurationNs", "Percentage", "MinNs", "MaxNs", "StdDev")
# Behind the name, which may hold anything, are the domain and seven numbers.
_CELLS: Final = 9
# Ranges that the program names itself are no work of the GPU.
_RANGES: Final = regex.compile(r"MARKER\w*")


def read_printed(path: Path, options: Options) -> TextTable:
    """All such tables of a text as one in the columns of ``*_kernel_stats.csv``, times in ns."""
    with open_inflated(path, options) as file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    rows: dict[tuple[str, str], tuple[str, ...]] = {}
    broken = ranges = 0
    for unit, cells in _rows(lines):
        if cells is None:
            broken += 1
            continue
        name, domain, calls, total, _, share, least, most, spread = cells
        if _RANGES.fullmatch(domain):
            ranges += 1
            continue
        total, least, most, spread = (_in_ns(one, unit) for one in (total, least, most, spread))
        rows.setdefault((domain, name), (name, calls, total, share, least, most, spread))
    notes = [
        Note(text, count, severe)
        for text, count, severe in (
            ("lines of a printed summary with another number of cells, left out", broken, True),
            ("rows of named ranges, left out", ranges, False),
        )
        if count
    ]
    columns = zip(*rows.values(), strict=True) if rows else [()] * len(_HEADER)
    cells_of = [pa.chunked_array([pa.array(column, pa.string())]) for column in columns]
    return TextTable(path, _HEADER, cells_of, notes)


def _rows(lines: list[str]) -> Iterator[tuple[int, tuple[str, ...] | None]]:
    """The rows below each header with the unit of its times; None for one that is broken."""
    unit = 0
    for line in lines:
        if found := PRINTED_TITLES.search(line):
            unit = _NS[found["unit"]]
            continue
        start = line.find("|")
        if not unit or start < 0:
            unit = 0
            continue
        inner = line[start + 1 :].rstrip().removesuffix("|")
        if not inner.strip("-| "):
            continue
        cells = tuple(cell.strip() for cell in inner.rsplit("|", _CELLS - 1))
        yield unit, cells if len(cells) == _CELLS else None


def _in_ns(cell: str, unit: int) -> str:
    """A time in ns as text; what is no number stays for others to count."""
    try:
        return f"{Decimal(cell) * unit:f}"
    except InvalidOperation:
        return cell
