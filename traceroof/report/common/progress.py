"""A progress bar on stderr for reading that takes longer than a second."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from traceroof.parser import Progress as Update
from traceroof.scale.mapping import Watch

_PATIENCE_SECONDS = 1.0


@contextmanager
def bar() -> Iterator[tuple[Update, Watch]]:
    """A ``parser.Progress``, and a ``Watch`` of many files, that begin to draw after a second, on
    stderr."""
    started = time.monotonic()
    progress = Progress(
        "{task.description}",
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )
    task = progress.add_task("reading", total=None)

    def update(done: int, total: int) -> None:
        if not progress.live.is_started:
            if time.monotonic() - started < _PATIENCE_SECONDS:
                return
            progress.start()
        progress.update(task, completed=done, total=total or None)

    def watch(files_done: int, files: int, bytes_done: int, size: int) -> None:
        progress.update(task, description=f"{files_done:,} of {files:,} files")
        update(bytes_done, size)

    try:
        yield update, watch
    finally:
        if progress.live.is_started:
            progress.stop()
