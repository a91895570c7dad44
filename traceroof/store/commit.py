"""How a run is committed to the store, and how it is removed: whole, or not at all.

A writer prepares a whole folder in a claim. Then, in one transaction that is the only writing one,
it renames the folder into ``runs`` and points the catalogue at it. Where the transaction fails, the
catalogue is as it was, and the folder is rubbish of the claim, which is swept (``store.cleanup``).
"""

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa

from traceroof.core import kernel_table
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.remote import Location
from traceroof.store import cleanup, lookup, parquet, parts, staging, summaries
from traceroof.store.open_store import OpenStore
from traceroof.store.read_run import recording_of
from traceroof.store.rows import Contents, Row, counters_beside, default_name, folder_names
from traceroof.store.tables import BASELINES, RUNS

#: Digits of a digest that are an id, where no other run has it.
ID_DIGITS = 12


@dataclass(frozen=True)
class Entry:
    """What is to be committed.

    digest: of the bytes. name: None keeps the name, or takes that of its file. parts: those that
    it lies in already. keep: writes what else belongs to a run, in the same transaction.
    """

    recording: Recording
    digest: str
    name: str | None
    parts: tuple[str, ...]
    keep: Callable[[sa.Connection, str], None]


def commit(store: OpenStore, entry: Entry) -> Row:
    """Keep a run; bytes that are stored already give the same run, which becomes the newest."""
    if isinstance(store.folder, Location) and not entry.parts:
        entry = replace(entry, parts=(f"{entry.digest[:40]}.{secrets.token_hex(4)}",))
        parts.write(store.shelf, entry.parts[0], entry.recording)
    cleanup.sweep(store)
    with cleanup.claimed(store) as claim:
        row = _commit(store, claim, entry)
    cleanup.sweep_parts(store)
    return row


def remove(store: OpenStore, run: str) -> Row:
    """Remove a run with its files and the baselines that point to it."""
    cleanup.sweep(store)
    with cleanup.claimed(store) as claim, store.catalogue.writing() as connection:
        row = lookup.resolve(store, connection, run)
        if claim is not None:
            claim.note([row.folder], store.catalogue.identity)
        of_run = (BASELINES.c.store == store.identity, BASELINES.c.run == row.id)
        connection.execute(sa.delete(BASELINES).where(*of_run))
        summaries.forget(connection, store.identity, row.id)
        connection.execute(sa.delete(RUNS).where(*_is(store, row.id)))
        # While nobody else can refer to them.
        for part in {*lookup.parts_of(store, row)} - lookup.parts_in_use(store, connection):
            store.shelf.remove(part)
    return row


def _is(store: OpenStore, id: str) -> tuple[sa.ColumnElement[bool], ...]:
    return RUNS.c.store == store.identity, RUNS.c.id == id


def _commit(store: OpenStore, claim: staging.Claim | None, entry: Entry) -> Row:
    files: dict[str, parquet.File] | None = None
    while True:  # another turn means that another process has changed this very run meanwhile
        with store.catalogue.reading() as connection:
            before = lookup.newest(store, connection, RUNS.c.digest == entry.digest)
        if before is not None and _holds(store, before, entry):
            row = _touch(store, before, entry)
        else:
            if files is None:
                files = {} if claim is None else _stage(store, claim, entry)
            row = _publish(store, claim, entry, files, before)
        if row is not None:
            return row


def _holds(store: OpenStore, row: Row, entry: Entry) -> bool:
    """Whether a stored run is what is to be committed."""
    recording = entry.recording
    try:
        if entry.parts or lookup.parts_of(store, row):
            held = lookup.contents(store, row)
            return (held.parts, held.sources, held.devices) == (
                entry.parts, recording.sources, recording.devices,
            )  # fmt: skip
        return parquet.equal(recording_of(store, row), recording)
    except (parquet.Unreadable, TraceroofError):
        return False


