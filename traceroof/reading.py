"""From paths to a recording: which parser reads a file, and what a folder holds."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from traceroof import inflate, plugins
from traceroof.errors import TraceroofError
from traceroof.parser import HEAD_BYTES, Options, Parser, Progress, silent
from traceroof.recording import Note, Recording, Source, merge

# Beyond this many files a folder is a mistake (a home directory, a build tree).
_MOST_FILES = 4096


def read(
    paths: Sequence[Path | str], progress: Progress = silent, options: Options | None = None
) -> Recording:
    """Read files and folders into one recording.

    A folder that a parser knows as a whole (a profile folder) is read by it; any other folder
    stands for the profiler files in it. Raises TraceroofError when a named file is not readable,
    or when a folder holds nothing that is.
    """
    return merge(read_each(paths, progress, options))


def read_each(
    paths: Sequence[Path | str], progress: Progress = silent, options: Options | None = None
) -> list[Recording]:
    """Read files and folders, each file into a recording of its own; as ``read`` otherwise."""
    options = options or Options()
    if not paths:
        raise TraceroofError("there is nothing to read", "name at least one profiler file")
    recordings: list[Recording] = []
    for path in map(Path, paths):
        recordings += _read_path(path, progress, options)
    return recordings


def sniff(path: Path) -> Parser:
    """The parser that reads this file or folder. Raises TraceroofError when there is none."""
    head = b"" if path.is_dir() else inflate.head(path, HEAD_BYTES)
    sure = [(parser.recognises(head, path), parser) for parser in plugins.parsers()]
    best = max((score for score, _ in sure), default=0)
    if best == 0:
        raise TraceroofError(
            f"{path} is not a profiler file that traceroof reads: {looks_like(head)}",
            "`traceroof formats` lists what it reads and how to collect it",
        )
    claims = [parser for score, parser in sure if score == best]
    # Who knows that a file only looks like a profiler's knows it better.
    return next((parser for parser in claims if not parser.gives), claims[0])


def _read_path(path: Path, progress: Progress, options: Options) -> Iterator[Recording]:
    if not path.exists():
        raise TraceroofError(f"{path} does not exist")
    if not path.is_dir():
        _refuse_empty(path)
        yield sniff(path).read(path, progress, options)
        return
    scores = [(parser.recognises(b"", path), parser) for parser in plugins.parsers()]
    best = max(score for score, _ in scores)
    if best:
        parser = next(parser for score, parser in scores if score == best)
        yield parser.read(path, progress, options)
        return
    yield from _read_folder(path, progress, options)


def _read_folder(folder: Path, progress: Progress, options: Options) -> Iterator[Recording]:
    """Every profiler file directly in a folder; what is none is counted in a note."""
    files = sorted(entry for entry in folder.iterdir() if entry.is_file())
    if len(files) > _MOST_FILES:
        raise TraceroofError(f"{folder} holds {len(files):,} files", "name the ones to read")
    found: list[Recording] = []
    skipped: list[str] = []
    for file in files:
        head = inflate.head(file, HEAD_BYTES)
        sure = [one for one in plugins.parsers() if head and one.recognises(head, file) == 2]
        # What a parser only refuses is no profiler file among others.
        if sure and all(one.gives for one in sure):
            found.append(sure[0].read(file, progress, options))
        else:
            skipped.append(file.name)
    if not found:
        raise TraceroofError(
            f"no profiler file in {folder} ({len(files)} files looked at)",
            "`traceroof formats` lists what traceroof reads",
        )
    if skipped:
        note = Note(f"not profiler files, skipped: {', '.join(skipped[:5])}", len(skipped), False)
        first = found[0]
        sources: tuple[Source, ...] = (
            replace(first.sources[0], notes=(*first.sources[0].notes, note)),
            *first.sources[1:],
        )
        found[0] = replace(first, sources=sources)
    yield from found


def _refuse_empty(path: Path) -> None:
    if path.is_file() and path.stat().st_size == 0:
        raise TraceroofError(f"{path} is empty", "was the profiler run stopped before it wrote?")


# What a file that no parser wants looks like: first bytes or words, and the words for it.
_LOOKS = (
    (b"NVR\x00", "a binary Nsight Compute report (export it: ncu --import FILE --page raw --csv)"),
    (b"SQLite format 3\x00", "an SQLite database without GPU kernels that traceroof knows"),
    (b"\x7fELF", "a program (ELF)"),
    (b"MZ", "a Windows program"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file itself: run `git lfs pull`"),
    (b"Traceback (most recent call last)", "a Python traceback"),
    (b"<!DOCTYPE", "a web page"),
    (b"<html", "a web page"),
    (b"<?xml", "an XML file"),
)  # fmt: skip


# What files of other profilers have near their beginning.
_TOOLS = (
    (b"NVPROF is profiling", "nvprof output"),
    (b"Total Time (ns)", "a summary of Nsight Systems (nsys stats)"),
)


def looks_like(head: bytes) -> str:
    """What the first bytes of a file look like, in words for an error message."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    for magic, words in _LOOKS:
        if start[: len(magic)].lower() == magic.lower():
            return f"it looks like {words}"
    if not start:
        return "it is empty"
    for mark, tool in _TOOLS:
        if mark in head[:4096]:
            return f"it looks like {tool}, which traceroof does not read"
    if b"\x00" in head[:4096]:
        return "it looks like a binary file of another kind"
    first = start.splitlines()[0][:60].decode("utf-8", "replace")
    kind = "JSON" if start[:1] in b"{[" else "text"
    return f"it looks like {kind} that begins with {first!r}"
