"""What the store holds, for reading."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding

from traceroof.core import kernel_table
from traceroof.core.recording import Run
from traceroof.core.units import count, quantity
from traceroof.report.common.console import grid, terminal_width, to_text

if TYPE_CHECKING:
    from traceroof.store.rows import RunInfo
    from traceroof.store.summaries import Origin


def runs_table(runs: "Sequence[RunInfo]") -> str:
    """Runs, a line each, newest first."""
    if not runs:
        return "The store is empty: `traceroof ingest PATH` adds a run.\n"
    header = ("run", "when (UTC)", "launches", "time", "format", "name")
    rows = [
        (
            run.id,
            run.created[:16].replace("T", " "),
            f"{run.launches:,}",
            quantity(run.kernel_time_ns, "ns"),
            run.format,
            run.name,
        )
        for run in runs
    ]
    return to_text(
        lambda console: console.print(grid(header, rows, right=("launches", "time"))),
        width=terminal_width(),
    )


def baselines_table(baselines: "Mapping[str, RunInfo]") -> str:
    """Baselines, a line each, by name."""
    if not baselines:
        return "No baselines: `traceroof baseline set NAME RUN` makes one.\n"
    rows = [
        (name, run.id, run.created[:16].replace("T", " "), run.format, run.name)
        for name, run in baselines.items()
    ]
    return to_text(
        lambda console: console.print(
            grid(("baseline", "run", "when (UTC)", "format", "name"), rows)
        ),
        width=terminal_width(),
    )


def run_card(run: Run, origin: "Origin | None" = None) -> str:
    """One run: its files with their notes, the code that it measured, its devices, and which columns
    are known."""
    recording = run.recording

    def draw(console: Console) -> None:
        console.print(f"run {run.id} {run.name}")
        console.print(f"  {recording.format}, {recording.time_basis} times, {run.created or ''}")
        launches = count(
            kernel_table.launches(recording.kernels), "kernel launch", "kernel launches"
        )
        time = quantity(kernel_table.known_time_ns(recording.kernels), "ns")
        console.print(f"  {launches}, {'time unknown' if time == 'unknown' else time}")
        if origin is not None and (origin.commit or origin.job):
            console.print(Padding(_code(origin), (0, 0, 0, 2)))
        for device in recording.devices:
            capability = device.compute_capability
            unnamed = f"not named, compute capability {capability}" if capability else "not named"
            console.print(f"  GPU: {device.name or unnamed}")
        for source in recording.sources:
            console.print(
                f"  {source.path}: {source.format}, {count(source.launches, 'launch', 'launches')}"
            )
            for note in source.notes:
                console.print(Padding(str(note), (0, 0, 0, 4)))
        known = ", ".join(kernel_table.known_columns(recording.kernels))
        console.print(Padding(f"known columns: {known}", (0, 0, 0, 2)))

    return to_text(draw, width=min(terminal_width(), 100))


def _code(origin: "Origin") -> str:
    """'commit 1a2b3c… on main, with uncommitted changes; https://ci/1'."""
    parts = []
    if origin.commit:
        branch = f" on {origin.branch}" if origin.branch else ""
        dirty = ", with uncommitted changes" if origin.dirty else ""
        parts.append(f"commit {origin.commit}{branch}{dirty}")
    return "; ".join([*parts, *([origin.job] if origin.job else [])])
