"""One digest for the bytes that a run was made from: the same bytes are the same run."""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from traceroof.errors import TraceroofError


def digest_of(paths: Sequence[Path], known: Mapping[Path, bytes] | None = None) -> str:
    """SHA-256 over the contents of files and folders, 64 hexadecimal digits.

    A file counts by its bytes alone; a folder by the relative names and the bytes of the files
    below it (links to folders are not followed). The order of ``paths`` does not matter. Memory
    stays small whatever the size. known: the ``file_digest`` of files that were read already.
    Raises TraceroofError naming what cannot be read.
    """
    known = known or {}
    digests = []
    for path in paths:
        try:
            digests.append(_folder_digest(path, known) if path.is_dir() else _of(path, known))
        except OSError as error:
            raise TraceroofError(
                f"{error.filename or path} cannot be read: {error.strerror or error}"
            ) from None
    return together(digests)


def _of(path: Path, known: Mapping[Path, bytes]) -> bytes:
    return known[path] if path in known else file_digest(path)


def together(digests: Iterable[bytes]) -> str:
    """The digest of files by theirs, whatever their order; that of ``digest_of``."""
    return sha256(b"".join(sorted(digests))).hexdigest()


def file_digest(path: Path) -> bytes:
    """The digest of one file: of its bytes alone."""
    if path.exists() and not path.is_file():
        raise TraceroofError(
            f"{path} is neither a file nor a folder", "write what it gives to a file first"
        )
    with open(path, "rb") as file:
        return sha256(b"file" + hashlib.file_digest(file, "sha256").digest()).digest()


def _folder_digest(folder: Path, known: Mapping[Path, bytes]) -> bytes:
    def fail(error: OSError) -> None:
        raise error

    files = {
        os.fsencode((Path(root) / name).relative_to(folder).as_posix()): Path(root) / name
        for root, _, names in os.walk(folder, onerror=fail)
        for name in names
    }
    whole = sha256(b"folder")
    for name, path in sorted(files.items()):
        if path.is_file():
            whole.update(sha256(name).digest() + _of(path, known))
    return whole.digest()
