"""Text columns as numbers: what follows from a text is found once for each text, not once a row."""

from collections.abc import Iterable
from dataclasses import dataclass
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


def coded(column: pa.ChunkedArray | pa.Array) -> Coded:
    """A text column, dictionary-encoded or not, as numbers."""
    if isinstance(column, pa.ChunkedArray):
        column = one_array(column.unify_dictionaries())
    encoded = column.dictionary_encode()
    indices = encoded.indices
    codes = np.asarray(indices.fill_null(-1) if indices.null_count else indices, dtype=np.int32)
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

# Up to so many values sorting takes less time than importing pandas.
_FEW = 1 << 16


def factorized(values: npt.NDArray[Any]) -> tuple[Codes, npt.NDArray[Any]]:
    """A number for each value, counted in the order in which they first appear, -1 for None and
    NaN; and the distinct values in that order."""
    if len(values) > _FEW:
        import pandas as pd

        codes, distinct = pd.factorize(values)
        return codes.astype(np.int64, copy=False), np.asarray(distinct)
    if values.dtype == object:
        number: dict[Any, int] = {}
        found = [
            -1
            if one is None or isinstance(one, float) and np.isnan(one)
            else number.setdefault(one, len(number))
            for one in values.tolist()
        ]
        distinct = np.empty(len(number), dtype=object)
        distinct[:] = list(number)
        return np.array(found, dtype=np.int64), distinct
    unknown = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    known = values[~unknown]
    distinct, first, number_of = np.unique(known, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    codes = np.full(len(values), -1, dtype=np.int64)
    codes[~unknown] = rank[number_of]
    return codes, distinct[order]


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
