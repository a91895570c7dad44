"""The command line: arguments, one library call, one renderer.

Payload goes to stdout, talk to stderr. Heavy imports happen inside the commands, so that
``traceroof --help`` answers at once.
"""

import gc
import os
import re
import signal
import sys
import traceback
from contextlib import suppress
from difflib import get_close_matches
from types import FrameType
from typing import Annotated, Any

import typer

import traceroof
from traceroof.cli.calibrate import calibrate
from traceroof.cli.compare import compare
from traceroof.cli.diagnose import diagnose
from traceroof.cli.history import history
from traceroof.cli.ingest import export, ingest
from traceroof.cli.lists import config, devices, formats, rules
from traceroof.cli.mcp import mcp
from traceroof.cli.noise import noise
from traceroof.cli.output import tell
from traceroof.cli.report import report
from traceroof.cli.runs import baseline_app, runs_app
from traceroof.cli.scrub import scrub
from traceroof.errors import COULD_NOT, DONE, TraceroofError

app = typer.Typer(
    name="traceroof",
    help="Says which wall every GPU kernel hit, why, and what is worth trying.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    ingest, diagnose, report, compare, history, noise, export, calibrate, scrub, mcp, config, rules, devices,
    formats,
):  # fmt: skip
    app.command()(command)
app.add_typer(runs_app, name="runs")
app.add_typer(baseline_app, name="baseline")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"traceroof {traceroof.__version__}")
        raise typer.Exit(DONE)


@app.callback()
def _traceroof(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


class _Ended(BaseException):
    """A signal asked the program to stop: what is open is closed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _stop(number: int, frame: FrameType | None) -> None:
    raise _Ended(number)


def main() -> None:
    """Run the command line: the one place where errors and signals become an exit code."""
    # What start-up makes stays: looking for garbage in it, over and over, is a tenth of its time.
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except _Ended as ended:
        code = _SIGNALLED + ended.number
    except BrokenPipeError:
        # Whoever read the output has what they wanted.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _SIGNALLED + signal.SIGPIPE
    except Exception as error:  # noqa: BLE001 - whatever it is, people get a sentence
        code = COULD_NOT
        with suppress(OSError, ValueError, AttributeError):  # stderr may be closed
            _tell(error)
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    # The system takes all memory back: Python's last search for garbage would take 0.1 s for nothing.
    gc.freeze()
    sys.exit(code if isinstance(code, int) else DONE)


# More than start-up makes; some 20 MB of garbage at most wait for a collection.
_OBJECTS_BETWEEN_COLLECTIONS = 200_000

# What a shell reports of a program that a signal ended, less the signal's number.
_SIGNALLED = 128


def _tell(error: Exception) -> None:
    """One sentence on stderr, and what to do."""
    if isinstance(error, TraceroofError):
        tell(f"traceroof: {error.message}")
        if error.hint:
            tell(f"  {error.hint}")
    elif hasattr(error, "show") and hasattr(error, "exit_code"):
        _tell_usage(error)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        tell(f"traceroof: {where}{error.strerror or error}")
    elif os.environ.get("TRACEROOF_DEBUG"):
        for line in "".join(traceback.format_exception(error)).splitlines():
            tell(line)
    else:
        what = f"{type(error).__name__}: {error}"[:_LONGEST]
        tell(f"traceroof: unexpected error: {what}")
        tell("  TRACEROOF_DEBUG=1 prints where it happened, for a bug report")


def _tell_usage(error: Any) -> None:
    """An option or argument that is none: in our words, with what was meant."""
    says = str(error.format_message()).replace("Value error, ", "").rstrip(".")
    where = error.ctx.command_path if getattr(error, "ctx", None) else "traceroof"
    hint = f"`{where} --help` says what there is"
    wrong, *known = re.findall(r"'([^']*)'", says.partition(": ")[2]) or [""]
    near = get_close_matches(wrong, known, n=1)
    if near:
        hint = f"did you mean {near[0]}?"
    tell(f"traceroof: {says[:1].lower() + says[1:]}")
    tell(f"  {hint}")


_LONGEST = 300


if __name__ == "__main__":
    main()
