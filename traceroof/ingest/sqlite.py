"""SQLite databases of profilers, opened so that nothing can be changed, run or leaked.

Only plain tables are read, by name and column: never a view, whose text comes from the file, and
never what holds the environment of the profiled program with whatever secrets were in it
(``PRIVATE_TABLES``, ``PRIVATE_COLUMNS``): SQLite itself refuses to read those.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.typed_columns import whole
from traceroof.parser import Options

if TYPE_CHECKING:
    import sqlite3

MAGIC = b"SQLite format 3\x00"

#: What SQLite writes beside a database, behind its name.
COMPANIONS: Final = ("-journal", "-wal", "-shm")

#: Never read: the environment of the profiled program (rocpd), and Nsight Systems' environment of
#: the target and settings of the capture, command line included.
PRIVATE_COLUMNS: Final = frozenset({"environment"})
PRIVATE_TABLES: Final = frozenset({"TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"})

#: A whole number that is null, or not there.
UNKNOWN: Final = int(np.iinfo(np.int64).min)

Whole = npt.NDArray[np.int64]

_COPY_STEP = 1 << 20
_ROWS_AT_ONCE = 65_536
_IDS_AT_ONCE = 500
_PLAIN = regex.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)


# What damaged pages raise, wherever they are touched.
def _broken() -> tuple[type[Exception], ...]:
    import sqlite3

    return sqlite3.Error, UnicodeDecodeError, OverflowError


@dataclass
class Database:
    """An open database.

    tables: real tables, name -> columns. filled: those of them that are never null. notes: what was
    damaged.
    """

    path: Path
    connection: "sqlite3.Connection"
    tables: Mapping[str, tuple[str, ...]]
    filled: Mapping[str, frozenset[str]] = field(default_factory=dict)
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
            except _broken():
                self._damaged(table)
        # Transposed by hand: zip(*rows) of nothing has no columns.
        return {name: [row[place] for row in rows] for place, name in enumerate(present)}

    def wholes(self, table: str, columns: Sequence[str]) -> dict[str, Whole]:
        """Columns of whole numbers, as many as asked for; UNKNOWN where null, absent or no whole
        number. Damaged pages as in ``read``. Read-only where all rows have the same value.
        """
        present = [name for name in columns if name in self.tables.get(table, ())]
        if not present:
            return dict.fromkeys(columns, np.zeros(0, dtype=np.int64))
        constants = self._constants(table, present)
        varying = [name for name in present if name not in constants] or present[:1]
        found = self._varying(table, varying)
        size = len(found[varying[0]])
        return {
            name: found[name]
            if name in found
            else np.broadcast_to(np.int64(constants.get(name, UNKNOWN)), (size,))
            for name in columns
        }

    def _constants(self, table: str, names: Sequence[str]) -> dict[str, int]:
        """Columns of a long table that have one value in all rows: a process, a device, the shape
        of a block. Asking whether they do is much cheaper than reading them."""
        query = self._wholes_of(table, names)
        try:
            rows = self.connection.execute(
                f"SELECT {query} FROM {_quoted(table)} LIMIT {_ROWS_AT_ONCE}"
            ).fetchall()
            if len(rows) < _ROWS_AT_ONCE:
                return {}
            first = _flat(rows, len(names))
            same = np.flatnonzero((first == first[:, :1]).all(axis=1)).tolist()
            asked = ", ".join(f"max({_whole_of(names[at])} IS NOT {first[at, 0]})" for at in same)
            differs = self.connection.execute(
                f"SELECT {asked or 1} FROM {_quoted(table)}"
            ).fetchone()
        except _broken():
            return {}  # said where the rows are read
        return {
            names[at]: int(first[at, 0])
            for at, other in zip(same, differs, strict=False)
            if not other
        }

    def _wholes_of(self, table: str, names: Sequence[str]) -> str:
        # Where nothing can be null, not asking for nulls saves a tenth.
        filled = self.filled.get(table, frozenset())
        return ", ".join(_quoted(one) if one in filled else _whole_of(one) for one in names)

    def _varying(self, table: str, names: Sequence[str]) -> dict[str, Whole]:
        query = self._wholes_of(table, names)
        parts: list[list[Whole]] = [[] for _ in names]
        try:
            cursor = self.connection.execute(f"SELECT {query} FROM {_quoted(table)}")
            while rows := list(islice(cursor, _ROWS_AT_ONCE)):
                for part, values in zip(parts, _flat(rows, len(names)), strict=True):
                    part.append(values.copy())
        except _broken():
            self._damaged(table)
        found: dict[str, Whole] = {}
        for name, part in zip(names, parts, strict=True):
            found[name] = np.concatenate(part) if part else np.zeros(0, dtype=np.int64)
            part.clear()  # so that no column is there twice
        return found

    def texts(self, table: str, ids: Sequence[int]) -> dict[int, str]:
        """The texts of some rows of a table of (id, value): only what is referred to is read."""
        found: dict[int, str] = {}
        if not {"id", "value"} <= set(self.tables.get(table, ())):
            return found
        for low in range(0, len(ids), _IDS_AT_ONCE):
            some = ids[low : low + _IDS_AT_ONCE]
            marks = ", ".join("?" * len(some))
            try:
                rows = self.connection.execute(
                    f'SELECT "id", "value" FROM {_quoted(table)} WHERE "id" IN ({marks})', some
                ).fetchall()
            except _broken():
                self._damaged(table)
                continue
            found.update((key, value) for key, value in rows if isinstance(value, str))
        return found

    def _damaged(self, table: str) -> None:
        self.notes.append(Note(f"the database is damaged: part of {table} was not read"))


def table_names(head: bytes, path: Path) -> frozenset[str]:
    """Names of the plain tables of the database at ``path``; none for any other file."""
    if not head.startswith(MAGIC):
        return frozenset()
    try:
        with path.open("rb") as file:
            packed = file.read(len(MAGIC)) != MAGIC
        if packed:
            # Not unpacked just to look: the first pages hold the schema as text.
            return _names_in(head)
        if wal := _wal_of(path):
            with wal.open("rb") as file:
                return _names_in(head + file.read(_WAL_HEAD))
        with _connected(path) as connection:
            return frozenset(_names(connection))
    except OSError:
        return frozenset()
    except _broken():
        return frozenset()


# The schema is written first.
_WAL_HEAD = 4 << 20


def _names_in(data: bytes) -> frozenset[str]:
    return frozenset(name.decode("ascii", "replace") for name in _TABLE.findall(data))


_TABLE = regex.compile(rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?([A-Za-z_][\w]*)", re.IGNORECASE)


def _names(connection: "sqlite3.Connection") -> Iterator[str]:
    for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"):
        if isinstance(name, str) and _PLAIN.match(str(sql)):
            yield name


@contextmanager
def open_database(path: Path, options: Options) -> Iterator[Database]:
    """Open a database, packed or not, for reading.

    Raises TraceroofError when it cannot be read as one, or is still being written.
    """
    with open_inflated(path, options) as stream:
        if stream.plain:
            refuse_unfinished(path)
            if _wal_of(path) is None:
                with _opened(path, path) as database:
                    yield database
                return
        with tempfile.TemporaryDirectory(prefix="traceroof-") as folder:
            plain = Path(folder, "unpacked.db")
            with plain.open("wb") as file:
                while data := stream.read(_COPY_STEP):
                    file.write(data)
            # Its last transactions are in there; SQLite would write an index beside the user's file.
            if stream.plain and (wal := _wal_of(path)) is not None:
                shutil.copyfile(wal, plain.with_name(plain.name + "-wal"))
            with _opened(plain, path) as database:
                database.notes += stream.notes
                yield database


# A journal that a writer has done with is gone, empty, or begins with zeros.
_HOT_JOURNAL = bytes.fromhex("d9d505f920a163d7")


def refuse_unfinished(path: Path) -> None:
    """A rollback journal means that pages of the file are half written, now or for ever."""
    journal = path.with_name(path.name + "-journal")
    if not journal.is_file():
        return
    with journal.open("rb") as file:
        is_hot = file.read(len(_HOT_JOURNAL)) == _HOT_JOURNAL
    if is_hot:
        raise TraceroofError(
            f"{path} is still being written, or its writer was stopped: {journal.name} lies beside it",
            "wait until the export has ended, or export it anew",
        )


def _wal_of(path: Path) -> Path | None:
    """The file with the last transactions of a database that was not closed."""
    wal = path.with_name(path.name + "-wal")
    return wal if wal.is_file() and wal.stat().st_size else None


@contextmanager
def _opened(plain: Path, path: Path) -> Iterator[Database]:
    try:
        with _connected(plain) as connection:
            tables, filled = {}, {}
            for name in list(_names(connection)):
                if name in PRIVATE_TABLES:
                    continue
                rows = connection.execute(f"PRAGMA table_info({_quoted(name)})").fetchall()
                tables[name] = tuple(str(row[1]) for row in rows if row[1] not in PRIVATE_COLUMNS)
                filled[name] = frozenset(str(row[1]) for row in rows if row[3])
            connection.set_authorizer(_authorised)
            yield Database(path, connection, tables, filled, _cut_short(plain))
    except _broken() as error:
        # A damaged schema can end up in the message, as bytes that are no text.
        words = "its schema is damaged" if isinstance(error, UnicodeDecodeError) else str(error)
        raise TraceroofError(
            f"{path} is an SQLite database that cannot be read: {words}",
            "it may have been cut short: copy it again, or export it anew",
        ) from None


def _cut_short(plain: Path) -> list[Note]:
    """A note where the file is shorter than its header says: SQLite notices only when a query
    touches a page that is gone."""
    with plain.open("rb") as file:
        header = file.read(100)
        there = file.seek(0, 2)
    if len(header) < 100 or header[24:28] != header[92:96]:
        return []  # the size in the header is not kept up to date
    page = int.from_bytes(header[16:18], "big")
    size = int.from_bytes(header[28:32], "big") * (65536 if page == 1 else page)
    if there >= size:
        return []
    return [Note(f"the database is cut short: {there:,} of {size:,} bytes are there")]


@contextmanager
def _connected(path: Path) -> Iterator["sqlite3.Connection"]:
    import sqlite3  # most files are none

    # Immutable: SQLite looks for no journal and leaves no files beside the user's. Where a -wal
    # file lies beside it, this is a private copy of both.
    immutable = "" if _wal_of(path) else "&immutable=1"
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
    import sqlite3

    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and column in ("ifnull", "max"):
        return sqlite3.SQLITE_OK
    private = column in PRIVATE_COLUMNS or table in PRIVATE_TABLES
    # ``source`` names the view or trigger that asks; there is none in our own statements.
    if action == sqlite3.SQLITE_READ and source is None and not private:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _whole_of(name: str) -> str:
    return f"ifnull({_quoted(name)}, {UNKNOWN})"


def _flat(rows: Sequence[tuple[Any, ...]], width: int) -> Whole:
    """Rows as an array of columns."""
    try:
        flat = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows) * width)
    except (TypeError, ValueError, OverflowError):
        # Text or reals where whole numbers belong.
        found = [whole(value) for row in rows for value in row]
        flat = np.array([UNKNOWN if one is None else one for one in found], dtype=np.int64)
    return flat.reshape(-1, width).T
