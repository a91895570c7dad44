"""Which run is meant by an id, a name or a baseline, and what its row in the catalogue says."""

import json
from dataclasses import replace

import msgspec
import sqlalchemy as sa

from traceroof.core import regex
from traceroof.errors import TraceroofError
from traceroof.store import staging
from traceroof.store.open_store import OpenStore
from traceroof.store.rows import Contents, Row, RunInfo, bare_info, listed_runs, meant_run
from traceroof.store.tables import BASELINES, RUNS

_PREFIX_DIGITS = 4
_PREFIX = regex.compile(rf"[0-9a-f]{{{_PREFIX_DIGITS},}}")


def rows(
    store: OpenStore,
    connection: sa.Connection,
    condition: sa.ColumnElement[bool] | None = None,
    limit: int | None = None,
) -> list[Row]:
    """The rows of the runs that meet a condition, the newest first."""
    query = sa.select(RUNS).filter_by(store=store.identity).order_by(RUNS.c.sequence.desc())
    if condition is not None:
        query = query.where(condition)
    try:
        found = [
            msgspec.convert(dict(zip(Row.__match_args__, row, strict=True)), Row)
            for row in connection.execute(query.limit(limit))
        ]
    except msgspec.ValidationError as error:
        raise store.catalogue.broken(str(error)) from None
    for row in found:
        if not staging.FOLDER_NAME.fullmatch(row.folder):
            raise store.catalogue.broken(f"run {row.id} has no proper folder")
    return found


def newest(
    store: OpenStore, connection: sa.Connection, condition: sa.ColumnElement[bool] | None = None
) -> Row | None:
    """The newest run that meets a condition."""
    return next(iter(rows(store, connection, condition, limit=1)), None)


def resolve(store: OpenStore, connection: sa.Connection, run: str | None) -> Row:
    """The run that is meant; None is the newest.

    run: an id, a baseline, a name (its newest run), or the first digits of just one id (four or
    more), tried in this order. Raises TraceroofError when there is none, or several match.
    """
    if run is None:
        if (row := newest(store, connection)) is None:
            raise TraceroofError(
                f"the store in {store.folder} holds no run", "`traceroof ingest PATH` adds one"
            )
        return row
    if run.isprintable():  # names are; what is not, no database need be asked for
        baseline = sa.select(BASELINES.c.run).filter_by(store=store.identity, name=run)
        for condition in (
            RUNS.c.id == run.lower(),
            RUNS.c.id == baseline.scalar_subquery(),
            RUNS.c.name == run,
        ):
            if (row := newest(store, connection, condition)) is not None:
                return row
    found: list[Row] = []
    if _PREFIX.fullmatch(run.lower()):
        found = rows(store, connection, RUNS.c.id.startswith(run.lower()))
    if len(found) == 1:
        return found[0]
    if found:
        raise TraceroofError(
            f"{run} is the beginning of {len(found)} runs in {store.folder}: {listed_runs(found)}",
            "give more digits",
        )
    names = sa.select(BASELINES.c.name).filter_by(store=store.identity)
    baselines = [name for (name,) in connection.execute(names)]
    raise TraceroofError(
        f"the store in {store.folder} holds no run {run!r}",
        meant_run(run, rows(store, connection), baselines),
    )


def contents(store: OpenStore, row: Row) -> Contents:
    """What a run is made of."""
    try:
        return msgspec.convert(json.loads(row.contents), Contents)
    except (ValueError, RecursionError):
        raise damaged(store, row, "its entry in the catalogue is damaged") from None


def parts_of(store: OpenStore, row: Row) -> tuple[str, ...]:
    """The parts that a run is made of; none where its entry is damaged."""
    try:
        return contents(store, row).parts
    except TraceroofError:
        return ()


def parts_in_use(store: OpenStore, connection: sa.Connection) -> set[str]:
    """The parts that any run refers to."""
    return {part for row in rows(store, connection) for part in parts_of(store, row)}


def info(store: OpenStore, row: Row) -> RunInfo:
    """What the catalogue knows of a run. Raises TraceroofError where its entry is damaged."""
    held = contents(store, row)
    listed = (*held.sources, *(held.counters.sources if held.counters else ()))
    return replace(bare_info(row), sources=listed, devices=held.devices)


def damaged(store: OpenStore, row: Row, text: str) -> TraceroofError:
    """The error that says so."""
    return TraceroofError(
        f"run {row.id} ({row.name}) in {store.folder} cannot be read: {text}",
        f"ingest its files again, or drop it with `traceroof runs remove {row.id}`",
    )
