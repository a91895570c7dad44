"""``traceroof scrub``: a copy of a profile that can be shown to strangers.

Profilers write down where they ran: the environment of the program with its tokens, the command,
user, host and folders. The copy holds what an analysis reads (kernels, calls, ranges, GPUs) and
none of that: what is not known to be needed is emptied, and texts that stay lose folders, users
and hosts.
"""

import os
from collections.abc import Callable
from pathlib import Path

from traceroof.errors import TraceroofError
from traceroof.ingest import decompress
from traceroof.ingest.foreign import looks_like
from traceroof.ingest.sqlite import MAGIC, table_names
from traceroof.parser import HEAD_BYTES, Options
from traceroof.scrub.chrome import is_torch, scrub_chrome
from traceroof.scrub.sqlite import layout_of, scrub_database

__all__ = ["scrub"]

_KNOWN = "scrub knows exports of Nsight Systems, rocpd databases and traces of torch.profiler"


def scrub(source: Path, target: Path, options: Options | None = None) -> list[str]:
    """Write a copy of ``source`` without environment, host, user and folders to ``target``.

    Returns what was removed, in words. Raises TraceroofError where the file is of another kind, or
    the target exists.
    """
    options = options or Options()
    if not source.is_file():
        raise TraceroofError(f"{source} is no file", "name one profile")
    if target.exists():
        raise TraceroofError(f"{target} exists", "name a new file: nothing is overwritten")
    writer = _writer(source)
    # The copy appears when it is complete.
    made = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        said = writer(source, made, target, options)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
    return said


def _writer(source: Path) -> Callable[[Path, Path, Path, Options], list[str]]:
    head = decompress.head(source, HEAD_BYTES)
    if head.startswith(MAGIC):
        if layout_of(table_names(head, source)) is None:
            raise TraceroofError(f"{source} is a database of another program", _KNOWN)
        return scrub_database
    if is_torch(head):
        return scrub_chrome
    raise TraceroofError(f"{source} is not scrubbed: {looks_like(head)[0]}", _KNOWN)
