"""``traceroof scrub``: a copy of a profile to attach to an issue."""

from pathlib import Path
from typing import Annotated

import typer


def scrub(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Nsight Systems export, rocpd database, or torch.profiler trace."
        ),
    ],
    *,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="CLEAN", help="File to write; it must not exist."),
    ],
) -> None:
    """Copy a profile without environment, users, hosts and folders."""
    from traceroof.scrub import scrub as scrubbed

    for what in scrubbed(file, output):
        typer.echo(f"removed {what}", err=True)
    typer.echo(f"wrote {output}: look at it before you give it away", err=True)
