"""From what the user named to runs: stored runs, files, folders, stdin."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import traceroof
from traceroof.cli.options import ReadOptions
from traceroof.cli.output import tell
from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from traceroof.core.recording import Recording, Run
    from traceroof.hardware.ceilings import MeasuredRate
    from traceroof.parser import Progress
    from traceroof.scale.mapping import Keep, Mapping, Watch

STDIN = "-"


def run_of(what: Sequence[str], reading: ReadOptions, *, keep: "Keep" = "parts") -> "Run":
    """A stored run, or files read directly: a name that exists as a path is a path.

    keep: of several files what was worked out of their launches, also their rows, or all.
    """
    from traceroof.core.arrow_start import arrow_without_pandas
    from traceroof.core.memory import give_back
    from traceroof.core.recording import Run
    from traceroof.ingest.remote import is_url

    arrow_without_pandas()
    there = [entry == STDIN or is_url(entry) or Path(entry).exists() for entry in what]
    if any(there):
        for entry, exists in zip(what, there, strict=True):
            if not exists:
                raise TraceroofError(f"{entry} does not exist")
        with spooled(what) as files:
            recording = read(files, reading, keep=keep)
        give_back()
        return Run(recording=recording, name=traceroof.name_of(recording, what))
    if len(what) > 1:
        raise TraceroofError(
            f"no such files: {', '.join(what)}", "name one stored run, or several files"
        )
    keep = "all" if reading.part() else keep
    run = _stored(what[0] if what else None, reading.folder, keep)
    if reading.clock_offset:
        from traceroof.ingest.combine import combine

        aligned = combine([run.recording], reading.mode, reading.clock_offset)
        run = replace(run, recording=aligned)
    return replace(run, recording=_part(run.recording, reading))


def _stored(name: str | None, folder: "Path | str | None", keep: "Keep") -> "Run":
    from traceroof.store import Store

    try:
        return Store.open(folder, create=False).get(name, keep=keep)
    except TraceroofError as error:
        if name is None:
            raise
        if _looks_like_path(name):
            raise TraceroofError(f"{name} does not exist") from None
        message = f"{name}: no such file or run ({error.message})"
        raise TraceroofError(message, error.hint) from None


def _looks_like_path(text: str) -> bool:
    return "/" in text or "\\" in text or bool(Path(text).suffix)


@contextmanager
def spooled(paths: "Sequence[str | Path]") -> "Iterator[list[Path | str]]":
    """The paths and URLs, each once, with stdin (``-``) as a file: readers look at a file's head
    first."""
    from traceroof.ingest.remote import is_url

    files = list(dict.fromkeys(str(path) if is_url(path) else Path(path) for path in paths))
    if Path(STDIN) not in files:
        yield files
        return
    import shutil
    import tempfile

    if sys.stdin is None:
        raise TraceroofError("- means standard input, which is closed", "pipe a file into it")
    with tempfile.TemporaryDirectory(prefix="traceroof-") as folder:
        spool = Path(folder) / "stdin"
        with spool.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield [spool if file == Path(STDIN) else file for file in files]


def read(
    paths: "Sequence[Path | str]", reading: ReadOptions, *, keep: "Keep" = "parts"
) -> "Recording":
    """The files as one recording. keep: as for ``run_of``."""
    from traceroof.ingest.combine import combine

    mapping = reading.mapping()
    mapping = mapping if reading.part() else replace(mapping, keep=keep)
    found = mapping.with_rows(read_each(paths, reading, mapping))
    combined = combine(found, reading.mode, reading.clock_offset)
    return _part(mapping.settled(combined), reading)


def _part(recording: "Recording", reading: ReadOptions) -> "Recording":
    """What the user chose of it."""
    if not (part := reading.part()):
        return recording
    from traceroof.core.part import part_of

    return part_of(recording, part)


def read_each(
    paths: "Sequence[Path | str]", reading: ReadOptions, mapping: "Mapping | None" = None
) -> "list[Recording]":
    """One recording per file, on the device that the user named where one is named."""
    from traceroof.core.recording import on_device
    from traceroof.ingest import detect

    mapping = mapping or reading.mapping()
    with _progress() as (progress, watch):
        reader = replace(mapping, watch=watch, tell=tell).read
        found = detect.read_each(
            paths, progress, reading.parser_options(), reader, one_gpu=reading.mode != "separate"
        )
    _tell_failed(mapping.failed)
    severe = [note for recording in found for note in recording.notes if note.severe]
    if reading.strict and severe:
        raise TraceroofError(
            f"--strict: {severe[0]}" + (f" and {len(severe) - 1} more notes" if severe[1:] else ""),
            "without --strict the file is read and the notes are printed",
        )
    return [on_device(one, reading.device) for one in found] if reading.device else found


#: So many files that failed are named.
_NAMED = 20


def _tell_failed(failed: "Sequence[tuple[str, str]]") -> None:
    """Name the files that could not be read, each with its reason; the rest stands."""
    for _, reason in failed[:_NAMED]:
        tell(f"note: left out: {reason}")
    if failed[_NAMED:]:
        tell(f"note: left out: {len(failed) - _NAMED} more files")


@contextmanager
def _progress() -> "Iterator[tuple[Progress, Watch]]":
    """Progress on a terminal, for work that takes longer than a second; silence elsewhere."""
    from traceroof.parser import silent
    from traceroof.scale.mapping import unwatched

    if not sys.stderr.isatty():
        yield silent, unwatched
        return
    from traceroof.report.common.progress import bar

    with bar() as (update, watch):
        yield update, watch


def calibration_of(store: "Path | str | None", without: bool) -> "tuple[MeasuredRate, ...]":
    """The ceilings of the store; a store that cannot be read is no reason to say nothing at all."""
    if without:
        return ()
    try:
        return traceroof.stored_calibration(store)
    except TraceroofError as error:
        tell(f"note: stored ceilings are left out: {error.message}")
        return ()
