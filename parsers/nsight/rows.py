"""Printed metric rows in columns, and what they measure.

``Rows`` is what a reader collects; ``Measured`` turns cells into numbers in base units, picks the
most precise printing of a metric, and keeps what no column of the kernel table holds.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.locales import DecimalSign, decimals, number
from traceroof.core.recording import RAW_METRICS
from traceroof.parsers.nsight.formulas import Columns, Floats
from traceroof.parsers.nsight.numbers import split_instances, unit

Small = npt.NDArray[np.int32]
#: Numbers of rows; large tables have them in 32 bits.
Ints = npt.NDArray[np.int64] | Small


class Slot(NamedTuple):
    """A kind of metric row: where it stands, what it measures, and its unit."""

    section: str
    metric: str
    unit_text: str
    statistic: str
    usable: bool

    @property
    def title(self) -> str:
        return f"{self.metric} ({self.statistic})" if self.statistic else self.metric


class Rows:
    """Metric rows in columns: launch, slot, and the number of its cell in cells."""

    def __init__(self, launch: Small, slot: Small, cells: list[str], cell: Small) -> None:
        self.launch = launch
        self.slot = slot
        self.cells = cells
        self.cell = cell
        self._before: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.cell)

    def texts(self, rows: Ints | None = None) -> list[str]:
        """The cells of some rows, or of all."""
        found = self.cell if rows is None else self.cell[rows]
        return [self.cells[cell] for cell in found.tolist()]

    def repeated(self, slots: int) -> npt.NDArray[np.bool_]:
        """Rows whose launch has their kind before."""
        launches = int(self.launch.max(initial=-1)) + 1
        key = self.launch.astype(np.int64) * max(slots, 1) + self.slot
        found = np.zeros(len(key), dtype=bool)
        if launches * slots <= 16 * len(key):
            # Few enough places for each to have its own.
            taken = np.zeros(launches * slots, dtype=bool)
            taken[key] = True
            if int(taken.sum()) == len(key):
                return found
        order = np.argsort(key, kind="stable")
        found[order[1:]] = key[order[1:]] == key[order[:-1]]
        return found

    def move(self, rows: Ints, launches: Ints) -> None:
        for row, launch in zip(rows.tolist(), self.launch[rows].tolist(), strict=True):
            self._before[row] = launch
        self.launch[rows] = launches

    def origin(self, row: int) -> int:
        """The launch that a row belonged to before runs were split."""
        return self._before.get(row, int(self.launch[row]))

    def kept(self, keep: npt.NDArray[np.bool_]) -> "Rows":
        return Rows(self.launch[keep], self.slot[keep], self.cells, self.cell[keep])


@dataclass(frozen=True)
class Cells:
    """Cells as printed, and what they hold.

    said: as printed. text: without what follows a value. numbers: NaN where there is none.
    instances: cell -> the values per unit that follow it.
    """

    said: list[str]
    text: list[str]
    numbers: Floats
    instances: dict[int, str]

    @classmethod
    def read(cls, said: list[str], sign: DecimalSign) -> "Cells":
        text, instances = list(said), dict[int, str]()
        for cell, one in enumerate(text):
            if one.endswith(")"):
                value_text, listed = split_instances(one)
                if listed:
                    instances[cell] = listed
                    text[cell] = value_text
        numbers = np.array([number(one, sign) for one in text], dtype=np.float64)
        return cls(said, text, numbers, instances)


@dataclass
class Measured:
    """Rows with their numbers in base units.

    value: NaN where the cell holds none. text: of each cell, without what follows a value.
    instances: cell -> the values per unit that follow it.
    contradictions: rows that say something else than a better row of the same launch.
    """

    rows: Rows
    slots: list[Slot]
    sign: DecimalSign
    value: Floats
    text: list[str]
    instances: dict[int, str]
    contradictions: int = 0

    def __post_init__(self) -> None:
        self._agrees = np.zeros(len(self.value), dtype=bool)
        slot = self.rows.slot
        # Numbers of 16 bits are sorted without comparing them.
        short = slot.astype(np.uint16) if len(self.slots) < 1 << 16 else slot
        self._order = np.argsort(short, kind="stable").astype(np.int32)
        self._bounds = [0, *np.cumsum(np.bincount(slot, minlength=len(self.slots))).tolist()]

    @classmethod
    def read(cls, rows: Rows, slots: list[Slot], sign: DecimalSign) -> "Measured":
        cells = Cells.read(rows.cells, sign)
        value = cells.numbers[rows.cell]
        scales = np.array([unit(slot.unit_text).scale for slot in slots], dtype=np.float64)
        if len(slots):
            value *= scales[rows.slot]
        return cls(rows, slots, sign, value, cells.text, cells.instances)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def any_number(self) -> bool:
        return not bool(np.isnan(self.value).all())

    def unread(self) -> Counter[str]:
        """The cells without a number, and how often each is there."""
        return Counter(self.rows.texts(np.flatnonzero(np.isnan(self.value))))

    def numbers_by_slot(self) -> list[int]:
        """How many numbers there are of each kind of row."""
        with_number = self.rows.slot[~np.isnan(self.value)]
        counts: list[int] = np.bincount(with_number, minlength=len(self.slots)).tolist()
        return counts

    def _rows_of(self, slot: int) -> Ints:
        """The rows of one kind, in file order."""
        return self._order[self._bounds[slot] : self._bounds[slot + 1]]

    def _resolution(self, rows: Ints) -> Floats:
        """The last printed digit of each row, in base units."""
        last = [
            10.0 ** -decimals(self.text[cell], self.sign) * unit(self.slots[slot].unit_text).scale
            for cell, slot in zip(
                self.rows.cell[rows].tolist(), self.rows.slot[rows].tolist(), strict=True
            )
        ]
        return np.array(last, dtype=np.float64)

    def metrics(self, launches: int) -> dict[str, Floats]:
        """Each usable metric's value per launch; of several printings the most precise one."""
        names: dict[str, list[int]] = {}
        for position, slot in enumerate(self.slots):
            if slot.usable:
                names.setdefault(slot.metric, []).append(position)
        found: dict[str, Floats] = {}
        for name, slots in names.items():
            rows = np.concatenate([self._rows_of(slot) for slot in slots])
            rows = rows[~np.isnan(self.value[rows])]
            if len(rows):
                found[name] = self._dense(rows, launches)
        return found

    def extreme(self, metric: str, statistic: str, launches: int) -> Floats:
        """The minimum or maximum that a summary prints of a metric, per launch."""
        found = np.full(launches, np.nan)
        for position, slot in enumerate(self.slots):
            if slot.metric == metric and slot.statistic == statistic:
                rows = self._rows_of(position)
                found[self.rows.launch[rows]] = self.value[rows]
        return found

    def texts(self, metric: str) -> dict[int, str]:
        """Launch -> the words of a metric that is no number, where the file has any."""
        found: dict[int, str] = {}
        for position, slot in enumerate(self.slots):
            if slot.metric == metric:
                rows = self._rows_of(position)
                rows = rows[np.isnan(self.value[rows])]
                words = (self.text[cell].strip() for cell in self.rows.cell[rows].tolist())
                found |= dict(zip(self.rows.launch[rows].tolist(), words, strict=True))
        return {launch: text for launch, text in found.items() if text}

    def _dense(self, rows: Ints, launches: int) -> Floats:
        launch = self.rows.launch[rows]
        dense = np.full(launches, np.nan)
        if bool((launch[1:] > launch[:-1]).all()) or len(np.unique(launch)) == len(launch):
            dense[launch] = self.value[rows]
            self._agrees[rows] = True
            return dense
        # Written coarsest first and latest first, so that the finest and earliest stays.
        resolution = self._resolution(rows)
        ranked = np.lexsort((-rows, -resolution))
        finest = np.full(launches, np.nan)
        dense[launch[ranked]] = self.value[rows[ranked]]
        finest[launch[ranked]] = resolution[ranked]
        room = (resolution + finest[launch]) * (1 + 1e-9)
        agrees = np.abs(self.value[rows] - dense[launch]) <= room
        self._agrees[rows] = agrees
        self.contradictions += int((~agrees).sum())
        return dense

    def raw_metrics(self, columns: Columns) -> pa.Table:
        """The rows that no column holds."""
        in_column = np.zeros(len(self.value), dtype=bool)
        for position, slot in enumerate(self.slots):
            launches = columns.direct.get(slot.metric) if slot.usable else None
            if launches is not None:
                mine = self._rows_of(position)
                in_column[mine] = launches[self.rows.launch[mine]] & self._agrees[mine]
        rest = np.flatnonzero(~in_column).astype(np.int32)
        main = self._raw(rest, self.text, self.value[rest])
        has = np.zeros(len(self.text), dtype=bool)
        has[list(self.instances)] = True
        listed = np.flatnonzero(has[self.rows.cell])
        if not len(listed):
            return main
        words = [self.instances.get(cell, "") for cell in range(len(self.text))]
        unknown = np.full(len(listed), np.nan)
        extra = self._raw(listed, words, unknown, " (instances)")
        return pa.concat_tables([main, extra])

    def _raw(self, rows: Ints, texts: list[str], values: Floats, suffix: str = "") -> pa.Table:
        kinds = kinds_of(self.rows.slot[rows], self.slots, suffix)
        without = np.flatnonzero(np.isnan(values))
        cells = self.rows.cell[rows[without]]
        return raw_table(self.rows.launch[rows], kinds, values, (without, cells), texts)


