"""The measured ceilings that a store keeps: one per device, kind of times, and rate."""

import json
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.store.open_store import OpenStore
from traceroof.store.rows import NO_FIELDS
from traceroof.store.tables import CALIBRATION

# Of a measured ceiling what the column ``contents`` holds.
_HOW = ("probe", "launches", "launch_size")


def read(store: OpenStore, connection: sa.Connection) -> tuple[MeasuredRate, ...]:
    """The measured ceilings, by device, kind of times and name."""
    columns = CALIBRATION.c
    query = sa.select(CALIBRATION).filter_by(store=store.identity)
    query = query.order_by(columns.device, columns.time_basis, columns.rate)
    found = []
    try:
        for row in connection.execute(query).mappings():
            fields = {str(name): row[name] for name in row if name not in NO_FIELDS}
            how = json.loads(row["contents"])
            found.append(msgspec.convert({**how, **fields}, MeasuredRate))
    except (ValueError, TypeError, RecursionError) as error:
        raise store.catalogue.broken(f"a calibration in it: {error}") from None
    return tuple(found)


def write(
    store: OpenStore, rates: Sequence[MeasuredRate]
) -> list[tuple[MeasuredRate, MeasuredRate | None]]:
    """Keep measured ceilings, each in place of an earlier one of the same device, times and kind.
    Returns them with what they replace, None where there was none."""
    with store.catalogue.writing() as connection:
        before = {_key(one): one for one in read(store, connection)}
        for one in rates:
            device, time_basis, rate = _key(one)
            mine = {"store": store.identity, "device": device, "time_basis": time_basis}
            connection.execute(sa.delete(CALIBRATION).filter_by(**mine, rate=rate))
            how = {name: getattr(one, name) for name in _HOW}
            row = {"per_s": one.per_s, "nominal_per_s": one.nominal_per_s,
                   "measured": one.measured, "contents": json.dumps(how)}  # fmt: skip
            connection.execute(sa.insert(CALIBRATION).values(**mine, rate=rate, **row))
    return [(one, before.get(_key(one))) for one in rates]


def forget(store: OpenStore, device: str) -> tuple[MeasuredRate, ...]:
    """Remove the measured ceilings of a device. Returns them; none raises TraceroofError."""
    with store.catalogue.writing() as connection:
        held = read(store, connection)
        gone = tuple(one for one in held if one.device.lower() == device.strip().lower())
        if not gone:
            devices = ", ".join(dict.fromkeys(one.device for one in held))
            raise TraceroofError(
                f"the store in {store.folder} holds no calibration of {device!r}",
                f"it holds {devices}" if devices else "it holds none at all",
            )
        of_device = CALIBRATION.c.device == gone[0].device
        mine = sa.delete(CALIBRATION).filter_by(store=store.identity).where(of_device)
        connection.execute(mine)
    return gone


def _key(one: MeasuredRate) -> tuple[str, str, str]:
    return one.device, one.time_basis, one.rate
