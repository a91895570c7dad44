"""``traceroof compare``: what changed between two runs, and whether a gate fails."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

import traceroof
from traceroof.cli.completion import complete_run
from traceroof.cli.inputs import calibration_of, run_of
from traceroof.cli.options import (
    CompareOptions,
    ComparisonFormat,
    ComparisonView,
    KernelName,
    NoCalibration,
    ReadOptions,
    grouped,
)
from traceroof.cli.output import tell, terminal, write
from traceroof.errors import GATE_FAILED, TraceroofError

if TYPE_CHECKING:
    from pathlib import Path

    from traceroof.compare import Comparison
    from traceroof.compare.noise_profile import Profile
    from traceroof.core.recording import Run
    from traceroof.hardware.ceilings import MeasuredRate


@grouped
def compare(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE", help="A run, a baseline, or a path.", autocompletion=complete_run
        ),
    ],
    head: Annotated[
        str,
        typer.Argument(
            metavar="HEAD", help="A run, a baseline, or a path.", autocompletion=complete_run
        ),
    ],
    *,
    view: ComparisonView,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GATE",
            help="Exit 1 on regression, inconclusive, finding:ID, or a severity (high, medium, "
            "low). May be given several times.",
        ),
    ] = None,
    comparing: CompareOptions,
    kernel: KernelName = None,
    no_calibration: NoCalibration = False,
    reading: ReadOptions,
) -> None:
    """Say what changed between two runs, and what is only noise."""
    from traceroof import plugins
    from traceroof.compare import gates

    settings = reading.settings
    asked = fail_on or settings.gates.get("compare", ())
    of_file = settings.entries.get("gates.compare")
    origin = f"{of_file.origin}: gates.compare" if of_file and not fail_on else "--fail-on"
    gate = gates.checked(asked, [rule.id for rule in plugins.rules()], origin)
    before, after = (run_of([side], reading) for side in (base, head))
    calibration = calibration_of(reading.folder, no_calibration)
    comparison = compared(before, after, reading, comparing, calibration)
    if kernel is not None:
        from traceroof.compare.narrow import narrowed

        comparison = narrowed(comparison, kernel)
    write(_rendered(comparison, view), view.output)
    for line in gates.accepted(comparison):
        tell(line)
    failures = gates.failures(comparison, gate)
    for failure in failures:
        tell(f"gate failed: {failure}")
    if failures:
        raise typer.Exit(GATE_FAILED)


def compared(
    base: "Run",
    head: "Run",
    reading: ReadOptions,
    comparing: CompareOptions,
    calibration: "Sequence[MeasuredRate]",
) -> "Comparison":
    """Both runs compared, as ``compare`` and ``report --base`` do it."""
    from traceroof.compare import compare as compare_runs

    return compare_runs(
        base,
        head,
        device=reading.device,
        force=comparing.force,
        limits=comparing.thresholds(),
        calibration=calibration,
        settings=reading.settings,
        noise=_noise_of(reading.folder),
    )


def _noise_of(store: "Path | str | None") -> "tuple[Profile, ...]":
    """The measured noise of the store; a store that cannot be read is no reason to say nothing."""
    try:
        return traceroof.stored_noise(store)
    except TraceroofError as error:
        tell(f"note: measured noise is left out: {error.message}")
        return ()


def _rendered(comparison: "Comparison", view: ComparisonView) -> str:
    if view.format is ComparisonFormat.json:
        from traceroof.report.common import json

        return json.render(comparison, top=view.top)
    if view.format is ComparisonFormat.markdown:
        from traceroof.report.compare import markdown

        return markdown.render(comparison, key=view.key, top=view.top or 10)
    from traceroof.report.compare import terminal as as_text

    width, color = terminal(view.output, wide=view.wide)
    return as_text.render(comparison, top=view.top or 10, width=width, color=color)
