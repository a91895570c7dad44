"""Folders that appear whole or not at all, and what is left of writers that were killed.

A writer works in a claim, ``incoming/TOKEN/`` beside ``incoming/TOKEN.lock``. The lock file is
locked by the operating system for as long as the process lives, however it ends, and is the
claim's journal: it names the folders of ``runs`` that are rubbish unless the catalogue refers to
them. So a dead writer's claim tells what to remove, and nothing else is ever touched.
"""

import errno
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from traceroof.core import regex
from traceroof.errors import TraceroofError
from traceroof.ingest.remote import Location

if sys.platform != "win32":
    import fcntl

# Where the file system has no locks, age alone tells that a writer is dead.
_STALE_SECONDS = 24 * 3600
#: What folders of ``runs`` are called: a run's id, or that and a number where it is taken.
FOLDER_NAME = regex.compile(r"[0-9a-f]{12,64}(\.[0-9]{1,9})?")

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass
class Claim:
    """A place in ``incoming`` that is ours while we hold its lock."""

    lock: Path
    descriptor: int
    rubbish: list[str] = field(default_factory=list)

    @property
    def folder(self) -> Path:
        return self.lock.with_suffix("")

    def note(self, folders: Sequence[str], catalogue: str) -> None:
        """Write down, durably, which folders are rubbish unless that catalogue refers to them."""
        self.rubbish = [*self.rubbish, *folders]
        text = json.dumps({"catalogue": catalogue, "folders": self.rubbish})
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        os.write(self.descriptor, text.encode())
        os.fsync(self.descriptor)

    def journal(self) -> tuple[str, list[str]]:
        """The catalogue and the folders that were noted. A note that was cut short counts as
        none: the writer died before it went on to touch a folder."""
        try:
            noted = json.loads(self.lock.read_bytes())
            folders = [name for name in noted["folders"] if FOLDER_NAME.fullmatch(name)]
            return str(noted["catalogue"]), folders
        except (ValueError, TypeError, KeyError):
            return "", []

    def put_aside(self, folder: Path) -> None:
        """Move a folder into the claim, with which it will go."""
        self.folder.mkdir(exist_ok=True)
        os.rename(folder, self.folder / folder.name)

    def discard(self) -> None:
        """Remove the claim from disk; its lock goes last, so that what remains is found again."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.lock.unlink(missing_ok=True)


def new_claim(incoming: Path) -> Claim:
    """A claim of our own. The caller closes its descriptor."""
    incoming.mkdir(exist_ok=True)
    while True:
        claim = _take(incoming / f"{secrets.token_hex(8)}.lock", os.O_CREAT | os.O_EXCL)
        if claim is not None:
            return claim


@contextmanager
def abandoned_claim(lock: Path) -> Iterator[Claim | None]:
    """The claim behind a lock file, ours for the block; None where its writer is alive."""
    claim = _take(lock, 0)
    if claim is None:
        yield None
        return
    try:
        yield claim
    finally:
        os.close(claim.descriptor)


def _take(lock: Path, flags: int) -> Claim | None:
    try:
        descriptor = os.open(lock, os.O_RDWR | flags, 0o666)
    except FileNotFoundError:
        return None
    ours = False
    try:
        locked = _try_lock(descriptor)
        if locked is None and not flags:
            locked = time.time() - os.fstat(descriptor).st_mtime > _STALE_SECONDS
        # Between open and lock somebody else may have found it unlocked and removed it.
        ours = locked is not False and _is_at(descriptor, lock)
    finally:
        if not ours:
            os.close(descriptor)
    return Claim(lock, descriptor) if ours else None


def _try_lock(descriptor: int) -> bool | None:
    """Lock an open file: False where another process has it, None where locks do not exist."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def write_folder(folder: Path, files: Mapping[str, Any]) -> None:
    """Make a folder of files (name -> bytes-like content) that survives a power cut."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        with open(folder / name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    sync(folder)


def sync(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the file system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    finally:
        os.close(descriptor)


def unwritable(folder: Path | Location, error: OSError, needs: int | None = None) -> TraceroofError:
    """Say why a store cannot be written. ``needs``: bytes that what was being written takes."""
    reason = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        facts = [f"the run needs {size(needs)}"] if needs is not None else []
        if (free := free_bytes(folder)) is not None:
            facts.append(f"{size(free)} are free")
        if error.errno != errno.ENOSPC:
            facts.append(f"the system says: {reason}")
        return TraceroofError(
            f"there is no room left in the store in {folder} ({', '.join(facts)})",
            "free some space, or name a folder on another disk with --store",
        )
    if error.errno in _FORBIDDEN:
        return TraceroofError(
            f"the store in {folder} cannot be written: {reason}",
            "name another folder with --store",
        )
    return TraceroofError(f"the store in {folder} cannot be used: {reason}")


def free_bytes(folder: Path | Location) -> int | None:
    """Bytes that we may still write in the folder's file system; None where that is unknown."""
    if isinstance(folder, Location):
        return None
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def size(count: int) -> str:
    """A number of bytes for people: 999 bytes, 12.3 kB, 4.0 GB (decimal, as disks are sold)."""
    amount, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{amount:.1f} {unit}"
