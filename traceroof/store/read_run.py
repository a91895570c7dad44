"""How a stored run is read back: from its folder, or put together from its parts."""

from dataclasses import replace

from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Run
from traceroof.errors import TraceroofError
from traceroof.ingest.remote import Location
from traceroof.patterns import launch_part
from traceroof.scale.mapping import Keep, settled
from traceroof.store import lookup, parquet
from traceroof.store.open_store import OpenStore
from traceroof.store.parts import load as load_part
from traceroof.store.rows import Contents, Row
from traceroof.store.tables import RUNS


def read_run(store: OpenStore, run: str | None, keep: Keep) -> Run:
    """As ``Store.get``."""
    with store.catalogue.reading() as connection:
        row = lookup.resolve(store, connection, run)
    while True:
        try:
            return Run(recording_of(store, row, keep), row.name, row.id, row.created)
        except parquet.Unreadable as damage:
            with store.catalogue.reading() as connection:
                again = lookup.newest(store, connection, RUNS.c.id == row.id)
            if again is None:
                raise TraceroofError(
                    f"run {row.id} ({row.name}) was removed while it was being read"
                ) from None
            if again == row:
                raise lookup.damaged(store, row, str(damage)) from None
            row = again  # replaced meanwhile


def recording_of(store: OpenStore, row: Row, keep: Keep = "rows") -> Recording:
    """What a row of the catalogue points at. Raises ``parquet.Unreadable`` for damaged files."""
    contents = lookup.contents(store, row)
    if contents.parts:
        return _from_parts(store, contents, keep)
    if isinstance(store.folder, Location):
        raise lookup.damaged(store, row, "it has no parts")
    folder = store.folder / "runs" / row.folder
    beside = contents.counters
    counters = None
    if beside is not None:
        counters = Recording(
            format=beside.format,
            time_basis="counter-tool",
            sources=beside.sources,
            devices=beside.devices,
            **parquet.read(folder, contents.files, parquet.COUNTERS),
        )
    return Recording(
        format=row.format,
        time_basis=row.time_basis,
        sources=contents.sources,
        devices=contents.devices,
        counters=counters,
        **parquet.read(folder, contents.files),
    )


def _from_parts(store: OpenStore, contents: Contents, keep: Keep) -> Recording:
    def part(at: int, keep: Keep) -> Recording:
        found = load_part(store.shelf, contents.parts[at], keep)
        if found is None:
            raise parquet.Unreadable(f"part {contents.parts[at]} is missing")
        return launch_part.interned(found, known)

    known: launch_part.Known = {}
    parts = [part(at, keep) for at in range(len(contents.parts))]
    merged = replace(merge(parts), sources=contents.sources, devices=contents.devices)
    if keep == "all" or len(parts) == 1:
        return merged
    return settled(merged, lambda at: part(at, "all"))
