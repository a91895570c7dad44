"""Databases without what says where and by whom they were recorded.

What an analysis reads is listed; every other text is emptied, so that what a newer version writes
is gone as well. Triggers are dropped before anything is written, and the copy is packed anew, as
SQLite keeps deleted rows in the file.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from traceroof.errors import TraceroofError
from traceroof.ingest.decompress import open_inflated
from traceroof.ingest.sqlite import PRIVATE_TABLES
from traceroof.parser import Options
from traceroof.scrub.texts import Redactor

_EVERY: Final = frozenset({"*"})
_STEP: Final = 1 << 20


@dataclass(frozen=True)
class Layout:
    """What is kept of a tool's databases. texts: table (a pattern) -> columns of text that stay,
    without folders and names."""

    texts: Mapping[str, frozenset[str]]


NSYS: Final = Layout(
    {
        "StringIds": frozenset({"value"}),
        "NVTX_EVENTS": frozenset({"text"}),
        "PROCESSES": frozenset({"name"}),
        "DIAGNOSTIC_EVENT": frozenset({"text"}),
        "TARGET_INFO_GPU": frozenset({"name", "chipName", "busLocation", "uuid"}),
        "TARGET_INFO_CUDA_DEVICE": frozenset({"uuid"}),
        "TARGET_INFO_SESSION_START_TIME": frozenset({"utcTime", "localTime"}),
        "TARGET_INFO_GPU_METRICS": frozenset({"typeName", "metricName"}),
        "META_DATA_EXPORT|EXPORT_META_DATA": frozenset({"name", "value"}),
        "ENUM_.*": _EVERY,
    }
)
_OF_AGENT = ("type", "name", "model_name", "vendor_name", "product_name", "extdata")
_OF_COUNTER = (
    "target_arch", "name", "symbol", "description", "long_description", "component", "units",
    "value_type", "block", "expression",
)  # fmt: skip
ROCPD: Final = Layout(
    {
        "rocpd_metadata.*": _EVERY,
        "rocpd_string.*": frozenset({"string"}),
        "rocpd_info_agent.*": frozenset(_OF_AGENT),
        "rocpd_info_pmc.*": frozenset(_OF_COUNTER),
        "rocpd_info_kernel_symbol.*": frozenset({"kernel_name", "display_name"}),
        "rocpd_info_(queue|stream).*": frozenset({"name"}),
        "rocpd_info_code_object.*": frozenset({"storage_type"}),
        "rocpd_memory_allocate.*": frozenset({"type", "level"}),
        # What joins the tables of one run.
        "rocpd_.*": frozenset({"guid"}),
    }
)

# Columns of other tables that refer to strings which are names of kernels, calls and ranges.
_NAMES: Final = ("nameId", "demangledName", "shortName", "mangledName", "textId")
# What may stay of the export's own description.
_OF_EXPORT: Final = "PRODUCT|SCHEMA|PLATFORM|ARCH|LAZY"
_WHO: Final = re.compile(r"(?:^|_|:)(USER(_?NAME)?|HOST(_?NAME)?|LOGNAME)$", re.IGNORECASE)


def layout_of(tables: frozenset[str]) -> Layout | None:
    """Whose database has these tables; None where nobody's that we know."""
    if "StringIds" in tables and any(name.startswith("TARGET_INFO_") for name in tables):
        return NSYS
    return ROCPD if any(name.startswith("rocpd_kernel_dispatch") for name in tables) else None


def scrub_database(source: Path, made: Path, target: Path, options: Options) -> list[str]:
    """Write a scrubbed copy of a database into the empty file ``made``."""
    with open_inflated(source, options) as stream, made.open("wb") as file:
        while data := stream.read(_STEP):
            file.write(data)
    try:
        with closing(sqlite3.connect(made, isolation_level=None)) as database:
            return _scrub(database)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise TraceroofError(
            f"{source} cannot be scrubbed: {error}", "export it anew: the database is damaged"
        ) from None


def _scrub(database: sqlite3.Connection) -> list[str]:
    database.text_factory = lambda data: data.decode("utf-8", "replace")
    for setting in ("trusted_schema = OFF", "journal_mode = OFF", "secure_delete = ON",
                    "ignore_check_constraints = ON", "foreign_keys = OFF"):  # fmt: skip
        database.execute(f"PRAGMA {setting}").fetchall()
    for (name,) in database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    ).fetchall():
        database.execute(f"DROP TRIGGER {_quoted(name)}")
    tables = list(_tables(database))
    layout = layout_of(frozenset(tables))
    assert layout is not None  # asked before
    redact = Redactor(*_identity(database, tables))
    database.create_function("redacted", 1, lambda text: redact(text), deterministic=True)
    said = []
    database.execute("BEGIN")
    for name in sorted(PRIVATE_TABLES & set(tables)):
        count = database.execute(f"DELETE FROM {_quoted(name)}").rowcount
        said.append(f"{count:,} rows of {name}")
    if layout is NSYS:
        said += _nsys(database, tables)
    emptied = 0
    for table in tables:
        if table not in PRIVATE_TABLES:
            emptied += _texts(database, table, _kept(layout, table))
    database.execute("COMMIT")
    database.execute("VACUUM")
    said.append(f"{emptied:,} columns of text that no analysis reads")
    said.append(f"folders, users or hosts in {redact.changed:,} texts")
    return said


