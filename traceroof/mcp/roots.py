"""What may be read: files and folders below the roots that the user grants, and nothing else."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceroof.core.units import one_line
from traceroof.errors import TraceroofError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
# A folder with more than this is a mistake (a home directory, a build tree).
_MOST_ENTRIES = 20_000
_SHOWN = 80


@dataclass(frozen=True)
class Roots:
    """The folders below which files may be read; a relative path is below the first."""

    folders: tuple[Path, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> "Roots":
        """The roots, links followed. Raises TraceroofError for what is not a folder."""
        for one in folders:
            if not one.is_dir():
                raise TraceroofError(f"--root {one} is not a folder", "name a folder that exists")
        return cls(tuple(one.resolve() for one in folders))

    def checked(self, path: str) -> Path:
        """The file or folder that is meant, links followed. Raises TraceroofError where it lies
        outside, holds or stands beside a link that leads outside, or is neither file nor folder."""
        shown = _shown(path)
        if not path.strip() or path == "-" or not path.isprintable():
            raise TraceroofError(f"{shown!r} is not a path", "name a profiler file or a folder")
        if _URL.match(path) and not Path(path).drive:
            raise TraceroofError(f"{shown} is a URL, and only files are read", "name a local file")
        try:
            found = Path(os.path.realpath(self.folders[0] / path))
            inside, there = self._inside(found), found.exists()
        except (OSError, ValueError, RuntimeError):
            raise TraceroofError(
                f"{shown} is not a path", "name a profiler file or a folder"
            ) from None
        if not inside:
            raise self._outside(shown)
        if not there:
            raise TraceroofError(f"{shown} does not exist")
        if not (found.is_file() or found.is_dir()):
            raise TraceroofError(f"{shown} is neither a file nor a folder")
        # Some formats are several files side by side: what a reader may look at is checked too.
        for entry in _entries(found, shown):
            if entry.is_symlink() and not self._inside(Path(os.path.realpath(entry.path))):
                raise self._outside(_shown(f"{entry.name}, a link in {shown},"))
        return found

    def _inside(self, path: Path) -> bool:
        return any(path.is_relative_to(root) for root in self.folders)

    def _outside(self, shown: str) -> TraceroofError:
        names = ", ".join(map(str, self.folders[:3]))
        return TraceroofError(
            f"{shown} lies outside the folders that may be read ({names})",
            "`traceroof mcp --root DIR` grants another",
        )

    def shown(self, path: str) -> str:
        """A path as an answer shows it: from its root on."""
        for root in self.folders:
            if Path(path).is_relative_to(root):
                return Path(path).relative_to(root).as_posix() or "."
        return path


def _entries(path: Path, shown: str) -> Iterator[os.DirEntry[str]]:
    """All that a folder holds; of a file, the files beside it."""
    if path.is_file():
        with os.scandir(path.parent) as beside:
            yield from (one for one in beside if not one.is_dir())
        return
    count, folders = 0, [str(path)]
    while folders:
        with os.scandir(folders.pop()) as inside:
            for entry in inside:
                count += 1
                if count > _MOST_ENTRIES:
                    raise TraceroofError(
                        f"{shown} holds more than {_MOST_ENTRIES:,} files", "name the ones to read"
                    )
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                yield entry


def _shown(path: str) -> str:
    line = one_line(path)
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
