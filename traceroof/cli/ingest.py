"""``traceroof ingest`` and ``traceroof export``: into the store, and out of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import traceroof
from traceroof.cli.completion import complete_run
from traceroof.cli.inputs import STDIN, calibration_of, read_each, run_of, spooled
from traceroof.cli.options import ExportFormat, NoCalibration, Paths, ReadOptions, grouped
from traceroof.cli.output import tell, write
from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceroof.core.recording import Recording, Run
    from traceroof.store import Store

# What a trace is called where no name is given.
_TRACE = "trace.perfetto.json.gz"


@grouped
def ingest(
    paths: Paths,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the run.")] = None,
    into: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="A stored run that the files complete; it stays as it is."
        ),
    ] = None,
    commit: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="The commit that was measured; default: what the CI job says, else git's HEAD.",
        ),
    ] = None,
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its branch; default: likewise.")
    ] = None,
    reading: ReadOptions,
) -> None:
    """Read profiler files into the store as one run."""
    from traceroof.store import Store
    from traceroof.store.parts import Keeper

    mode = reading.mode
    with spooled(paths) as files:
        kept = Store.open(reading.folder)
        mapping = reading.mapping(Keeper(kept.shelf))
        found = read_each(files, reading, mapping)
        if mode == "separate":
            if into:
                raise TraceroofError(
                    "--into completes one run, --combine separate makes several", "use one of them"
                )
            runs = [
                traceroof.store_run(
                    kept, [one], [file], name, mapping=mapping, commit=commit, branch=branch
                )
                for one, file in zip(found, _file_of_each(found, files), strict=True)
            ]
        else:
            spool = not into and STDIN in paths
            named = name or (traceroof.run_name(paths) if spool else None)
            offset = reading.clock_offset
            runs = [
                traceroof.store_run(
                    kept, found, files, named, mode, into, offset, mapping,
                    commit=commit, branch=branch,
                )
            ]  # fmt: skip
    for run in runs:
        _tell(run)
        if name:
            _tell_name(run, kept)
    tell("next: traceroof diagnose --top 5")


def _file_of_each(
    found: "Sequence[Recording]", files: "Sequence[Path | str]"
) -> "list[Path | str]":
    """The path that each recording was read from; of a folder that holds several, the file."""
    named = {str(file): file for file in files}
    return [named.get(one.sources[0].path, one.sources[0].path) for one in found]


def _tell_name(run: "Run", kept: "Store") -> None:
    """Which other runs have the name that was given: it means the newest of them."""
    others = [one.id for one in kept.runs() if one.name == run.name and one.id != run.id]
    if others:
        has = f"run {others[0]}" if len(others) == 1 else f"runs {', '.join(others)}"
        tell(
            f"note: {run.name} is also the name of {has}; from now on it means the newest, "
            "and the older are meant by their ids"
        )


def _tell(run: "Run") -> None:
    from traceroof.core import kernel_table
    from traceroof.core.recording import note_lines
    from traceroof.core.units import count, no_commands, one_line, quantity
    from traceroof.ingest.roles import said

    recording = run.recording.judged()
    launches = count(kernel_table.launches(recording.kernels), "kernel launch", "kernel launches")
    time = quantity(kernel_table.known_time_ns(recording.kernels), "ns")
    time = f"time {time}" if time == "unknown" else time
    line = f"run {run.id} {run.name}: {launches}, {time}, {recording.format}"
    write(no_commands(one_line(line)), None)
    combined = said([one.role for one in recording.sources])
    if combined:
        tell(combined)
    for line in note_lines(recording.sources):
        tell(f"note: {line}")


@grouped
def export(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A stored run, or a profiler file.", autocompletion=complete_run
        ),
    ],
    *,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="kernels.parquet, .csv or .jsonl; a trace: .json or .json.gz (default: "
            f"{_TRACE}); - is stdout.",
        ),
    ] = None,
    format: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            "-f",
            case_sensitive=False,
            help="The kernel table as a file of this kind, or the timeline with its findings for "
            "ui.perfetto.dev; default: as FILE ends.",
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    reading: ReadOptions,
) -> None:
    """Write the kernel table of a run, or its timeline for Perfetto."""
    from traceroof.report.run.export import export_kernels, format_of

    wanted = format_of(output, format.value if format else None)
    found = run_of([run], reading, keep="all" if wanted == "perfetto" else "rows")
    if wanted == "perfetto":
        from traceroof.diagnosis.diagnose import diagnose_rows
        from traceroof.report.perfetto.export import export_trace

        diagnosis, rows = diagnose_rows(
            found,
            device=reading.device,
            calibration=calibration_of(reading.folder, no_calibration),
            settings=reading.settings,
        )
        notes = export_trace(found.recording, diagnosis, rows, output or _TRACE)
        for note in notes:
            tell(f"note: {note}")
        if output != "-":
            tell(f"wrote {output or _TRACE}: open it in https://ui.perfetto.dev")
        return
    from traceroof.core.units import count

    kernels = found.recording.kernels
    export_kernels(kernels, Path(output or ""), wanted)
    tell(f"wrote {output}: {count(kernels.num_rows, 'row')}")
