"""The one place that writes files."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from traceroof.errors import TraceroofError


def write(text: str, path: str | None) -> str | None:
    """Write a payload to a file, or to stdout for None and '-'. Returns the file's name.

    A file appears whole or not at all, and its folder is made where it is missing. Raises
    TraceroofError when it cannot be written. A reader of stdout that has seen enough (``head``)
    is no error.
    """
    if not text.endswith("\n"):
        text += "\n"
    if path is not None and path != "-":
        return write_bytes(text.encode("utf-8", "replace"), path)
    if sys.stdout is None:
        raise TraceroofError("stdout is closed", "name a file with -o")
    try:
        sys.stdout.write(_printable(text, sys.stdout.encoding or "utf-8"))
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return None


# What our own texts use beyond ASCII, for terminals that have no more; names get a mark.
_ASCII = str.maketrans({"µ": "u", "…": "...", "·": "-", "█": "#", "×": "x", "≥": ">=", "≤": "<=",
                       "≠": "!=", "−": "-", "±": "+-", "→": "->",
                       **dict(zip("▁▂▃▄▅▆▇", "_.,-~=+", strict=True))})  # fmt: skip


def _printable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)
    return text


def write_bytes(payload: bytes, path: str) -> str:
    """Write a payload that is no text to a file, as ``write`` does. Returns the file's name."""
    return _to_file((payload,), path)


def write_pieces(pieces: Iterable[bytes], path: str) -> str | None:
    """Write a payload too large to be held at once, as ``write`` does: None or '-' is stdout."""
    if path != "-":
        return _to_file(pieces, path)
    if sys.stdout is None:
        raise TraceroofError("stdout is closed", "name a file with -o")
    try:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return None


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces as one gzip stream; the same input gives the same bytes."""
    from isal import isal_zlib

    packer = isal_zlib.compressobj(level=2, wbits=31)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _to_file(pieces: Iterable[bytes], path: str) -> str:
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise TraceroofError(f"{path} is a folder", "name a file in it")
    unfinished: str | None = None
    try:
        if target.exists() and not target.is_file():
            # A device or a pipe is written to; replacing it would destroy it.
            with target.open("wb") as file:
                file.writelines(pieces)
            return path
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
        # mkstemp makes a private file; a report is as readable as any other new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)
        os.replace(unfinished, target)
        unfinished = None
    except OSError as error:
        raise TraceroofError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        if unfinished:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
    return path
