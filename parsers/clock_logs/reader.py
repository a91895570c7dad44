"""The reader of one tool's clock and power logs: how its layouts are known, and read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from traceroof.core import regex
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.parser import Options, Progress
from traceroof.parsers.clock_logs.layouts import Rows, decoded, text_of
from traceroof.parsers.clock_logs.samples import clock_recording

#: What every clock log gives.
GIVES = "clocks, power, temperature and throttle reasons of a run: context beside its profile"


@dataclass(frozen=True)
class Layout:
    """One way in which a tool prints. mark: a line that only it has; rows: reads the text."""

    mark: re.Pattern[str]
    rows: Callable[[str], Rows]


def layout(rows: Callable[[str, re.Pattern[str]], Rows], header: str) -> Layout:
    """A layout whose tables begin with a line of names that matches ``header``."""
    mark = regex.compile(header, re.MULTILINE | re.IGNORECASE)
    return Layout(mark, lambda text: rows(text, mark))


@dataclass(frozen=True)
class ClockLogReader:
    """Reads the clock logs of one tool."""

    name: str
    title: str
    collect: str
    layouts: Sequence[Layout]
    gives: str = GIVES

    def recognises(self, head: bytes, path: Path) -> Literal[0, 1, 2]:
        if not head:
            return 0
        text = decoded(head)
        return 2 if any(one.mark.search(text) for one in self.layouts) else 0

    def read(self, source: Path, progress: Progress, options: Options) -> Recording:
        text = text_of(source, options)
        known = next((one for one in self.layouts if one.mark.search(text)), None)
        if known is None:
            raise TraceroofError(f"{source} is no log of {self.name}")
        return clock_recording(source, self.name, known.rows(text), self.collect)
