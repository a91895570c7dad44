"""What comes of tasks as one message from another process: Dask and pickle take much longer over
thousands of arrays."""

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import arrow_bytes


def packed(things: Sequence[Any]) -> tuple[int, bytes]:
    """Things as one piece of bytes, and its length before it was compressed."""
    data = io.BytesIO()
    _Pickler(data).dump(things)
    return data.tell(), pa.compress(data.getbuffer(), "lz4_raw", asbytes=True)


def unpacked(message: tuple[int, bytes]) -> Any:
    """The inverse of ``packed``."""
    length, data = message
    return pickle.loads(pa.decompress(data, length, "lz4_raw"))


class _Pickler(pickle.Pickler):
    """Writes a table that equals an earlier one as that one, and a column of one value as that."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self._tables: dict[object, list[pa.Table]] = {}

    def reducer_override(self, thing: Any) -> Any:
        """As pickle calls it: how an object is written, where not as ever."""
        if isinstance(thing, pa.Table):
            alike = self._tables.setdefault((thing.num_rows, *thing.column_names), [])
            for one in alike:
                if one.equals(thing):
                    return _as_is, (one,)
            alike.append(thing)
            return arrow_bytes.unpacked, (arrow_bytes.packed(thing, None),)
        if isinstance(thing, np.ndarray) and thing.strides == (0,) and len(thing) > 1:
            return _repeated, (thing[:1].tobytes(), thing.dtype.str, len(thing))
        return NotImplemented


def _as_is(thing: Any) -> Any:
    return thing


def _repeated(value: bytes, kind: str, length: int) -> npt.NDArray[Any]:
    """A column of one value, as a view of it."""
    return np.ndarray((length,), kind, value, 0, (0,))
