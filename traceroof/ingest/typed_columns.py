"""Values as a database or a JSON file holds them, as columns of one type each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa


def row_count(rows: Mapping[str, Sequence[Any]]) -> int:
    """How many rows were read, whichever columns the table has."""
    return max(map(len, rows.values()), default=0)


def wholes(values: Sequence[Any] | None, count: int) -> pa.Array:
    """A column as int64; null where it is missing or holds no whole number."""
    if values is None:
        return pa.nulls(count, pa.int64())
    try:
        return pa.array(values, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([whole(value) for value in values], pa.int64())


def whole(value: Any) -> int | None:
    """The whole number of 64 bits that a value is; None for any other."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 2**63 else None


def numbers(values: Sequence[Any] | None, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column as float64; NaN where it is missing or holds no finite number."""
    found = np.full(count, np.nan)
    for row, value in enumerate(values or ()):
        try:
            found[row] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    found[~np.isfinite(found)] = np.nan
    return found


def texts(values: Sequence[Any] | None, count: int) -> pa.Array:
    """A column as text; null where it is missing, empty or no text."""
    if values is None:
        return pa.nulls(count, pa.string())
    kept = [value if isinstance(value, str) and value else None for value in values]
    return pa.array([_speakable(value) for value in kept], pa.string())


def _speakable(text: str | None) -> str | None:
    # Half of a surrogate pair cannot be written as UTF-8.
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
