"""Small recordings made in code, for tests that need one."""

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import (
    Note,
    Recording,
    TimeBasis,
    source_of,
)


def recording(
    columns: dict[str, Any],
    *,
    time_basis: TimeBasis = "counter-tool",
    notes: tuple[Note, ...] = (),
    **more: Any,
) -> Recording:
    """A recording of one source, ``made.csv``, from kernel-table columns."""
    kernels = kernel_table(columns)
    return Recording(
        format="made",
        time_basis=time_basis,
        kernels=kernels,
        sources=(source_of("made.csv", "made", kernels, notes),),
        **more,
    )


def two_kernels() -> Recording:
    """A copy at the DRAM wall (3 launches, 90 µs) and a kernel that waits (1 launch, 10 µs)."""
    return recording(
        {
            "kernel_name": ["copy<float>(float *)", "copy<float>(float *)",
                            "copy<float>(float *)", "wait|<b>`x`@me(int)"],
            "duration_ns": [30_000, 30_000, 30_000, 10_000],
            "sm_throughput_pct": [10.0, 10.0, 10.0, 20.0],
            "memory_throughput_pct": [90.0, 90.0, 90.0, 25.0],
            "dram_throughput_pct": [90.0, 90.0, 90.0, 25.0],
            "grid_x": [1024, 1024, 1024, 4], "grid_y": [1, 1, 1, 1], "grid_z": [1, 1, 1, 1],
            "block_x": [256, 256, 256, 128], "block_y": [1, 1, 1, 1], "block_z": [1, 1, 1, 1],
        },
        notes=(Note("lines that are no row, skipped", 2),),
    )  # fmt: skip


_HEADER = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit",
    "Metric Value",
)  # fmt: skip


def selection(
    path: Path,
    metrics: Iterable[tuple[str, str, str]],
    *,
    name: str = "mine(float*)",
    block: int = 256,
    grid: int = 1024,
    compute_capability: str = "8.0",
) -> Path:
    """What ``ncu --csv --metrics`` prints of one launch. metrics: name, unit, value of each."""
    with path.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, quoting=csv.QUOTE_ALL)
        rows.writerow(_HEADER)
        launch = ("0", "1", "app", "127.0.0.1", name, "1", "7", f"({block}, 1, 1)",
                  f"({grid}, 1, 1)", "0", compute_capability, "Command line profiler metrics")  # fmt: skip
        rows.writerows((*launch, *metric) for metric in metrics)
    return path


def cut(source: Path, target: Path, kernel: str, metrics: Iterable[str]) -> Path:
    """A profile of some of the metrics (expressions) of one kernel: what a selection would hold."""
    lines = source.read_text("utf-8").splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    header, *rows = csv.reader(lines[first:])
    name, metric = header.index("Kernel Name"), header.index("Metric Name")
    wanted = list(metrics)
    kept = [
        row
        for row in rows
        if kernel in row[name] and any(re.fullmatch(one, row[metric]) for one in wanted)
    ]
    with target.open("w", encoding="utf-8", newline="") as out:
        out.writelines(f"{line}\n" for line in lines[:first])
        csv.writer(out, quoting=csv.QUOTE_ALL).writerows([header, *kept])
    return target
