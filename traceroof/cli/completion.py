"""What a shell offers: runs and baselines of the store, ids of rules.

A completion must never fail nor talk: where something is wrong it offers nothing.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer


def complete_run(context: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Baselines and runs of the store that the line means; files the shell knows itself."""
    found: list[tuple[str, str]] = []
    with suppress(Exception):
        from traceroof.store import Store

        kept = Store.open(_store(context.params), create=False)
        found += [(name, f"baseline: run {run.id}") for name, run in kept.baselines().items()]
        for run in kept.runs():
            found += [(run.name, f"run {run.id}"), (run.id, run.name)]
    return _beginning(found, incomplete)


def complete_rule(incomplete: str) -> list[tuple[str, str]]:
    """Rules by their id."""
    found: list[tuple[str, str]] = []
    with suppress(Exception):
        from traceroof.plugins import rules

        found += [(rule.id, rule.title) for rule in rules()]
    return _beginning(found, incomplete)


def _store(given: dict[str, Any]) -> Path | str | None:
    from traceroof.cli.options import StoreOptions

    store, config = given.get("store"), given.get("config")
    return StoreOptions(
        config=Path(config) if config else None,
        no_config=bool(given.get("no_config")),
        store=str(store) if store else None,
    ).folder


def _beginning(found: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    return [(name, says) for name, says in dict(found).items() if name.startswith(incomplete)]
