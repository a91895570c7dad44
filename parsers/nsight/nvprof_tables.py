"""The tables in what nvprof printed, as CSV or as text: header, units, rows of cells.

nvprof writes its own lines as ``==PID== …``; the program's output may stand between them.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from traceroof.core import regex

#: Kinds of table, each with the header cells that tell it.
KINDS: tuple[tuple[str, frozenset[str]], ...] = (
    ("launch-metrics", frozenset({"Device", "Context", "Stream", "Kernel"})),
    ("metrics", frozenset({"Device", "Kernel", "Invocations", "Metric Name"})),
    ("events", frozenset({"Device", "Kernel", "Invocations", "Event Name"})),
    ("trace", frozenset({"Start", "Duration", "Name"})),
    ("summary", frozenset({"Time(%)", "Calls", "Avg", "Name"})),
    ("migrations", frozenset({"Count", "Total Size", "Total Time", "Name"})),
)
_OWN_LINE = regex.compile(r"==\d+==\s*(.*)")
_UNIT = regex.compile(r"(?:|%|[num]?s|[KMGT]?B(?:/s)?)")
_DEVICE = regex.compile(r'Device "(?P<name>.*)"')
_KERNEL = regex.compile(r"\s*Kernel: (?P<name>.*)")
_TEXT_METRICS = regex.compile(r"Invocations\s+(?P<kind>Metric|Event) Name\b.*\bMax\b.*")
_CELLS = regex.compile(r"\s{2,}")


@dataclass
class Table:
    """One table. ``units`` is empty where every cell carries its own."""

    kind: str
    header: tuple[str, ...]
    units: tuple[str, ...] = ()
    rows: list[list[str]] = field(default_factory=list)
    broken: int = 0


def kind_of(header: Iterable[str]) -> str | None:
    """Which table a header starts; None for any other line."""
    cells = {cell.strip() for cell in header}
    return next((kind for kind, signs in KINDS if signs <= cells), None)


def own_lines(text: str) -> list[str]:
    """What nvprof itself said, without its ``==PID==``."""
    return [found[1] for line in text.splitlines() if (found := _OWN_LINE.match(line))]


def tables(text: str) -> list[Table]:
    """Every table in the text, in order."""
    found: list[Table] = []
    device = ""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith('"') or _bare_header(line):
            titles = tuple(cell.strip() for cell in _cells(line))
            kind = kind_of(titles)
            if kind is not None:
                found.append(_csv_table(kind, titles, lines))
        elif _TEXT_METRICS.match(line.strip()):
            found.append(_text_metrics(line, lines))
        elif (header := _text_header(line)) is not None:
            found.append(_text_table(header, lines))
            if found[-1].kind == "migrations":
                found[-1] = _on_device(found[-1], device)
        elif named := _DEVICE.match(line.strip()):
            device = named["name"]
    return found


def _on_device(table: Table, device: str) -> Table:
    """The table with the GPU in a column, as the CSV has it: in text it stands on a line above."""
    rows = [[device, *row] for row in table.rows]
    return Table(table.kind, ("Device", *table.header), (), rows, table.broken)


def _bare_header(line: str) -> bool:
    return line.startswith(("Start,Duration", "Device,", "Type,Time(%)", "Time(%),"))


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _csv_table(kind: str, header: tuple[str, ...], lines: Iterator[str]) -> Table:
    table = Table(kind, header)
    for line in lines:
        if not line.strip() or _OWN_LINE.match(line):
            break
        cells = _cells(line)
        if not table.rows and not table.units and _is_units(cells, len(header)):
            table.units = tuple(cell.strip() for cell in cells)
        elif len(cells) == len(header):
            table.rows.append(cells)
        else:
            table.broken += 1
    return table


def _is_units(cells: Sequence[str], width: int) -> bool:
    known = [cell.strip() for cell in cells]
    return len(known) == width and any(known) and all(_UNIT.fullmatch(cell) for cell in known)


# Titles of the columns of text tables: two words that belong together stand one blank apart.
_TITLES = {"Start", "Time(%)", "Type", "Count"}
# What ends the table of unified memory.
_FAULTS = "Total CPU Page faults"


def _text_header(line: str) -> tuple[str, ...] | None:
    cells = tuple(_CELLS.split(line.strip()))
    if len(cells) < 4 or cells[0] not in _TITLES or cells[-1] != "Name":
        return None
    return cells if kind_of(cells) else None


def _text_table(header: tuple[str, ...], lines: Iterator[str]) -> Table:
    """A table whose cells stand two blanks or more apart; the first of a summary may be empty."""
    table = Table(kind_of(header) or "trace", header)
    for row in lines:
        if not row.strip() or _OWN_LINE.match(row) or row.startswith(_FAULTS):
            break
        cells = _CELLS.split(row.strip(), maxsplit=len(header) - 1)
        if header[0] == "Type" and not cells[0].endswith(":"):
            cells = ["", *_CELLS.split(row.strip(), maxsplit=len(header) - 2)]
        if len(cells) == len(header):
            table.rows.append(cells)
        else:
            table.broken += 1
    return table


def _text_metrics(line: str, lines: Iterator[str]) -> Table:
    """Metrics by kernel, as the CSV has them: the device and kernel stand on lines above."""
    what = "Metric" if "Metric Name" in line else "Event"
    titles = ["Metric Name", "Metric Description", "Min", "Max", "Avg"]
    if what == "Event":
        titles = ["Event Name", "Min", "Max", "Avg", *(["Total"] if "Total" in line else [])]
    table = Table(f"{what.lower()}s", ("Device", "Kernel", "Invocations", *titles))
    device = kernel = ""
    for row in lines:
        if not row.strip() or _OWN_LINE.match(row):
            break
        if found := _DEVICE.match(row):
            device = found["name"]
        elif found := _KERNEL.match(row):
            kernel = found["name"]
        else:
            cells = _CELLS.split(row.strip())
            if len(cells) == len(titles) + 1:
                table.rows.append([device, kernel, *cells])
            else:
                table.broken += 1
    return table
