"""Metrics and events of nvprof as columns of the kernel table; what no column names stays raw."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from traceroof.core.recording import RAW_METRICS, Note
from traceroof.core.toml_tables import toml_table
from traceroof.hardware.device_lookup import find
from traceroof.parsers.nsight.nvprof_tables import Table
from traceroof.parsers.nsight.nvprof_values import measured, whole

Values = dict[str, float]


@dataclass(frozen=True)
class Measured:
    """Kernels with counters, one entry each: a launch, or the mean of ``launches`` of them."""

    kernels: list[str]
    devices: list[str]
    launches: list[int]
    correlations: list[int | None]
    columns: dict[str, list[Any]]
    raw: pa.Table
    notes: list[Note]


@cache
def _book() -> Mapping[str, Mapping[str, Any]]:
    return toml_table("traceroof.parsers.nsight", "nvprof_columns.toml")


@dataclass
class _Kernel:
    """One row to be: who it is, its values by metric name, and how each was printed."""

    device: str
    name: str
    launches: int | None
    correlation: int | None
    values: Values
    printed: dict[str, tuple[str, str]]


def measured_kernels(tables: Sequence[Table]) -> Measured:
    """All kernels of the tables; metrics and events of one kernel meet in one row."""
    rows: dict[tuple[Any, ...], _Kernel] = {}
    unread: list[str] = []
    spread = 0
    for table in tables:
        for cells in table.rows:
            row = dict(zip(table.header, cells, strict=True))
            if table.kind == "launch-metrics":
                _of_launch(row, rows, unread)
            else:
                spread += _of_kernel(row, rows, unread, table.kind)
    listed = list(rows.values())
    columns = _columns(listed)
    notes = _notes(unread, spread, sum(one is not None for one in columns.get("duration_ns", ())))
    notes += _of_identity(listed)
    return Measured(
        kernels=[one.name for one in listed],
        devices=[one.device for one in listed],
        launches=[one.launches or 1 for one in listed],
        correlations=[one.correlation for one in listed],
        columns=columns,
        raw=_raw(listed),
        notes=notes,
    )


def _notes(unread: Sequence[str], spread: int, computed: int) -> list[Note]:
    notes = []
    if computed:
        text = "durations computed from a count and its rate"
        notes.append(Note(text, computed, severe=False))
    if unread:
        examples = ", ".join(dict.fromkeys(unread[:3]))
        notes.append(Note(f"values of nvprof that are not numbers ({examples})", len(unread)))
    if spread:
        text = "metrics that differ over the launches of a kernel, their mean taken"
        notes.append(Note(text, spread, severe=False))
    return notes


def _of_identity(kernels: Sequence[_Kernel]) -> list[Note]:
    """Notes on kernels that a damaged name, device or number of launches may have split off: nvprof
    replays every kernel for every metric, and counts its launches once."""
    means = [one for one in kernels if one.correlation is None]
    uncounted = sum(one.launches is None for one in means)
    known = Counter((one.device, one.name) for one in means)
    twice = sum(count - 1 for count in known.values())
    every = {metric for one in means for metric in one.printed}
    lacking = sum(len(one.printed) < len(every) for one in means)
    # With --kernels nvprof takes other metrics for each, and a file may hold several processes.
    counted = (
        ("kernels whose number of launches cannot be read: taken as 1", uncounted, True),
        ("kernels listed with several numbers of launches", twice, False),
        ("kernels without all the metrics of the others", lacking, False),
    )
    return [Note(text, count, severe) for text, count, severe in counted if count]


def _of_kernel(
    row: Mapping[str, str], rows: dict[tuple[Any, ...], _Kernel], unread: list[str], kind: str
) -> int:
    """Take one line "metric of a kernel"; 1 where its launches differ."""
    name, device = row.get("Kernel", "").strip(), row.get("Device", "").strip()
    launches = whole(row.get("Invocations", ""))
    launches = launches if launches and launches > 0 else None
    found = rows.setdefault((device, name, launches), _Kernel(device, name, launches, None, {}, {}))
    metric = row.get("Metric Name" if kind == "metrics" else "Event Name", "").strip()
    _take(found, metric, row.get("Avg", ""), unread)
    return int(row.get("Min", "") != row.get("Max", ""))


_IDENTITY = ("Device", "Context", "Stream", "Kernel", "Correlation_ID", "Correlation ID")


def _of_launch(
    row: Mapping[str, str], rows: dict[tuple[Any, ...], _Kernel], unread: list[str]
) -> None:
    """Take one line "launch with all its metrics"."""
    number = whole(row.get("Correlation_ID", row.get("Correlation ID", "")))
    name, device = row.get("Kernel", "").strip(), row.get("Device", "").strip()
    found = rows.setdefault(
        (device, name, number if number is not None else len(rows), "launch"),
        _Kernel(device, name, 1, number, {}, {}),
    )
    for metric, cell in row.items():
        if metric not in _IDENTITY and cell.strip():
            _take(found, _NAMES.get(metric, metric), cell, unread)


# A table of launches titles its columns with the metric's name or with its description.
_NAMES: Mapping[str, str] = {
    "Achieved Occupancy": "achieved_occupancy",
    "Executed IPC": "executed_ipc",
    "Global Memory Load Efficiency": "gld_efficiency",
    "Global Memory Store Efficiency": "gst_efficiency",
    "Device Memory Utilization": "dram_utilization",
    "Device Memory Read Transactions": "dram_read_transactions",
    "Device Memory Write Transactions": "dram_write_transactions",
    "Warp Execution Efficiency": "warp_execution_efficiency",
    "Branch Efficiency": "branch_efficiency",
}


def _take(kernel: _Kernel, metric: str, cell: str, unread: list[str]) -> None:
    value, unit = measured(cell)
    if value is None:
        unread.append(cell.strip())
    else:
        kernel.values[metric] = value
    kernel.printed[metric] = (cell.strip(), unit)


def _columns(kernels: Sequence[_Kernel]) -> dict[str, list[Any]]:
    each = [_of_values(one.values, _dram_peak(one.device)) for one in kernels]
    names = dict.fromkeys(name for one in each for name in one)
    columns: dict[str, list[Any]] = {name: [one.get(name) for one in each] for name in names}
    stalls = any(name.startswith("stall_") for name in names)
    if stalls:
        known = [any(name.startswith("stall_") for name in one) for one in each]
        columns["stalls_from"] = ["nvprof" if one else None for one in known]
    if any(name.startswith("pipe_") or name in _ON_PIPES for name in names):
        columns["pipe_basis"] = ["active"] * len(each)
    return columns


_ON_PIPES = ("sm_busy_pct", "issue_slots_busy_pct")


@cache
def _dram_peak(device: str) -> float | None:
    """byte/s of a device as nvprof prints it: ``GeForce GTX 1080 Ti (0)``; None unknown."""
    known = find(device.rpartition(" (")[0] or device)
    return known.dram_bandwidth_bytes_per_s if known else None


# Counts of sectors, and their rates over the time of the launch.
_RATES = ("dram_read", "dram_write", "l2_read", "l2_write")
_SECTOR_BYTES = 32


def _timed(values: Values) -> Values:
    """The time of a launch, by the count that is largest and its rate."""
    counts = {one: values.get(f"{one}_transactions", 0.0) for one in _RATES}
    rated = [one for one in _RATES if counts[one] > 0 and values.get(f"{one}_throughput", 0.0) > 0]
    if not rated:
        return {}
    most = max(rated, key=lambda one: counts[one])
    return {"duration_ns": _SECTOR_BYTES * counts[most] / values[f"{most}_throughput"] * 1e9}


def _of_values(values: Values, dram_peak: float | None) -> Values:
    """The columns of one kernel. dram_peak: byte/s of its device."""
    book = _book()
    zero = book["zero_is_unknown"]
    found: Values = {}
    for metric, (column, factor) in book["column"].items():
        value = values.get(metric)
        if value is None or column in book["sum"]:
            continue
        if not value and metric in zero and not any(values.get(one) for one in zero[metric]):
            continue
        found.setdefault(column, value * factor)
    for column, parts in book["sum"].items():
        if all(part in values for part in parts):
            found[column] = sum(values[one] * book["column"][one][1] for one in parts)
    if {"dram_read_bytes", "dram_write_bytes"} <= found.keys():
        found["dram_bytes"] = found["dram_read_bytes"] + found["dram_write_bytes"]
    found |= _timed(values)
    if dram_peak and {"dram_bytes", "duration_ns"} <= found.keys():
        # A level is a tenth of the peak, rounded up: bytes, time and peak say how much it is.
        found.pop("dram_throughput_pct", None)
    for column, parts in book["maximum"].items():
        known = [found[part] for part in parts if part in found]
        if known and (column != "memory_throughput_pct" or "dram_throughput_pct" in found):
            found[column] = max(known)
    return found


def _raw(kernels: Sequence[_Kernel]) -> pa.Table:
    """Every metric that became no column, and the printed text of levels and of odd values."""
    named = _book()["column"]
    rows = [
        (number, metric, *kernel.printed[metric], kernel.values.get(metric))
        for number, kernel in enumerate(kernels)
        for metric in kernel.printed
        if metric not in named or metric not in kernel.values
    ]
    return pa.table(
        {
            "row": [one[0] for one in rows],
            "section": [None] * len(rows),
            "metric": [one[1] for one in rows],
            "unit": [one[3] or None for one in rows],
            "value": [one[4] for one in rows],
            "text": [None if one[4] is not None else one[2] for one in rows],
        },
        schema=RAW_METRICS,
    )
