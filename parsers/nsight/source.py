"""The source page of Nsight Compute as CSV (``--page source --csv``), all views of it.

``sass`` prints a row per instruction; ``cuda,sass`` a row per source line, which adds up what is
below it, and its instructions, once more under every file that they were inlined from; ``cuda`` and
``ptx`` print lines alone. One page may hold several kernels, one log several views of a kernel: of
a kernel the most detailed view is taken, and of it every instruction once.

The page has no durations. A kernel that the same log lists (raw, details) takes its lines; others
become launches of their own, with stall shares from the samples.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex
from traceroof.core.kernel_names import demangled, function
from traceroof.core.locales import DecimalSign, number
from traceroof.core.source_lines import COUNTS, SAMPLES_OF, source_table
from traceroof.parsers.nsight.csv_variants import Header, source_title
from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.source_metrics import (
    ALL_SAMPLES,
    ALL_STALLED,
    METRIC_OF,
    NOT_ISSUED,
    column_of_title,
)

_KERNEL, _FILES, _FUNCTION = "kernel name", ("file path", "file name"), "function name"
_LINE, _NUMBER = ("line no", "line"), "#"
#: How much a view tells, by whether it has instructions and lines.
_DETAIL = {(True, True): 3, (True, False): 2, (False, True): 1}
_ADDRESS = regex.compile(r"(?:0x)?[0-9a-fA-F]{1,16}")
_WORD = regex.compile(r"[A-Za-z]+")
# Statements and directives of PTX.
_PTX = regex.compile(
    r"\s*(?:\.(?:version|target|address_size|visible|extern|entry|func|reg|loc|file|param|pragma)\b"
    r"|(?:@!?%p\d{1,6}\s+)?[a-z]\w{0,30}(?:\.[\w:]{1,30}){1,12}\s+[%\[{][^=]{0,300};)"
)
_NONE = ("", "-", "n/a")


@dataclass(frozen=True)
class _Part:
    """One table of a kernel, n rows: columns of the source table, whether a row is an instruction."""

    columns: dict[str, list[Any]]
    is_instruction: list[bool]
    ptx: bool

    @property
    def detail(self) -> int:
        lines = any(one is not None for one in self.columns["line"])
        return _DETAIL.get((any(self.is_instruction), lines and not self.ptx), 0)


@dataclass
class _Kernel:
    """A kernel in one view: its name and its tables, those of several files."""

    name: str
    parts: list[_Part] = field(default_factory=list)
    seen: set[tuple[str, str]] = field(default_factory=set)

    @property
    def detail(self) -> int:
        return max((part.detail for part in self.parts), default=0)


@dataclass
class SourcePages:
    """The source pages of one log."""

    launches: Launches
    _titles: dict[str, str] = field(default_factory=dict)
    _kernels: list[tuple[str, _Kernel]] = field(default_factory=list)
    _fresh: bool = False
    #: A table that has neither samples nor counts.
    empty: bool = False

    def title(self, line: str) -> bool:
        """Take a line that names the kernel, file or function of the tables below it."""
        found = source_title(line)
        if found is None:
            return False
        what, name = found
        if what == _KERNEL:
            self._titles.clear()
            self._fresh = True
        self._titles["file" if what in _FILES else what] = name
        return True

    def table(self, header: Header, rows: Iterator[Sequence[str]]) -> None:
        """Read the rows of one table."""
        name = self._titles.get(_KERNEL) or self._titles.get(_FUNCTION, "")
        place = (self._titles.get("file", ""), self._titles.get(_FUNCTION, ""))
        part = _read(header, list(rows), *place, name)
        if not any(key in part.columns for key in COUNTS):
            self.empty = True
            return
        view = f"{part.detail} {part.ptx}"
        last = self._kernels[-1] if self._kernels else None
        # A kernel's tables follow one another, one a file and function; the same again is another
        # launch of it.
        goes_on = (
            last is not None
            and last[0] == view
            and not self._fresh
            and place not in last[1].seen
            and (bool(self._titles.get(_KERNEL)) or last[1].name == name)
        )
        if not goes_on or last is None:
            last = (view, _Kernel(name))
            self._kernels.append(last)
        self._fresh = False
        last[1].parts.append(part)
        last[1].seen.add(place)

    def close(self) -> None:
        """Give every kernel to the launch it is of."""
        listed: dict[str, list[int]] = {}
        for at, one in enumerate(self.launches.found if self._kernels else ()):
            listed.setdefault(_key(one.name), []).append(at)
        measured = self.launches.measured() if listed else frozenset()
        repeated = 0
        for kernel, nth in self._best():
            table, twice = _table(kernel)
            repeated += twice
            known = listed.get(_key(kernel.name), [])
            is_listed = nth < len(known)
            number_of = known[nth] if is_listed else self.launches.add_launch(Launch(kernel.name))
            self.launches.add_source(number_of, table)
            self._add_sums(number_of, table, measured)
        self.launches.note(
            "rows of the source page for instructions that it lists under several lines, as they "
            "were inlined: each is counted once, at the first",
            repeated,
            severe=False,
        )

    def _best(self) -> Iterable[tuple[_Kernel, int]]:
        """Of every launch the view that says most; and the how many-th of its name it is."""
        count: dict[tuple[str, str], int] = {}
        best: dict[tuple[str, int], _Kernel] = {}
        for view, kernel in self._kernels:
            key = _key(kernel.name)
            nth = count.get((view, key), 0)
            count[view, key] = nth + 1
            known = best.get((key, nth))
            if known is None or kernel.detail > known.detail:
                best[key, nth] = kernel
        return [(kernel, nth) for (_, nth), kernel in best.items()]

    def _add_sums(self, launch: int, table: pa.Table, measured: frozenset[tuple[int, str]]) -> None:
        """The kernel's totals as metrics, those that no other page prints."""
        for column, metric in METRIC_OF.items():
            total = pc.sum(table[column]).as_py()
            if total is not None and (launch, metric) not in measured:
                slot = self.launches.slot("SourceCounters", "", metric, "")
                self.launches.add_metric(launch, slot, str(total))


