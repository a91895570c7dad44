"""Where the parts of runs lie: folders of files that appear whole or not at all.

A part is written under a name of its own and published once; who comes second with the same part
finds it there. On disk a folder is prepared in a claim (``staging``) and renamed into place; in
object storage the manifest is the last object that is written, and what has none is no part.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from traceroof.ingest.remote import Location, Missing, explained
from traceroof.store import staging

#: The file by which a part is known to be whole.
MANIFEST = "part.json"


class Shelf(Protocol):
    """A place for parts, for any number of processes at once; picklable."""

    def write(self, name: str, files: Mapping[str, Any]) -> None:
        """Publish a part; nothing happens where it is there already."""

    def read(self, name: str, file: str) -> bytes | None:
        """A file of a part; None where it is not there."""

    def use(self, name: str) -> None:
        """Note that a part is wanted, so that it is not swept meanwhile."""

    def names(self) -> list[str]:
        """All parts."""

    def age(self, name: str) -> float:
        """Seconds since a part was written or wanted."""

    def remove(self, name: str) -> None:
        """Remove a part."""


@dataclass(frozen=True)
class LocalShelf:
    """Parts in a folder."""

    folder: Path

    def write(self, name: str, files: Mapping[str, Any]) -> None:
        if (self.folder / name / MANIFEST).exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # What a killed writer leaves goes with its claim, at the next sweep.
        claim = staging.new_claim(self.folder.parent / "incoming")
        try:
            staging.write_folder(claim.folder, files)
            try:
                claim.folder.rename(self.folder / name)
            except OSError:  # another process was faster
                if not (self.folder / name / MANIFEST).exists():
                    raise
        finally:
            with suppress(OSError):
                claim.discard()
            os.close(claim.descriptor)
        staging.sync(self.folder)

    def read(self, name: str, file: str) -> bytes | None:
        try:
            return (self.folder / name / file).read_bytes()
        except FileNotFoundError:
            return None

    def use(self, name: str) -> None:
        (self.folder / name / MANIFEST).touch()

    def names(self) -> list[str]:
        return sorted(one.name for one in self.folder.glob("*")) if self.folder.is_dir() else []

    def age(self, name: str) -> float:
        path = self.folder / name
        manifest = path / MANIFEST
        return time.time() - (manifest if manifest.exists() else path).stat().st_mtime

    def remove(self, name: str) -> None:
        shutil.rmtree(self.folder / name, ignore_errors=True)


@dataclass(frozen=True)
class ObjectShelf:
    """Parts in object storage."""

    location: Location

    def write(self, name: str, files: Mapping[str, Any]) -> None:
        if self.read(name, MANIFEST) is not None:
            return
        last = {MANIFEST: files[MANIFEST]} if MANIFEST in files else {}
        for file, content in {**{k: v for k, v in files.items() if k != MANIFEST}, **last}.items():
            self.put(name, file, content)

    def read(self, name: str, file: str) -> bytes | None:
        place = self.location.below(f"{name}/{file}" if name else file)
        try:
            with explained(place), place.filesystem.open_input_stream(place.path) as source:
                found: bytes = source.read()
                return found
        except Missing:
            return None

    def use(self, name: str) -> None:
        content = self.read(name, MANIFEST)
        if content is not None:
            self.put(name, MANIFEST, content)

    def names(self) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(self.location.path, allow_not_found=True)
        with explained(self.location):
            listed = self.location.filesystem.get_file_info(selector)
        return sorted(one.base_name for one in listed)

    def age(self, name: str) -> float:
        place = self.location.below(f"{name}/{MANIFEST}")
        with explained(place):
            (info,) = place.filesystem.get_file_info([place.path])
        return time.time() - info.mtime.timestamp() if info.mtime else float("inf")

    def remove(self, name: str) -> None:
        place = self.location.below(name)
        with suppress(Missing), explained(place):
            place.filesystem.delete_dir(place.path)

    def put(self, name: str, file: str, content: Any) -> None:
        """Write one object."""
        place = self.location.below(f"{name}/{file}" if name else file)
        with explained(place):
            # Object storage has no folders; a file system that has them needs one.
            if place.scheme not in ("s3", "gs", "gcs"):
                place.filesystem.create_dir(place.path.rpartition("/")[0], recursive=True)
            with place.filesystem.open_output_stream(place.path) as sink:
                sink.write(content)


def unreferenced(shelf: Shelf, kept: set[str], older_than: float) -> Iterator[str]:
    """The parts that no run refers to and that nobody wanted for so many seconds."""
    for name in shelf.names():
        if name not in kept and shelf.age(name) > older_than:
            yield name
