"""The measured noise that a store keeps, each profile under a number."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from traceroof.store.open_store import OpenStore
from traceroof.store.tables import NOISE


def read(store: OpenStore) -> list[tuple[int, dict[str, Any]]]:
    """What ``write`` kept, each with its number."""
    with store.catalogue.reading() as connection:
        try:
            return [(number, json.loads(text)) for number, text in _held(store, connection)]
        except ValueError as error:
            raise store.catalogue.broken(f"a noise profile in it: {error}") from None


def write(
    store: OpenStore, form: Mapping[str, Any], replaces: Callable[[dict[str, Any]], bool]
) -> int:
    """Keep measured noise in place of what it ``replaces``. Returns how many that were."""
    with store.catalogue.writing() as connection:
        held = _held(store, connection)
        gone = [number for number, text in held if replaces(json.loads(text))]
        if gone:
            mine = sa.delete(NOISE).filter_by(store=store.identity)
            connection.execute(mine.where(NOISE.c.id.in_(gone)))
        following = max((number for number, _ in held), default=0) + 1
        row = {"device": form["device"], "time_basis": form["time_basis"],
               "contents": json.dumps(form)}  # fmt: skip
        connection.execute(sa.insert(NOISE).values(store=store.identity, id=following, **row))
    return len(gone)


def forget(store: OpenStore, numbers: Sequence[int]) -> None:
    """Remove kept noise by its numbers."""
    with store.catalogue.writing() as connection:
        mine = sa.delete(NOISE).filter_by(store=store.identity)
        connection.execute(mine.where(NOISE.c.id.in_(list(numbers))))


def _held(store: OpenStore, connection: sa.Connection) -> list[tuple[int, str]]:
    query = sa.select(NOISE.c.id, NOISE.c.contents).filter_by(store=store.identity)
    return [(number, text) for number, text in connection.execute(query.order_by(NOISE.c.id))]
