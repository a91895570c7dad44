"""Where a command writes: stdout or a file, how wide, and in colour or not."""

import os
import shutil
import sys

import typer

from traceroof.core.units import no_commands, one_line


def tell(text: str) -> None:
    """A line on stderr: a text for people, whatever the names in it hold."""
    typer.echo(no_commands(one_line(text)), err=True)


def write(text: str, output: str | None) -> None:
    """The payload to ``output``; a file that was written is named on stderr."""
    from traceroof.report.common.output import write as written_to

    written = written_to(text, output)
    if written:
        tell(f"wrote {written}")


def terminal(output: str | None, *, wide: bool = False) -> tuple[int, bool]:
    """Width of the terminal (80 where there is none), and whether to colour.

    NO_COLOR, then FORCE_COLOR decide where they are set and not empty, else whether it is a
    terminal (https://no-color.org, https://force-color.org).
    """
    to_stdout = output is None or output == "-"
    on_terminal = to_stdout and sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((80, 24)).columns if to_stdout else 80
    if wide:
        width = max(width, WIDE)
    colour = on_terminal and os.environ.get("TERM") != "dumb"
    if os.environ.get("FORCE_COLOR") not in (None, "", "0"):
        colour = True
    return min(width, WIDE), colour and not os.environ.get("NO_COLOR")


#: No table needs more columns.
WIDE = 140
