"""Nsight Compute's tables as CSV: a row per metric (details, summary) or a column per metric (raw)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from traceroof.core.locales import DecimalSign, number
from traceroof.parsers.nsight.csv_variants import (
    Header,
    Skipped,
    is_metric_title,
    nvtx_path,
    title_parts,
)
from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.numbers import whole

Row = Sequence[str]


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
class LongTable:
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
                (scope, cell("estimated speedup")),
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
class WideTable:
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
