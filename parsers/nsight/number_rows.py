"""Metric rows of formats that hold numbers, as tables of launches by metric.

Launches of a program have mostly the same metrics: a table per set of them holds nothing but values.
"""

from collections import Counter
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from traceroof.core.locales import DecimalSign
from traceroof.core.recording import RAW_METRICS, empty
from traceroof.parsers.nsight.formulas import Columns, Flags, Floats
from traceroof.parsers.nsight.numbers import unit
from traceroof.parsers.nsight.rows import Cells, Ints, Kinds, Slot, Small, kinds_of, raw_table

# A launch belongs to a table if it has every so many-th of its metrics; else it begins another.
_LEAST_FILLED = 8
# Values of one table; it is then complete.
_MOST_VALUES = 1 << 18


@dataclass
class _Table:
    """Values of launches (rows) by slot (columns). cells: places in the values, ascending, and the
    numbers of their cells."""

    slots: Small
    launches: Small
    values: Floats
    cells: tuple[Ints, Small]


@dataclass
class _Open:
    """A table that launches are added to. column: of each slot, -1 where it has none. values: with room
    for more launches."""

    slots: Small
    column: Ints
    launches: list[Small] = field(default_factory=list)
    values: Floats = field(init=False)
    cells: list[tuple[Ints, Small]] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.values = np.empty((0, len(self.slots)))

    def room(self, launches: int) -> Floats:
        """The values of the next launches, to be filled."""
        end = self.count + launches
        if end > len(self.values):
            grown = np.empty((max(end, 2 * self.count), len(self.slots)))
            grown[: self.count] = self.values[: self.count]
            self.values = grown
        return self.values[self.count : end]

    def closed(self) -> _Table:
        places, cells = (np.concatenate(parts) for parts in zip(*self.cells, strict=True))
        if bool((places[1:] < places[:-1]).any()):
            order = np.argsort(places, kind="stable")
            places, cells = places[order], cells[order]
        launches = np.concatenate(self.launches)
        return _Table(self.slots, launches, self.values[: self.count], (places, cells))


class NumberRows:
    """Collects the rows of launches, which come in file order, each metric once per launch."""

    def __init__(self) -> None:
        self._tables: list[_Table] = []
        self._open: _Open | None = None

    def __bool__(self) -> bool:
        return bool(self._tables) or self._open is not None

    def add(self, launches: Small, of: Ints, slots: Small, values: Floats, cells: Small) -> None:
        """Take the rows of some launches. of: the launch of each row, counted from the first of these.
        slots: -1 for rows that do not count. values: in base units; NaN: none. cells: the
        numbers of the cells of rows that are more than a number, -1 of the others."""
        start = 0
        ends = np.searchsorted(of, np.arange(len(launches)), side="right").tolist()
        while start < len(launches):
            # As many launches as have the same metrics in the same order go together.
            first = ends[start - 1] if start else 0
            mine, width = slots[first : ends[start]], ends[start] - first
            stop = start + 1
            whole = (len(slots) - first) == width * (len(launches) - start)
            if width and whole and bool((slots[first:].reshape(-1, width) == mine).all()):
                stop = len(launches)
            rows = slice(first, ends[stop - 1])
            self._add(launches[start:stop], mine, values[rows], cells[rows])
            start = stop

    def _add(self, launches: Small, slots: Small, values: Floats, cells: Small) -> None:
        """Launches with the same metrics."""
        table = self._fitting(slots)
        width, columns = len(slots), len(table.slots)
        counted = slots >= 0
        into = np.where(counted, table.column[slots], 0)
        if columns == width and bool((slots == table.slots).all()):
            table.room(len(launches))[:] = values.reshape(len(launches), width)
        else:
            made = table.room(len(launches))
            made[:] = np.nan
            made[:, into[counted]] = values.reshape(len(launches), width)[:, counted]
        places = np.flatnonzero(cells >= 0)
        row, column = np.divmod(places, max(width, 1))
        keep = counted[column] if width else np.zeros(0, bool)
        at = (row + table.count) * columns + into[column] if width else places
        table.launches.append(launches)
        table.cells.append((at[keep], cells[places[keep]]))
        table.count += len(launches)
        if table.count * columns >= _MOST_VALUES:
            self._close()

    def _fitting(self, slots: Small) -> _Open:
        """The table of launches with these metrics; a new one where the last has too few or too many
        columns."""
        last = self._open
        if last is not None and np.array_equal(last.slots, slots):
            return last
        known = slots[slots >= 0]
        if last is not None:
            place = np.minimum(known, len(last.column) - 1)
            lacks = known[(last.column[place] < 0) | (known >= len(last.column))]
            fills = len(known) * _LEAST_FILLED >= len(last.slots)
            if fills and not len(lacks):
                return last
            known = np.concatenate([last.slots, lacks]) if fills else known
            self._close()
        known = known.astype(np.int32)
        column = np.full(int(known.max(initial=0)) + 1, -1, np.int64)
        column[known] = np.arange(len(known))
        self._open = _Open(known, column)
        return self._open

    def _close(self) -> None:
        if self._open is not None and self._open.count:
            self._tables.append(self._open.closed())
        self._open = None

    def tables(self) -> list[_Table]:
        """The tables; they are no longer here."""
        self._close()
        found, self._tables = self._tables, []
        return found


