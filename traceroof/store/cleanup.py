"""What writers leave behind: a claim while they work, and what killed ones never finished."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from traceroof.errors import TraceroofError
from traceroof.ingest.remote import Location
from traceroof.store import lookup, staging
from traceroof.store.open_store import OpenStore
from traceroof.store.shelves import unreferenced

# What a writer left that was killed so long ago will not be continued.
_STALE_SECONDS = 24 * 3600.0


@contextmanager
def claimed(store: OpenStore) -> Iterator[staging.Claim | None]:
    """Where to prepare what will be renamed into place; nothing in object storage."""
    if isinstance(store.folder, Location):
        yield None
        return
    claim = staging.new_claim(store.folder / "incoming")
    try:
        yield claim
    finally:
        # What cannot be tidied up now, a later sweep finds.
        with suppress(OSError, TraceroofError):
            _settle(store, claim)
        os.close(claim.descriptor)


def sweep(store: OpenStore) -> None:
    """Tidy up after writers that were killed, as far as it can be done now."""
    if isinstance(store.folder, Location):
        return
    for lock in (store.folder / "incoming").glob("*.lock"):
        with suppress(OSError, TraceroofError), staging.abandoned_claim(lock) as claim:
            if claim is None:
                continue
            catalogue, claim.rubbish = claim.journal()
            # Another catalogue may refer to these folders: its users tidy up.
            if not claim.rubbish or catalogue == store.catalogue.identity:
                _settle(store, claim)


def sweep_parts(store: OpenStore) -> None:
    """Remove the parts that no run refers to, of writers that were killed long ago."""
    with suppress(OSError, TraceroofError), store.catalogue.reading() as connection:
        kept = lookup.parts_in_use(store, connection)
        for part in unreferenced(store.shelf, kept, _STALE_SECONDS):
            store.shelf.remove(part)


def _settle(store: OpenStore, claim: staging.Claim) -> None:
    """Remove a claim, and its rubbish as far as the catalogue does not refer to it."""
    if claim.rubbish and not isinstance(store.folder, Location):
        # Under the write lock, when nobody else is about to take one of these names.
        with store.catalogue.writing() as connection:
            kept = {row.folder for row in lookup.rows(store, connection)}
            for name in set(claim.rubbish) - kept:
                if (folder := store.folder / "runs" / name).exists():
                    claim.put_aside(folder)
    claim.discard()
