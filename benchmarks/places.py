"""How much of the time of real traces is placed: module, range, operator, line of Python.

    python -m benchmarks.places ../shared/corpus

Also a section of ``docs/accuracy.md``. Beside each trace stands what keeps the rest unknown:
replayed graphs (a file says which kernels a replay ran, not which operators they were recorded
from) and launches whose call is not in the file.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import traceroof
from traceroof.core.kernel_table import as_reals
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.kernels.places import places_of
from traceroof.kernels.variants import of_rows
from traceroof.report.common.markdown import text


@dataclass(frozen=True)
class Coverage:
    """Shares of the kernel time of one trace, 0-100: that with each place, in replayed graphs, and
    without a recorded call."""

    name: str
    kernels: int
    module: float
    range: float
    operator: float
    source: float
    graph: float
    no_call: float


def coverage(folder: Path) -> Iterator[Coverage]:
    """Every torch trace below a folder that holds GPU work."""
    for path in sorted((folder / "torch").rglob("*.json*")):
        try:
            yield _of(path.name, traceroof.read(path).recording)
        except TraceroofError:
            continue


def _of(name: str, recording: Recording) -> Coverage:
    kind = np.asarray(recording.kernels["kind"].cast("string"))
    kernels = recording.kernels.filter(kind == "kernel")
    time = np.nan_to_num(as_reals(kernels["launch_count"]) * as_reals(kernels["duration_ns"]))
    found = places_of(of_rows(kernels), np.zeros(kernels.num_rows, dtype=np.int64))
    spots = [found.spots[at] for at in found.spot]

    def share(of: list[bool]) -> float:
        return float(time[np.array(of, dtype=bool)].sum() / max(time.sum(), 1.0) * 100)

    return Coverage(
        name,
        kernels.num_rows,
        module=share([bool(one.module) for one in spots]),
        range=share([bool(one.range) for one in spots]),
        operator=share([bool(one.operator) for one in spots]),
        source=share([bool(one.source) for one in spots]),
        graph=share([one is not None for one in kernels["graph_id"].to_pylist()]),
        no_call=share([one is None for one in kernels["host_launch_ns"].to_pylist()]),
    )


def table(found: list[Coverage]) -> list[str]:
    """The shares as a table in Markdown; an empty cell is 0."""
    lines = [
        "| trace | kernels | module | range | operator | line | in graphs | no call |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in found:
        shares = (one.module, one.range, one.operator, one.source, one.graph, one.no_call)
        cells = " | ".join(f"{share:.1f} %" if share else "" for share in shares)
        lines.append(f"| {text(one.name)} | {one.kernels:,} | {cells} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table(list(coverage(Path(sys.argv[1]))))))
