"""SQLite databases of AMD's tools, opened so that nothing can be changed, run or leaked.

Only plain tables are read, by name and column: never a view, whose text comes from the file, and
never a column called ``environment``, which holds the environment of the profiled program with
whatever secrets were in it.
"""

import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.parser import Options

MAGIC = b"SQLite format 3\x00"
_COPY_STEP = 1 << 20
_ROWS_AT_ONCE = 65_536
_PLAIN = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
_SECRET_COLUMN = "environment"
# What damaged pages raise, wherever they are touched.
_BROKEN = (sqlite3.Error, UnicodeDecodeError, OverflowError)

#: What the tables of a rocpd database are called: a name, and the run's id behind it.
ROCPD_TABLE = re.compile(r"rocpd_([a-z_]+?)(_[0-9a-f]{8}_[0-9a-f_]{20,})?$", re.IGNORECASE)


class Schema(Enum):
    """Which tool wrote a database."""

    ROCPD = "rocpd"
    RPD = "rpd"
    ROCPROF_V1 = "rocprof v1"
    HIPPROF = "hipprof"


@dataclass
class Database:
    """An open database.

    tables: real tables, name -> columns. notes: what was damaged.
    """

    path: Path
    connection: sqlite3.Connection
    tables: Mapping[str, tuple[str, ...]]
    notes: list[Note] = field(default_factory=list)

    def read(self, table: str, columns: Sequence[str]) -> dict[str, list[Any]]:
        """Columns of a table, without the ones that it does not have.

        A damaged page ends the table there; what came before is kept and a note added.
        """
        present = [name for name in columns if name in self.tables.get(table, ())]
        rows: list[tuple[Any, ...]] = []
        if present:
            names = ", ".join(map(_quoted, present))
            try:
                cursor = self.connection.execute(f"SELECT {names} FROM {_quoted(table)}")
                while some := cursor.fetchmany(_ROWS_AT_ONCE):
                    rows += some
            except _BROKEN:
                self.notes.append(Note(f"the database is damaged: part of {table} was not read"))
        # Transposed by hand: zip(*rows) of nothing has no columns.
        return {name: [row[place] for row in rows] for place, name in enumerate(present)}


def schema_of(head: bytes, path: Path) -> Schema | None:
    """Which tool wrote the database at ``path``; None for any other file or database."""
    if not head.startswith(MAGIC):
        return None
    try:
        with path.open("rb") as file:
            packed = file.read(len(MAGIC)) != MAGIC
        if packed:
            # Not unpacked just to look: the first pages hold the schema as text.
            return _schema(name.decode("ascii", "replace") for name in _TABLE.findall(head))
        with _connected(path) as connection:
            return _schema(_names(connection))
    except (OSError, *_BROKEN):
        return None


_TABLE = re.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?([A-Za-z_][\w]*)", re.IGNORECASE)


def _schema(names: Iterator[str]) -> Schema | None:
    found = set(names)
    rocpd = {match.group(1).lower() for name in found if (match := ROCPD_TABLE.match(name))}
    if {"kernel_dispatch", "info_agent"} <= rocpd:
        return Schema.ROCPD
    if {"op", "api"} <= rocpd:
        return Schema.RPD
    if "STR_TABLE" in found and any(name.startswith("HIPOPS_") for name in found):
        return Schema.HIPPROF
    if "KERN" in found or ("OPS" in found and found & {"HIP", "HSA", "COPY"}):
        return Schema.ROCPROF_V1
    return None


def _names(connection: sqlite3.Connection) -> Iterator[str]:
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        if isinstance(name, str) and _PLAIN.match(str(sql)):
            yield name


@contextmanager
def open_database(path: Path, options: Options) -> Iterator[Database]:
    """Open a database, packed or not, for reading.

    Raises TraceroofError when it cannot be read as one.
    """
    with open_inflated(path, options) as stream:
        if stream.plain:
            plain = path
            with _opened(plain, path) as database:
                yield database
            return
        with tempfile.TemporaryDirectory(prefix="traceroof-") as folder:
            plain = Path(folder, "unpacked.db")
            with plain.open("wb") as file:
                while data := stream.read(_COPY_STEP):
                    file.write(data)
            with _opened(plain, path) as database:
                database.notes += stream.notes
                yield database


@contextmanager
def _opened(plain: Path, path: Path) -> Iterator[Database]:
    try:
        with _connected(plain) as connection:
            tables = {}
            for name in list(_names(connection)):
                rows = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
                tables[name] = tuple(str(row[1]) for row in rows if row[1] != _SECRET_COLUMN)
            connection.set_authorizer(_authorised)
            yield Database(path, connection, tables)
    except _BROKEN as error:
        # A damaged schema can end up in the message, as bytes that are no text.
        words = "its schema is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
        raise TraceroofError(
            f"{path} is an SQLite database that cannot be read: {words}",
            "it may have been cut short: copy it again, or export it anew",
        ) from None


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    # Immutable: SQLite looks for no journal and leaves no files beside the user's. A database
    # that was not closed keeps its last rows in a -wal file, which must then be read too.
    wal = path.with_name(path.name + "-wal")
    immutable = "" if wal.is_file() and wal.stat().st_size else "&immutable=1"
    uri = f"file:{quote(str(path.resolve()))}?mode=ro{immutable}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        # Expressions in a hostile schema may not call functions with side effects.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        yield connection
    finally:
        connection.close()


def _authorised(
    action: int, table: str | None, column: str | None, base: str | None, source: str | None
) -> int:
    """Reading plain columns is all that any of our statements does."""
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    # ``source`` names the view or trigger that asks; there is none in our own statements.
    if action == sqlite3.SQLITE_READ and source is None and column != _SECRET_COLUMN:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def wholes(values: Sequence[Any] | None, count: int) -> pa.Array:
    """A column as int64; null where it is missing or holds no whole number."""
    if values is None:
        return pa.nulls(count, pa.int64())
    try:
        return pa.array(values, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_whole(value) for value in values], pa.int64())


def _whole(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if abs(number) < 2**63 else None


def numbers(values: Sequence[Any] | None, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A column as float64; NaN where it is missing or holds no finite number."""
    found = np.full(count, np.nan)
    for row, value in enumerate(values or ()):
        try:
            found[row] = float(value)
        except (TypeError, ValueError, OverflowError):
            continue
    found[~np.isfinite(found)] = np.nan
    return found


def texts(values: Sequence[Any] | None, count: int) -> pa.Array:
    """A column as text; null where it is missing, empty or no text."""
    if values is None:
        return pa.nulls(count, pa.string())
    kept = [value if isinstance(value, str) and value else None for value in values]
    return pa.array([_speakable(value) for value in kept], pa.string())


def _speakable(text: str | None) -> str | None:
    # Half of a surrogate pair cannot be written as UTF-8.
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")
