"""What is known about a set of subjects, one column at a time: what classes and rules read."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.thresholds import Threshold
from traceroof.core.tracing import Traced, is_unknown
from traceroof.core.words import Words, words

Column = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Facts:
    """What is known about n subjects: named columns, one value a subject.

    ``facts.duration_ns`` is a numpy array of length n: float64 with NaN for unknown, or objects
    (text, None for unknown). A name outside the columns raises AttributeError, so that a rule can
    only read what it declares. Comparisons with NaN are false: unknown never fires.
    ``limits`` are the thresholds of the rule that reads them, by name.
    """

    def __init__(
        self,
        columns: Mapping[str, Column],
        length: int,
        limits: Mapping[str, Threshold] | None = None,
    ) -> None:
        self._columns = columns
        self._length = length
        self._limits = limits or {}

    def __len__(self) -> int:
        return self._length

    def __getattr__(self, name: str) -> Column:
        try:
            return self._columns[name]
        except KeyError:
            raise AttributeError(f"no column {name} here; declare it in needs or uses") from None

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def names(self) -> tuple[str, ...]:
        """The columns that these facts have."""
        return tuple(self._columns)

    def only(
        self, names: tuple[str, ...], limits: Mapping[str, Threshold] | None = None
    ) -> "Facts":
        """The same subjects with just these columns; one that nobody filled is all unknown."""
        unknown = np.broadcast_to(np.nan, self._length)  # of no size, whatever the length
        columns = {name: self._columns.get(name, unknown) for name in names}
        return Facts(columns, self._length, limits)

    def worded(self) -> "Facts":
        """The same facts with text columns that know which text each value has (``words``): many
        rules ask of the same columns."""
        columns = {
            name: words(one) if one.dtype == object else one for name, one in self._columns.items()
        }
        return Facts(columns, self._length, self._limits)

    def meets(self, name: str) -> Mask:
        """Which subjects are on the side of a threshold on which the rule fires."""
        return np.asanyarray(self._limits[name].holds(name, self))

    def limit(self, name: str) -> float:
        """The number of a threshold."""
        return self._limits[name].value

    def value(self, name: str, row: int) -> Any:
        """One value: a number, text, or None where it is unknown."""
        found = self._columns[name][row]
        if isinstance(found, str):
            return found
        return None if is_unknown_value(found) else float(found)

    def values(self, name: str, rows: npt.NDArray[np.int64]) -> list[Any]:
        """``value`` of some rows."""
        found = np.asarray(self._columns[name])[rows]
        if found.dtype != object:
            return [None if one != one else one for one in found.astype(np.float64).tolist()]  # noqa: PLR0124
        return [
            one if isinstance(one, str) else None if is_unknown_value(one) else float(one)
            for one in found.tolist()
        ]

    @staticmethod
    def of(rows: tuple[Mapping[str, Any], ...], names: tuple[str, ...]) -> "Facts":
        """Facts from examples: one mapping a subject; a column that it leaves out is unknown."""
        columns: dict[str, Column] = {}
        for name in names:
            values = [row.get(name) for row in rows]
            if any(isinstance(value, str) for value in values):
                columns[name] = np.array(values, dtype=object)
            else:
                columns[name] = np.array(
                    [np.nan if value is None else value for value in values], dtype=np.float64
                )
        return Facts(columns, len(rows))


def is_unknown_value(value: Any) -> bool:
    """Whether one value of a column means unknown: None, or NaN."""
    return value is None or (isinstance(value, float | np.floating) and bool(np.isnan(value)))


def unknown(column: Column) -> Mask:
    """Where a column is unknown."""
    if column.dtype != object:
        return np.asanyarray(np.isnan(column))
    if isinstance(column, Words) and column.codes is not None:
        return column.codes < 0
    plain = np.asarray(column)
    found: Mask = (plain == None) | (plain != plain)  # noqa: PLR0124 - value by value
    return is_unknown(column, found) if isinstance(column, Traced) else found


def whole(value: float | None) -> int | None:
    """A figure as a whole number; None where it is unknown."""
    return None if value is None or math.isnan(value) else round(float(value))
