"""How Arrow begins in a process of our own: without pandas, with little memory."""

import sys
from importlib.abc import MetaPathFinder
from typing import Any


class _NoPandas(MetaPathFinder):
    """Answers for a moment that pandas is not installed."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


def arrow_without_pandas() -> None:
    """Let pyarrow ask for pandas now, once and in vain.

    It imports pandas at the first list that becomes an array, to see whether the list is a Series:
    a sixth of the time of a small file. ``to_pandas`` imports it all the same.
    """
    if "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([])
        # One store of free memory, that of the C library, instead of another one beside it: a sixth of
        # the memory of a large trace.
        pa.set_memory_pool(pa.system_memory_pool())
    finally:
        sys.meta_path.remove(finder)
