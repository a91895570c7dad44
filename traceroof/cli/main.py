"""The command line: arguments, one library call, one renderer.

Payload goes to stdout, talk to stderr. Heavy imports happen inside the commands, so that
``traceroof --help`` answers at once.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import traceroof
from traceroof.errors import COULD_NOT, DONE, GATE_FAILED, TraceroofError

if TYPE_CHECKING:
    from traceroof.compare import Comparison
    from traceroof.core.recording import Recording, Run
    from traceroof.diagnosis.diagnosis import Diagnosis
    from traceroof.hardware.ceilings import MeasuredRate
    from traceroof.parser import Progress

app = typer.Typer(
    name="traceroof",
    help="Says which wall every GPU kernel hit, why, and what is worth trying.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
runs_app = typer.Typer(help="The runs in the store.", invoke_without_command=True)
app.add_typer(runs_app, name="runs")
baseline_app = typer.Typer(
    help="Names that stand for a run in the store.", invoke_without_command=True
)
app.add_typer(baseline_app, name="baseline")


class Format(StrEnum):
    """How ``diagnose`` writes its result."""

    table = "table"
    json = "json"
    markdown = "markdown"
    csv = "csv"


class ComparisonFormat(StrEnum):
    """How ``compare`` writes its result."""

    table = "table"
    json = "json"
    markdown = "markdown"


class Gate(StrEnum):
    """From which severity on ``diagnose --fail-on`` fails."""

    high = "high"
    medium = "medium"
    low = "low"
    info = "info"


Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Profiler files or folders.", exists=False)
]
RunOrPaths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN|PATH...]",
        help="A stored run (id, beginning of an id, or name; default: the newest) or files.",
    ),
]
StoreFolder = Annotated[
    Path | None,
    typer.Option(
        "--store", metavar="DIR", help="Store folder; default $TRACEROOF_STORE or .traceroof."
    ),
]
Output = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write there; - is stdout.")
]
DeviceName = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="The GPU, where the file does not name it."),
]
Jobs = Annotated[
    int, typer.Option("--jobs", metavar="N", min=1, help="Processes that may read a large file.")
]
MaxInflated = Annotated[
    int, typer.Option(metavar="GIB", min=1, help="Most that a compressed file may unpack to.")
]
MaxInflation = Annotated[
    int, typer.Option(metavar="FACTOR", min=1, help="Most that a compressed file may grow.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a file of which anything was skipped or guessed.")
]

NoCalibration = Annotated[
    bool,
    typer.Option(
        "--no-calibration",
        help="Leave out the ceilings of `traceroof calibrate`: the same result on every machine.",
    ),
]

Force = Annotated[
    bool,
    typer.Option("--force", help="Compare times although GPU, driver, clocks or tool differ."),
]
MinPercent = Annotated[
    float, typer.Option(metavar="PCT", min=0, help="Least change of a kernel that counts.")
]
MinMs = Annotated[
    float | None,
    typer.Option(metavar="MS", min=0, help="The same in ms; default 0.25 % of kernel time."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"traceroof {traceroof.__version__}")
        raise typer.Exit(DONE)


@app.callback()
def _traceroof(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    pass


@app.command()
def ingest(
    paths: Paths,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call the run.")] = None,
    device: DeviceName = None,
    store: StoreFolder = None,
    strict: Strict = False,
    jobs: Jobs = 1,
    max_inflated: MaxInflated = 64,
    max_inflation: MaxInflation = 200,
) -> None:
    """Read profiler files into the store as one run."""
    from traceroof import report
    from traceroof.core import kernel_table
    from traceroof.core.recording import note_lines
    from traceroof.core.units import count, quantity
    from traceroof.store import Store, digest_of

    with _spooled(paths) as files:
        limits = _limits(max_inflated, max_inflation)
        recording = _read(files, device, strict, jobs, **limits)
        run = Store.open(store).add(
            recording, name=name or traceroof.run_name(paths), digest=digest_of(files)
        )
    launches = count(kernel_table.launches(recording.kernels), "kernel launch", "kernel launches")
    time = quantity(kernel_table.known_time_ns(recording.kernels), "ns")
    time = f"time {time}" if time == "unknown" else time
    report.write(f"run {run.id} {run.name}: {launches}, {time}, {recording.format}", None)
    for line in note_lines(recording.sources):
        typer.echo(f"note: {line}", err=True)
    typer.echo("next: traceroof diagnose --top 5", err=True)


@app.command()
def diagnose(
    what: RunOrPaths = None,
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many kernels and findings to show.")
    ] = None,
    format: Annotated[
        Format, typer.Option("--format", "-f", case_sensitive=False, help="How to write it.")
    ] = Format.table,
    output: Output = None,
    fail_on: Annotated[
        Gate | None,
        typer.Option(metavar="SEVERITY", help="Exit 1 on a finding this severe or more."),
    ] = None,
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
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Markdown: finds the comment again; default: the run."),
    ] = None,
    device: DeviceName = None,
    store: StoreFolder = None,
    no_calibration: NoCalibration = False,
    strict: Strict = False,
    jobs: Jobs = 1,
    max_inflated: MaxInflated = 64,
    max_inflation: MaxInflation = 200,
) -> None:
    """Say which wall each kernel hit, why, and what is worth trying."""
    from traceroof import report
    from traceroof.diagnosis.diagnosis import diagnose as diagnose_run

    limits = _limits(max_inflated, max_inflation)
    run = _run(what or [], store, device, strict, jobs, **limits)
    calibration = _calibration(store, no_calibration)
    diagnosis = diagnose_run(run, device=device, calibration=calibration)
    if card is not None and explain is not None:
        raise TraceroofError("--card and --explain answer two questions", "ask one at a time")
    if card is not None:
        text = _cards(diagnosis, card, format, top, output)
    elif explain is not None:
        text = _explained(diagnosis, explain, format, top, output)
    else:
        text = _rendered(diagnosis, format, top, output, key)
    written = report.write(text, output)
    if written:
        typer.echo(f"wrote {written}", err=True)
    if fail_on is not None and _fails(diagnosis, fail_on):
        raise typer.Exit(GATE_FAILED)


@app.command()
def report(
    what: RunOrPaths = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write there; - is stdout.")
    ] = "report.html",
    base: Annotated[
        str | None,
        typer.Option(
            metavar="BASE", help="Show every change from this run, baseline or path (see compare)."
        ),
    ] = None,
    force: Force = False,
    min_percent: MinPercent = 5.0,
    min_ms: MinMs = None,
    assets: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write every chart as SVG and PNG (needs kaleido)."),
    ] = None,
    device: DeviceName = None,
    store: StoreFolder = None,
    no_calibration: NoCalibration = False,
    strict: Strict = False,
    jobs: Jobs = 1,
    max_inflated: MaxInflated = 64,
    max_inflation: MaxInflation = 200,
) -> None:
    """Write the bottleneck report: one HTML page that works anywhere, offline."""
    from traceroof import report
    from traceroof.diagnosis.diagnosis import diagnose as diagnose_run
    from traceroof.report.html import render

    shown: Comparison | Diagnosis
    limits = _limits(max_inflated, max_inflation)
    run = _run(what or [], store, device, strict, jobs, **limits)
    calibration = _calibration(store, no_calibration)
    if base is None:
        shown = diagnose_run(run, device=device, calibration=calibration)
    else:
        before = _run([base], store, device, strict, jobs, **limits)
        shown = _compared(before, run, device, force, min_percent, min_ms, calibration)
    written = report.write(render.render(shown), output)
    if written:
        typer.echo(f"wrote {written}", err=True)
    if assets is not None:
        from traceroof.report.html.pictures import write_pictures

        for picture in write_pictures(shown, assets):
            typer.echo(f"wrote {picture}", err=True)


@app.command()
def compare(
    base: Annotated[str, typer.Argument(metavar="BASE", help="A run, a baseline, or a path.")],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="A run, a baseline, or a path.")],
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many kernels to show.")
    ] = None,
    format: Annotated[
        ComparisonFormat,
        typer.Option("--format", "-f", case_sensitive=False, help="How to write it."),
    ] = ComparisonFormat.table,
    output: Output = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GATE",
            help="Exit 1 on regression, inconclusive, finding:ID, or a severity (high, medium, "
            "low). May be given several times.",
        ),
    ] = None,
    force: Force = False,
    min_percent: MinPercent = 5.0,
    min_ms: MinMs = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Markdown: finds the comment again; default: BASE."),
    ] = None,
    device: DeviceName = None,
    store: StoreFolder = None,
    no_calibration: NoCalibration = False,
    strict: Strict = False,
    jobs: Jobs = 1,
    max_inflated: MaxInflated = 64,
    max_inflation: MaxInflation = 200,
) -> None:
    """Say what changed between two runs, and whether it is more than noise."""
    from traceroof import plugins, report
    from traceroof.compare import gates

    gate = gates.checked(fail_on or (), [rule.id for rule in plugins.rules()])
    limits = _limits(max_inflated, max_inflation)
    runs = [_run([side], store, device, strict, jobs, **limits) for side in (base, head)]
    calibration = _calibration(store, no_calibration)
    comparison = _compared(runs[0], runs[1], device, force, min_percent, min_ms, calibration)
    written = report.write(_rendered_comparison(comparison, format, top, key, output), output)
    if written:
        typer.echo(f"wrote {written}", err=True)
    failures = gates.failures(comparison, gate)
    for failure in failures:
        typer.echo(f"gate failed: {failure}", err=True)
    if failures:
        raise typer.Exit(GATE_FAILED)


@app.command()
def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A stored run, or a profiler file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="kernels.parquet or kernels.csv")
    ],
    store: StoreFolder = None,
    max_inflated: MaxInflated = 64,
    max_inflation: MaxInflation = 200,
) -> None:
    """Write the kernel table of a run to a Parquet or CSV file."""
    from traceroof.core.units import count
    from traceroof.report.run.export import export_kernels

    limits = _limits(max_inflated, max_inflation)
    kernels = _run([run], store, None, False, 1, **limits).recording.kernels
    export_kernels(kernels, output)
    typer.echo(f"wrote {output}: {count(kernels.num_rows, 'row')}", err=True)


@runs_app.callback()
def runs(context: typer.Context, store: StoreFolder = None) -> None:
    """List the runs in the store, newest first."""
    if context.invoked_subcommand:
        return
    from traceroof import report
    from traceroof.report.common.tables import runs_table
    from traceroof.store import Store

    report.write(runs_table(Store.open(store, create=False).runs()), None)


@runs_app.command("show")
def runs_show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id, beginning of an id, or name.")],
    store: StoreFolder = None,
) -> None:
    """What a run was made from, and what its files did not say clearly."""
    from traceroof import report
    from traceroof.report.common.tables import run_card
    from traceroof.store import Store

    report.write(run_card(Store.open(store, create=False).get(run)), None)


@runs_app.command("remove")
def runs_remove(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id, beginning of an id, or name.")],
    store: StoreFolder = None,
) -> None:
    """Remove a run from the store, and the baselines that stand for it."""
    from traceroof.store import Store

    kept = Store.open(store, create=False)
    baselines = kept.standing_for(run)
    removed = kept.remove(run)
    typer.echo(f"removed run {removed.id} {removed.name}", err=True)
    for name in baselines:
        typer.echo(f"removed baseline {name}, which stood for it", err=True)


@baseline_app.callback()
def baseline(context: typer.Context, store: StoreFolder = None) -> None:
    """List the baselines and the runs that they stand for."""
    if context.invoked_subcommand:
        return
    from traceroof import report
    from traceroof.report.common.tables import baselines_table
    from traceroof.store import Store

    report.write(baselines_table(Store.open(store, create=False).baselines()), None)


@baseline_app.command("set")
def baseline_set(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it, e.g. main.")],
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id, beginning of an id, or name.")],
    store: StoreFolder = None,
) -> None:
    """Let a name stand for a run from now on: `traceroof compare NAME HEAD`."""
    from traceroof.store import Store

    kept = Store.open(store, create=False)
    kept.set_baseline(name, run)
    chosen = kept.baselines()[name.strip()]
    typer.echo(f"baseline {name.strip()} is run {chosen.id} {chosen.name}", err=True)


@app.command()
def calibrate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[PATH...]", help="Profiles of probes; none: list what is stored."),
    ] = None,
    forget: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="Forget the ceilings of a GPU, as listed.")
    ] = None,
    device: DeviceName = None,
    store: StoreFolder = None,
    strict: Strict = False,
    jobs: Jobs = 1,
    max_inflated: MaxInflated = 64,
    max_inflation: MaxInflation = 200,
) -> None:
    """Measure what a GPU really reaches, from profiles of probes (docs/calibrate.md)."""
    from dataclasses import replace

    from traceroof import report
    from traceroof.core.units import count
    from traceroof.report.run import calibration as shown
    from traceroof.store import Store, calibration_of

    if forget is not None:
        if paths:
            raise TraceroofError("--forget takes no PATH", "calibrating again replaces by itself")
        gone = Store.open(store, create=False).forget_calibration(forget)
        typer.echo(f"forgot {count(len(gone), 'ceiling')} of {gone[0].device}", err=True)
        return
    if not paths:
        report.write(shown.stored(calibration_of(store)), None)
        return
    from traceroof.calibration import measure

    with _spooled(paths) as files:
        limits = _limits(max_inflated, max_inflation)
        recordings = _read_each(files, device, strict, jobs, **limits)
    found = measure(recordings, device=device)
    kept = Store.open(store)
    before = kept.calibrate(found.rates)
    found = replace(found, replaced=tuple(old for _, old in before))
    report.write(shown.measured(found), None)
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"kept in {kept.folder}: diagnose, report and compare use it from now on", err=True)


@app.command()
def rules(
    rule: Annotated[str | None, typer.Argument(metavar="[ID]", help="One rule's card.")] = None,
) -> None:
    """List the rules, or print the card of one."""
    from traceroof import report
    from traceroof.report.common.cards import rule_card, rules_table

    report.write(rule_card(rule) if rule else rules_table(), None)


@app.command()
def devices(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One GPU.")] = None,
) -> None:
    """List the GPUs of the device table, or print one with its source."""
    from traceroof import report
    from traceroof.report.common.cards import device_card, devices_table

    report.write(device_card(name) if name else devices_table(), None)


@app.command()
def formats() -> None:
    """List the file formats that traceroof reads, and how to collect each."""
    from traceroof import report
    from traceroof.report.common.cards import formats_table

    report.write(formats_table(), None)


def _limits(max_inflated: int, max_inflation: int) -> dict[str, int]:
    """The two options as ``Options`` names them."""
    return {"max_inflated_bytes": max_inflated << 30, "max_inflation": max_inflation}


def _run(
    what: Sequence[str],
    store: Path | None,
    device: str | None,
    strict: bool,
    jobs: int,
    **limits: int,
) -> "Run":
    """A stored run, or files read directly: a name that exists as a path is a path."""
    from traceroof.core.recording import Run
    from traceroof.store import Store

    there = [entry == STDIN or Path(entry).exists() for entry in what]
    if any(there):
        for entry, exists in zip(what, there, strict=True):
            if not exists:
                raise TraceroofError(f"{entry} does not exist")
        with _spooled(what) as files:
            recording = _read(files, device, strict, jobs, **limits)
        return Run(recording=recording, name=traceroof.run_name(what))
    if len(what) > 1:
        raise TraceroofError(
            f"none of {', '.join(what)} is a file here", "name one stored run, or several files"
        )
    try:
        return Store.open(store, create=False).get(what[0] if what else None)
    except TraceroofError as error:
        if what and _looks_like_path(what[0]):
            raise TraceroofError(f"{what[0]} does not exist") from None
        if what:
            message = f"{what[0]} is no file here, and {error.message}"
            raise TraceroofError(message, error.hint) from None
        raise


def _compared(
    base: "Run",
    head: "Run",
    device: str | None,
    force: bool,
    min_percent: float,
    min_ms: float | None,
    calibration: "Sequence[MeasuredRate]",
) -> "Comparison":
    """Both runs compared, as ``compare`` and ``report --base`` do it."""
    from traceroof.compare import compare as compare_runs
    from traceroof.compare.verdicts import Thresholds

    limits = Thresholds(percent=min_percent, least_ns=None if min_ms is None else min_ms * 1e6)
    return compare_runs(
        base, head, device=device, force=force, limits=limits, calibration=calibration
    )


def _calibration(store: Path | None, without: bool) -> "tuple[MeasuredRate, ...]":
    """The ceilings of the store; a store that cannot be read is no reason to say nothing at all."""
    if without:
        return ()
    try:
        return traceroof.stored_calibration(store)
    except TraceroofError as error:
        typer.echo(f"note: stored ceilings are left out: {error.message}", err=True)
        return ()


STDIN = "-"


@contextmanager
def _spooled(paths: "Sequence[str | Path]") -> "Iterator[list[Path]]":
    """The paths, each once, with stdin (``-``) as a file: readers look at a file's head first."""
    import shutil
    import tempfile

    files = list(dict.fromkeys(Path(path) for path in paths))
    if Path(STDIN) not in files:
        yield files
        return
    with tempfile.TemporaryDirectory(prefix="traceroof-") as folder:
        spool = Path(folder) / "stdin"
        with spool.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield [spool if file == Path(STDIN) else file for file in files]


