"""The command line: arguments, one library call, one renderer.

Payload goes to stdout, talk to stderr. Heavy imports happen inside the commands, so that
``traceroof --help`` answers at once.
"""

import sys
from typing import Annotated

import typer

import traceroof
from traceroof.cli.calibrate import calibrate
from traceroof.cli.compare import compare
from traceroof.cli.diagnose import diagnose
from traceroof.cli.ingest import export, ingest
from traceroof.cli.lists import devices, formats, rules
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
    ingest, diagnose, report, compare, export, calibrate, scrub, rules, devices, formats,
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


def main() -> None:
    """Run the command line: the one place where errors become an exit code."""
    try:
        app(standalone_mode=True)
    except TraceroofError as error:
        typer.echo(f"traceroof: {error.message}", err=True)
        if error.hint:
            typer.echo(f"  {error.hint}", err=True)
        sys.exit(COULD_NOT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"traceroof: {where}{error.strerror or error}", err=True)
        sys.exit(COULD_NOT)


if __name__ == "__main__":
    main()
