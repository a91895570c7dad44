"""One file of a run as it is kept: its tables, and what its timelines show.

A part is named by the bytes that it was read from and by how they were read, so it can be written
by any worker, any number of times, and one that was written before a driver died need not be read
again. What a run is made of stands in the catalogue (``rows.Contents.parts``).
"""

import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from traceroof.core import kernel_table
from traceroof.core.arrow_bytes import packed, unpacked
from traceroof.core.recording import (
    HOST_CALLS,
    SPANS,
    DeviceInfo,
    Recording,
    Source,
    Summary,
    TimeBasis,
    empty,
)
from traceroof.ingest.remote import RemoteFile
from traceroof.patterns import launch_part
from traceroof.patterns.launch_part import LaunchPart
from traceroof.scale.mapping import Keep, Kept, Mapping, Task
from traceroof.store import parquet
from traceroof.store.digests import file_digest
from traceroof.store.rows import Beside, counters_beside
from traceroof.store.shelves import MANIFEST, ObjectShelf, Shelf
from traceroof.timeline.partial import Partial, decoded, encoded

#: The file of a part that holds what its timelines show.
SUMMARY = "timelines.msgpack"
#: What its launches show, and the kernel table of its kernels by name: in place of its rows.
LAUNCHES, NAMES = "launches.msgpack", "by_name.arrow"
# Layout of a part; another number is another part.
_VERSION = 2
# What tells what the host did: read only where a part of a run is chosen.
_OF_HOST = ("host_calls", "spans")


@dataclass(frozen=True)
class Manifest:
    """What a part holds besides its tables."""

    format: str
    time_basis: TimeBasis
    sources: tuple[Source, ...]
    devices: tuple[DeviceInfo, ...]
    files: dict[str, parquet.File]
    has_summary: bool = True
    has_launches: bool = False
    counters: Beside | None = None


@dataclass(frozen=True)
class Keeper:
    """Keeps what workers read as parts on a shelf (``scale.mapping.Keeper``)."""

    shelf: Shelf

    @property
    def is_remote(self) -> bool:
        """Whether it is not a folder of this machine."""
        return isinstance(self.shelf, ObjectShelf)

    def named(self, task: Task, local: Path) -> Kept:
        """What the part of a file is called: by its bytes, and by all that its reading depends on."""
        digest = file_digest(local).hex()
        # A reader may take the rank from the last parts of a path.
        shown = task.file.location.path if isinstance(task.file, RemoteFile) else str(task.file)
        how = (
            str(_VERSION), digest, *Path(shown).parts[-2:], repr(replace(task.options, jobs=1)),
            repr(task.own), program(),
        )  # fmt: skip
        return Kept(sha256("\n".join(how).encode()).hexdigest()[:40], digest)

    def known(self, kept: Kept, task: Task) -> Recording | None:
        """The file as another try kept it; None where none did, or not as it was written."""
        try:
            recording = load(self.shelf, kept.name, task.keep)
        except parquet.Unreadable:
            self.shelf.remove(kept.name)
            return None
        if recording is None:
            return None
        self.shelf.use(kept.name)
        # The same bytes under another path.
        (source,) = recording.sources
        return replace(recording, sources=(replace(source, path=str(task.file)),))

    def keep(self, kept: Kept, whole: Recording, light: Recording) -> None:
        """Write a part."""
        write(self.shelf, kept.name, whole, light)


