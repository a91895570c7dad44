"""Numbers and times taken out of columns of text."""

import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import regex

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
# A timestamp written as 8.1097E+14 has lost its last digits: coarser than this, it is useless.
_COARSEST_NS = 1_000
_WHOLE = regex.compile(r"[+-]?\d{1,18}")
_LARGEST = 2**63 - 1


def integers(column: pa.ChunkedArray) -> pa.Array:
    """Text to int64: ``4``, ``4.000000`` and ``0.00000000e+00`` are whole, all else is null."""
    flat = _flat(column)
    try:
        return flat.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    try:
        numbers = flat.cast(pa.float64())
        # Up to 2**53 a double holds every whole number.
        if (pc.max(pc.abs(numbers)).as_py() or 0) < 2**53:
            whole = pc.if_else(pc.equal(pc.trunc(numbers), numbers), numbers, None)
            return whole.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    return pa.array([_whole(text) for text in flat.to_pylist()], pa.int64())


def _whole(text: str | None) -> int | None:
    value = _decimal(text)
    if value is None or value != value.to_integral_value() or abs(value) > _LARGEST:
        return None
    return int(value)


def reals(column: pa.ChunkedArray) -> Reals:
    """Text to float64; NaN where it is no finite number."""
    flat = _flat(column)
    try:
        values = flat.cast(pa.float64())
    except pa.ArrowInvalid:
        values = pa.array([_real(text) for text in flat.to_pylist()], pa.float64())
    found = np.array(values.to_numpy(zero_copy_only=False), dtype=np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def _real(text: str | None) -> float | None:
    value = _decimal(text)
    return None if value is None else float(value)


@dataclass(frozen=True)
class Times:
    """Points in time: ``values`` in ns where ``known``; ``coarse`` where digits were lost.

    fraction: what a mean over passes has beyond whole nanoseconds, 0 to 1; None where nothing.
    """

    values: Integers
    known: Mask
    coarse: Mask
    fraction: Reals | None = None


def length_of(start: Times, end: Times) -> Integers:
    """From start to end in whole ns, fractions counted before rounding."""
    # Two's complement wraps silently; times this far apart are no times.
    sane = np.abs(start.values // 2 - end.values // 2) < 2**61
    whole = np.where(sane, end.values - start.values, 0)
    if start.fraction is None and end.fraction is None:
        return whole
    nothing = np.zeros(len(whole))
    more = (nothing if end.fraction is None else end.fraction) - (
        nothing if start.fraction is None else start.fraction
    )
    return np.asarray(whole + np.round(more), dtype=np.int64)


def times(column: pa.ChunkedArray) -> Times:
    """Text to nanoseconds, exactly: never through a double.

    ``41551807906111.46`` keeps its fraction. A number like ``8.1097E+14``, which a spreadsheet wrote, is
    coarse: what is left of it says nothing about a kernel.
    """
    flat = _flat(column)
    try:
        whole = flat.cast(pa.int64())
        known = np.asarray(whole.is_valid())
        filled = np.asarray(whole.fill_null(0), dtype=np.int64)
        return Times(filled, known, np.zeros(len(flat), dtype=bool))
    except pa.ArrowInvalid:
        pass
    values = np.zeros(len(flat), dtype=np.int64)
    known = np.zeros(len(flat), dtype=bool)
    coarse = np.zeros(len(flat), dtype=bool)
    fraction = np.zeros(len(flat))
    for row, text in enumerate(flat.to_pylist()):
        value = _decimal(text)
        if value is None or abs(value) > _LARGEST:
            continue
        exponent = value.as_tuple().exponent
        coarse[row] = isinstance(exponent, int) and value != 0 and 10**exponent >= _COARSEST_NS
        known[row] = not coarse[row]
        if known[row]:
            values[row] = math.floor(value)
            fraction[row] = float(value - math.floor(value))
    return Times(values, known, coarse, fraction)


def _decimal(text: str | None) -> Decimal | None:
    if not text or len(text) > 64:
        return None
    if _WHOLE.fullmatch(text):
        return Decimal(int(text))
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return None
    # The exponent is bounded too: 1e999999 would be expanded digit by digit.
    return value if value.is_finite() and abs(value.adjusted()) < 300 else None


def _flat(column: pa.ChunkedArray) -> pa.Array:
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    flat = pc.utf8_trim_whitespace(flat)
    return pc.if_else(pc.equal(flat, ""), pa.scalar(None, pa.string()), flat)
