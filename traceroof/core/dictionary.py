"""Text columns as numbers: what follows from a text is found once for each text, not once a row."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """A text column of n rows: which text each row has, and the texts.

    codes: n numbers of 32 bits, -1 for null. texts: distinct, in no order that means anything; some may have
    no row.
    """

    codes: npt.NDArray[np.int32]
    texts: list[str]

    def at(self, rows: Codes) -> list[str | None]:
        """The texts of some rows."""
        known = [*self.texts, None]
        return [known[code] for code in self.codes[rows].tolist()]

    def take(self, rows: Codes) -> "Coded":
        """Some rows."""
        return Coded(self.codes[rows], self.texts)

    def is_(self, text: str) -> npt.NDArray[np.bool_]:
        """Which rows have this text."""
        return self.spread(np.array([*(one == text for one in self.texts), False]))

    def values(self) -> npt.NDArray[np.object_]:
        """The text of each row, None where null."""
        return self.spread(np.array([*self.texts, None], dtype=object))

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value per text, and a last one for null, as a value per row."""
        found: npt.NDArray[Any] = values[self.codes]  # -1 is the last
        return found


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array; Arrow's own way copies a single chunk too."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _filled(indices: pa.Array) -> npt.NDArray[Any]:
    """Numbers, -1 where null."""
    return np.asarray(indices.fill_null(-1) if indices.null_count else indices)


def coded(column: pa.ChunkedArray | pa.Array) -> Coded:
    """A text column, dictionary-encoded or not, as numbers."""
    if isinstance(column, pa.ChunkedArray):
        column = one_array(column.unify_dictionaries())
    encoded = column.dictionary_encode()
    codes = _filled(encoded.indices).astype(np.int32, copy=False)
    texts = encoded.dictionary.to_pylist()
    if None in texts or len(set(texts)) < len(texts):
        # Another writer's dictionary may have an entry twice, or one for null.
        number: dict[str | None, int] = {None: -1}
        for text in texts:
            number.setdefault(text, len(number) - 1)
        codes = np.array([*(number[text] for text in texts), -1], dtype=np.int32)[codes]
        texts = [text for text in number if text is not None]
    return Coded(codes, texts)


def together(columns: Iterable[npt.NDArray[Any]]) -> tuple[Codes, Codes]:
    """Columns of whole numbers as one: the number of each row's combination, counted in the order
    in which they first appear, and the first row of each. One column is looked at at a time, so
    that a generator need not hold them all."""
    codes = np.zeros(0, dtype=np.int64)
    size = 0  # the codes are below it; 0: there are none yet
    for one in columns:
        numbers = one
        low, high = (0, 0) if one.dtype == object or not len(one) else (one.min(), one.max())
        if one.dtype == object or low < -1 or high >= _LARGE:
            numbers = factorized(one)[0]
            low, high = numbers.min(initial=0), numbers.max(initial=0)
        if not size:
            codes, size = numbers.astype(np.int64) + 1, int(high) + 2
        elif low < high:  # one number in all rows tells nothing apart
            width = int(high) + 2
            if size * width > _PRODUCT:
                codes = factorized(codes)[0]
                size = int(codes.max()) + 1
            codes *= width
            codes += numbers
            codes += 1
            size *= width
    codes = factorized(codes)[0]
    first = np.empty(int(codes.max()) + 1 if len(codes) else 0, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # of several rows numpy keeps the last
    return codes, first


_LARGE = 1 << 31
# As far as products of numbers of combinations go before they are counted anew. Rows are below 2^31,
# so that no product overflows.
_PRODUCT = 1 << 62


def factorized(values: npt.NDArray[Any]) -> tuple[Codes, npt.NDArray[Any]]:
    """A number for each value, counted in the order in which they first appear, -1 for None and
    NaN; and the distinct values in that order."""
    if values.dtype == object:
        number: dict[Any, int] = defaultdict(count().__next__)
        numbers = np.fromiter(map(number.__getitem__, values), np.int64, len(values))
        unknown = [one is None or isinstance(one, float) and np.isnan(one) for one in number]
        known = ~np.array(unknown, dtype=bool)
        distinct = np.empty(len(number), dtype=object)
        distinct[:] = list(number)
        return np.where(known, np.cumsum(known) - 1, -1)[numbers], distinct[known]
    if values.dtype.kind == "f":
        values = values + 0.0  # there is one zero, without a sign
    elif len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < _TABLE * len(values):
            return _by_table(values, low, high - low + 1)
    encoded = pa.array(values, from_pandas=True).dictionary_encode()  # NaN becomes null
    codes = _filled(encoded.indices).astype(np.int64)
    return codes, encoded.dictionary.to_numpy(zero_copy_only=False)


# Whole numbers that lie so close, numbers a row, are found by table: where most are distinct, Arrow's
# takes 150 bytes a row.
_TABLE = 4


def _by_table(values: npt.NDArray[Any], low: int, span: int) -> tuple[Codes, npt.NDArray[Any]]:
    """``factorized`` for whole numbers from ``low`` on, less than ``span`` above it."""
    at = values - low
    rows = np.arange(len(at), dtype=np.int32)
    number = np.empty(span, dtype=np.int32)
    # First the first row of each: of several rows numpy keeps the last.
    number[at[::-1]] = rows[::-1]
    first = np.flatnonzero(number[at] == rows)
    number[at[first]] = np.arange(len(first), dtype=np.int32)
    return number[at].astype(np.int64), values[first]


def compact(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column of values that are all the same (or all unknown) as a view of one."""
    if len(values) < 2:
        return values
    first = values[0]
    unknown = values.dtype.kind == "f" and np.isnan(first)
    same = np.isnan(values).all() if unknown else (values == first).all()
    return np.broadcast_to(values[:1].copy(), values.shape) if same else values


#: Rows of a part that a column of one value (or of none) is made of.
PART = 1 << 16


def repeated(part: pa.Array, length: int) -> pa.ChunkedArray:
    """A column of ``length`` rows that holds one part, of PART rows, over and over: memory for one."""
    rest = part.slice(0, length % PART)
    return pa.chunked_array([*[part] * (length // PART), rest])