def _key(name: str) -> str:
    return function(demangled(name))


def _table(kernel: _Kernel) -> tuple[pa.Table, int]:
    """The source table of a kernel, and how many rows are of an instruction that it has already."""
    by_instruction = any(any(part.is_instruction) for part in kernel.parts)
    columns: dict[str, list[Any]] = {}
    # An address is one place, whatever file or function it is listed under.
    seen: set[int] = set()
    repeated = size = 0
    for part in kernel.parts:
        kept = []
        for at, is_instruction in enumerate(part.is_instruction):
            if is_instruction is not by_instruction:
                continue
            if is_instruction:
                address = part.columns["address"][at]
                if address in seen:
                    repeated += 1
                    continue
                seen.add(address)
            kept.append(at)
        for name in part.columns.keys() | columns.keys():
            values = part.columns.get(name)
            into = columns.setdefault(name, [None] * size)
            into.extend([None] * len(kept) if values is None else [values[at] for at in kept])
        size += len(kept)
    _relative(columns)
    return source_table(columns, size), repeated


def _relative(columns: dict[str, list[Any]]) -> None:
    """Addresses as bytes from the first instruction of their function."""
    first: dict[str | None, int] = {}
    pairs = list(zip(columns["function"], columns["address"], strict=True))
    for name, address in pairs:
        if address is not None:
            first[name] = min(first.get(name, address), address)
    columns["address"] = [
        None if address is None else address - first[name] for name, address in pairs
    ]


# --- one table -----------------------------------------------------------------------------------


