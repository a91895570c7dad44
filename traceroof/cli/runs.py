"""``traceroof runs`` and ``traceroof baseline``: what the store holds."""

from typing import Annotated

import typer

from traceroof.cli.completion import complete_run
from traceroof.cli.options import StoreOptions, grouped
from traceroof.cli.output import tell, write

runs_app = typer.Typer(help="The runs in the store.", invoke_without_command=True)
baseline_app = typer.Typer(
    help="Names that stand for a run in the store.", invoke_without_command=True
)

StoredRun = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id, beginning of an id, or name.", autocompletion=complete_run
    ),
]


@runs_app.callback()
@grouped
def runs(context: typer.Context, *, keeping: StoreOptions) -> None:
    """List the runs in the store, newest first."""
    if context.invoked_subcommand:
        return
    from traceroof.report.common.tables import runs_table
    from traceroof.store import Store

    write(runs_table(Store.open(keeping.folder, create=False).runs()), None)


@runs_app.command("show")
@grouped
def runs_show(run: StoredRun, *, keeping: StoreOptions) -> None:
    """What a run was made from, and the notes of its import."""
    from traceroof.report.common.tables import run_card
    from traceroof.store import Store

    kept = Store.open(keeping.folder, create=False)
    write(run_card(kept.get(run), kept.origin(run)), None)


@runs_app.command("remove")
@grouped
def runs_remove(run: StoredRun, *, keeping: StoreOptions) -> None:
    """Remove a run from the store, and the baselines that stand for it."""
    from traceroof.store import Store

    kept = Store.open(keeping.folder, create=False)
    baselines = kept.standing_for(run)
    removed = kept.remove(run)
    tell(f"removed run {removed.id} {removed.name}")
    for name in baselines:
        tell(f"removed baseline {name}, which stood for it")


@baseline_app.callback()
@grouped
def baseline(context: typer.Context, *, keeping: StoreOptions) -> None:
    """List the baselines and the runs that they stand for."""
    if context.invoked_subcommand:
        return
    from traceroof.report.common.tables import baselines_table
    from traceroof.store import Store

    write(baselines_table(Store.open(keeping.folder, create=False).baselines()), None)


@baseline_app.command("set")
@grouped
def baseline_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the baseline, e.g. main.")],
    run: StoredRun,
    *,
    keeping: StoreOptions,
) -> None:
    """Let a name stand for a run from now on: `traceroof compare NAME HEAD`."""
    from traceroof.store import Store

    kept = Store.open(keeping.folder, create=False)
    kept.set_baseline(name, run)
    chosen = kept.baselines()[name.strip()]
    tell(f"baseline {name.strip()} is run {chosen.id} {chosen.name}")