def _looks_like_path(text: str) -> bool:
    return "/" in text or "\\" in text or bool(Path(text).suffix)


def _read(
    paths: Sequence[Path], device: str | None, strict: bool, jobs: int, **limits: int
) -> "Recording":
    from traceroof.core.recording import merge

    return merge(_read_each(paths, device, strict, jobs, **limits))


def _read_each(
    paths: Sequence[Path], device: str | None, strict: bool, jobs: int, **limits: int
) -> "list[Recording]":
    from traceroof.core.recording import on_device
    from traceroof.ingest import detect
    from traceroof.parser import Options

    with _progress() as progress:
        found = detect.read_each(paths, progress, Options(jobs=jobs, device=device, **limits))
    severe = [note for recording in found for note in recording.notes if note.severe]
    if strict and severe:
        raise TraceroofError(
            f"--strict: {severe[0]}" + (f" and {len(severe) - 1} more notes" if severe[1:] else ""),
            "without --strict the file is read and the notes are printed",
        )
    return [on_device(one, device) for one in found] if device else found


@contextmanager
def _progress() -> "Iterator[Progress]":
    """Progress on a terminal, for work that takes longer than a second; silence elsewhere."""
    from traceroof.parser import silent

    if not sys.stderr.isatty():
        yield silent
        return
    from traceroof.report.common.progress import bar

    with bar() as update:
        yield update


