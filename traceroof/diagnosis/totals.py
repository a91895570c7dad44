"""Sums over a run, and the time that savings are taken from."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table
from traceroof.core.kernel_table import as_reals
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Totals
from traceroof.diagnosis.savings import Pool, longest, pool_of
from traceroof.kernels.groups import Groups
from traceroof.timeline import Timeline


def run_totals(kernels: pa.Table, lines: Sequence[Timeline]) -> Totals:
    """Sums over the kernels, and over the timelines of all GPUs where there are any."""
    part = kernels.select(["kind", "launch_count", "duration_ns"])
    untimed = part.filter(
        pc.and_(pc.equal(part["kind"], "kernel"), pc.is_null(part["duration_ns"]))
    )
    totals = Totals(
        launches=kernel_table.launches(kernels),
        kernel_time_ns=kernel_table.total_time_ns(kernels),
        unknown_durations=kernel_table.launches(untimed),
    )
    if not lines:
        return totals
    return replace(
        totals,
        wall_ns=max(one.span_ns for one in lines),
        span_ns=sum(one.span_ns for one in lines),
        gpu_busy_ns=sum(one.busy_ns for one in lines),
        gpu_idle_ns=sum(one.idle_ns for one in lines),
        exposed_communication_ns=sum(one.exposed_communication_ns for one in lines),
    )


def with_savings(totals: Totals, advice: Sequence[Entry]) -> Totals:
    """Add what all advice together saves; what passes once per process is no part of it."""
    counted = [one for one in advice if one.bound_ns is not None and not one.once]
    if not counted:
        return totals
    return replace(
        totals,
        time_saved_bound_ns=sum(one.bound_ns or 0 for one in counted),
        time_saved_likely_ns=sum(one.likely_ns or one.bound_ns or 0 for one in counted),
    )


def pool_of_run(kernels: pa.Table, grouped: Groups, lines: Sequence[Timeline]) -> Pool:
    """The time of the run that advice takes its savings from."""
    see = grouped.facts.only(("time_ns", "category"))
    part = None
    if len(lines) > 1:
        reference = lines[longest(lines)]
        on = _rows_of(kernels, reference) & (grouped.of_row >= 0)
        time = as_reals(kernels["launch_count"]) * np.nan_to_num(as_reals(kernels["duration_ns"]))
        counted = np.bincount(grouped.of_row[on], time[on], minlength=len(grouped))
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.clip(np.nan_to_num(counted / see.time_ns), 0.0, 1.0)
        part *= _part_of_alike(lines, reference)
    return pool_of(see.time_ns, see.category.tolist(), lines, part)


def _part_of_alike(lines: Sequence[Timeline], line: Timeline) -> float:
    """The part of a timeline, 0-1, in the kernel time of those that no column tells apart: files
    that name no rank, process or GPU, each with a clock of its own."""
    alike = [one for one in lines if _owner(one) == _owner(line)]
    total = sum(one.facts.get("kernel_time_ns", 0) for one in alike)
    return line.facts.get("kernel_time_ns", 0) / total if len(alike) > 1 and total else 1.0


def _owner(line: Timeline) -> tuple[int | None, int | None, int | None]:
    return line.rank, line.process, line.device


def _rows_of(kernels: pa.Table, line: Timeline) -> npt.NDArray[np.bool_]:
    """The rows of one timeline."""
    start = kernels["start_ns"]
    end = line.start_ns + max(line.span_ns, 1)
    on = pc.and_(pc.greater_equal(start, line.start_ns), pc.less(start, end))
    for column, value in (
        ("rank", line.rank),
        ("process_id", line.process),
        ("device", line.device),
    ):
        if value is not None:
            on = pc.and_(on, pc.equal(kernels[column], value))
    return np.asarray(pc.fill_null(on, False).to_numpy(zero_copy_only=False), dtype=bool)
