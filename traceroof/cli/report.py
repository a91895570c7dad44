"""``traceroof report``: the HTML page of a run, or of the changes between two."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from traceroof.cli.compare import compared
from traceroof.cli.completion import complete_run
from traceroof.cli.inputs import calibration_of, run_of
from traceroof.cli.options import (
    CompareOptions,
    NoCalibration,
    ReadOptions,
    RunOrPaths,
    SourceRoot,
    grouped,
)
from traceroof.cli.output import tell, write
from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from traceroof.compare import Comparison
    from traceroof.diagnosis.diagnosis import Diagnosis


@grouped
def report(
    what: RunOrPaths = None,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="File to write; - is stdout.")
    ] = "report.html",
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE",
            help="Show every change from this run, baseline or path (see compare).",
            autocompletion=complete_run,
        ),
    ] = None,
    comparing: CompareOptions,
    assets: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write every chart as SVG and PNG (needs kaleido)."),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    source_root: SourceRoot = None,
    no_calibration: NoCalibration = False,
    reading: ReadOptions,
) -> None:
    """Write the bottleneck report: one HTML page that works offline."""
    from traceroof.diagnosis.diagnose import diagnose as diagnose_run
    from traceroof.report.html import render

    shown: Comparison | Diagnosis
    run = run_of(what or [], reading)
    calibration = calibration_of(reading.folder, no_calibration)
    if base is None:
        shown = diagnose_run(
            run, device=reading.device, calibration=calibration, settings=reading.settings
        )
    else:
        before = run_of([base], reading)
        shown = compared(before, run, reading, comparing, calibration)
    if open_it and output == "-":
        raise TraceroofError("--open shows a file, and the page goes to stdout", "name one with -o")
    write(render.render(shown, source_root), output)
    if open_it:
        import webbrowser

        if not webbrowser.open(Path(output).resolve().as_uri()):
            tell(f"note: no browser could be started; open {output} in one")
    if assets is not None:
        from traceroof.report.html.pictures import write_pictures

        for picture in write_pictures(shown, assets):
            tell(f"wrote {picture}")