def _rendered(
    diagnosis: "Diagnosis",
    format: Format,
    top: int | None,
    output: str | None,
    key: str | None = None,
) -> str:
    if format is Format.json:
        from traceroof.report.common import json

        return json.render(diagnosis, top=top)
    if format is Format.csv:
        from traceroof.report.run import csv

        return csv.render(diagnosis, top=top)
    if format is Format.markdown:
        from traceroof.report.run import markdown

        return markdown.render(diagnosis, top=top or 10, key=key)
    from traceroof.report.run import terminal

    width, color = _terminal(output)
    return terminal.render(diagnosis, top=top or 10, width=width, color=color)


#: So many cards are printed where several kernels are meant.
_CARDS = 5


def _cards(
    diagnosis: "Diagnosis", wanted: str, format: Format, top: int | None, output: str | None
) -> str:
    """The operator cards of the kernels that are meant, most time first."""
    from traceroof.core.selection import choose
    from traceroof.diagnosis.diagnosis import of_kernels

    meant = choose(
        wanted,
        [kernel.kernel for kernel in diagnosis.kernels],
        one="kernel",
        many="kernels",
        numbered_by="`traceroof diagnose` numbers them; --top N shows more of them",
    )
    whole = format in (Format.json, Format.csv)
    shown = meant[: top or (len(meant) if whole else _CARDS)]
    narrowed = of_kernels(diagnosis, shown)
    if whole:
        return _rendered(narrowed, format, None, output)
    from traceroof.report.run import kernel_cards

    left_out = len(meant) - len(shown)
    if format is Format.markdown:
        return kernel_cards.render_markdown(narrowed, left_out=left_out)
    width, color = _terminal(output)
    return kernel_cards.render(narrowed, left_out=left_out, width=width, color=color)


