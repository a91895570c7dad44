"""``traceroof scrub``: a copy of a profile to attach to an issue."""

from pathlib import Path
from typing import Annotated

import typer

from traceroof.cli.output import tell


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
        tell(f"removed {what}")
    tell(f"wrote {output}: look at it before you give it away")
