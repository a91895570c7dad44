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
    # A page may list the lines of the source and, below each, its instructions, whose figures the
    # line's row adds up: one kind of row is counted.
    sums: dict[bool, dict[str, float]] = {True: {}, False: {}}
    columns = _columns(header)
    line, address = header.position("line no", "line", "#"), header.position("address")
    counted = {True: 0, False: 0}
    next_name = ""
    for row in rows:
        if len(row) == 2 and row[0].strip() == "Kernel Name":
            next_name = row[1].strip()
            continue
        is_instruction = bool(_cell(row, address)) or not _cell(row, line)
        counted[is_instruction] += 1
        into_sums = sums[is_instruction]
        for position, metric in columns:
            value = number(row[position], DecimalSign.POINT) if position < len(row) else 0.0
            if not math.isnan(value):
                into_sums[metric] = into_sums.get(metric, 0.0) + value
    kind = bool(counted[True])
    if sums[kind]:
        launch = into.add_launch(Launch(name=name))
        for metric, total in sums[kind].items():
            into.add_metric(launch, into.slot("SourceCounters", "", metric, ""), repr(total))
    into.note(
        "rows of the source page added up per kernel (their instructions are not kept)",
        counted[kind],
        severe=False,
    )
    return next_name


def _cell(row: Sequence[str], position: int | None) -> str:
    return row[position].strip() if position is not None and position < len(row) else ""


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
