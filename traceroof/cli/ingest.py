"""``traceroof ingest`` and ``traceroof export``: into the store, and out of it."""

from pathlib import Path
from typing import Annotated

import typer

import traceroof
from traceroof.cli.inputs import read, run_of, spooled
from traceroof.cli.options import Paths, ReadOptions, grouped
from traceroof.cli.output import write


@grouped
def ingest(
    paths: Paths,
    *,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call the run.")] = None,
    reading: ReadOptions,
) -> None:
    """Read profiler files into the store as one run."""
    from traceroof.core import kernel_table
    from traceroof.core.recording import note_lines
    from traceroof.core.units import count, quantity
    from traceroof.store import Store, digest_of

    with spooled(paths) as files:
        recording = read(files, reading)
        run = Store.open(reading.store).add(
            recording, name=name or traceroof.run_name(paths), digest=digest_of(files)
        )
    launches = count(kernel_table.launches(recording.kernels), "kernel launch", "kernel launches")
    time = quantity(kernel_table.known_time_ns(recording.kernels), "ns")
    time = f"time {time}" if time == "unknown" else time
    write(f"run {run.id} {run.name}: {launches}, {time}, {recording.format}", None)
    for line in note_lines(recording.sources):
        typer.echo(f"note: {line}", err=True)
    typer.echo("next: traceroof diagnose --top 5", err=True)


@grouped
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A stored run, or a profiler file.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="kernels.parquet or kernels.csv")
    ],
    reading: ReadOptions,
) -> None:
    """Write the kernel table of a run to a Parquet or CSV file."""
    from traceroof.core.units import count
    from traceroof.report.run.export import export_kernels

    kernels = run_of([run], reading).recording.kernels
    export_kernels(kernels, output)
    typer.echo(f"wrote {output}: {count(kernels.num_rows, 'row')}", err=True)
