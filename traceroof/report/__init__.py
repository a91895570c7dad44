"""From a finished diagnosis to text: one module a format, and the one place that writes files."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from traceroof.errors import TraceroofError


def write(text: str, path: str | None) -> str | None:
    """Write a payload to a file, or to stdout for None and '-'. Returns the file's name.

    The file appears whole or not at all, and its folder is made where it is missing. Raises
    TraceroofError when it cannot be written.
    """
    if not text.endswith("\n"):
        text += "\n"
    if path is None or path == "-":
        # Kernel names may hold what the terminal's encoding lacks; better a mark than a failure.
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
        sys.stdout.flush()
        return None
    return write_bytes(text.encode("utf-8", "replace"), path)


def write_bytes(payload: bytes, path: str) -> str:
    """Write a payload that is no text to a file, as ``write`` does. Returns the file's name."""
    target = Path(path)
    if target.is_dir():
        raise TraceroofError(f"{path} is a folder", "name a file in it")
    unfinished: str | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(payload)
        # mkstemp makes a private file; a report is as readable as any other new file.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)
        os.replace(unfinished, target)
    except OSError as error:
        if unfinished:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
        raise TraceroofError(f"{path} cannot be written: {error.strerror}") from None
    return str(target)
