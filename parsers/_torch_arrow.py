"""Arrow columns out of numbers and texts, without more memory than they hold."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.parsers._torch_events import UNKNOWN, Whole

Mask = npt.NDArray[np.bool_]

# Tables are made in parts and what they are made of is given up, so that nothing is there twice.
ROWS: Final = 1 << 17

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


def wholes(values: Whole) -> pa.Array:
    """Whole numbers, null where UNKNOWN."""
    return nulled(values, values != UNKNOWN)


def reals(values: npt.NDArray[np.float64]) -> pa.Array:
    """Numbers, null where they are none (NaN, or too large for a double)."""
    return nulled(values, np.isfinite(values))


class Texts:
    """Texts to be had as Arrow columns by code; a negative code is null."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._parts = [text.encode("utf-8", "replace") for text in texts]
        self._parts.append(b"")
        self._sizes = np.array([len(part) for part in self._parts], dtype=np.int64)

    @property
    def rows(self) -> int:
        """How many rows surely fit into one array, whose bytes Arrow counts in 31 bits."""
        return max(1, (1 << 31) // (int(self._sizes.max()) + 1) - 1)

    def at(self, codes: npt.NDArray[Any]) -> pa.Array:
        """The texts with these codes, one a row."""
        # Joined by hand: Arrow's take grows its result in leaps and keeps a third more than it
        # needs.
        codes = np.maximum(codes, -1)
        offsets = np.zeros(len(codes) + 1, dtype=np.int32)
        np.cumsum(self._sizes[codes], out=offsets[1:])
        data = b"".join(map(self._parts.__getitem__, codes.tolist()))
        validity = None
        if (codes < 0).any():
            validity = pa.py_buffer(np.packbits(codes >= 0, bitorder="little"))
        return pa.Array.from_buffers(
            pa.string(), len(codes), [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
