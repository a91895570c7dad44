"""The columns of the kernel table that follow from the counters and registers of dispatches."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table
from traceroof.core.recording import RAW_METRICS, Note
from traceroof.parsers.amd.counter_checks import without_contradicted_times, without_dead_counters
from traceroof.parsers.amd.counters import Derived, Pass, Reals, derive
from traceroof.parsers.amd.dispatches import Dispatches, as_reals, duration_reals
from traceroof.parsers.amd.gpus import Gpu
from traceroof.parsers.amd.times import forget_impossible, unreadable
from traceroof.parsers.amd.values import Integers

#: Where stall shares come from when all that is known is how long waves waited.
COARSE = "wait fractions (coarse)"


def complete(found: Dispatches, named: Gpu | None = None) -> tuple[pa.Table, pa.Table, list[Note]]:
    """The kernel table and the raw metrics of some dispatches, and what was noticed.

    named: the GPU as the user calls it, for what the files do not say.
    """
    count = len(found)
    columns = dict(found.columns)
    passes, impossible = forget_impossible(columns, found.passes)
    notes = [*unreadable(columns), *impossible]
    duration = duration_reals(columns, count)
    raw: list[pa.Table] = []
    for gpu, rows in _by_gpu(found, count, named):
        part = [one.take(rows) for one in passes]
        part, dead = without_dead_counters(part, gpu.arch)
        part, contradicted = without_contradicted_times(part, duration[rows])
        if contradicted.any():
            _forget(columns, "duration_ns", rows[contradicted])
            duration[rows[contradicted]] = np.nan
            text = "durations that the dispatch's own cycles contradict by over half: unknown"
            notes.append(Note(text, int(contradicted.sum())))
        facts = gpu.facts()
        derived = derive(part, gpu.arch, facts, duration[rows])
        served = _keep_cache_traffic_apart(derived, gpu, facts, duration[rows])
        notes += [*dead, *derived.notes, *served]
        _put(columns, derived, gpu, rows, count)
        _put_occupancy(columns, gpu, facts, rows, count)
        raw.append(_raw_metrics(part, derived, rows))
    table_of_kernels = kernel_table.kernel_table(columns)
    return table_of_kernels, pa.concat_tables(raw) if raw else RAW_METRICS.empty_table(), notes


def _by_gpu(found: Dispatches, count: int, named: Gpu | None) -> list[tuple[Gpu, Integers]]:
    """The GPUs and the rows that ran on each kind."""
    device = found.columns.get("device")
    fallback = found.gpus.get(None, Gpu()).completed(named)
    if device is None or not found.gpus:
        return [(fallback, np.arange(count, dtype=np.int64))]
    numbers = as_reals(device)
    groups: dict[Gpu, list[Integers]] = {}
    for number in np.unique(numbers):
        key = None if np.isnan(number) else int(number)
        gpu = replace(found.gpus.get(key, fallback).completed(named), index=None, uid=None)
        same = np.isnan(numbers) if key is None else numbers == number
        groups.setdefault(gpu, []).append(np.flatnonzero(same).astype(np.int64))
    return [(gpu, np.sort(np.concatenate(rows))) for gpu, rows in groups.items()]


# Chips with a memory-side cache (Infinity Cache) between L2 and memory.
_MEMORY_SIDE_CACHE = ("gfx103", "gfx11", "gfx12", "gfx94", "gfx95")
# A rate this far above the peak is no measurement of it.
_ABOVE_PEAK = 1.02


def _keep_cache_traffic_apart(
    derived: Derived, gpu: Gpu, facts: Mapping[str, float | None], duration: Reals
) -> list[Note]:
    """Bytes of the fabric that device memory cannot have delivered are no traffic of it.

    The counters sit between L2 and fabric, so hits of the Infinity Cache are in them: above the
    peak of the memory, how much reached it is unknown.
    """
    peak = facts["peak_dram"]
    names = [name for name in ("dram_read_bytes", "dram_write_bytes") if name in derived.columns]
    if not peak or not names or not (gpu.arch or "").startswith(_MEMORY_SIDE_CACHE):
        return []
    moved = np.nansum([derived.columns[name] for name in names], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = moved / (duration * 1e-9)
    beyond = rate > _ABOVE_PEAK * peak
    if not beyond.any():
        return []
    kept = np.where(beyond, moved, np.nan)
    derived.metrics.append(("bytes between L2 and fabric, Infinity Cache included", "byte", kept))
    for name in names:
        derived.columns[name] = np.where(beyond, np.nan, derived.columns[name])
    for place, (metric, unit, values) in enumerate(derived.metrics):
        if metric.startswith("HBM "):
            derived.metrics[place] = (metric, unit, np.where(beyond, np.nan, values))
    text = (
        f"the fabric moved up to {np.nanmax(rate) / 1e12:.3g} TB/s, above the memory's peak of "
        f"{peak / 1e12:.3g} TB/s: the Infinity Cache served it, so DRAM traffic is unknown"
    )
    return [Note(text, int(beyond.sum()), severe=False)]


def _forget(columns: dict[str, Any], name: str, rows: Integers) -> None:
    values = columns.get(name)
    if values is not None:
        known = pa.array(values) if not isinstance(values, pa.Array | pa.ChunkedArray) else values
        gone = np.zeros(len(known), dtype=bool)
        gone[rows] = True
        columns[name] = pc.if_else(pa.array(gone), pa.scalar(None, known.type), known)


def _put(columns: dict[str, Any], derived: Derived, gpu: Gpu, rows: Integers, count: int) -> None:
    """Write what the counters of some rows say into the columns of all."""
    here = dict(derived.columns)
    if "dram_read_bytes" in here and "dram_write_bytes" in here:
        here["dram_bytes"] = here["dram_read_bytes"] + here["dram_write_bytes"]
    pipes = [values for name, values in here.items() if name.startswith("pipe_")]
    if pipes:
        here["sm_busy_pct"] = _largest(pipes)
        # Half an answer is none: a GEMM leaves the VALU idle while the matrix units are full.
        arch = gpu.architecture
        has_matrix = arch is not None and "F16" in arch.flop
        if "pipe_valu_pct" in here and ("pipe_tensor_pct" in here or not has_matrix):
            both = ["pipe_valu_pct", *(["pipe_tensor_pct"] if has_matrix else [])]
            decidable = np.all([~np.isnan(here[name]) for name in both], axis=0)
            here["sm_throughput_pct"] = np.where(decidable, here["sm_busy_pct"], np.nan)
    for name, values in here.items():
        _scatter(columns, name, values, rows, count)
    if pipes:
        busy = ~np.isnan(here["sm_busy_pct"])
        _scatter_text(columns, "pipe_basis", "elapsed", rows[busy], count)
    if "wait_dependency" in here and "stalls_from" not in columns:
        known = ~np.isnan(here["wait_dependency"])
        _scatter_text(columns, "stalls_from", COARSE, rows[known], count)
    matrix = derived.tensor_dtype
    for dtype in {one for one in matrix if one}:
        _scatter_text(columns, "tensor_dtype", dtype, rows[matrix == dtype], count)
    _put_peaks(columns, gpu, matrix, rows, count)


def _largest(values: Sequence[Reals]) -> Reals:
    stacked = np.stack(values)
    known = ~np.isnan(stacked)
    highest = np.where(known, stacked, -np.inf).max(axis=0)
    return np.where(known.any(axis=0), highest, np.nan)


# The names of matrix types in this module's peaks and in the kernel table.
_MATRIX = {
    "fp64": "F64", "fp32": "F32", "fp16": "F16", "bf16": "BF16", "fp8": "F8", "fp4": "F6F4",
    "int8": "I8",
}  # fmt: skip


def _put_peaks(
    columns: dict[str, Any],
    gpu: Gpu,
    matrix: npt.NDArray[np.object_],
    rows: Integers,
    count: int,
) -> None:
    """What the file says about the device; the device table fills the gaps later."""
    measured = dict(gpu.calibrated)
    arch = gpu.architecture
    told = columns.get("warp_size")
    if arch is not None and (told is None or np.isnan(as_reals(told)[rows]).all()):
        _scatter(columns, "warp_size", np.full(len(rows), float(arch.wave)), rows, count)
    if gpu.cu:
        _scatter(columns, "sm_count", np.full(len(rows), float(gpu.cu)), rows, count)
    peaks = {
        "dram_bytes": (gpu.dram_bytes_per_s, measured.get("dram")),
        "fp64_flops": (gpu.peak_flops_per_s("fp64"), measured.get("fp64")),
        "fp32_flops": (gpu.peak_flops_per_s("fp32"), measured.get("fp32")),
    }
    for name, (nominal, rate) in peaks.items():
        for prefix, value in (("peak", nominal), ("calibrated", rate)):
            if value:
                _scatter(columns, f"{prefix}_{name}_per_s", np.full(len(rows), value), rows, count)
    for dtype, kind in _MATRIX.items():
        mine = rows[matrix == dtype]
        for prefix, value in (
            ("peak", gpu.peak_flops_per_s(kind)),
            ("calibrated", measured.get(kind)),
        ):
            if len(mine) and value:
                name = f"{prefix}_tensor_flops_per_s"
                _scatter(columns, name, np.full(len(mine), value), mine, count)
    if any(nominal for nominal, _ in peaks.values()):
        sources = " and ".join(one for one in (gpu.told_by, gpu.calibrated_by) if one)
        _scatter_text(columns, "peaks_from", sources, rows, count)


def _put_occupancy(
    columns: dict[str, Any],
    gpu: Gpu,
    facts: Mapping[str, float | None],
    rows: Integers,
    count: int,
) -> None:
    """How many workgroups fit on a compute unit, from registers, LDS and wave slots.

    Limits per compute unit: LLVM AMDGPU usage (register allocation); at most 16 workgroups of
    more than one wave (rocprofiler-compute, workgroup manager).
    """
    arch = gpu.architecture
    if arch is None or not arch.registers or not arch.max_waves or "block_x" not in columns:
        return

    def of(name: str) -> Reals:
        values = columns.get(name)
        return np.full(len(rows), np.nan) if values is None else as_reals(values)[rows]

    slots = float(facts["max_waves"] or arch.max_waves)
    simds = 4
    threads = of("block_x") * of("block_y") * of("block_z")
    with np.errstate(divide="ignore", invalid="ignore"):
        waves = np.ceil(threads / arch.wave)
        given = _stepped(of("registers_per_thread"), arch.register_step)
        extra = of("accumulation_registers_per_thread")
        if arch.unified:
            total = _stepped(of("registers_per_thread") + extra, arch.register_step)
            per_simd = np.floor(arch.registers / np.maximum(total, arch.register_step))
        else:
            most = np.fmax(given, _stepped(extra, arch.register_step))
            per_simd = np.floor(arch.registers / np.maximum(most, arch.register_step))
        per_simd = np.minimum(per_simd, slots / simds)
        lds = of("shared_memory_static_bytes")
        limits = {
            "occupancy_limit_registers": np.floor(per_simd * simds / waves),
            "occupancy_limit_warps": np.floor(slots / waves),
            "occupancy_limit_blocks": np.where(waves > 1, 16.0, np.where(waves > 0, slots, np.nan)),
        }
        if arch.lds_bytes:
            # Without LDS as many fit as there are bytes: it does not limit.
            limits["occupancy_limit_shared_memory"] = np.floor(arch.lds_bytes / np.maximum(lds, 1))
        least = np.stack(list(limits.values()))
        known = ~np.isnan(limits["occupancy_limit_registers"]) & ~np.isnan(lds)
        fitting = np.where(np.isnan(least), np.inf, least).min(axis=0)
        fitting = np.where(known & (fitting > 0), fitting, np.nan)
        blocks = of("grid_x") * of("grid_y") * of("grid_z")
        limits["theoretical_occupancy_pct"] = np.minimum(100 * fitting * waves / slots, 100)
        limits["waves_per_sm"] = blocks / (fitting * (facts["cu"] or np.nan))
    for name, values in limits.items():
        _scatter(columns, name, values, rows, count)


def _stepped(values: Reals, step: int) -> Reals:
    """Registers as they are given out: in whole steps."""
    return np.asarray(np.ceil(values / step) * step, dtype=np.float64)


def _scatter(columns: dict[str, Any], name: str, values: Reals, rows: Integers, count: int) -> None:
    known = ~np.isnan(values)
    if not known.any():
        return
    before = columns.get(name)
    whole = np.full(count, np.nan) if before is None else as_reals(before)
    whole[rows[known]] = values[known]
    columns[name] = whole


def _scatter_text(
    columns: dict[str, Any], name: str, text: str, rows: Integers, count: int
) -> None:
    if len(rows):
        whole = columns.get(name)
        if whole is None:
            whole = np.full(count, None, dtype=object)
        whole[rows] = text
        columns[name] = whole


def _raw_metrics(passes: Sequence[Pass], derived: Derived, rows: Integers) -> pa.Table:
    """Every counter and every derived figure without a column, one row per value."""
    parts: list[pa.Table] = []
    # A merged table repeats what its parts hold: only what differs from it is shown again.
    shown = {name: values for one in passes if one.merged for name, values in one.counters.items()}
    units = {"FETCH_SIZE": "KB", "WRITE_SIZE": "KB", "FetchSize": "KB", "WriteSize": "KB"}
    for one in passes:
        for name, values in one.counters.items():
            if not one.merged and name in shown:
                values = np.where(values == shown[name], np.nan, values)
            parts.append(_metric_rows(one.label, name, units.get(name, ""), values, rows))
    for name, unit, values in derived.metrics:
        parts.append(_metric_rows("derived", name, unit, values, rows))
    return pa.concat_tables(parts) if parts else RAW_METRICS.empty_table()


def _metric_rows(section: str, name: str, unit: str, values: Reals, rows: Integers) -> pa.Table:
    known = np.flatnonzero(~np.isnan(values))
    size = len(known)
    return pa.Table.from_arrays(
        [
            pa.array(rows[known], pa.int64()),
            pa.repeat(pa.scalar(section, pa.string()), size),
            pa.repeat(pa.scalar(name, pa.string()), size),
            pa.repeat(pa.scalar(unit, pa.string()), size),
            pa.array(values[known], pa.float64()),
            pa.nulls(size, pa.string()),
        ],
        schema=RAW_METRICS,
    )