def _explained(
    diagnosis: "Diagnosis", wanted: str, format: Format, top: int | None, output: str | None
) -> str:
    """How a rule came to what it says."""
    from traceroof.diagnosis.explain import MOST, explain
    from traceroof.report.common import json
    from traceroof.report.run import explanation, summary

    if format is Format.csv:
        raise TraceroofError(
            "an explanation has no CSV form", "--format table, markdown and json have one"
        )
    if wanted.strip().isdecimal():
        wanted = summary.entry(diagnosis, int(wanted))
    explained = explain(diagnosis, wanted, most=top or MOST)
    if format is Format.json:
        return json.render(explained)
    if format is Format.markdown:
        return explanation.render_markdown(explained)
    width, color = _terminal(output)
    return explanation.render(explained, width=width, color=color)


def _rendered_comparison(
    comparison: "Comparison",
    format: ComparisonFormat,
    top: int | None,
    key: str | None,
    output: str | None,
) -> str:
    if format is ComparisonFormat.json:
        from traceroof.report.common import json

        return json.render(comparison, top=top)
    if format is ComparisonFormat.markdown:
        from traceroof.report.compare import markdown as compare_markdown

        return compare_markdown.render(comparison, key=key, top=top or 10)
    from traceroof.report.compare import terminal as compare_terminal

    width, color = _terminal(output)
    return compare_terminal.render(comparison, top=top or 10, width=width, color=color)


def _terminal(output: str | None) -> tuple[int, bool]:
    """Width of the terminal (80 where there is none), and whether to colour."""
    import os
    import shutil

    to_stdout = output is None or output == "-"
    terminal = to_stdout and sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((80, 24)).columns if to_stdout else 80
    dumb = os.environ.get("TERM") == "dumb"
    return min(width, 140), terminal and not dumb and not os.environ.get("NO_COLOR")


def _fails(diagnosis: "Diagnosis", gate: Gate) -> bool:
    from traceroof.rule import SEVERITIES

    limit = SEVERITIES.index(gate.value)
    return any(SEVERITIES.index(finding.severity) <= limit for finding in diagnosis.fired())


def main() -> None:
    """Run the command line: the one place where errors become an exit code."""
    try:
        app(standalone_mode=True)
    except TraceroofError as error:
        typer.echo(f"traceroof: {error.message}", err=True)
        if error.hint:
            typer.echo(f"  {error.hint}", err=True)
        sys.exit(COULD_NOT)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"traceroof: {where}{error.strerror or error}", err=True)
        sys.exit(COULD_NOT)


if __name__ == "__main__":
    main()
