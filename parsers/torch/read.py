"""A trace file read and folded: in one go, or in sections by several processes."""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceroof.parsers.torch.buffer import PIECE_BYTES, Source
from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_rows import fold_events
from traceroof.parsers.torch.events import Decoder
from traceroof.parsers.torch.scanned import Scan, Taken
from traceroof.parsers.torch.stream import CUT, Reader, cuts
from traceroof.scale.engines import processes

if TYPE_CHECKING:  # a process that reads a section needs no Arrow
    from traceroof.core.recording import Note
    from traceroof.ingest.decompress import Inflated
    from traceroof.parser import Options, Progress

#: Top-level keys that are kept.
METADATA: Final = frozenset(
    {"deviceProperties", "computeProperties", "distributedInfo", "baseTimeNanoseconds",
     "with_stack", "cuda_driver_version", "hip_driver_version"}
)  # fmt: skip

#: Below this the start of other processes takes as long as they save.
PARALLEL_BYTES: Final = 256_000_000
# What one process takes at a time: small enough to keep all busy and results short.
_SECTION_BYTES: Final = 32 << 20

_HEAD_BYTES: Final = 1 << 12


@dataclass(frozen=True)
class Folded:
    """What was read. ``counts`` are notes to be, by text; ``head`` the file's first bytes."""

    fold: Fold
    metadata: Mapping[str, Any]
    counts: Counter[str]
    head: bytes
    notes: "tuple[Note, ...]" = ()


def whole(stream: "Inflated", tick: Callable[[], None], piece_bytes: int = PIECE_BYTES) -> Folded:
    """Read a stream to its end, calling ``tick`` every now and then. Raises NotJson."""
    head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
    scan = Scan()
    reader = Reader(stream, Decoder(), METADATA, piece_bytes, scan)
    fold = _folded(reader.whole(), scan, tick)
    return Folded(fold, reader.metadata, reader.counts, head)


def _folded(pieces: Iterator[list[Any] | Taken], scan: Scan, tick: Callable[[], None]) -> Fold:
    fold = Fold()
    with _without_collector():
        for found in pieces:
            if isinstance(found, Taken):
                scan.fold(fold, found)
            else:
                fold_events(fold, found)
            del found  # what comes next takes its place in the processor's cache
            tick()
        rest = scan.taken()
        if rest:
            scan.fold(fold, rest)
    return fold


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking for garbage among millions of short-lived objects without cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def in_sections(
    path: Path,
    size: int,
    options: "Options",
    progress: "Progress",
    section_bytes: int = _SECTION_BYTES,
) -> Folded | None:
    """Read a plain file by several processes (``options.jobs``).

    None where that does not come out the same as reading it in one go: when a section holds
    something broken, or the events end before the file's last section; also when a process dies.
    """
    from concurrent.futures.process import BrokenProcessPool

    places = cuts(path, size, section_bytes)
    last = len(places) - 2
    work = [(path, places[at], places[at + 1], at == 0) for at in range(last + 1)]
    result: Folded | None = None
    try:
        with processes(options.jobs) as pool:
            sections = pool.map(_section, work)
            for name in options.meanwhile:
                import_module(name)  # what comes next needs it: while others read
            for at, (found, has_ended) in enumerate(sections):
                broken = set(found.counts) - {CUT}
                if broken if at == last else broken or has_ended:
                    pool.shutdown(cancel_futures=True)
                    return None
                result = found if result is None else _joined(result, found)
                progress(places[at + 1], size)
    except (BrokenProcessPool, OSError):
        return None
    return result


def _joined(result: Folded, found: Folded) -> Folded:
    result.fold.append(found.fold)
    return Folded(result.fold, {**result.metadata, **found.metadata}, found.counts, result.head)


class _Section:
    """Bytes ``start`` to ``end`` of a file."""

    def __init__(self, file: Any, start: int, end: int) -> None:
        file.seek(start)
        self._file, self._left = file, end - start

    def readinto(self, buffer: memoryview, /) -> int:
        count: int = self._file.readinto(buffer[: self._left])
        self._left -= count
        return count


def _section(work: tuple[Path, int, int, bool]) -> tuple[Folded, bool]:
    """Read one section, in a process of its own; also whether the events ended in it."""
    path, start, end, is_first = work
    with path.open("rb", buffering=0) as file:
        head = file.read(_HEAD_BYTES) if is_first else b""
        section: Source = _Section(file, start, end)
        scan = Scan()
        reader = Reader(section, Decoder(), METADATA, scan=scan)
        pieces = reader.whole() if is_first else reader.rest()
        fold = _folded(pieces, scan, lambda: None)
    return Folded(fold, reader.metadata, reader.counts, head), reader.has_ended
