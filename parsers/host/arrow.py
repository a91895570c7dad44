"""Arrow columns out of numbers and texts, without more memory than they hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.dictionary import PART, repeated
from traceroof.ingest.sqlite import UNKNOWN, Whole

Mask = npt.NDArray[np.bool_]

# Made from buffers: ``pa.array`` imports pandas to see whether it has a pandas object, which costs
# 0.2 s and 40 MB.


def nulled(values: npt.NDArray[Any], known: Mask) -> pa.Array:
    """Numbers, null where not known."""
    validity = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype),
        len(values),
        [validity, pa.py_buffer(np.ascontiguousarray(values))],
    )


def wholes(values: Whole) -> pa.Array | pa.ChunkedArray:
    """Whole numbers, null where UNKNOWN. What is the same in all rows (a process, a device) is there
    once for all parts of the column."""
    if len(values) > PART and values[0] == values.min() == values.max() != UNKNOWN:
        return repeated(nulled(values[:PART].copy(), np.ones(PART, dtype=bool)), len(values))
    return nulled(values, values != UNKNOWN)


def reals(values: npt.NDArray[np.float64]) -> pa.Array | pa.ChunkedArray:
    """Numbers, null where they are none (NaN, or too large for a double). One number in all rows is
    there once, as in ``wholes``."""
    if len(values) > PART and values[0] == values.min() == values.max() != np.inf:
        return repeated(nulled(values[:PART].copy(), np.ones(PART, dtype=bool)), len(values))
    return nulled(values, np.isfinite(values))


class Texts:
    """Texts to be had as Arrow columns by code; a negative code is null."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def at(self, codes: npt.NDArray[Any]) -> pa.Array:
        """The texts with these codes, one a row: each is kept once, in the order of the rows."""
        known = codes >= 0
        first = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
        rows = np.flatnonzero(known)[::-1]
        first[codes[rows]] = rows  # of several rows numpy keeps the last
        used = np.flatnonzero(first >= 0)
        distinct: dict[bytes, int] = {}
        number = np.zeros(len(first) + 1, dtype=np.int32)
        for code in used[np.argsort(first[used])].tolist():
            # A lone surrogate, which JSON can hold, is no text to Arrow.
            text = self._texts[code].encode("utf-8", "replace")
            number[code] = distinct.setdefault(text, len(distinct))
        return pa.DictionaryArray.from_arrays(
            nulled(number[np.maximum(codes, -1)], known), _strings(list(distinct))
        )


def _strings(parts: list[bytes]) -> pa.Array:
    offsets = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    return pa.Array.from_buffers(
        pa.string(), len(parts), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    )