def write(shelf: Shelf, name: str, recording: Recording, light: Recording | None = None) -> None:
    """Publish a recording as a part. light: with what was worked out of it."""
    summaries = recording.summaries if light is None else light.summaries
    coded = parquet.encode(parquet.normal(replace(recording, summaries=())))
    content: dict[str, Any] = {parquet.file_name(table): data for table, (_, data) in coded.items()}
    partial = next((one for one in summaries if isinstance(one, Partial)), None)
    if partial is not None:
        content[SUMMARY] = encoded(partial)
    launches = next((one for one in summaries if isinstance(one, LaunchPart)), None)
    if launches is not None and light is not None:
        content[LAUNCHES] = launch_part.encoded(launches)
        content[NAMES] = packed(kernel_table.narrowed(light.kernels))
    manifest = Manifest(
        recording.format,
        recording.time_basis,
        recording.sources,
        recording.devices,
        {table: file for table, (file, _) in coded.items()},
        partial is not None,
        LAUNCHES in content,
        counters_beside(recording),
    )
    content[MANIFEST] = json.dumps(asdict(manifest)).encode()
    shelf.write(name, content)


def load(shelf: Shelf, name: str, keep: Keep = "rows") -> Recording | None:
    """A part as a recording; None where there is none.

    keep: as for reading a file; ``all`` is without what was worked out. Raises
    ``parquet.Unreadable`` where it is not as it was written.
    """
    found = shelf.read(name, MANIFEST)
    if found is None:
        return None
    try:
        manifest = msgspec.convert(json.loads(found), Manifest)
    except (ValueError, RecursionError):
        raise parquet.Unreadable(f"{MANIFEST} is damaged") from None
    light = manifest.has_summary and keep != "all"
    lightest = light and manifest.has_launches and keep == "parts"
    left = (*(_OF_HOST if light else ()), *(("kernels",) if lightest else ()))
    wanted = {table: file for table, file in manifest.files.items() if table not in left}

    def content(file: str) -> bytes | None:
        return shelf.read(name, file)

    tables: dict[str, Any] = dict(parquet.read_tables(content, wanted))
    if lightest:
        tables["kernels"] = _unpacked(content(NAMES))
    beside, counters = manifest.counters, None
    if beside is not None:
        counted: dict[str, Any] = dict(parquet.read_tables(content, wanted, parquet.COUNTERS))
        counters = Recording(
            format=beside.format,
            time_basis="counter-tool",
            sources=beside.sources,
            devices=beside.devices,
            **counted,
        )
    recording = Recording(
        format=manifest.format,
        time_basis=manifest.time_basis,
        sources=manifest.sources,
        devices=manifest.devices,
        counters=counters,
        **tables,
    )
    if not light:
        return recording
    summaries: list[Summary] = []
    for file, read, there in (
        (SUMMARY, decoded, True), (LAUNCHES, launch_part.decoded, lightest),
    ):  # fmt: skip
        try:
            summaries += [read(content(file) or b"")] if there else []
        except (msgspec.MsgspecError, ValueError, KeyError):
            raise parquet.Unreadable(f"{file} is not as it was written") from None
    return replace(
        recording, host_calls=empty(HOST_CALLS), spans=empty(SPANS), summaries=tuple(summaries)
    )


def _unpacked(data: bytes | None) -> pa.Table:
    """The table of NAMES. Raises ``parquet.Unreadable``."""
    try:
        return kernel_table.widened(unpacked(data or b""))
    except (pa.ArrowException, KeyError):
        raise parquet.Unreadable(f"{NAMES} is not as it was written") from None


def made_of(recording: Recording, mapping: Mapping) -> tuple[str, ...]:
    """The part of each source of a recording, in order; none where it is more than its parts."""
    names = [mapping.kept.get(one.path, Kept("", "")).name for one in recording.sources]
    more = recording.counters is not None or recording.clock_logs.num_rows
    covered = {file for one in recording.summaries for file in one.files}
    if more or not all(names) or len(covered) != len(recording.sources):
        return ()
    return tuple(names)


@cache
def program() -> str:
    """What tells this program's readers from those of another version."""
    digest = sha256()
    for folder in (
        "core", "hardware", "ingest", "kernels", "operators", "parsers", "patterns", "timeline",
    ):  # fmt: skip
        root = Path(str(files("traceroof"))) / folder
        for path in sorted(root.rglob("*.py")):
            about = path.stat()
            digest.update(f"{path.name} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()
