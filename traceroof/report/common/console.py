"""Rich output as plain text: one console for every table that traceroof prints."""

import io
import shutil
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from traceroof.core import regex
from traceroof.core.units import no_commands, one_line

_NARROWEST = 60


def to_text(draw: Callable[[Console], None], *, width: int, color: bool = False) -> str:
    """What ``draw`` prints, at most ``width`` columns wide (no less than 60), no trailing blanks.

    Nothing in the text is taken for markup: kernel names are full of brackets.
    """
    buffer = io.StringIO()
    console = _Console(
        file=buffer,
        width=max(width, _NARROWEST),
        force_terminal=color,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    draw(console)
    drawn = buffer.getvalue().replace(_TOGETHER, " ")
    return no_commands("\n".join(line.rstrip() for line in drawn.splitlines()) + "\n")


class _Console(Console):
    """A console that prints text alone: what is a command to a terminal is shown as escapes."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """As rich renders it; every text, also in a cell or a padding, comes through here."""
        if isinstance(renderable, str):
            renderable = _harmless(renderable)
        elif isinstance(renderable, Text) and _harmless(renderable.plain) != renderable.plain:
            renderable = Text(_harmless(renderable.plain), style=renderable.style)
        return super().render(renderable, options)


def _harmless(text: str) -> str:
    return _TOGETHER.join(map(one_line, text.split(_TOGETHER)))


# A space at which no line ends; rich breaks at all that Python calls a space.
_TOGETHER = "\ue000"
_UNIT = regex.compile(
    r"(?<=\d) (?=(?:%|×|[nµm]?s|[kMGTP]?B(?:/s)?|[kMGTP]?FLOP(?:/s|/byte)?|[kMG]?Hz)(?!\w))"
)

_COUNTED = regex.compile(r"(?<=\d[ \ue000]×) (?=\d)")  # 3 × 16x559


def unbroken(text: str) -> str:
    """The text with figures that keep their units on their line."""
    return _COUNTED.sub(_TOGETHER, _UNIT.sub(_TOGETHER, text))


def heading(console: Console, text: str) -> None:
    """The title of a section, with a blank line above it."""
    console.print()
    console.print(Text(text, style="bold underline"))


def cut(text: str, length: int) -> str:
    """A text in one line of at most ``length`` characters, cut between words."""
    text = one_line(" ".join(text.split()))
    return text if len(text) <= length else text[: length - 1].rsplit(" ", 1)[0] + " …"


def grid(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()
) -> Table:
    """A borderless table; the columns named in ``right`` are aligned right, the last may wrap."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in header:
        last = name == header[-1]
        table.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    for row in rows:
        table.add_row(*map(_harmless, row))
    return table


def terminal_width(default: int = 100) -> int:
    """Columns of the terminal, or a default where output goes to a file."""
    return shutil.get_terminal_size((default, 24)).columns
