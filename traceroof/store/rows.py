"""What the catalogue holds of a run, and the names by which it is asked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import count
from pathlib import Path

from traceroof.core.recording import (
    DeviceInfo,
    Recording,
    Source,
    TimeBasis,
)
from traceroof.errors import TraceroofError
from traceroof.store import parquet
from traceroof.store.tables import NAME_LENGTH

_LISTED = 5


@dataclass(frozen=True)
class RunInfo:
    """What the catalogue knows of a run.

    created: when its bytes were first stored, UTC, ISO 8601.
    launches, kernel_time_ns: over rows of kind kernel, aggregates multiplied; unknown durations
    are left out.
    """

    id: str
    name: str
    created: str
    format: str
    sources: tuple[Source, ...]
    launches: int
    kernel_time_ns: int
    devices: tuple[DeviceInfo, ...]


@dataclass(frozen=True)
class Beside:
    """The counters beside a timeline: what of them is no table."""

    format: str
    sources: tuple[Source, ...]
    devices: tuple[DeviceInfo, ...]


@dataclass(frozen=True)
class Contents:
    """What the column ``contents`` holds as JSON."""

    sources: tuple[Source, ...]
    devices: tuple[DeviceInfo, ...]
    files: dict[str, parquet.File]
    counters: Beside | None = None
    #: Where a run is kept part by part (``store.parts``): their names, one a source.
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of ``RUNS``, its columns in their order."""

    store: str
    id: str
    digest: str
    sequence: int
    name: str
    created: str
    folder: str
    format: str
    time_basis: TimeBasis
    launches: int
    kernel_time_ns: int
    contents: str


#: The longest file name that common file systems take.
NAME_BYTES = 255


NO_FIELDS = ("store", "contents")


def checked_name(name: str) -> str:
    """A name as it is kept. It is printable, no option (``-h``) and no path (``..``), and short
    enough for a file's name in any encoding."""
    name = name.strip()
    fits = name.isprintable() and len(name) <= NAME_LENGTH and len(name.encode()) <= NAME_BYTES
    if not name or not fits or name.startswith("-") or set(name) <= {"."}:
        raise TraceroofError(
            f"{name[:40]!r} cannot be a name",
            f"use 1 to {NAME_LENGTH} printable characters ({NAME_BYTES} bytes), no - in front",
        )
    return name


def counters_beside(recording: Recording) -> Beside | None:
    counters = recording.counters
    if counters is None:
        return None
    return Beside(counters.format, counters.sources, counters.devices)


def default_name(sources: Sequence[Source]) -> str:
    first = Path(sources[0].path) if sources else Path()
    name = (first.parent.name if len(sources) > 1 else "") or first.name
    text = "".join(letter if letter.isprintable() else "?" for letter in name).strip()
    short = text[:NAME_LENGTH].encode()[:NAME_BYTES].decode("utf-8", "ignore").lstrip("-")
    return short if short.strip(".") else "run"


def folder_names(id: str) -> Iterator[str]:
    yield id
    yield from (f"{id}.{number}" for number in count(1))


def meant_run(run: str, held: Sequence[Row], baselines: Sequence[str]) -> str:
    """What was meant by a name that no run has, else what there is."""
    near = get_close_matches(run, [*baselines, *(row.name for row in held)], n=2)
    near = near or get_close_matches(run, [row.id for row in held], n=1, cutoff=0.75)
    if near:
        return f"did you mean {' or '.join(dict.fromkeys(near))}?"
    return (
        f"it holds {listed_runs(held)}" if held else "it is empty; `traceroof ingest PATH` adds one"
    )


def listed_runs(rows: Sequence[Row]) -> str:
    shown = ", ".join(f"{row.id} ({row.name})" for row in rows[:_LISTED])
    more = len(rows) - _LISTED
    return f"{shown} and {more} more" if more > 0 else shown


def bare_info(row: Row) -> RunInfo:
    return RunInfo(
        id=row.id,
        name=row.name,
        created=row.created,
        format=row.format,
        sources=(),
        launches=row.launches,
        kernel_time_ns=row.kernel_time_ns,
        devices=(),
    )
