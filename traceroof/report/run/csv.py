"""The kernel groups of a diagnosis as CSV, safe to open in a spreadsheet."""

import csv
import io
from typing import Any

from traceroof.core.units import no_commands, one_line
from traceroof.diagnosis.diagnosis import Diagnosis

# Spreadsheets run cells that begin so as formulas; a leading apostrophe makes them text.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

_COLUMNS = (
    "kernel", "category", "class", "operator", "launches", "time_ns", "share", "median_ns",
    "grid", "block", "module", "range", "source_line",
)  # fmt: skip


def render(diagnosis: Diagnosis, *, top: int | None = None) -> str:
    """One row per kernel group, most time first, then every metric that any group has."""
    kernels = diagnosis.kernels[:top]
    metrics = list(dict.fromkeys(name for kernel in kernels for name in kernel.metrics))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow([*_COLUMNS, *metrics, "findings"])
    by_kernel: dict[int, list[str]] = {}
    for finding in diagnosis.fired():
        if finding.scope == "kernel" and finding.subject_index is not None:
            by_kernel.setdefault(finding.subject_index, []).append(finding.rule)
    for index, kernel in enumerate(kernels):
        row: list[Any] = [
            kernel.kernel,
            kernel.category,
            kernel.primary_class,
            kernel.operator,
            kernel.launches,
            kernel.time_ns,
            kernel.share,
            kernel.median_ns,
            _shape(kernel.grid),
            _shape(kernel.block),
            kernel.where.module,
            kernel.where.range,
            kernel.where.source,
            *(kernel.metrics.get(name) for name in metrics),
            " ".join(by_kernel.get(index, ())),
        ]
        writer.writerow([cell(value) for value in row])
    return no_commands(buffer.getvalue())


def cell(value: Any) -> Any:
    """A cell's value: text that a spreadsheet would run as a formula is made harmless."""
    if value is None:
        return ""
    if not isinstance(value, str):
        return value
    text = no_commands(one_line(value))
    return "'" + text if value.startswith(_FORMULA_STARTS) else text


def _shape(shape: tuple[int, int, int] | None) -> str | None:
    return None if shape is None else "x".join(map(str, shape))
