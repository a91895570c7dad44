"""``traceroof calibrate``: from profiles of probes to the ceilings that a GPU reaches."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from traceroof.cli.inputs import read_each, spooled
from traceroof.cli.options import ReadOptions, grouped
from traceroof.cli.output import tell, write
from traceroof.errors import TraceroofError


@grouped
def calibrate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH...]", help="Profiles of probes; without any, list the stored ceilings."
        ),
    ] = None,
    *,
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICE", help="Delete the stored ceilings of a GPU, named as listed."
        ),
    ] = None,
    reading: ReadOptions,
) -> None:
    """Measure what a GPU really reaches, from profiles of probes."""
    from traceroof.report.run import calibration as shown
    from traceroof.store import calibration_of

    if forget is not None:
        if paths:
            raise TraceroofError("--forget takes no PATH", "calibrating again replaces by itself")
        _forget(forget, reading.folder)
    elif paths:
        _measure(paths, reading)
    else:
        write(shown.stored(calibration_of(reading.folder)), None)


def _forget(device: str, store: Path | str | None) -> None:
    from traceroof.core.units import count
    from traceroof.store import Store

    gone = Store.open(store, create=False).forget_calibration(device)
    tell(f"forgot {count(len(gone), 'ceiling')} of {gone[0].device}")


def _measure(paths: list[Path], reading: ReadOptions) -> None:
    from traceroof.calibration.measure import measure
    from traceroof.report.run import calibration as shown
    from traceroof.store import Store

    with spooled(paths) as files:
        recordings = read_each(files, reading)
    found = measure(recordings, device=reading.device)
    kept = Store.open(reading.folder)
    before = kept.calibrate(found.rates)
    found = replace(found, replaced=tuple(old for _, old in before))
    write(shown.measured(found), None)
    for note in found.notes:
        tell(f"note: {note}")
    tell(f"kept in {kept.folder}: diagnose, report and compare use it from now on")
