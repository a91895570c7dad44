"""Where a command writes: stdout or a file, how wide, and in colour or not."""

import os
import shutil
import sys

import typer


def write(text: str, output: str | None) -> None:
    """The payload to ``output``; a file that was written is named on stderr."""
    from traceroof import report

    written = report.write(text, output)
    if written:
        typer.echo(f"wrote {written}", err=True)


def terminal(output: str | None) -> tuple[int, bool]:
    """Width of the terminal (80 where there is none), and whether to colour."""
    to_stdout = output is None or output == "-"
    on_terminal = to_stdout and sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((80, 24)).columns if to_stdout else 80
    dumb = os.environ.get("TERM") == "dumb"
    return min(width, 140), on_terminal and not dumb and not os.environ.get("NO_COLOR")