def _read(
    header: Header, rows: list[Sequence[str]], file: str, of_function: str, kernel: str
) -> _Part:
    """One table. file, of_function: those of its titles; empty where it has none."""
    rows = [row for row in rows if any(row)]

    def cells(position: int | None) -> list[str]:
        if position is None:
            return [""] * len(rows)
        return [row[position].strip() if position < len(row) else "" for row in rows]

    numbered = cells(header.position(*_LINE))
    addresses = [_address(cell) for cell in cells(header.position("address"))]
    texts = [at for at, cell in enumerate(header.cells) if cell.lower() == "source"]
    source, code = cells(texts[0]), cells(texts[-1])
    is_instruction = [address is not None for address in addresses]
    bare = header.position(*_LINE) is None
    if bare:
        # Rows are numbered: source lines, unless they have addresses.
        numbered = [
            "" if is_one else cell
            for cell, is_one in zip(cells(header.position(_NUMBER)), is_instruction, strict=True)
        ]
    if bare and header.position(_NUMBER) is None and not any(is_instruction):
        # A view of lines without numbers prints every line.
        numbered = [str(at) for at in range(1, len(rows) + 1)]
    ptx = not file and not any(is_instruction) and _is_ptx(source)
    lines = _lines(numbered, is_instruction)
    columns: dict[str, list[Any]] = {
        "function": [of_function or kernel or None] * len(rows),
        "address": addresses,
        "instruction": [
            text if is_one else None for text, is_one in zip(code, is_instruction, strict=True)
        ],
        "file": [(file or None) if line and not ptx else None for line in lines],
        "line": [None] * len(rows) if ptx else lines,
    }
    if ptx:
        columns |= {"ptx_line": lines, "ptx": list(source)}
    for name, title in (("memory", "address space"), ("access", "access operation")):
        position = header.position(title, f"memory {title}")
        columns[name] = [_word(cell) for cell in cells(position)]
    columns |= _counts(header, cells)
    return _Part(columns, is_instruction, ptx)


def _lines(numbered: list[str], is_instruction: list[bool]) -> list[int | None]:
    """The source line of each row; an instruction without one is of the line above it."""
    found: list[int | None] = []
    current: int | None = None
    for cell, is_one in zip(numbered, is_instruction, strict=True):
        own = int(cell) if cell.isdecimal() and len(cell) < 10 else None
        current = own if own is not None or not is_one else current
        found.append(current or None)
    return found


def _address(cell: str) -> int | None:
    cell = cell.replace(" ", "")
    return int(cell, 16) if _ADDRESS.fullmatch(cell) and int(cell, 16) < 2**63 else None


def _word(cell: str) -> str | None:
    """``Global(2)`` -> ``global``; None where the instruction accesses nothing."""
    found = _WORD.match(cell)
    return found[0].lower() if found and cell not in _NONE else None


def _is_ptx(texts: list[str]) -> bool:
    said = [text for text in texts if text.strip(" \t{}")]
    return bool(said) and sum(map(bool, map(_PTX.match, said))) * 3 > len(said)


def _counts(header: Header, cells: Any) -> dict[str, list[Any]]:
    """The columns of counts of a table."""
    by_column: dict[str, list[str]] = {}
    for title in header.at:
        column = column_of_title(title)
        # Of titles that mean one thing the first counts; parts of what is not issued add up.
        if column is not None:
            by_column.setdefault(column, []).append(title)
    found: dict[str, list[Any]] = {}
    for column, titles in by_column.items():
        parts = [_whole(cells(header.at[title])) for title in titles]
        found[column] = _sum(parts) if column == NOT_ISSUED else parts[0]
    for column, named in (("samples", ALL_SAMPLES), (NOT_ISSUED, ALL_STALLED)):
        position = header.position(*named)
        if position is not None and (column != "samples" or column not in found):
            found[column] = _whole(cells(position))
    if "samples" not in found and any(name in found for name in SAMPLES_OF.values()):
        found["samples"] = _sum([found[one] for one in SAMPLES_OF.values() if one in found])
    return found


def _sum(parts: Sequence[list[int | None]]) -> list[int | None]:
    if len(parts) == 1:
        return parts[0]
    return [
        None if all(one is None for one in row) else sum(one or 0 for one in row)
        for row in zip(*parts, strict=True)
    ]


def _whole(cells: list[str]) -> list[int | None]:
    """Counts; None where a cell has none."""
    plain = [None if cell in _NONE else cell for cell in cells]
    try:
        found: list[int | None] = pa.array(plain, pa.string()).cast(pa.int64()).to_pylist()
    except pa.ArrowInvalid:
        found = [None if cell is None else _counted(cell) for cell in plain]
    return [one if one is None or 0 <= one < 2**62 else None for one in found]


_GROUPED = regex.compile(r"\d{1,3}(?:\.\d{3})+")


def _counted(cell: str) -> int | None:
    # A count has no decimals: a point before three digits groups them.
    text = cell.replace(".", "") if _GROUPED.fullmatch(cell) else cell
    value = number(text, DecimalSign.POINT)
    return round(value) if 0 <= value < 2**62 else None
