"""The tables that the program ships as TOML: parsed once per installation, as modules are compiled.

To parse the tables takes tomllib a tenth of a small file's time. What it made is kept where Python
keeps its bytecode, under the same conditions, and made anew when the table has another size or time.
"""

import os
import pickle
import sys
from contextlib import suppress
from decimal import Decimal
from importlib.resources import files
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any


def toml_table(package: str, name: str, *, exact: bool = False) -> dict[str, Any]:
    """The table in a file of a package. exact: numbers with a point are decimals, not doubles."""
    path = files(package) / name
    if not isinstance(path, Path):
        return _parsed(path.read_text("utf-8"), exact)
    about = path.stat()
    stamp = (about.st_mtime_ns, about.st_size, exact)
    kept = cache_from_source(f"{path}.py")
    with suppress(OSError, ValueError, EOFError, pickle.UnpicklingError), open(kept, "rb") as file:
        if pickle.load(file) == stamp:
            found: dict[str, Any] = pickle.load(file)
            return found
    made = _parsed(path.read_text("utf-8"), exact)
    if not sys.dont_write_bytecode:
        with suppress(OSError):
            _keep(kept, pickle.dumps(stamp) + pickle.dumps(made))
    return made


def _parsed(text: str, exact: bool) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text, parse_float=Decimal if exact else float)


def _keep(path: str, content: bytes) -> None:
    """Write a file that appears whole or not at all."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(content)
    os.replace(draft, path)
