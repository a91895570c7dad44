"""``traceroof rules``, ``devices`` and ``formats``: what traceroof knows."""

from typing import Annotated

import typer

from traceroof.cli.output import write


def rules(
    rule: Annotated[str | None, typer.Argument(metavar="[ID]", help="One rule's card.")] = None,
) -> None:
    """List the rules, or print the card of one."""
    from traceroof.report.common.cards import rule_card, rules_table

    write(rule_card(rule) if rule else rules_table(), None)


def devices(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One GPU.")] = None,
) -> None:
    """List the GPUs of the device table, or print one with its source."""
    from traceroof.report.common.cards import device_card, devices_table

    write(device_card(name) if name else devices_table(), None)


def formats() -> None:
    """List the file formats that traceroof reads, and how to collect each."""
    from traceroof.report.common.cards import formats_table

    write(formats_table(), None)