class MeasuredNumbers:
    """What the rows measure: the same questions as ``rows.Measured`` answers of printed rows."""

    #: Each launch has a metric once.
    contradictions = 0

    def __init__(self, rows: NumberRows, slots: Sequence[Slot], cells: list[str]) -> None:
        self.slots = slots
        self._tables = rows.tables()
        self._cells = Cells.read(cells, DecimalSign.POINT)
        scales = np.array([unit(slot.unit_text).scale for slot in slots], dtype=np.float64)
        scaled = bool((scales != 1).any())
        for table in self._tables:
            places, numbers = table.cells
            np.put(table.values, places, self._cells.numbers[numbers])
            if scaled:
                table.values *= scales[table.slots]

    def __len__(self) -> int:
        """Rows, at least: whether there is anything."""
        return sum(table.values.size for table in self._tables)

    @property
    def any_number(self) -> bool:
        return any(self.numbers_by_slot())

    def unread(self) -> Counter[str]:
        """The cells without a number, and how often each is there."""
        found = Counter[str]()
        for table in self._tables:
            places, numbers = table.cells
            without = numbers[np.isnan(table.values.ravel()[places])]
            for cell, times in zip(*np.unique(without, return_counts=True), strict=True):
                found[self._cells.said[cell]] += int(times)
        return found

    def numbers_by_slot(self) -> list[int]:
        """How many numbers there are of each kind of row."""
        return self._numbers

    @cached_property
    def _numbers(self) -> list[int]:
        found = np.zeros(len(self.slots), np.int64)
        for table in self._tables:
            found[table.slots] += np.count_nonzero(~np.isnan(table.values), axis=0)
        counts: list[int] = found.tolist()
        return counts

    def metrics(self, launches: int) -> "MutableMapping[str, Floats]":
        """Each usable metric's value per launch, made as it is asked for."""
        numbers = self.numbers_by_slot()
        slot_of: dict[str, int] = {}
        for number, slot in enumerate(self.slots):
            if slot.usable and numbers[number]:
                slot_of.setdefault(slot.metric, number)
        return _Metrics(self, launches, slot_of)

    def column(self, slot: int, launches: int) -> Floats:
        """The values of one kind of row, per launch."""
        found = np.full(launches, np.nan)
        for table in self._tables:
            for column in np.flatnonzero(table.slots == slot).tolist():
                found[table.launches] = table.values[:, column]
        return found

    def extreme(self, metric: str, statistic: str, launches: int) -> Floats:
        """No such format prints the minimum or maximum of several launches."""
        return np.full(launches, np.nan)

    def texts(self, metric: str) -> dict[int, str]:
        """Launch -> the words of a metric that is no number, where the file has any."""
        found: dict[int, str] = {}
        wanted = [number for number, slot in enumerate(self.slots) if slot.metric == metric]
        for table in self._tables:
            places, numbers = table.cells
            row, column = np.divmod(places, max(len(table.slots), 1))
            mine = np.isin(table.slots[column], wanted) & np.isnan(table.values.ravel()[places])
            words = (self._cells.text[cell].strip() for cell in numbers[mine].tolist())
            found |= dict(zip(table.launches[row[mine]].tolist(), words, strict=True))
        return {launch: text for launch, text in found.items() if text}

    def raw_metrics(self, columns: Columns) -> pa.Table:
        """The rows that no column holds. Uses the tables up."""
        main, extra = [], []
        listed = np.zeros(len(self._cells.text) + 1, dtype=bool)
        listed[list(self._cells.instances)] = True
        words = [self._cells.instances.get(cell, "") for cell in range(len(self._cells.text))]
        kinds = _SharedKinds(self.slots)
        while self._tables:
            table = self._tables.pop(0)
            places, numbers = table.cells
            rest = ~np.isnan(table.values)
            rest.ravel()[places] = True
            rest &= ~self._in_column(table, columns)
            main.append(_raw(table, rest, self._cells.text, kinds, ""))
            lists = np.zeros(table.values.shape, dtype=bool)
            lists.ravel()[places[listed[numbers]]] = True
            if lists.any():
                extra.append(_raw(table, lists, words, kinds, " (instances)"))
        return pa.concat_tables([*main, *extra]) if main else empty(RAW_METRICS)

    def _in_column(self, table: _Table, columns: Columns) -> Flags:
        found = np.zeros(table.values.shape, dtype=bool)
        for column, slot in enumerate(table.slots.tolist()):
            taken = columns.direct.get(self.slots[slot].metric) if self.slots[slot].usable else None
            if taken is not None:
                found[:, column] = taken[table.launches]
        return found