#: Section, metric and unit of rows of the raw-metric table.
Kinds = tuple[pa.Array, pa.Array, pa.Array]


def kinds_of(slot: Small, slots: Sequence[Slot], suffix: str) -> Kinds:
    """What rows are of. suffix: of the metric's name."""
    sections = [entry.section for entry in slots]
    known = np.array([bool(word) for word in sections], dtype=bool)
    return (
        _encoded(slot, known[slot], sections),
        _encoded(slot, None, [entry.title + suffix for entry in slots]),
        _encoded(slot, None, [unit(entry.unit_text).base for entry in slots]),
    )


def raw_table(
    launches: Ints, kinds: Kinds, values: Floats, cells: tuple[Ints, Small], texts: Sequence[str]
) -> pa.Table:
    """Rows of the raw-metric table. values: NaN is none. cells: which rows have a text, and the number
    of it."""
    rows, numbers = cells
    words, index = _distinct(numbers, texts)
    indices, without = np.zeros(len(values), np.int32), np.ones(len(values), dtype=bool)
    indices[rows], without[rows] = index[numbers], False
    text = pa.DictionaryArray.from_arrays(pa.array(indices, mask=without), words)
    row, value = pa.array(launches, pa.int64()), pa.array(values, mask=np.isnan(values))
    return pa.Table.from_arrays([row, *kinds, value, text], schema=RAW_METRICS)


def _encoded(
    place: Small, known: npt.NDArray[np.bool_] | None, words: Sequence[str]
) -> pa.DictionaryArray:
    """Words by their place. known: null where False."""
    distinct, index = _distinct(place if known is None else place[known], words)
    indices = pa.array(index[place], mask=None if known is None else ~known)
    return pa.DictionaryArray.from_arrays(indices, distinct)


def _distinct(place: Small, words: Sequence[str]) -> tuple[pa.Array, Small]:
    """(the words in use, each once, the number among them of each word)."""
    used = np.zeros(len(words), dtype=bool)
    used[place] = True
    first: dict[str, int] = {}
    index = np.zeros(len(words), np.int32)
    for one in np.flatnonzero(used).tolist():
        index[one] = first.setdefault(words[one], len(first))
    return pa.array(list(first), pa.string()), index
