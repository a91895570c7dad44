"""``traceroof diagnose``: the verdict on a run, one kernel's card, or one rule's arithmetic."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from traceroof.cli.completion import complete_rule
from traceroof.cli.inputs import calibration_of, run_of
from traceroof.cli.options import (
    Format,
    KernelName,
    NoCalibration,
    ReadOptions,
    RunOrPaths,
    SourceRoot,
    View,
    grouped,
)
from traceroof.cli.output import tell, terminal, write
from traceroof.errors import COULD_NOT, GATE_FAILED, TraceroofError

if TYPE_CHECKING:
    from traceroof.config import Settings
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


FailOn = Annotated[
    Gate | None,
    typer.Option(metavar="SEVERITY", help="Exit 1 on a finding this severe or more, and name it."),
]
By = Annotated[
    TimeBy, typer.Option("--by", case_sensitive=False, help="What the time is grouped by.")
]
Card = Annotated[
    str | None,
    typer.Option(
        metavar="N|PATTERN",
        help="Everything known about one kernel: #N of the table, or a part of its name.",
    ),
]
Explain = Annotated[
    str | None,
    typer.Option(
        metavar="RULE[:N|PATTERN]|N",
        help="The arithmetic of entry N of the advice, or of a rule on kernel (category, "
        "timeline) N.",
        autocompletion=complete_rule,
    ),
]
HotLines = Annotated[
    str | None,
    typer.Option(
        metavar="N|PATTERN",
        help="The hot source lines of one kernel: #N of the table, or a part of its name.",
    ),
]


@grouped
def diagnose(
    what: RunOrPaths = None,
    *,
    view: View,
    fail_on: FailOn = None,
    by: By = TimeBy.category,
    card: Card = None,
    explain: Explain = None,
    lines: HotLines = None,
    source_root: SourceRoot = None,
    kernel: KernelName = None,
    no_calibration: NoCalibration = False,
    reading: ReadOptions,
) -> None:
    """Say which wall each kernel hit, why, and what is worth trying."""
    run = run_of(what or [], reading)
    from traceroof.diagnosis.diagnose import diagnose as diagnose_run

    calibration = calibration_of(reading.folder, no_calibration)
    gate = _gate(fail_on, reading.settings)
    diagnosis = diagnose_run(
        run, device=reading.device, calibration=calibration, settings=reading.settings
    )
    _one_question(card=card, explain=explain, lines=lines)
    _one_question(kernel=kernel, card=card, lines=lines)
    if kernel is not None:
        from traceroof.diagnosis.narrow import narrowed

        diagnosis = narrowed(diagnosis, kernel)
    if lines is not None:
        text = _lines(diagnosis, lines, view, source_root)
    elif card is not None:
        text = _cards(diagnosis, card, view)
    elif explain is not None:
        text = _explained(diagnosis, explain, view)
    else:
        text = _rendered(diagnosis, view, by)
    write(text, view.output)
    _end(diagnosis, gate)


def _one_question(**options: str | None) -> None:
    """Raise TraceroofError where more than one of the options is given."""
    asked = [f"--{name}" for name, value in options.items() if value is not None]
    if len(asked) > 1:
        words = f"{asked[0]} and {asked[1]}"
        raise TraceroofError(f"{words} answer two questions", "ask one at a time")


def _gate(fail_on: Gate | None, settings: "Settings") -> Gate | None:
    """The gate of the option, else that of the settings."""
    if fail_on is not None or "diagnose" not in settings.gates:
        return fail_on
    from traceroof.config.values import near

    (wanted, *more), names = settings.gates["diagnose"], [one.value for one in Gate]
    if more or wanted not in names:
        origin = settings.entries["gates.diagnose"].origin
        hint = "write one severity" if more else near(wanted, names)
        raise TraceroofError(f"{origin}: gates.diagnose: {wanted!r} is not a severity", hint)
    return Gate(wanted)


def _end(diagnosis: "Diagnosis", gate: Gate | None) -> None:
    """Say on stderr what failed, and exit accordingly: a rule that broke goes before a gate."""
    from traceroof.diagnosis.rule_firing import failing

    severe = failing(diagnosis.fired(), gate.value) if gate else []
    for one in severe[:_NAMED]:
        where = f" in {one.subject}" if one.scope in ("kernel", "category") else ""
        tell(f"gate failed: {one.rule} ({one.severity}){where}: {one.because}")
    if severe[_NAMED:]:
        tell(f"gate failed: {len(severe) - _NAMED} more findings")
    broken = [one.failed for one in diagnosis.findings if one.failed]
    for how in broken:
        tell(f"traceroof: {how}")
    if broken:
        raise typer.Exit(COULD_NOT)
    if severe:
        raise typer.Exit(GATE_FAILED)


#: So many findings that fail a gate are named.
_NAMED = 5


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

    width, color = terminal(view.output, wide=view.wide)
    return as_text.render(diagnosis, top=view.top or 10, width=width, color=color, by=by.value)


#: So many cards are printed where several kernels are meant.
_CARDS = 5


def _lines(diagnosis: "Diagnosis", wanted: str, view: View, source_root: Path | None) -> str:
    """The hot source lines of the kernels that are meant."""
    from traceroof.diagnosis.narrow import kernels_meant, of_kernels
    from traceroof.report.common import json
    from traceroof.report.run import source_lines

    if view.format is Format.csv:
        raise TraceroofError(
            "source lines have no CSV form", "--format table, markdown and json have one"
        )
    narrowed = of_kernels(diagnosis, kernels_meant(diagnosis, wanted)[:_CARDS])
    if view.format is Format.json:
        return json.render(source_lines.LinesOf(narrowed))
    texts = source_lines.Sources(source_root) if source_root else None
    most = view.top or source_lines.SHOWN
    if view.format is Format.markdown:
        return source_lines.render_markdown(narrowed, most=most, texts=texts)
    width, color = terminal(view.output, wide=view.wide)
    return source_lines.render(narrowed, most=most, texts=texts, width=width, color=color)


def _cards(diagnosis: "Diagnosis", wanted: str, view: View) -> str:
    """The operator cards of the kernels that are meant, most time first."""
    from traceroof.diagnosis.narrow import kernels_meant, of_kernels

    meant = kernels_meant(diagnosis, wanted)
    whole = view.format in (Format.json, Format.csv)
    shown = meant[: view.top or (len(meant) if whole else _CARDS)]
    narrowed = of_kernels(diagnosis, shown)
    if whole:
        return _rendered(narrowed, replace(view, top=None))
    from traceroof.report.run import kernel_cards

    left_out = len(meant) - len(shown)
    if view.format is Format.markdown:
        return kernel_cards.render_markdown(narrowed, left_out=left_out)
    width, color = terminal(view.output, wide=view.wide)
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
    width, color = terminal(view.output, wide=view.wide)
    return explanation.render(explained, width=width, color=color)
