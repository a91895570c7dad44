"""Events as columns: texts once, numbers as they come."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
KINDS: Final = ("kernel", "memcpy", "memset")
# Category of an event -> what it is to us. Capitalised ones: Kineto of 2020 and 2021. AMD's
# runtime calls are called cuda_runtime too.
GPU_KINDS: Final[Mapping[str, int]] = {
    "kernel": 0,
    "Kernel": 0,
    "gpu_memcpy": 1,
    "Memcpy": 1,
    "gpu_memset": 2,
    "Memset": 2,
}
CALL_CATEGORIES: Final = (
    "cuda_runtime",
    "Runtime",
    "cuda_driver",
    "hip_runtime",
    "hip_driver",
    "xpu_runtime",
    "xpu_driver",
    "mtia_runtime",
    "hpu_runtime",
    "glow_runtime",
    "privateuse1_runtime",
    "privateuse1_driver",
)
OPERATOR_CATEGORIES: Final = ("cpu_op", "Operator")
#: How the events of a category are kept (``columns.Fold``): those of one family alike.
FAMILIES: Final[Mapping[str, str]] = {
    **dict.fromkeys(GPU_KINDS, "gpu"),
    **dict.fromkeys(OPERATOR_CATEGORIES, "operators"),
    **dict.fromkeys(CALL_CATEGORIES, "calls"),
    "user_annotation": "ranges",
    "python_function": "frames",
    **dict.fromkeys(("gpu_user_annotation", "cuda_sync", "xpu_sync", "overhead"), "other"),
}
#: Events that only Kineto writes: what tells a torch.profiler trace from other Chrome traces.
TORCH_CATEGORIES: Final = frozenset(
    {*GPU_KINDS, *CALL_CATEGORIES, *OPERATOR_CATEGORIES, "user_annotation", "python_function"}
)
#: What tells launches apart, in this order: where an activity ran and how it was launched. A few
#: hundred combinations serve millions of activities. The last three are JSON texts.
LAUNCH_FIELDS: Final = (
    "pid",
    "tid",
    "device",
    "from_device",
    "stream",
    "context",
    "rank",
    "graph",
    "registers",
    "shared_memory",
    "estimated_occupancy",
    "theoretical_occupancy",
    "grid",
    "block",
    "occupancy",
)

# The columns of each table and their types.
# "i": 32-bit codes of interned things, "q": 64-bit whole numbers, "d": doubles, "b": 8-bit.
RANGE_TYPES = {"name": "i", "thread": "i", "start": "q", "duration": "q"}
OPERATOR_TYPES = {"signature": "i", "thread": "i", "start": "q", "duration": "q", "sequence": "q"}
CALL_TYPES = {**RANGE_TYPES, "category": "i", "correlation": "q", "rank": "q"}
SHAPED_CALL_TYPES = {"call": "q", "grid": "i", "block": "i", "shared_memory": "d", "bytes": "d"}
GPU_TYPES = {
    "kind": "b",
    "name": "i",
    "launch": "i",
    "start": "q",
    "duration": "q",
    "correlation": "q",
    "bytes": "d",
}
OTHER_TYPES = {**RANGE_TYPES, "category": "i", "stream": "q", "device": "q", "correlation": "q"}
COLLECTIVE_TYPES = {"row": "q", "what": "i"}
LINE_TYPES = {"row": "q", "line": "i"}


class Intern(dict[Any, int]):
    """Numbers for things in the order in which they first come."""

    def __missing__(self, thing: Any) -> int:
        self[thing] = number = len(self)
        return number

    def codes(self, things: Iterable[Any], count: int) -> Codes:
        return np.fromiter(map(self.__getitem__, things), dtype=np.int32, count=count)

    def names(self, things: Sequence[Any]) -> Codes:
        """Codes of texts; of what their JSON says where a writer put something else."""
        try:
            return self.codes(things, len(things))
        except TypeError:
            return self.codes(map(str, things), len(things))


class Columns:
    """Columns of numbers that grow together."""

    def __init__(self, types: Mapping[str, str]) -> None:
        self._columns = {name: array(code) for name, code in types.items()}
        self.rows = 0

    def add(self, count: int, **values: npt.NDArray[Any]) -> None:
        """Append ``count`` rows; every column must be given, others are left out."""
        for name, column in self._columns.items():
            column.frombytes(
                np.ascontiguousarray(values[name], dtype=column.typecode).view(np.uint8).data
            )
        self.rows += count

    def pop(self, name: str) -> npt.NDArray[Any]:
        """A column, which leaves the table; memory is the caller's from here."""
        column = self._columns.pop(name)
        return np.frombuffer(column, dtype=column.typecode)

    def peek(self, name: str) -> npt.NDArray[Any]:
        """A column, to look at before more rows come."""
        column = self._columns[name]
        return np.frombuffer(column, dtype=column.typecode)

    def set(self, name: str, values: npt.NDArray[Any]) -> None:
        """Put other values into a column."""
        code = self._columns[name].typecode
        self._columns[name] = array(code, np.ascontiguousarray(values, dtype=code).tobytes())

    def __reduce__(self) -> Any:
        return columns_again, (self._columns, self.rows)

    def append(self, other: "Columns", codes: Mapping[str, Codes]) -> None:
        """Append another table's rows; columns named in ``codes`` are translated by it."""
        for name, column in self._columns.items():
            values = other.pop(name)
            if name in codes:
                values = codes[name][values]
            column.frombytes(np.ascontiguousarray(values, column.typecode).view(np.uint8).data)
        self.rows += other.rows


def columns_again(columns: dict[str, "array[Any]"], rows: int) -> Columns:
    again = Columns({})
    again._columns, again.rows = columns, rows
    return again
