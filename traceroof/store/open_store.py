"""Where a store is, and how it is found, made and told apart from others."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from traceroof.errors import TraceroofError
from traceroof.ingest.remote import Location, is_url, location_of
from traceroof.store import staging
from traceroof.store.catalogue import Catalogue
from traceroof.store.shelves import LocalShelf, ObjectShelf, Shelf

# What a store's folder holds, and the beginning of what it holds for a moment.
_OURS = (".gitignore", "catalogue.db", "incoming", "parts", "runs", "store-id")


@dataclass(frozen=True)
class OpenStore:
    """A folder, or a place in object storage, and the catalogue that says what is in it.

    shelf: where runs lie that are kept part by part. identity: what tells the runs of this store
    apart in a catalogue that several share; empty where the catalogue is its own.
    """

    folder: Path | Location
    shelf: Shelf
    catalogue: Catalogue
    identity: str


def open_store(
    folder: Path | str | None = None, catalogue: str | None = None, *, create: bool = True
) -> OpenStore:
    """As ``Store.open``."""
    folder = _meant(folder)
    url = catalogue or _catalogue_url()
    if is_url(folder):
        place = location_of(str(folder))
        opened = Catalogue.open(place, url)
        shelf = ObjectShelf(place.below("parts"))
        return OpenStore(place, shelf, opened, _remote_identity(place, create))
    folder = Path(folder)
    with explained(folder):
        if folder.exists() and not folder.is_dir():
            raise TraceroofError(
                f"{folder} is a file, not the folder of a store", "name another with --store"
            )
        if not (folder / _mark(url)).exists():
            if not create:
                raise TraceroofError(
                    f"there is no store in {folder}",
                    "`traceroof ingest PATH` makes one; --store names another folder",
                )
            _make(folder)
        opened = Catalogue.open(folder, url)
        return OpenStore(
            folder, LocalShelf(folder / "parts"), opened, _identity(folder) if url else ""
        )


def exists(folder: Path | str | None) -> bool:
    """Whether there is a store in a folder (as for ``Store.open``); nothing is created."""
    folder = _meant(folder)
    if is_url(folder):
        place = location_of(str(folder))
        return bool(_catalogue_url() and ObjectShelf(place).read("", "store-id"))
    return (Path(folder) / _mark(_catalogue_url())).exists()


def _meant(folder: Path | str | None) -> Path | str:
    return folder or os.environ.get("TRACEROOF_STORE") or ".traceroof"


def _catalogue_url() -> str | None:
    return os.environ.get("TRACEROOF_CATALOGUE") or None


def _mark(catalogue: str | None) -> str:
    """The file by which a folder is known to be a store."""
    return "store-id" if catalogue else "catalogue.db"


@contextmanager
def explained(folder: Path | Location) -> Iterator[None]:
    """Turn errors of the system into a sentence about the store."""
    try:
        yield
    except OSError as error:
        raise staging.unwritable(folder, error) from None


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Where other things are, `.gitignore` would hide them from git.
    if other := [name for name in os.listdir(folder) if not name.startswith(_OURS)]:
        raise TraceroofError(
            f"{folder} is a folder with other things in it ({other[0]}), not a store",
            "name a new folder with --store",
        )
    ignore = folder / ".gitignore"
    if not ignore.exists() or not ignore.stat().st_size:
        ignore.write_text("*\n", encoding="utf-8")


def _remote_identity(place: Location, create: bool) -> str:
    """The same of a place in object storage."""
    shelf = ObjectShelf(place)
    found = shelf.read("", "store-id")
    if found is None:
        if not create:
            raise TraceroofError(
                f"there is no store in {place}",
                "`traceroof ingest PATH` makes one; --store names another",
            )
        shelf.put("", "store-id", secrets.token_hex(16).encode())
        found = shelf.read("", "store-id") or b""
    return found.decode("ascii", "replace").strip()


def _identity(folder: Path) -> str:
    """What tells this folder apart from others that share its catalogue; made once."""
    path = folder / "store-id"
    if not path.exists():
        draft = folder / f"store-id.{secrets.token_hex(8)}"
        draft.write_text(secrets.token_hex(16), encoding="ascii")
        with suppress(FileExistsError):  # the first of several processes wins
            os.link(draft, path)
        draft.unlink()
    return path.read_text(encoding="ascii", errors="replace").strip()
