"""``traceroof mcp``: the tools of coding agents, over stdin and stdout."""

from pathlib import Path
from typing import Annotated

import typer

from traceroof.cli.options import NoCalibration, StoreOptions, grouped
from traceroof.errors import TraceroofError


@grouped
def mcp(
    *,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder below which files may be read; default the current folder. May be given "
            "several times.",
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    keeping: StoreOptions,
) -> None:
    """Serve coding agents: the Model Context Protocol over stdin and stdout (docs/agents.md)."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise TraceroofError(
            "traceroof mcp speaks through the package mcp, which is not installed",
            "pip install 'traceroof[mcp]'",
        )
    from traceroof.mcp.server import serve
    from traceroof.mcp.tools import Setup

    folders = root or [Path()]
    if root is None and Path.cwd() == Path(Path.cwd().anchor):
        raise TraceroofError(
            "the current folder is the root of the file system, and all of it would be readable",
            "name the folder of the project with --root",
        )
    folder = keeping.folder
    serve(
        Setup(
            folders=tuple(str(one) for one in folders),
            store=str(folder) if folder else None,
            config=str(keeping.config) if keeping.config else None,
            no_config=keeping.no_config,
            calibrated=not no_calibration,
        )
    )
