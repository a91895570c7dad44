"""Metric rows in columns, and what they measure.

``Rows`` is what a reader collects; ``Measured`` turns cells into numbers in base units, picks the
most precise printing of a metric, and keeps what no column of the kernel table holds.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.recording import RAW_METRICS
from traceroof.parsers.nsight.formulas import Columns, Floats
from traceroof.parsers.nsight.numbers import (
    DecimalSign,
    decimals,
    number,
    split_instances,
    unit,
)

Ints = npt.NDArray[np.int64]


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
    """Metric rows in columns: launch, slot and cell of each. value: those that came as numbers, which
    have no cell; NaN for all others."""

    def __init__(
        self, launch: Ints, slot: Ints, text: list[str], value: Floats | None = None
    ) -> None:
        self.launch = launch
        self.slot = slot
        self.text = text
        self.value = np.full(len(text), np.nan) if value is None else value
        self._before: dict[int, int] = {}

    def move(self, rows: Ints, launches: Ints) -> None:
        for row, launch in zip(rows.tolist(), self.launch[rows].tolist(), strict=True):
            self._before[row] = launch
        self.launch[rows] = launches

    def origin(self, row: int) -> int:
        """The launch that a row belonged to before runs were split."""
        return self._before.get(row, int(self.launch[row]))

    def kept(self, keep: npt.NDArray[np.bool_]) -> "Rows":
        text = [self.text[row] for row in np.flatnonzero(keep).tolist()]
        return Rows(self.launch[keep], self.slot[keep], text, self.value[keep])


@dataclass
class Measured:
    """Rows with their numbers in base units.

    value: NaN where the cell holds none. instances: row -> the values per unit that followed it.
    contradictions: rows that say something else than a better row of the same launch.
    """

    rows: Rows
    slots: list[Slot]
    sign: DecimalSign
    value: Floats
    instances: dict[int, str]
    contradictions: int = 0

    def __post_init__(self) -> None:
        self._agrees = np.zeros(len(self.value), dtype=bool)
        self._order = np.argsort(self.rows.slot, kind="stable")
        self._bounds = np.searchsorted(
            self.rows.slot[self._order], np.arange(len(self.slots) + 1)
        ).tolist()

    @classmethod
    def read(cls, rows: Rows, slots: list[Slot], sign: DecimalSign) -> "Measured":
        instances: dict[int, str] = {}
        value = rows.value.copy()
        for row in np.flatnonzero(np.isnan(value)).tolist():
            text = rows.text[row]
            if text.endswith(")"):
                text, listed = split_instances(text)
                if listed:
                    instances[row] = listed
                    rows.text[row] = text
            value[row] = number(text, sign)
        scales = np.array([unit(slot.unit_text).scale for slot in slots], dtype=np.float64)
        if len(slots):
            value *= scales[rows.slot]
        return cls(rows, slots, sign, value, instances)

    @property
    def is_number(self) -> npt.NDArray[np.bool_]:
        flags: npt.NDArray[np.bool_] = ~np.isnan(self.value)
        return flags

    def _rows_of(self, slot: int) -> Ints:
        """The rows of one kind, in file order."""
        return self._order[self._bounds[slot] : self._bounds[slot + 1]]

    def _resolution(self, rows: Ints) -> Floats:
        """The last printed digit of each row, in base units."""
        last = [
            10.0 ** -decimals(self.rows.text[row], self.sign)
            * unit(self.slots[slot].unit_text).scale
            for row, slot in zip(rows.tolist(), self.rows.slot[rows].tolist(), strict=True)
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

    def _dense(self, rows: Ints, launches: int) -> Floats:
        launch = self.rows.launch[rows]
        dense = np.full(launches, np.nan)
        if len(np.unique(launch)) == len(launch):
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
        rest = np.flatnonzero(~in_column)
        listed = np.array(sorted(self.instances), dtype=np.int64)
        main = self._raw_table(rest, self.rows.text, self.value[rest])
        if not len(listed):
            return main
        unknown = np.full(len(listed), np.nan)
        extra = self._raw_table(listed, self.instances, unknown, " (instances)")
        return pa.concat_tables([main, extra])

    def _raw_table(
        self, rows: Ints, texts: list[str] | dict[int, str], values: Floats, suffix: str = ""
    ) -> pa.Table:
        """texts: by row, of those that are no numbers."""
        slot = pa.array(self.rows.slot[rows])
        numeric = ~np.isnan(values)
        said = pa.array([texts[row] for row in rows[~numeric].tolist()], pa.string())
        place = pa.array(np.cumsum(~numeric) - 1, mask=numeric)

        def by_slot(words: list[str | None]) -> pa.Array:
            return pa.array(words, pa.string()).take(slot)

        return pa.table(
            {
                "row": pa.array(self.rows.launch[rows], pa.int64()),
                "section": by_slot([entry.section or None for entry in self.slots]),
                "metric": by_slot([entry.title + suffix for entry in self.slots]),
                "unit": by_slot([unit(entry.unit_text).base for entry in self.slots]),
                "value": pa.array(values, pa.float64(), from_pandas=True),
                "text": said.take(place),
            },
            schema=RAW_METRICS,
        )
