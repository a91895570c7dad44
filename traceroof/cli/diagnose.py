"""``traceroof diagnose``: the verdict on a run, one kernel's card, or one rule's arithmetic."""

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from traceroof.cli.inputs import calibration_of, run_of
from traceroof.cli.options import Format, NoCalibration, ReadOptions, RunOrPaths, View, grouped
from traceroof.cli.output import terminal, write
from traceroof.errors import GATE_FAILED, TraceroofError

if TYPE_CHECKING:
    from traceroof.diagnosis.diagnosis import Diagnosis


class Gate(StrEnum):
    """From which severity on ``diagnose --fail-on`` fails."""

    high = "high"
    medium = "medium"
    low = "low"
    info = "info"


class TimeBy(StrEnum):
    """What ``diagnose`` adds the time up by."""

    category = "category"
    module = "module"
    operator = "operator"
    range = "range"


@grouped
def diagnose(
    what: RunOrPaths = None,
    *,
    view: View,
    fail_on: Annotated[
        Gate | None,
        typer.Option(metavar="SEVERITY", help="Exit 1 on a finding this severe or more."),
    ] = None,
    by: Annotated[
        TimeBy,
        typer.Option("--by", case_sensitive=False, help="What to add the time up by."),
    ] = TimeBy.category,
    card: Annotated[
        str | None,
        typer.Option(
            metavar="N|PATTERN",
            help="Everything known of one kernel: #N of the table, or a part of its name.",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="RULE[:N|PATTERN]|N",
            help="The arithmetic of a rule, on kernel (category, timeline) N if given; or of "
            "entry N of what is worth trying.",
        ),
    ] = None,
    no_calibration: NoCalibration = False,
    reading: ReadOptions,
) -> None:
    """Say which wall each kernel hit, why, and what is worth trying."""
    from traceroof.diagnosis.diagnose import diagnose as diagnose_run

    run = run_of(what or [], reading)
    calibration = calibration_of(reading.store, no_calibration)
    diagnosis = diagnose_run(run, device=reading.device, calibration=calibration)
    if card is not None and explain is not None:
        raise TraceroofError("--card and --explain answer two questions", "ask one at a time")
    if card is not None:
        text = _cards(diagnosis, card, view)
    elif explain is not None:
        text = _explained(diagnosis, explain, view)
    else:
        text = _rendered(diagnosis, view, by)
    write(text, view.output)
    if fail_on is not None and _fails(diagnosis, fail_on):
        raise typer.Exit(GATE_FAILED)


def _rendered(diagnosis: "Diagnosis", view: View, by: TimeBy = TimeBy.category) -> str:
    if view.format is Format.json:
        from traceroof.report.common import json

        return json.render(diagnosis, top=view.top)
    if view.format is Format.csv:
        from traceroof.report.run import csv

        return csv.render(diagnosis, top=view.top)
    if view.format is Format.markdown:
        from traceroof.report.run import markdown

        return markdown.render(diagnosis, top=view.top or 10, key=view.key, by=by.value)
    from traceroof.report.run import terminal as as_text

    width, color = terminal(view.output)
    return as_text.render(diagnosis, top=view.top or 10, width=width, color=color, by=by.value)


#: So many cards are printed where several kernels are meant.
_CARDS = 5


def _cards(diagnosis: "Diagnosis", wanted: str, view: View) -> str:
    """The operator cards of the kernels that are meant, most time first."""
    from traceroof.core.selection import choose
    from traceroof.diagnosis.diagnose import of_kernels

    meant = choose(
        wanted,
        [kernel.kernel for kernel in diagnosis.kernels],
        one="kernel",
        many="kernels",
        numbered_by="`traceroof diagnose` numbers them; --top N shows more of them",
    )
    whole = view.format in (Format.json, Format.csv)
    shown = meant[: view.top or (len(meant) if whole else _CARDS)]
    narrowed = of_kernels(diagnosis, shown)
    if whole:
        return _rendered(narrowed, replace(view, top=None))
    from traceroof.report.run import kernel_cards

    left_out = len(meant) - len(shown)
    if view.format is Format.markdown:
        return kernel_cards.render_markdown(narrowed, left_out=left_out)
    width, color = terminal(view.output)
    return kernel_cards.render(narrowed, left_out=left_out, width=width, color=color)


def _explained(diagnosis: "Diagnosis", wanted: str, view: View) -> str:
    """How a rule came to what it says."""
    from traceroof.diagnosis.explain import MOST, entry, explain
    from traceroof.report.common import json
    from traceroof.report.run import explanation

    if view.format is Format.csv:
        raise TraceroofError(
            "an explanation has no CSV form", "--format table, markdown and json have one"
        )
    if wanted.strip().isdecimal():
        wanted = entry(diagnosis, int(wanted))
    explained = explain(diagnosis, wanted, most=view.top or MOST)
    if view.format is Format.json:
        return json.render(explained)
    if view.format is Format.markdown:
        return explanation.render_markdown(explained)
    width, color = terminal(view.output)
    return explanation.render(explained, width=width, color=color)


def _fails(diagnosis: "Diagnosis", gate: Gate) -> bool:
    from traceroof.rule import SEVERITIES

    limit = SEVERITIES.index(gate.value)
    return any(SEVERITIES.index(finding.severity) <= limit for finding in diagnosis.fired())
