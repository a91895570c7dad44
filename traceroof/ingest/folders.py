"""Files of a folder that cannot be read: left out with a note, so that one does not lose the rest."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from traceroof.core.recording import Note
from traceroof.errors import TraceroofError
from traceroof.ingest.remote import RemoteFile

T = TypeVar("T")
P = TypeVar("P")


def readable(
    files: Iterable[P], read: Callable[[P], T], path_of: Callable[[P], Path]
) -> tuple[list[T], list[Note]]:
    """What ``read`` makes of each file, and a note for each file that it refuses.

    Raises the first refusal where no file can be read.
    """
    found: list[T] = []
    refused: list[tuple[Path, TraceroofError]] = []
    for one in files:
        try:
            found.append(read(one))
        except TraceroofError as error:
            refused.append((path_of(one), error))
    if refused and not found:
        raise refused[0][1]
    return found, [left_out(path, error.message) for path, error in refused]


def left_out(path: Path | RemoteFile, reason: str) -> Note:
    """The note on a file of a folder that was not read. reason: what is wrong with it."""
    reason = reason.removeprefix(str(path)).lstrip(" :")
    return Note(f"left out: {path.name} {reason}")


def lost(path: Path) -> str:
    """Why a file that should be a recording holds none; empty where it may be what it likes.

    A file of nothing, one that only points to its content, and one that is packed in a way that is
    not read: whoever put them there expects them to be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not head:
        return "is empty"
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the file itself: run `git lfs pull`"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "is packed with zstd, which is not read: unpack it with `zstd -d`"
    return ""
