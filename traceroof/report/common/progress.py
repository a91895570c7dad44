"""A progress bar on stderr for reading that takes longer than a second."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from traceroof.parser import Progress as Update

_PATIENCE_SECONDS = 1.0


@contextmanager
def bar() -> Iterator[Update]:
    """A ``parser.Progress`` that begins to draw after a second, on stderr."""
    started = time.monotonic()
    progress = Progress(
        "reading",
        BarColumn(),
        DownloadColumn(),
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

    try:
        yield update
    finally:
        if progress.live.is_started:
            progress.stop()
