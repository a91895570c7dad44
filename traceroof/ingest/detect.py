"""From paths to a recording: which parser reads a file, and what a folder holds."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from traceroof import plugins
from traceroof.core.recording import Note, Recording, with_notes
from traceroof.errors import TraceroofError
from traceroof.ingest import decompress, folders, remote
from traceroof.ingest.combine import combine
from traceroof.ingest.combine_timelines import of_one_program
from traceroof.ingest.foreign import NOT_READ, foreign, foreign_folder, looks_like
from traceroof.ingest.gpu_models import of_one_gpu
from traceroof.ingest.plausible import plausible
from traceroof.ingest.remote import RemoteFile
from traceroof.ingest.roles import Mode
from traceroof.ingest.sqlite import COMPANIONS, MAGIC, refuse_unfinished
from traceroof.parser import HEAD_BYTES, Options, Parser, Progress, silent

# Beyond this many files a folder is a mistake (a home directory, a build tree).
_MOST_FILES = 4096
# So many names are listed in a note.
_LISTED = 5


def read(
    paths: Sequence[Path | str],
    progress: Progress = silent,
    options: Options | None = None,
    mode: Mode = "auto",
    clock_offset: str | None = None,
) -> Recording:
    """Read files and folders into one recording, combined as ``mode`` and ``clock_offset`` say
    (``combine``).

    A folder that a parser knows as a whole (a profile folder) is read by it; any other folder
    stands for the profiler files in it. What is given twice is read once: content counts, not the
    name, and a copy of a run is no second run. Raises TraceroofError when a named file is not
    readable, or when a folder holds nothing that is.
    """
    return combine(read_each(paths, progress, options), mode, clock_offset)


#: A file to read: here or in a storage.
File = Path | RemoteFile

#: Reads files, each on its own: what it holds, or why it cannot be read, in the order given.
Reader = Callable[[Sequence[File], Progress, Options], Iterable[Recording | TraceroofError]]


def in_turn(
    files: Sequence[File], progress: Progress, options: Options
) -> Iterator[Recording | TraceroofError]:
    """The ``Reader`` that reads one file after another."""
    for file in files:
        try:
            yield read_file(file, progress, options)
        except TraceroofError as error:
            yield error


def read_file(file: File, progress: Progress, options: Options) -> Recording:
    """Read one profiler file, or a folder that one parser reads as a whole."""
    if isinstance(file, RemoteFile):
        return remote.read(file, lambda local: read_file(local, progress, options))
    _refuse_empty(file)
    return plausible(sniff(file).read(file, progress, options))


def read_each(
    paths: Sequence[Path | str],
    progress: Progress = silent,
    options: Options | None = None,
    reader: Reader = in_turn,
    *,
    one_gpu: bool = True,
) -> list[Recording]:
    """Read files and folders, each file into a recording of its own; as ``read`` otherwise.

    one_gpu: of a folder, leave out files of another GPU model than most. Of many files that are named (from ``MANY`` on) one that cannot be read is left out with a note.
    """
    options = options or Options()
    if not paths:
        raise TraceroofError("there is nothing to read", "name at least one profiler file")
    seen = _Seen()
    here = [Path(path) for path in paths if not remote.is_url(path)]
    explaining = _explaining(here)
    options = replace(options, beside=tuple(path for path in here if path in explaining))
    read_alone = [path for path in paths if remote.is_url(path) or Path(path) not in explaining]
    planned = [_planned(path, seen) for path in read_alone]
    files = [file for plan in planned for file in plan.files]
    results = iter(reader(files, progress, options))
    many = sum(plan.folder is None for plan in planned) >= MANY
    recordings: list[Recording] = []
    refused: list[tuple[File, TraceroofError]] = []
    for plan in planned:
        found = list(zip(plan.files, islice(results, len(plan.files)), strict=True))
        if plan.folder is not None:
            if isinstance(plan.folder, Path) and not _any_read(found):
                # What lies below is what was recorded, and the files here are foreign.
                below = _one_level_down(plan.folder)
                found += zip(below, reader(below, progress, options), strict=True)
            recordings += _of_folder(plan, found, one_gpu)
            continue
        for file, one in found:
            if isinstance(one, Recording):
                recordings.append(one)
            elif many:
                refused.append((file, one))
            else:
                raise one
    # What reads them ends as it should; left before its end it is cut off.
    next(results, None)
    if refused and not recordings:
        raise refused[0][1]
    recordings = [with_notes(one, seen.notes(at)) for at, one in enumerate(recordings)]
    notes = [folders.left_out(file, error.message) for file, error in refused]
    return [with_notes(recordings[0], notes), *recordings[1:]] if notes else recordings


#: From so many named files on, one that cannot be read does not lose the rest.
MANY = 8


def _explaining(paths: Sequence[Path]) -> frozenset[Path]:
    """The files that are read with another one of them."""
    if len(paths) < 2:
        return frozenset()
    asked = [getattr(parser, "explaining", None) for parser in plugins.parsers()]
    found: set[Path] = set()
    for ask in asked:
        found |= ask(paths) if ask is not None else set()
    return frozenset(found)


def sniff(path: Path) -> Parser:
    """The parser that reads this file or folder. Raises TraceroofError when there is none."""
    head = b"" if path.is_dir() else decompress.head(path, HEAD_BYTES)
    sure = [(parser.recognises(head, path), parser) for parser in plugins.parsers_for(head)]
    best = max((score for score, _ in sure), default=0)
    if best == 0:
        if head.startswith(MAGIC):
            refuse_unfinished(path)
        words, hint = looks_like(head)
        raise TraceroofError(f"{path} is not a profiler file that traceroof reads: {words}", hint)
    claims = [parser for score, parser in sure if score == best]
    # Who knows that a file only looks like a profiler's knows it better.
    return next((parser for parser in claims if not parser.gives), claims[0])


# So many bytes of each end of a file are compared before all of it is.
_END_BYTES = 4096

#: How the note begins on files that are equal.
READ_ONCE = "read once: "


@dataclass
class _Seen:
    """What one reading has read so far, by content; files of other sizes or ends are never hashed:
    the ranks of a job are many, and of nearly one size.

    same_size: what was read, by size (of a folder: the names and sizes in it), with the number of
    its recording. copies: of each recording, what else holds the same.
    """

    same_size: dict[object, list[tuple[Path, int]]] = field(default_factory=dict)
    copies: dict[int, list[Path]] = field(default_factory=dict)
    count: int = 0
    ends: dict[Path, bytes] = field(default_factory=dict)
    digests: dict[Path, bytes] = field(default_factory=dict)

    def is_copy(self, path: Path) -> bool:
        """Whether the content was read already; else it counts as the next recording."""
        if not (path.is_file() or path.is_dir()):  # a pipe can be read once only
            self.count += 1
            return False
        others = self.same_size.setdefault(_size(path), [])
        for other, number in others:
            if self._ends(other) == self._ends(path) and self._digest(other) == self._digest(path):
                self.copies.setdefault(number, []).append(path)
                return True
        others.append((path, self.count))
        self.count += 1
        return False

    def notes(self, number: int) -> list[Note]:
        """What to say of one recording."""
        copies = self.copies.get(number)
        if not copies:
            return []
        named = ", ".join(map(str, copies[:_LISTED])) + (", …" if copies[_LISTED:] else "")
        return [Note(f"{READ_ONCE}the same content was given again as {named}", len(copies))]

    def _ends(self, path: Path) -> bytes:
        if path not in self.ends:
            self.ends[path] = b"".join(map(_ends, _files(path)))
        return self.ends[path]

    def _digest(self, path: Path) -> bytes:
        if path not in self.digests:
            self.digests[path] = b"".join(map(_hash, _files(path)))
        return self.digests[path]


def _files(path: Path) -> list[Path]:
    """The file, or the files below the folder, in order of their names."""
    if not path.is_dir():
        return [path]
    return sorted(Path(root) / name for root, _, names in os.walk(path) for name in names)


def _size(path: Path) -> object:
    """Equal for what may have equal content."""
    if not path.is_dir():
        return path.stat().st_size
    return tuple((one.relative_to(path).as_posix(), _bytes_in(one)) for one in _files(path))


def _bytes_in(file: Path) -> int:
    return file.stat().st_size if file.is_file() else -1


def _ends(file: Path) -> bytes:
    """The first and the last bytes of a file: where a trace says what it is of, and when it ended."""
    if not file.is_file():
        return b""
    with file.open("rb") as content:
        first = content.read(_END_BYTES)
        content.seek(max(file.stat().st_size - _END_BYTES, 0))
        return first + content.read(_END_BYTES)


def _hash(file: Path) -> bytes:
    if not file.is_file():
        return b""
    import hashlib  # loads OpenSSL; most runs hash nothing

    with file.open("rb") as content:
        return hashlib.file_digest(content, "blake2b").digest()


@dataclass(frozen=True)
class _Plan:
    """What a path stands for: the files to read, each on its own; of a folder that no parser reads
    as a whole also what is said of the others in it."""

    files: Sequence[File]
    folder: Path | RemoteFile | None = None
    notes: Sequence[Note] = ()
    skipped: Sequence[str] = ()


def _planned(path: Path | str, seen: _Seen) -> _Plan:
    if isinstance(path, str) and remote.is_url(path):
        files = remote.files_of(path)
        several = len(files) > 1 or str(files[0]) != str(remote.location_of(path))
        return _Plan(files, RemoteFile(remote.location_of(path), 0) if several else None)
    path = Path(path)
    if not path.exists():
        raise TraceroofError(f"{path} does not exist")
    if path.is_dir() and not any(one.recognises(b"", path) for one in plugins.parsers()):
        return _planned_folder(path, seen)
    _refuse_empty(path)
    return _Plan([] if seen.is_copy(path) else [path])


def _planned_folder(folder: Path, seen: _Seen) -> _Plan:
    """Every profiler file directly in a folder; what is none is counted in a note."""
    files = sorted(entry for entry in folder.iterdir() if entry.is_file())
    names = {file.name for file in files}
    files = [file for file in files if not _is_companion(file.name, names)]
    if len(files) > _MOST_FILES:
        raise TraceroofError(f"{folder} holds {len(files):,} files", "name the ones to read")
    traces: list[Path] = []
    skipped: list[str] = []
    notes: list[Note] = []
    for file in files:
        if _is_sure(file):
            traces.append(file)
        elif reason := folders.lost(file):
            notes.append(folders.left_out(file, reason))
        else:
            skipped.append(file.name)
    explaining = _explaining(traces)
    traces = [file for file in traces if file not in explaining] or _one_level_down(folder)
    if not traces:
        raise _nothing_in(folder, files)
    return _Plan([file for file in traces if not seen.is_copy(file)], folder, notes, skipped)


def _one_level_down(folder: Path) -> list[Path]:
    """The profiler files and profile folders in the folders of a folder: one of each rank."""
    found: list[Path] = []
    for below in sorted(folder.iterdir()):
        if not below.is_dir() or below.name.startswith("."):
            continue
        if any(one.recognises(b"", below) for one in plugins.parsers()):
            found.append(below)
            continue
        files = sorted(entry for entry in below.iterdir() if entry.is_file())
        if len(files) + len(found) > _MOST_FILES:
            raise TraceroofError(f"{below} holds {len(files):,} files", "name the ones to read")
        found += [file for file in files if _is_sure(file)]
    return found


def _is_companion(name: str, names: Collection[str]) -> bool:
    """Whether SQLite wrote a file beside a database, which is read with it."""
    return any(name.endswith(end) and name.removesuffix(end) in names for end in COMPANIONS)


def _of_folder(
    plan: _Plan, results: Sequence[tuple[File, Recording | TraceroofError]], one_gpu: bool
) -> list[Recording]:
    """What the files of a folder hold; those that cannot be read, and those of another GPU model
    than most (if one_gpu), are left out with a note. Raises the first refusal where no file can be read."""
    found = [one for _, one in results if isinstance(one, Recording)]
    refused = [(file, one) for file, one in results if isinstance(one, TraceroofError)]
    if refused and not found:
        raise refused[0][1]
    name = plan.folder.name if plan.folder else ""
    notes = [*plan.notes, *(folders.left_out(file, one.message) for file, one in refused)]
    if plan.skipped:
        named = ", ".join(plan.skipped[:_LISTED]) + (", …" if plan.skipped[_LISTED:] else "")
        text = f"other files in {name} are not profiler files, skipped: {named}"
        notes.append(Note(text, len(plan.skipped), severe=False))
    found, foreign = of_one_gpu(found) if one_gpu else (found, [])
    if foreign:
        named = ", ".join(Path(one.sources[0].path).name for one in foreign[:_LISTED])
        notes.append(Note(f"files of another GPU model in {name}, left out: {named}", len(foreign)))
    found, foreign = of_one_program(found) if one_gpu else (found, [])
    if foreign:
        named = ", ".join(Path(one.sources[0].path).name for one in foreign[:_LISTED])
        text = f"files of another tool in {name} without a kernel in common, left out: {named}"
        notes.append(Note(text, len(foreign)))
    return [with_notes(found[0], notes), *found[1:]] if found else []


def _any_read(results: Sequence[tuple[File, Recording | TraceroofError]]) -> bool:
    return any(isinstance(one, Recording) for _, one in results)


def _nothing_in(folder: Path, files: Sequence[Path]) -> TraceroofError:
    """The refusal of a folder without a profiler file, which says what else it is."""
    kind = foreign_folder(folder)
    if kind is not None:
        return TraceroofError(f"{folder} looks like {kind.words}, not read", kind.instead)
    looked = f"no profiler file in {folder} ({len(files)} files looked at"
    for file in files[:_LISTED]:
        if file.stat().st_size and decompress.head(file, HEAD_BYTES).startswith(MAGIC):
            refuse_unfinished(file)
        kind = foreign(decompress.head(file, HEAD_BYTES)) if file.stat().st_size else None
        if kind is not None:
            hint = kind.instead or NOT_READ
            return TraceroofError(f"{looked}; {file.name} looks like {kind.words})", hint)
    for file in files[:_LISTED]:
        if (reason := _known_refusal(file)) is not None:
            words = reason.message.replace(str(file), file.name)
            return TraceroofError(f"{looked}; {words})", reason.hint)
    return TraceroofError(f"{looked})", NOT_READ)


def _known_refusal(file: Path) -> TraceroofError | None:
    """What a parser that only refuses says of a file that it knows."""
    try:
        head = decompress.head(file, HEAD_BYTES) if file.stat().st_size else b""
        claims = [one for one in plugins.parsers_for(head) if head and one.recognises(head, file)]
        if claims and not any(one.gives for one in claims):
            claims[0].read(file, silent, Options())
    except TraceroofError as error:
        return error
    return None


def _is_sure(file: Path) -> bool:
    """Whether a file of a folder is a profiler's for sure; not what is only refused."""
    try:
        head = decompress.head(file, HEAD_BYTES)
    except TraceroofError:
        return False
    sure = [one for one in plugins.parsers_for(head) if head and one.recognises(head, file) == 2]
    return bool(sure) and all(one.gives for one in sure)


def _refuse_empty(path: Path) -> None:
    if path.is_file() and path.stat().st_size == 0:
        raise TraceroofError(f"{path} is empty", "was the profiler run stopped before it wrote?")
