"""Names that stand for a run."""

import sqlalchemy as sa

from traceroof.store import lookup
from traceroof.store.open_store import OpenStore
from traceroof.store.rows import RunInfo, checked_name
from traceroof.store.tables import BASELINES


def point(store: OpenStore, name: str, run: str) -> None:
    """Let a name stand for a run from now on."""
    name = checked_name(name)
    mine = {"store": store.identity, "name": name}
    with store.catalogue.writing() as connection:
        row = lookup.resolve(store, connection, run)
        connection.execute(sa.delete(BASELINES).filter_by(**mine))
        connection.execute(sa.insert(BASELINES).values(run=row.id, **mine))


def read(store: OpenStore) -> dict[str, RunInfo]:
    """Baselines and their runs, ordered by name."""
    with store.catalogue.reading() as connection:
        chosen = connection.execute(
            sa.select(BASELINES.c.name, BASELINES.c.run).filter_by(store=store.identity)
        ).all()
        runs = {row.id: row for row in lookup.rows(store, connection)}
        return {
            name: lookup.info(store, runs[run])
            for name, run in sorted(chosen, key=str)
            if run in runs
        }


def of_run(store: OpenStore, run: str) -> tuple[str, ...]:
    """Names that stand for a run."""
    with store.catalogue.reading() as connection:
        row = lookup.resolve(store, connection, run)
        names = sa.select(BASELINES.c.name).filter_by(store=store.identity, run=row.id)
        return tuple(sorted(connection.execute(names).scalars()))
