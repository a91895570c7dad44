"""The tables of a recording as Parquet files, which later versions can still read."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from traceroof.core import kernel_table
from traceroof.core.clock_log import CLOCK_LOG
from traceroof.core.dictionary import coded
from traceroof.core.recording import (
    CALL_SUMS,
    HOST_CALLS,
    RAW_METRICS,
    SPANS,
    VERDICTS,
    Recording,
)
from traceroof.core.source_lines import SOURCE
from traceroof.errors import TraceroofError

#: The tables of a recording, each with the schema it has today.
TABLES: Mapping[str, pa.Schema] = {
    "kernels": kernel_table.KERNELS,
    "raw_metrics": RAW_METRICS,
    "verdicts": VERDICTS,
    "host_calls": HOST_CALLS,
    "spans": SPANS,
    "call_sums": CALL_SUMS,
    "clock_logs": CLOCK_LOG,
    "source_lines": SOURCE,
}


#: What the files of the counters beside a timeline begin with.
COUNTERS = "counters_"


@dataclass(frozen=True)
class File:
    """What a file is known by: it is read only if it is still the one that was written."""

    rows: int
    bytes: int
    crc32: int


class Unreadable(Exception):
    """Why the files of a recording cannot be read."""


def normal(recording: Recording) -> Recording:
    """The recording with each table in exactly its schema.

    Raises TraceroofError for a table of another shape: a column that the schema does not know
    would be lost.
    """
    parts: dict[str, Any] = {}
    for name, schema in TABLES.items():
        part = getattr(recording, name)
        try:
            if part.column_names != schema.names:
                raise pa.ArrowInvalid("other columns")
            same = part.schema.equals(schema, check_metadata=True)
            parts[name] = part if same else part.cast(schema)
        except (pa.ArrowException, ValueError) as error:
            raise TraceroofError(
                f"the reader of {recording.format} gave a {name} table of another shape: {error}",
                "report this to whoever wrote the reader",
            ) from None
    counters = recording.counters
    return replace(recording, **parts, counters=None if counters is None else normal(counters))


def equal(one: Recording, other: Recording) -> bool:
    """Whether two recordings hold the same; texts may be numbered otherwise in their columns."""
    apart: dict[str, Any] = dict.fromkeys([*TABLES, "counters"])
    if replace(one, **apart) != replace(other, **apart):
        return False
    if not all(_equal(getattr(one, name), getattr(other, name)) for name in TABLES):
        return False
    if one.counters is None or other.counters is None:
        return one.counters is other.counters
    return equal(one.counters, other.counters)


def _equal(one: pa.Table, other: pa.Table) -> bool:
    if one.schema != other.schema or one.num_rows != other.num_rows:
        return False
    return all(
        _equal_texts(column, other[name])
        if pa.types.is_dictionary(column.type)
        else column.equals(other[name])
        for name, column in zip(one.column_names, one.columns, strict=True)
    )


def _equal_texts(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    mine, theirs = coded(one), coded(other)
    number = {text: at for at, text in enumerate(mine.texts)}
    as_mine = theirs.spread(np.array([*(number.get(text, -2) for text in theirs.texts), -1]))
    return bool((mine.codes == as_mine).all())


def encode(recording: Recording) -> dict[str, tuple[File, pa.Buffer]]:
    """The files of a recording, by the table's name. A table without rows has none, except the
    kernel table. In memory, a few percent of the profiler's file, so that their size is known
    before anything is written."""
    parts = {name: getattr(recording, name) for name in TABLES}
    found = {
        name: _encode(part) for name, part in parts.items() if part.num_rows or name == "kernels"
    }
    if recording.counters is not None:
        beside = encode(recording.counters)
        found |= {f"{COUNTERS}{name}": entry for name, entry in beside.items()}
    return found


def _encode(part: pa.Table) -> tuple[File, pa.Buffer]:
    # Columns that hold nothing are left out: absent reads as null. Units and meanings, in the
    # fields' metadata, are for the schema of the day to give, not for the file.
    names = kernel_table.known_columns(part) or tuple(part.column_names)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({name: part[name] for name in names}), sink, compression="zstd")
    data = sink.getvalue()
    return File(part.num_rows, data.size, zlib.crc32(data)), data


def read(folder: Path, files: Mapping[str, File], prefix: str = "") -> dict[str, pa.Table]:
    """All tables of a recording in today's schemas, empty where there is no file.

    prefix: COUNTERS for those of the counters beside a timeline.

    A column that a file lacks is null; one that today's schema lacks stays in the file. Raises
    Unreadable when a file is missing or is not the one that was written.
    """
    return read_tables(lambda name: _bytes_of(folder / name), files, prefix)


def read_tables(
    content: Callable[[str], bytes | None], files: Mapping[str, File], prefix: str = ""
) -> dict[str, pa.Table]:
    """The same from anywhere. content: what a file of that name holds; None where it is missing."""
    return {
        name: _read(
            file_name(prefix + name),
            content(file_name(prefix + name)),
            files[prefix + name],
            schema,
        )
        if prefix + name in files
        else schema.empty_table()
        for name, schema in TABLES.items()
    }


def file_name(name: str) -> str:
    """What the file of a table is called."""
    return f"{name}.parquet"


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path.name}: {error.strerror}") from None


def _read(name: str, data: bytes | None, file: File, schema: pa.Schema) -> pa.Table:
    if data is None:
        raise Unreadable(f"{name} is missing")
    if (len(data), zlib.crc32(data)) != (file.bytes, file.crc32):
        raise Unreadable(f"{name} is not as it was written")
    try:
        parquet = pq.ParquetFile(pa.BufferReader(data))
        known = [name for name in parquet.schema_arrow.names if name in schema.names]
        part = parquet.read(columns=known)
        # One array of nulls for all absent columns of a type: a wide table stays small.
        nulls = {type: pa.nulls(file.rows, type) for type in set(schema.types)}
        columns = [
            part[entry.name].cast(entry.type) if entry.name in known else nulls[entry.type]
            for entry in schema
        ]
        return pa.Table.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"{name} is not as expected: {error}") from None
