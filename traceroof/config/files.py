"""The files that hold settings: which of them count, and what each key is set to by which."""

import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from traceroof.config.settings import Entry, Settings, entries_of, settings_of
from traceroof.errors import TraceroofError

#: Names the file to read in place of ``--config``; empty: no file at all is read.
VARIABLE = "TRACEROOF_CONFIG"

NAME = "traceroof.toml"
_PROJECT = "pyproject.toml"


def load(
    explicit: Path | None = None, *, without: bool = False, folder: Path | None = None
) -> Settings:
    """The settings in force in a folder, the working folder by default.

    explicit: the file of ``--config``; without: no file counts. Raises TraceroofError for a file
    that cannot be read, and for a key or value that is none.
    """
    if without:
        return settings_of({})
    if explicit is None and VARIABLE in os.environ:
        if not os.environ[VARIABLE]:
            return settings_of({})
        explicit = Path(os.environ[VARIABLE])
    merged: dict[str, Entry] = {}
    for file, table in _tables(explicit, folder or Path.cwd()):
        for key, entry in entries_of(table, file).items():
            merged.setdefault(key, entry)
    return settings_of(merged)


def _tables(explicit: Path | None, folder: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The files that count with their settings, the strongest first."""
    if explicit is not None:
        table = _read(explicit)
        yield explicit, _of_project(table, explicit) if explicit.name == _PROJECT else table
    folders = (folder, *folder.parents)
    nearest = next((one / NAME for one in folders if (one / NAME).is_file()), None)
    if nearest is not None:
        yield nearest, _read(nearest)
    for one in folders:
        project = one / _PROJECT
        # Most projects on the way up have none of ours: not worth a parser.
        if project.is_file() and b"traceroof" in project.read_bytes():
            table = _of_project(_read(project), project)
            if table:
                yield project, table
                return


def _read(file: Path) -> Mapping[str, Any]:
    import tomllib  # most folders have no such file

    try:
        # Decimals, so that a rate of 989.4 TFLOP/s is 989.4e12 to the last bit.
        return tomllib.loads(file.read_text("utf-8"), parse_float=Decimal)
    except FileNotFoundError:
        raise TraceroofError(f"{file} does not exist", "--config names a TOML file") from None
    except OSError as error:
        raise TraceroofError(f"{file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TraceroofError(f"{file} is not valid TOML: {error}") from error


def _of_project(table: Mapping[str, Any], file: Path) -> Mapping[str, Any]:
    tool = table.get("tool", {})
    found = tool.get("traceroof", {}) if isinstance(tool, dict) else {}
    if not isinstance(found, dict):
        raise TraceroofError(f"{file}: tool.traceroof is not a table", "write [tool.traceroof]")
    return found
