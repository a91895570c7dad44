"""The source page of Nsight Compute as CSV: samples per instruction, added up per kernel.

It carries no durations; what the kernel table gains are the stall shares of each kernel. The
layout is known from other readers of it, not from a real file: one line with the kernel's name,
then a table with a row per instruction or source line.
"""

import csv
import math
from collections.abc import Iterator, Sequence

from traceroof.parsers.nsight.launches import Launch, Launches
from traceroof.parsers.nsight.numbers import DecimalSign, number
from traceroof.parsers.nsight.tables import Header

_PREFIX = "stall_"
# Columns that add up over instructions, and the metric that is their sum.
_SUMS = {
    "# samples": "smsp__pcsamp_sample_count",
    "instructions executed": "smsp__inst_executed.sum",
    "thread instructions executed": "thread_inst_executed",
    "predicated-on thread instructions executed": "thread_inst_executed_true",
}


def kernel_line(line: str) -> str | None:
    """The name in a line ``"Kernel Name","name"`` that stands before a table; None otherwise."""
    if not line.startswith(('"Kernel Name"', "Kernel Name")):
        return None
    try:
        cells = next(csv.reader([line]), [])
    except csv.Error:
        return None
    return cells[1].strip() if len(cells) == 2 and cells[0].strip() == "Kernel Name" else None


def read_source_table(
    header: Header, rows: Iterator[Sequence[str]], name: str, into: Launches
) -> str:
    """Add one kernel from one source table; returns the name of the next kernel, if it follows."""
    sums: dict[str, float] = {}
    columns = _columns(header)
    instructions = 0
    next_name = ""
    for row in rows:
        if len(row) == 2 and row[0].strip() == "Kernel Name":
            next_name = row[1].strip()
            continue
        instructions += 1
        for position, metric in columns:
            value = number(row[position], DecimalSign.POINT) if position < len(row) else 0.0
            if not math.isnan(value):
                sums[metric] = sums.get(metric, 0.0) + value
    if sums:
        launch = into.add_launch(Launch(name=name))
        for metric, total in sums.items():
            into.add_metric(launch, into.slot("SourceCounters", "", metric, ""), repr(total))
    into.note(
        "rows of the source page added up per kernel (their instructions are not kept)",
        instructions,
        severe=False,
    )
    return next_name


def _columns(header: Header) -> list[tuple[int, str]]:
    """Position and metric of the columns that are added up."""
    found = []
    for title, position in header.at.items():
        if title in _SUMS:
            found.append((position, _SUMS[title]))
        elif title.startswith(_PREFIX):
            # "stall_barrier (Not Issued)" counts a part of "stall_barrier".
            reason, part, _ = title.removeprefix(_PREFIX).partition(" (")
            ending = "_not_issued" if part else ""
            found.append((position, f"smsp__pcsamp_warps_issue_stalled_{reason}{ending}"))
    return found
