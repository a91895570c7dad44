"""Launches and their metrics as they are read.

``Launches`` takes rows in file order and keeps them in columns: a file of a million rows costs
its text once. ``recording`` makes a recording of them.
"""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from traceroof.core.locales import DecimalSign
from traceroof.parsers.nsight.metrics import fits, metric_name, section_id
from traceroof.parsers.nsight.number_rows import NumberRows
from traceroof.parsers.nsight.rows import Rows, Slot


class Launch(NamedTuple):
    """What identifies a launch, as text from the file; empty where it does not say.

    runs: whether a metric that comes twice means a second launch even with the same value, as in
    files without a column for the launch's number.
    """

    name: str = ""
    process_id: str = ""
    process_name: str = ""
    launch_id: str = ""
    context: str = ""
    stream: str = ""
    device: str = ""
    compute_capability: str = ""
    grid: str = ""
    block: str = ""
    range: str = ""
    launches: str = ""
    runs: bool = False


class Sentence(NamedTuple):
    """What a rule says, as text from the file; speedup: percent, of the scope."""

    section: str
    rule: str | None
    level: str
    text: str
    scope: str = ""
    speedup: str = ""


@dataclass(slots=True)
class Verdict:
    """A rule's row: its launch, the metric row that it comes after (-1: none), and what it says."""

    launch: int
    after: int
    says: Sentence


@dataclass
class Launches:
    """Launches of one file, in file order, with their metric rows and rule verdicts.

    spreadsheet: the file was saved again by a spreadsheet (semicolons, tabs). sign: the decimal
    sign, where the format fixes it. row_launch, row_slot, row_cell: the launch, slot and cell of each
    metric row. numbers: the same from formats that hold numbers, which have no other rows.
    """

    spreadsheet: bool = False
    sign: DecimalSign | None = None
    found: list[Launch] = field(default_factory=list)
    notes: Counter[tuple[str, bool]] = field(default_factory=Counter)
    slots: list[Slot] = field(default_factory=list)
    _slot_ids: dict[tuple[str, str, str, str, str], int] = field(default_factory=dict)
    row_launch: "array[int]" = field(default_factory=lambda: array("i"))
    row_slot: "array[int]" = field(default_factory=lambda: array("i"))
    row_cell: "array[int]" = field(default_factory=lambda: array("i"))
    cells: list[str] = field(default_factory=list)
    _cell_ids: dict[str, int] = field(default_factory=dict)
    numbers: NumberRows = field(default_factory=NumberRows)
    verdicts: list[Verdict] = field(default_factory=list)
    sources: list[tuple[int, pa.Table]] = field(default_factory=list)
    knows_metrics: bool = False

    def note(self, text: str, count: int = 1, severe: bool = True) -> None:
        """Count something that a reader of the run should know."""
        if count:
            self.notes[text, severe] += count

    def add_launch(self, launch: Launch) -> int:
        """Begin a launch; returns its number for ``add_metric`` and ``add_verdict``."""
        self.found.append(launch)
        return len(self.found) - 1

    def slot(self, section: str, body: str, label: str, unit_text: str, statistic: str = "") -> int:
        """The number of a kind of metric row.

        statistic: "minimum" or "maximum" for figures of a summary that belong in no column.
        """
        key = (section, body, label, unit_text, statistic)
        found = self._slot_ids.get(key)
        if found is None:
            found = self._slot_ids[key] = len(self.slots)
            self.slots.append(self._new_slot(*(part.strip() for part in key)))
        return found

    def _new_slot(
        self, section: str, body: str, label: str, unit_text: str, statistic: str
    ) -> Slot:
        metric = metric_name(section, body, label, unit_text)
        self.knows_metrics |= metric is not None
        usable = metric is not None and not statistic and fits(metric, unit_text) is not False
        title = metric or (f"{body}: {label}" if body else label)
        return Slot(section_id(section), title, unit_text, statistic, usable)

    def add_metric(self, launch: int, slot: int, text: str) -> None:
        """Take one metric row: the cell as printed."""
        self.row_launch.append(launch)
        self.row_slot.append(slot)
        self.row_cell.append(len(self.cells))
        self.cells.append(text)

    def cell(self, text: str) -> int:
        """The number of a cell that many launches share, for ``numbers``."""
        found = self._cell_ids.get(text)
        if found is None:
            found = self._cell_ids[text] = len(self.cells)
            self.cells.append(text)
        return found

    def measured(self) -> frozenset[tuple[int, str]]:
        """Every launch with the metrics that it has rows of."""
        rows = zip(self.row_launch, self.row_slot, strict=True)
        return frozenset((launch, self.slots[slot].metric) for launch, slot in rows)

    def add_source(self, launch: int, table: pa.Table) -> None:
        """Take the source table of a launch; its ``row`` is filled in at the end."""
        self.sources.append((launch, table))

    def add_verdict(
        self,
        launch: int,
        section: str,
        rule: str | None,
        level: str,
        text: str,
        estimate: tuple[str, str] = ("", ""),
    ) -> None:
        """Take one rule row. estimate: scope and percent of the speed-up that it states."""
        self.add_sentence(launch, Sentence(section_id(section), rule, level, text, *estimate))

    def add_sentence(self, launch: int, says: Sentence) -> None:
        """The same, where launches share what is said."""
        self.verdicts.append(Verdict(launch, len(self.row_cell) - 1, says))

    def rows(self) -> Rows:
        """The printed metric rows in file order."""
        launch, slot, cell = (
            np.frombuffer(column, dtype=np.int32).copy()
            for column in (self.row_launch, self.row_slot, self.row_cell)
        )
        return Rows(launch, slot, self.cells, cell)