def _stage(store: OpenStore, claim: staging.Claim, entry: Entry) -> dict[str, parquet.File]:
    """Write the folder of a run into a claim."""
    encoded = {} if entry.parts else parquet.encode(entry.recording)
    files = {name: file for name, (file, _) in encoded.items()}
    try:
        staging.write_folder(
            claim.folder / "run",
            {parquet.file_name(name): data for name, (_, data) in encoded.items()},
        )
    except OSError as error:
        claim.discard()
        needs = sum(file.bytes for file in files.values())
        raise staging.unwritable(store.folder, error, needs) from None
    return files


def _publish(
    store: OpenStore,
    claim: staging.Claim | None,
    entry: Entry,
    files: dict[str, parquet.File],
    before: Row | None,
) -> Row | None:
    """Rename the staged folder into place and point the catalogue at it. Does nothing and
    returns None if the run is not (or no longer) what ``before`` says."""
    with store.catalogue.writing() as connection:
        now = lookup.newest(store, connection, RUNS.c.digest == entry.digest)
        if (now and now.folder) != (before and before.folder):
            return None
        if entry.parts and {*entry.parts} - {*store.shelf.names()}:
            raise TraceroofError(
                f"parts of the run were removed from the store in {store.folder} meanwhile",
                "ingest it again",
            )
        id = now.id if now else _free_id(store, connection, entry.digest)
        folder = _renamed(store, claim, id, [now.folder] if now else [])
        row = _row(entry, files, now, store.identity, id, folder, _next(store, connection))
        connection.execute(sa.delete(RUNS).where(*_is(store, id)))
        connection.execute(sa.insert(RUNS).values(asdict(row)))
        entry.keep(connection, id)
    if claim is not None:
        claim.rubbish = [now.folder] if now else []
    return row


def _row(
    entry: Entry,
    files: dict[str, parquet.File],
    now: Row | None,
    store: str,
    id: str,
    folder: str,
    sequence: int,
) -> Row:
    recording = entry.recording
    contents = Contents(
        recording.sources, recording.devices, files, counters_beside(recording), entry.parts
    )
    times = recording.kernels.select(["kind", "launch_count", "duration_ns"])
    return Row(
        store=store,
        id=id,
        digest=entry.digest,
        sequence=sequence,
        name=entry.name or (now.name if now else default_name(recording.sources)),
        created=now.created if now else datetime.now(UTC).isoformat(timespec="seconds"),
        folder=folder,
        format=recording.format,
        time_basis=recording.time_basis,
        launches=kernel_table.launches(times),
        kernel_time_ns=kernel_table.total_time_ns(times),
        contents=json.dumps(asdict(contents)),
    )


def _renamed(store: OpenStore, claim: staging.Claim | None, id: str, replaced: list[str]) -> str:
    """Rename the staged folder of a run into place; returns what it is called there."""
    if claim is None or isinstance(store.folder, Location):
        return next(name for name in folder_names(id) if name not in replaced)
    runs = store.folder / "runs"
    runs.mkdir(exist_ok=True)
    folder = next(name for name in folder_names(id) if not (runs / name).exists())
    claim.note([folder, *replaced], store.catalogue.identity)
    os.rename(claim.folder / "run", runs / folder)
    staging.sync(runs)
    return folder


def _touch(store: OpenStore, before: Row, entry: Entry) -> Row | None:
    """Make a run the newest, and rename it if a name is given; None if it has changed."""
    with store.catalogue.writing() as connection:
        now = lookup.newest(store, connection, RUNS.c.id == before.id)
        newest = lookup.newest(store, connection)
        if now is None or newest is None or now.folder != before.folder:
            return None
        sequence = now.sequence if newest.id == now.id else _next(store, connection)
        row = replace(now, name=entry.name or now.name, sequence=sequence)
        if row != now:
            connection.execute(sa.update(RUNS).where(*_is(store, row.id)).values(asdict(row)))
        entry.keep(connection, row.id)
        return row


def _free_id(store: OpenStore, connection: sa.Connection, digest: str) -> str:
    for digits in range(ID_DIGITS, len(digest)):
        if lookup.newest(store, connection, RUNS.c.id == digest[:digits]) is None:
            return digest[:digits]
    return digest


def _next(store: OpenStore, connection: sa.Connection) -> int:
    newest = lookup.newest(store, connection)
    return newest.sequence + 1 if newest else 1
