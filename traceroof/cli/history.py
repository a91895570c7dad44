"""``traceroof history``: when a program got slower, by how much, and with which commit."""

from typing import TYPE_CHECKING, Annotated

import typer

from traceroof.cli.options import HistoryFormat, Output, StoreOptions, Wide, grouped
from traceroof.cli.output import tell, terminal, write
from traceroof.errors import GATE_FAILED

if TYPE_CHECKING:
    from traceroof.history.history import History


What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KERNEL|CATEGORY|METRIC...]",
        help="A part of a kernel's name, a category, or a metric (step-time, wall-time, "
        "kernel-time, idle-time, launches); default: all, and the kernels with the most time.",
    ),
]
Branch = Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this branch.")]
Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Only runs of this name (or pattern); default: the name of the newest run.",
    ),
]
Gpu = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Only runs on this GPU; default: the GPU of the newest run."),
]
Last = Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the newest N runs.")]
LeastPercent = Annotated[
    float, typer.Option(metavar="PCT", min=0, help="Smallest change to report.")
]
Gates = Annotated[
    list[str] | None,
    typer.Option(
        metavar="GATE",
        help="Exit 1 on a change, or a regression, among the newest runs (--newest).",
    ),
]
Newest = Annotated[
    int, typer.Option(metavar="N", min=1, help="Number of newest runs that a gate checks.")
]
Written = Annotated[
    HistoryFormat | None,
    typer.Option(
        "--format",
        "-f",
        case_sensitive=False,
        help="How to write it; default: html where FILE ends so, else table.",
    ),
]


@grouped
def history(
    what: What = None,
    *,
    branch: Branch = None,
    name: Name = None,
    device: Gpu = None,
    last: Last = None,
    min_percent: LeastPercent = 1.0,
    fail_on: Gates = None,
    newest: Newest = 20,
    format: Written = None,
    output: Output = None,
    wide: Wide = False,
    keeping: StoreOptions,
) -> None:
    """Say when a program got slower or faster over its runs in the store, and with which commit."""
    import traceroof
    from traceroof.history import gates

    settings = keeping.settings
    gate = gates.checked(fail_on or settings.gates.get("history", ()))
    told = traceroof.history(
        what or (),
        branch=branch,
        name=name,
        device=device,
        last=last,
        least_percent=min_percent,
        store=keeping.folder,
        config=False,
    )
    chosen = format or (HistoryFormat.html if str(output).endswith(".html") else None)
    write(_rendered(told, chosen or HistoryFormat.table, output, wide), output)
    failing = gates.failing(told, gate, newest, settings.accept)
    if failing:
        from traceroof.report.history import words

        for one in failing[:_NAMED]:
            ratio = words.signed_pct(one.point.ratio)
            text = f"{words.label(one)} {ratio} {words.between(one)}"
            tell(f"gate failed: {text}")
        raise typer.Exit(GATE_FAILED)


_NAMED = 3


def _rendered(told: "History", format: HistoryFormat, output: str | None, wide: bool) -> str:
    if format is HistoryFormat.json:
        from traceroof.report.common import json

        return json.render(told)
    if format is HistoryFormat.csv:
        from traceroof.report.history import csv

        return csv.render(told)
    if format is HistoryFormat.html:
        from traceroof.report.history import page

        return page.render(told)
    from traceroof.report.history import terminal as as_text

    width, color = terminal(output, wide=wide)
    return as_text.render(told, width=width, color=color)