def _kept(layout: Layout, table: str) -> frozenset[str]:
    found = [columns for name, columns in layout.texts.items() if re.fullmatch(name, table)]
    return frozenset().union(*found)


def _tables(database: sqlite3.Connection) -> Iterator[str]:
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        if not name.startswith("sqlite_"):
            yield name


def _identity(database: sqlite3.Connection, tables: list[str]) -> tuple[set[str], set[str]]:
    """Users and hosts that the database names, and the values of its environment."""
    names: set[str] = set()
    values: set[str] = set()
    for table in {*PRIVATE_TABLES, "META_DATA_EXPORT", "EXPORT_META_DATA"} & set(tables):
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({_quoted(table)})")}
        if not {"name", "value"} <= columns:
            continue
        for name, value in database.execute(f"SELECT name, value FROM {_quoted(table)}").fetchall():
            for part in str(value).splitlines():
                key, _, behind = part.rpartition("=")
                values |= {part, behind}
                if _WHO.search(key or str(name)):
                    names.add(behind)
    for table in (one for one in tables if one.startswith("rocpd_info_")):
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({_quoted(table)})")}
        for column in columns & {"hostname", "machine_id", "domain_name"}:
            rows = database.execute(f"SELECT {_quoted(column)} FROM {_quoted(table)}").fetchall()
            names |= {str(value) for (value,) in rows if value}
        for column in columns & {"environment", "command"}:
            for (text,) in database.execute(f"SELECT {_quoted(column)} FROM {_quoted(table)}"):
                pairs = re.findall(r'"(\w+)"\s*:\s*"((?:[^"\\]|\\.)*)"', str(text))
                values |= {value for _, value in pairs} | set(re.split(r"[\s=]+", str(text)))
                names |= {value for key, value in pairs if _WHO.search(key)}
    return names, values


def _nsys(database: sqlite3.Connection, tables: list[str]) -> list[str]:
    """What is peculiar to Nsight Systems: strings that are the environment once more, the list of
    all processes of the machine, and where the export was made."""
    for table in {"META_DATA_EXPORT", "EXPORT_META_DATA"} & set(tables):
        rows = database.execute(f"SELECT rowid, name FROM {table}").fetchall()
        gone = [(row,) for row, name in rows if not re.search(_OF_EXPORT, str(name))]
        database.executemany(f"DELETE FROM {table} WHERE rowid = ?", gone)
    used: list[str] = []
    pids: list[str] = []
    for table in tables:
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({_quoted(table)})")}
        used += [
            f"SELECT {one} FROM {_quoted(table)} WHERE {one} IS NOT NULL"
            for one in _NAMES
            if one in columns
        ]
        if table.startswith("CUPTI_ACTIVITY_KIND_"):
            pids += [
                f"SELECT {one} FROM {_quoted(table)} WHERE {one} IS NOT NULL"
                for one in ("globalPid", "globalTid - (globalTid & 16777215)")
                if one.split()[0] in columns
            ]
    wanted = " UNION ".join(used) or "SELECT -1"
    strings = database.execute(
        f"UPDATE StringIds SET value = '' WHERE value <> '' AND id NOT IN"
        f" (SELECT * FROM ({wanted}))"
    ).rowcount
    if "PROCESSES" in tables:
        mine = " UNION ".join(pids) or "SELECT -1"
        database.execute(
            f"DELETE FROM PROCESSES WHERE globalPid IS NULL OR globalPid NOT IN"
            f" (SELECT * FROM ({mine}))"
        )
    return [f"{strings:,} strings that name no kernel, call or range"]


def _texts(database: sqlite3.Connection, table: str, kept: frozenset[str]) -> int:
    """Empty the texts of a table but for some columns; how many columns there were to empty."""
    emptied = 0
    for _, column, kind, *_ in database.execute(f"PRAGMA table_info({_quoted(table)})").fetchall():
        name, where = _quoted(column), f"typeof({_quoted(column)}) IN ('text', 'blob')"
        if kept & {"*", column}:
            database.execute(
                f"UPDATE {_quoted(table)} SET {name} = redacted({name}) WHERE typeof({name}) = 'text'"
            )
            where = f"typeof({name}) = 'blob'"
        nothing = "'{}'" if "JSON" in str(kind).upper() else "''"
        update = f"UPDATE {_quoted(table)} SET {name} ="
        try:
            count = database.execute(f"{update} {nothing} WHERE {where}").rowcount
        except sqlite3.IntegrityError:  # values must differ
            count = database.execute(f"{update} 'removed ' || rowid WHERE {where}").rowcount
        emptied += count > 0
    return emptied


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