class _SharedKinds:
    """What the rows of tables are of: launches with the same metrics share it, ten million rows of them."""

    def __init__(self, slots: Sequence[Slot]) -> None:
        self._slots = slots
        self._made: dict[tuple[str, bytes], Kinds] = {}

    def repeated(self, slot: Small, times: int, suffix: str) -> Kinds:
        """Of launches that have these kinds of rows each."""
        rows, key = len(slot) * times, (suffix, slot.tobytes())
        made = self._made.get(key)
        if made is None or len(made[0]) < rows:
            made = self._made[key] = kinds_of(np.tile(slot, times), self._slots, suffix)
        section, metric, unit_of = (one.slice(0, rows) for one in made)
        return section, metric, unit_of

    def of(self, slot: Small, suffix: str) -> Kinds:
        """Of rows one by one."""
        return kinds_of(slot, self._slots, suffix)


def _raw(
    table: _Table, rows: Flags, texts: list[str], shared: _SharedKinds, suffix: str
) -> pa.Table:
    """Some rows of a table as raw metrics. suffix: of the metric's name; those with one are texts."""
    places, numbers = table.cells
    mine = rows.ravel()[places]
    if not suffix:
        mine &= np.isnan(table.values.ravel()[places])
    places, numbers = places[mine], numbers[mine]
    launches, columns = table.launches.astype(np.int64), np.flatnonzero(rows[0])
    if bool((rows == rows[0]).all()):
        kinds = shared.repeated(table.slots[columns], len(launches), suffix)
        row, column = np.divmod(places, rows.shape[1])
        places = row * len(columns) + np.searchsorted(columns, column)
        launches = np.repeat(launches, len(columns))
        values = np.take(table.values, columns, axis=1).ravel()
    else:
        kinds = shared.of(np.broadcast_to(table.slots, rows.shape)[rows], suffix)
        launches = np.repeat(launches, rows.sum(axis=1))
        places = np.searchsorted(np.flatnonzero(rows), places)
        values = table.values[rows]
    if suffix:
        values[:] = np.nan
    return raw_table(launches, kinds, values, (places, numbers), texts)


class _Metrics(MutableMapping[str, Floats]):
    """Metrics by name: those of a file, made as they are asked for, and what is put in their place."""

    def __init__(self, measured: MeasuredNumbers, launches: int, slot_of: dict[str, int]) -> None:
        self._measured, self._launches, self._slot_of = measured, launches, slot_of
        self._put: dict[str, Floats] = {}

    def __getitem__(self, name: str) -> Floats:
        put = self._put.get(name)
        return self._measured.column(self._slot_of[name], self._launches) if put is None else put

    def __setitem__(self, name: str, values: Floats) -> None:
        self._put[name] = values

    def __delitem__(self, name: str) -> None:
        self._put.pop(name, None)
        self._slot_of.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._put or name in self._slot_of

    def __iter__(self) -> Iterator[str]:
        yield from self._slot_of
        yield from (name for name in self._put if name not in self._slot_of)

    def __len__(self) -> int:
        return len(self._slot_of.keys() | self._put.keys())
