"""``traceroof rules``, ``devices`` and ``formats``: what traceroof knows."""

import os
from typing import Annotated

import typer

from traceroof.cli.completion import complete_rule
from traceroof.cli.options import ConfigOptions, StoreOptions, grouped
from traceroof.cli.output import write


@grouped
def rules(
    rule: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="One rule's card.", autocompletion=complete_rule),
    ] = None,
    *,
    setting: ConfigOptions,
) -> None:
    """List the rules, or print the card of one."""
    from traceroof import plugins
    from traceroof.report.common.cards import rule_card, rules_table

    known = plugins.rules()
    limited = setting.settings.limited(known)
    write(rule_card(rule, limited) if rule else rules_table(), None)


@grouped
def config(
    *,
    setting: StoreOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the settings in force, and where each was set."""
    from traceroof import plugins
    from traceroof.report.common import settings

    found = setting.settings
    found.rules(plugins.rules())  # a rule that does not exist is said here too
    store = (setting.store, "--store") if setting.store else None
    rows = settings.rows(found, store or _store_of_environment())
    write(settings.as_json(rows) if as_json else settings.table(rows), None)


def _store_of_environment() -> tuple[str, str] | None:
    named = os.environ.get("TRACEROOF_STORE")
    return (named, "TRACEROOF_STORE") if named else None


@grouped
def devices(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One GPU.")] = None,
    *,
    setting: ConfigOptions,
) -> None:
    """List the GPUs of the device table, or print one."""
    from traceroof.report.common.cards import device_card, devices_table

    write(device_card(name) if name else devices_table(), None)


def formats() -> None:
    """List the file formats that are read, and how to collect each."""
    from traceroof.report.common.cards import formats_table

    write(formats_table(), None)
