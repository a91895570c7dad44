"""Damage to the rows and the schema of a SQLite database, so that it stays a database."""

import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from tests.mutate import mutate

#: What a column can hold that no profiler writes there.
ODD = (
    None, -1, 0, 1, 1 << 62, -(1 << 62), 2**63 - 1, -(2**63), 1.5, float("inf"), -1e300, "text", "", "NaN",
    "12", b"\x00\xff", "9" * 40, "\x1b[2J",
)  # fmt: skip

Damage = Callable[[sqlite3.Connection, str, Sequence[str], random.Random], None]


def of_file(path: Path) -> bytes:
    """The content of a database, what stands in a journal beside it rolled back."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = DELETE")
        return database.serialize()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The database after one to five damages to its rows and tables; of one whose bytes are damaged
    already, to its bytes."""
    try:
        return _damaged(data, rng)
    except sqlite3.Error:
        return mutate(data, rng)


def _damaged(data: bytes, rng: random.Random) -> bytes:
    with closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data)
        for _ in range(rng.randint(1, 5)):
            tables = tables_of(database)
            if not tables:
                break
            # Half of the time a table that holds something: most tables of a profiler are empty.
            filled = [
                one for one in tables if database.execute(f'SELECT 1 FROM "{one}"').fetchone()
            ]
            table = rng.choice(filled if filled and rng.random() < 0.8 else tables)
            columns = columns_of(database, table)
            # Constraints refuse some damage, which is as good as none.
            with suppress(sqlite3.Error, OverflowError):
                rng.choice(_DAMAGES)(database, table, columns, rng)
        database.commit()
        return database.serialize()


def tables_of(database: sqlite3.Connection) -> list[str]:
    """The tables, without those of SQLite itself."""
    return [
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_")
    ]  # fmt: skip


def columns_of(database: sqlite3.Connection, table: str) -> list[str]:
    """The columns of a table, generated ones left out."""
    return [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]


def _rows(rng: random.Random) -> str:
    return rng.choice(("", "", " WHERE rowid % 2 = 0", " WHERE rowid % 7 = 0", " WHERE rowid = 1"))


def _odd(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    column, value = rng.choice(columns), rng.choice(ODD)
    database.execute(f'UPDATE "{table}" SET "{column}" = ?{_rows(rng)}', (value,))


def _number(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    column = rng.choice(columns)
    how = rng.choice(
        ("-{}", "{} * 10", "{} / 1000", "{} + 1", "{} * 1000000", "{} || 'x'", "abs({})")
    )
    changed = how.format(f'"{column}"')
    database.execute(f'UPDATE "{table}" SET "{column}" = {changed}{_rows(rng)}')


def _swap(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    one, other = rng.choice(columns), rng.choice(columns)
    database.execute(f'UPDATE "{table}" SET "{one}" = "{other}", "{other}" = "{one}"{_rows(rng)}')


def _delete(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    database.execute(f'DELETE FROM "{table}"{_rows(rng)}')


def _double(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    keys = {row[1] for row in database.execute(f'PRAGMA table_info("{table}")') if row[5]}
    listed = ", ".join(f'"{one}"' for one in columns if one not in keys)
    database.execute(
        f'INSERT INTO "{table}" ({listed}) SELECT {listed} FROM "{table}"{_rows(rng)} LIMIT 300'
    )


def _drop_table(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    database.execute(f'DROP TABLE "{table}"')


def _drop_column(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{rng.choice(columns)}"')


def _rename_column(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    name = rng.choice((rng.choice(columns) + "x", "id", "start", "name"))
    database.execute(f'ALTER TABLE "{table}" RENAME COLUMN "{rng.choice(columns)}" TO "{name}"')


def _rename_table(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    database.execute(f'ALTER TABLE "{table}" RENAME TO "{table}{rng.choice(("x", "_2", "_old"))}"')


def _as_text(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    """The table anew without types and keys, all values as text."""
    listed = ", ".join(f'CAST("{one}" AS TEXT) AS "{one}"' for one in columns)
    database.execute(f'CREATE TABLE "damaged_copy" AS SELECT {listed} FROM "{table}"')
    database.execute(f'DROP TABLE "{table}"')
    database.execute(f'ALTER TABLE "damaged_copy" RENAME TO "{table}"')


def _as_view(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rng: random.Random
) -> None:
    database.execute(f'ALTER TABLE "{table}" RENAME TO "{table}_of"')
    database.execute(f'CREATE VIEW "{table}" AS SELECT * FROM "{table}_of"')


_DAMAGES: Sequence[Damage] = (
    _odd, _odd, _odd, _odd, _number, _number, _number, _swap, _swap, _delete, _double, _double, _drop_table,
    _drop_column, _rename_column, _rename_table, _as_text, _as_view,
)  # fmt: skip
