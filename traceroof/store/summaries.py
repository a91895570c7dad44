"""What the catalogue keeps of each run for its history: where it came from, and its times in sums.

``traceroof history`` reads these alone: a run of a million launches is a hundred figures here. A name
is kept once for all runs (``SERIES``); a run's figures are three lists side by side (``HISTORY``).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from traceroof.store.tables import HISTORY, RUNS, SERIES

Level = Literal["metric", "category", "kernel"]
Per = Literal["step", "run"]


@dataclass(frozen=True)
class Origin:
    """The code that a run measured. commit: as given, or the full hash. committed: when, UTC, ISO
    8601. dirty: whether tracked files differed from it. job: address or name of the CI job. None
    where it is not known."""

    commit: str | None = None
    committed: str | None = None
    branch: str | None = None
    dirty: bool | None = None
    job: str | None = None


NOWHERE = Origin()


@dataclass(frozen=True)
class Figure:
    """A sum over a run. value: ns, or a count. launches: of what it is the time of, if anything."""

    level: Level
    name: str
    value: float
    launches: float | None = None


@dataclass(frozen=True)
class Summary:
    """The figures of a run, each for one step or for the whole run. device: its GPUs by name."""

    device: str
    per: Per
    figures: tuple[Figure, ...]


@dataclass(frozen=True)
class Series:
    """What a number in ``Kept.series`` stands for."""

    level: Level
    name: str


@dataclass(frozen=True)
class Kept:
    """A run in the history: series, value and launches side by side."""

    run: str
    name: str
    created: str
    sequence: int
    time_basis: str
    origin: Origin
    device: str
    per: Per
    series: Sequence[int]
    values: Sequence[float]
    launches: Sequence[float | None]


class _Figures(msgspec.Struct):
    series: list[int]
    values: list[float]
    launches: list[float | None]


def write(
    connection: sa.Connection, store: str, run: str, summary: Summary, origin: Origin
) -> None:
    """Keep the summary of a run in place of an earlier one."""
    number = _numbers(connection, store, summary.figures)
    figures = {
        "series": [number[one.level, one.name] for one in summary.figures],
        "values": [one.value for one in summary.figures],
        "launches": [one.launches for one in summary.figures],
    }
    row = {
        "commit_id": origin.commit,
        **{name: value for name, value in asdict(origin).items() if name != "commit"},
        "device": summary.device,
        "per": summary.per,
        "figures": json.dumps(figures),
    }
    connection.execute(sa.delete(HISTORY).filter_by(store=store, run=run))
    connection.execute(sa.insert(HISTORY).values(store=store, run=run, **row))


def _numbers(
    connection: sa.Connection, store: str, figures: Sequence[Figure]
) -> dict[tuple[str, str], int]:
    """The number of each series, new ones included."""
    known: dict[tuple[str, str], int] = {}
    known |= {(one.level, one.name): number for number, one in _series(connection, store).items()}
    following = max(known.values(), default=0) + 1
    new = []
    for one in figures:
        if (one.level, one.name) not in known:
            known[one.level, one.name] = following
            new.append({"store": store, "id": following, "level": one.level, "name": one.name})
            following += 1
    if new:
        connection.execute(sa.insert(SERIES), new)
    return known


def _series(connection: sa.Connection, store: str) -> dict[int, Series]:
    rows = connection.execute(
        sa.select(SERIES.c.id, SERIES.c.level, SERIES.c.name).filter_by(store=store)
    )
    return {number: Series(level, name) for number, level, name in rows}


def origin_of(connection: sa.Connection, store: str, run: str) -> Origin | None:
    """Where a run came from; None where the history does not hold it."""
    columns = [HISTORY.c[name] for name in _ORIGIN]
    row = connection.execute(sa.select(*columns).filter_by(store=store, run=run)).first()
    return None if row is None else _origin(row)


_ORIGIN = ("commit_id", "committed", "branch", "dirty", "job")


def _origin(row: Sequence[Any]) -> Origin:
    commit, committed, branch, dirty, job = row
    return Origin(commit, committed, branch, None if dirty is None else bool(dirty), job)


def read(connection: sa.Connection, store: str) -> tuple[list[Kept], Mapping[int, Series]]:
    """The runs of the history, in no order, and what the numbers of their series stand for.
    Raises ValueError for figures that are damaged."""
    joined = RUNS.join(
        HISTORY, sa.and_(HISTORY.c.store == RUNS.c.store, HISTORY.c.run == RUNS.c.id)
    )
    columns = (
        RUNS.c.id, RUNS.c.name, RUNS.c.created, RUNS.c.sequence, RUNS.c.time_basis,
        *(HISTORY.c[name] for name in (*_ORIGIN, "device", "per", "figures")),
    )  # fmt: skip
    query = sa.select(*columns).select_from(joined).where(RUNS.c.store == store)
    decode = msgspec.json.Decoder(_Figures).decode
    found = []
    for row in connection.execute(query):
        figures = decode(row[-1])
        run, name, created, sequence, time_basis = row[:5]
        origin, device, per = _origin(row[5:10]), row[10], row[11]
        found.append(
            Kept(run, name, created, sequence, time_basis, origin, device, per,
                 figures.series, figures.values, figures.launches)
        )  # fmt: skip
    return found, _series(connection, store)


def missing(connection: sa.Connection, store: str) -> list[str]:
    """The runs that have no summary: an older traceroof stored them."""
    there = sa.select(HISTORY.c.run).filter_by(store=store)
    query = sa.select(RUNS.c.id).filter_by(store=store).where(RUNS.c.id.not_in(there))
    return [run for (run,) in connection.execute(query.order_by(RUNS.c.sequence))]


def forget(connection: sa.Connection, store: str, run: str) -> None:
    """Remove the summary of a run."""
    connection.execute(sa.delete(HISTORY).filter_by(store=store, run=run))
