"""The contract of a parser: one profiler format, one module in ``parsers/``.

A parser module holds one object named ``PARSER`` that satisfies ``Parser``. It knows nothing of
rules or verdicts. ``docs/writing-a-parser.md`` shows a complete one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from traceroof.core.recording import Recording

#: How much of a file ``recognises`` sees, in bytes.
HEAD_BYTES = 1 << 16

#: Called while reading with (bytes done, bytes in all); does nothing where nobody watches.
Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """A ``Progress`` that shows nothing."""


@dataclass(frozen=True)
class Options:
    """What the user may ask of any reader.

    jobs: worker processes that a reader may use for a large file.
    device: name of the GPU where the file does not say it; formulas for counters need it.
    beside: files given with it that only explain others (``explaining`` of a parser).
    meanwhile: modules that the caller needs afterwards, imported while worker processes read.
    max_inflated_bytes: refuse compressed input that grows beyond this.
    max_inflation: refuse compressed input that grows by more than this factor (checked beyond
    64 MiB; profiler files grow 10 to 40 times, a decompression bomb up to 1,000).
    """

    jobs: int = 1
    device: str | None = None
    beside: tuple[Path, ...] = ()
    meanwhile: tuple[str, ...] = ()
    max_inflated_bytes: int = 64 << 30
    max_inflation: int = 200


@runtime_checkable
class Parser(Protocol):
    """One profiler format.

    name: what the format is called, kebab case (``nsight-compute-csv``).
    title: one line for people: the tool and the kind of file.
    gives: one line: what the kernel table holds afterwards; empty for a parser that only refuses
    files, saying what they are.
    collect: the command that makes such a file.

    A parser whose tool writes several files a process may have ``explaining(paths)``, which says which
    of the given files hold no launches and are read with another one of them.
    """

    name: str
    title: str
    gives: str
    collect: str

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        """How sure this parser is that it can read the file, from its content before its name.

        head: the first ``HEAD_BYTES`` bytes, decompressed; for a folder it is empty and ``path``
        is the folder. Returns 2 (its own signature seen), 1 (could be) or 0 (not mine).
        """

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        """Read the file or folder.

        Raises TraceroofError in one sentence when the file is not what ``recognises`` promised;
        anything it can live with (broken rows, unknown units) becomes a note.
        """
