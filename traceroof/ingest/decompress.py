"""The one way into a file: plain or compressed, told by its content, and never without bounds.

Every parser opens its input here, so a ``.gz`` without the suffix, a zip from a CI artifact and
a gzip bomb are dealt with once. Nothing is written to disk.
"""

import io
import stat
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.parser import Options

if TYPE_CHECKING:
    import tarfile

_GZIP = b"\x1f\x8b\x08"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_TAR = (257, b"ustar")
_LFS = b"version https://git-lfs"

# Compressed in a way that we do not read: magic bytes, its name, the command that undoes it.
_FOREIGN = (
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
    (b"\xfd7zXZ\x00", "xz", "xz -dk"),
    (b"BZh", "bzip2", "bzip2 -dk"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip", "7z x"),
)


def _damaged() -> tuple[type[Exception], ...]:
    """What Python's archive modules raise over damaged archives, as found by mutating some."""
    import tarfile
    import zipfile

    return (
        zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error, EOFError, OSError,
        OverflowError, ValueError,
    )  # fmt: skip


# One step of reading compressed bytes. Damaged gzip costs at most the step it lies in.
_STEP = 1 << 16
# A gzip in a gzip happens (a server compresses a .gz once more); deeper is no accident.
_DEEPEST = 4
# Below this much output the growth of a file says nothing: a page of zeros packs 1000 to 1.
_GROWTH_FLOOR = 64 << 20


@dataclass
class _Watch:
    """What the layers above one file share: its limits, and what was noticed."""

    path: Path
    options: Options
    file: BinaryIO
    notes: list[Note] = field(default_factory=list)

    def bound(self, produced: int) -> None:
        """Raise TraceroofError when ``produced`` bytes are more than the user allows."""
        if produced > self.options.max_inflated_bytes:
            raise TraceroofError(
                f"{self.path} unpacks to more than {_size(self.options.max_inflated_bytes)}",
                "if the file is what it should be: read it with --max-inflated GIB",
            )
        if produced > _GROWTH_FLOOR:
            growth = produced / max(self.file.tell(), 1)
            if growth > self.options.max_inflation:
                raise TraceroofError(
                    f"{self.path} is more than {self.options.max_inflation} times larger when "
                    f"decompressed, which no profiler file is",
                    "if the file is what it should be: read it with --max-inflation FACTOR",
                )


class Inflated(io.BufferedReader):
    """A file's decompressed bytes, to be read forwards (plain files can also seek).

    plain: nothing was compressed: the bytes are the file's own.
    notes: what was noticed so far (cut or damaged data, bytes after the end); complete once
    everything has been read.
    """

    def __init__(self, raw: Any, watch: _Watch, plain: bool) -> None:
        super().__init__(raw, _STEP)
        self._watch = watch
        self.plain = plain

    @property
    def notes(self) -> tuple[Note, ...]:
        return tuple(self._watch.notes)

    @property
    def consumed(self) -> int:
        """Bytes of the file on disk read so far; with its size a measure of progress."""
        return self._watch.file.tell()


def head(path: Path, count: int) -> bytes:
    """The first ``count`` decompressed bytes, fewer where there are no more; none for a folder.

    Cut or damaged data gives what comes before it. Raises TraceroofError for what cannot be
    read at all (see ``open_inflated``).
    """
    if path.is_dir():
        return b""
    with open_inflated(path, Options()) as stream:
        return stream.read(count)


@contextmanager
def open_inflated(path: Path, options: Options) -> Iterator[Inflated]:
    """Open a file for reading its decompressed bytes: plain, gzip, or an archive of one file.

    The kind is told by content, not by name. Gzip may be nested, concatenated, cut short or
    followed by other bytes: everything readable is given and ``notes`` of the stream says what
    was wrong. A zip or tar archive must hold exactly one file.

    Raises TraceroofError, also while reading, when the file is missing, empty, a folder, a pipe,
    a Git LFS pointer, not ours to read, compressed in another way, an archive of several files,
    or larger than ``options.max_inflated_bytes`` or ``options.max_inflation`` allow.
    """
    with _opened(path) as file:
        watch = _Watch(path, options, file)
        stream = _zip_member(watch) or Inflated(file, watch, plain=True)
        for _ in range(_DEEPEST):
            layer = _next_layer(stream, watch)
            if layer is None:
                yield stream
                return
            stream = Inflated(layer, watch, plain=False)
        raise TraceroofError(f"{path} is packed more than {_DEEPEST} times over", "unpack it first")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise TraceroofError(f"{path} is a folder, not a file")
        if not stat.S_ISREG(mode):
            raise TraceroofError(
                f"{path} is a pipe or a device, which cannot be read more than once",
                "save its content to a file first",
            )
        file = path.open("rb", buffering=0)
    except FileNotFoundError:
        raise TraceroofError(f"{path} does not exist") from None
    except PermissionError:
        raise TraceroofError(
            f"{path} may not be read by this user", "check its permissions"
        ) from None
    except (OSError, ValueError) as error:
        raise TraceroofError(f"{path} cannot be opened: {error}") from None
    with file:
        _refuse_what_is_no_content(path, file.read(64))
        file.seek(0)
        yield file


def _refuse_what_is_no_content(path: Path, start: bytes) -> None:
    if not start:
        raise TraceroofError(f"{path} is empty", "the profiler may not have finished writing it")
    if start.startswith(_LFS):
        raise TraceroofError(
            f"{path} is a Git LFS pointer, not the file itself", "fetch it with: git lfs pull"
        )


def _next_layer(stream: Inflated, watch: _Watch) -> io.RawIOBase | None:
    """The layer that undoes the packing at the start of ``stream``; None where there is none."""
    start = stream.peek(512)
    if start.startswith(_GZIP):
        return _Gunzip(stream, watch)
    if start[_TAR[0] :].startswith(_TAR[1]):
        return _open_tar(stream, watch)
    if start.startswith(_ZIP):
        raise TraceroofError(f"{watch.path} holds a packed zip archive", "unpack it first")
    for magic, name, command in _FOREIGN:
        # "BZh" alone is also plausible text; a bzip2 file goes on with a digit.
        if start.startswith(magic) and (name != "bzip2" or start[3:4].isdigit()):
            raise TraceroofError(
                f"{watch.path} is compressed with {name}, which traceroof does not read",
                f"unpack it first: {command} {watch.path}",
            )
    return None


class _Gunzip(io.RawIOBase):
    """The bytes of all gzip members of ``source``, one after the other."""

    def __init__(self, source: BinaryIO | io.BufferedReader, watch: _Watch) -> None:
        self._source = source
        self._watch = watch
        self._new_member, self._errors = _inflater()
        self._member: Any = None
        self._pending = b""
        self._produced = 0
        self._members = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # Filled to the brim: callers look at the first bytes of a layer to see what it holds.
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and not self._ended:
            data = self._some(len(view) - filled)
            view[filled : filled + len(data)] = data
            filled += len(data)
            self._produced += len(data)
        self._watch.bound(self._produced)
        return filled

    def _some(self, limit: int) -> bytes:
        source_ended = False
        if len(self._pending) < len(_GZIP):
            more = self._source.read(_STEP)
            self._pending += more
            source_ended = not more
        if self._member is None and not self._start_member():
            return b""
        try:
            data: bytes = self._member.decompress(self._pending, limit)
        except self._errors:
            self._break("damaged gzip data", "nothing after the damage was read")
            return b""
        if self._member.eof:
            self._pending = self._member.unused_data
            self._member = None
            self._members += 1
        else:
            self._pending = self._member.unconsumed_tail
            if source_ended and not data:
                self._break("gzip data cut short", "only what comes before the cut was read")
        return data

    def _start_member(self) -> bool:
        """Begin the next member, if there is one. Zeros between members are tape padding."""
        self._pending = self._pending.lstrip(b"\0")
        while len(self._pending) < len(_GZIP) and (more := self._source.read(_STEP)):
            self._pending = (self._pending + more).lstrip(b"\0")
        if self._pending.startswith(_GZIP):
            self._member = self._new_member(31)
            return True
        self._ended = True
        if self._pending:
            self._watch.notes.append(Note("bytes that follow the end of the gzip data ignored"))
        return False

    def _break(self, what: str, consequence: str) -> None:
        if not self._produced and not self._members:
            raise TraceroofError(
                f"{self._watch.path} is {what}: nothing of it can be unpacked", "fetch it again"
            )
        self._ended = True
        self._watch.notes.append(Note(f"{what}: {consequence}"))


@cache
def _inflater() -> tuple[Callable[[int], Any], Any]:
    """The fastest zlib at hand and its errors: ISA-L inflates three times as fast as Python's."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj, zlib.error
    return isal_zlib.decompressobj, (zlib.error, isal_zlib.error)


class _Member(io.RawIOBase):
    """One file of an archive, read within bounds; what is broken in it becomes a note."""

    def __init__(self, source: IO[bytes], watch: _Watch) -> None:
        self._source = source
        self._watch = watch
        self._produced = 0
        self._broken = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = b"" if self._broken else self._source.read(len(view))
        except _damaged():
            self._broken = True
            self._watch.notes.append(Note("damaged archive: nothing after the damage was read"))
            return 0
        view[: len(data)] = data
        self._produced += len(data)
        self._watch.bound(self._produced)
        return len(data)


def _zip_member(watch: _Watch) -> Inflated | None:
    """The one file in a zip archive; None where the file is none."""
    start = watch.file.read(4)
    watch.file.seek(0)
    if start not in _ZIP:
        return None
    import zipfile

    try:
        archive = zipfile.ZipFile(watch.file)
        entries = {e.filename: e for e in archive.infolist() if not e.is_dir()}
        entry = entries[_only(list(entries), watch)]
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise NotImplementedError(f"its compression method is number {entry.compress_type}")
        member = archive.open(entry)
    except _damaged():
        raise TraceroofError(
            f"{watch.path} is a zip archive that is cut short or damaged", "fetch it again"
        ) from None
    except (RuntimeError, NotImplementedError) as error:  # encrypted; an unknown method
        raise TraceroofError(
            f"{watch.path} is a zip archive that cannot be unpacked here: {error}",
            "unpack it first",
        ) from None
    return Inflated(_Member(member, watch), watch, plain=False)


class _TarMember(_Member):
    """The one file in a tar archive, read in one pass: more files show only behind it."""

    def __init__(self, stream: Inflated, watch: _Watch) -> None:
        import tarfile

        # "r|": forwards only, so that a packed archive is unpacked once.
        archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115
        self._entries = iter(archive)
        self._names: list[str] = []
        entry = self._next_file()
        member = archive.extractfile(entry) if entry else None
        if member is None:
            raise TraceroofError(f"{watch.path} is an archive without a file in it")
        super().__init__(member, watch)

    def readinto(self, buffer: Any) -> int:
        count = super().readinto(buffer)
        if not count:
            try:
                while self._next_file():
                    pass
            except _damaged():
                self._watch.notes.append(Note("the tar archive is cut short or damaged"))
            _only(self._names, self._watch)
        return count

    def _next_file(self) -> "tarfile.TarInfo | None":
        for entry in self._entries:
            if entry.isfile() and _is_real(entry.name):
                self._names.append(entry.name)
                return entry
        return None


def _open_tar(stream: Inflated, watch: _Watch) -> io.RawIOBase:
    try:
        return _TarMember(stream, watch)
    except _damaged():
        raise TraceroofError(
            f"{watch.path} is a tar archive that is cut short or damaged", "fetch it again"
        ) from None


def _is_real(name: str) -> bool:
    """Whether an archive's file is more than the ``._`` twin that macOS adds."""
    return not name.startswith("__MACOSX/") and not name.rpartition("/")[2].startswith("._")


def _only(names: list[str], watch: _Watch) -> str:
    """The one name that matters. Raises TraceroofError, naming them, where there are several."""
    real = [name for name in names if _is_real(name)]
    if len(real) == 1:
        return real[0]
    if not real:
        raise TraceroofError(f"{watch.path} is an archive without a file in it")
    shown = ", ".join(real[:5]) + (f" and {len(real) - 5} more" if len(real) > 5 else "")
    raise TraceroofError(
        f"{watch.path} is an archive of {len(real)} files ({shown})",
        "unpack it and name the file, the files or the folder",
    )


def _size(count: int) -> str:
    return f"{count / (1 << 30):.0f} GiB" if count >= 1 << 30 else f"{count:,} bytes"
