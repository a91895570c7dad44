"""A history as text: a line per series with its course, then what changed, newest first."""

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from traceroof.history.history import History
from traceroof.report.common.console import heading, to_text
from traceroof.report.history import words

_MOST_EVENTS = 10
_LEAST_COURSE, _MOST_COURSE = 16, 60
# What the columns beside name and course take at most.
_TAKEN = 48


def render(history: History, *, width: int = 80, color: bool = False) -> str:
    """The history in at most ``width`` columns."""

    def draw(console: Console) -> None:
        console.print(Text(words.headline(history), style="bold"))
        for note in history.notes:
            console.print(Padding(Text(note), (0, 0, 0, 3)))
        console.print()
        _series(console, history, width)
        _events(console, history)

    return to_text(draw, width=width, color=color)


def _series(console: Console, history: History, width: int) -> None:
    name_width = min(max(20, (width - _TAKEN) // 2), 44)
    course = min(max(width - _TAKEN - name_width, _LEAST_COURSE), _MOST_COURSE)
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("", no_wrap=True, overflow="ellipsis", max_width=name_width)
    for name in ("now", "since first"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"over {len(history.runs)} runs", no_wrap=True)
    for name in ("noise", "changes"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in history.series:
        noise = one.levels.noise
        table.add_row(
            words.label(one, name_width),
            words.figure(one, float(one.values[-1])),
            words.since_first(one),
            words.sparkline(one, course),
            "" if np.isnan(noise) else f"{noise * 100:.1f} %",
            str(len(one.changes) or ""),
        )
    console.print(table)


def _events(console: Console, history: History) -> None:
    found = history.events()
    if not found:
        console.print()
        console.print(Text("No change beyond the noise of the runs."))
        return
    heading(console, "Changes, newest first")
    of = {(one.level, one.name): one for one in history.series}
    for event in found[:_MOST_EVENTS]:
        lead = event.lead
        size = words.size(lead, of[lead.level, lead.series])
        line = Text(f" {lead.first.when[:10]}  {words.label(lead, 36)} ")
        console.print(line.append(size, style="bold"))
        console.print(Padding(Text(words.between(lead)), (0, 0, 0, 13)))
        if also := words.with_it(event, history):
            console.print(Padding(Text(f"with it: {also}"), (0, 0, 0, 13)))
    if (more := len(found) - _MOST_EVENTS) and more > 0:
        console.print(Text(f" and {more} more (--format json lists all)"))
