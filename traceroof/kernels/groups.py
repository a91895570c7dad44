"""Launches to kernel groups: what is one kernel, and what its launches say together.

A group is every launch of one kernel name with one launch shape, input shapes, element types and
category. Time adds up, time per call is the median, percentages are weighted by time: a mean over
launches would let a thousand tiny ones outvote the big one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names
from traceroof.core.dictionary import Coded, coded, factorized, together
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import (
    COLUMNS,
    PIPES,
    TEXT,
    Column,
    as_reals,
    column,
)
from traceroof.hardware.devices import AMD, Device
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.kernels import (
    derived_metrics,
    launch_shapes,
    least_time,
    name_features,
    products,
    tile_shape,
    variability,
)

Reals = npt.NDArray[np.float64]

_TEXT, _REAL = pa.string(), pa.float64()

#: What a group has beyond the columns of the kernel table.
GROUP_COLUMNS: tuple[Column, ...] = tuple(
    Column(name, kind, unit, meaning, "group", basis)
    for name, kind, unit, meaning, basis in (
        ("category", _TEXT, "", "operator category", ""),
        ("primary_class", _TEXT, "", "the wall that the kernel hit", ""),
        ("launches", _REAL, "launch", "launches of the group", ""),
        ("timed_launches", _REAL, "launch", "launches of the group with a known duration", ""),
        ("time_ns", _REAL, "ns", "GPU time of all launches with a known duration", ""),
        ("share_pct", _REAL, "%", "share of all kernel time", "kernel time"),
        ("rank_by_time", _REAL, "", "1 for the group with the most time", ""),
        ("median_ns", _REAL, "ns", "median time of a launch", ""),
        ("mad_ns", _REAL, "ns", "median absolute deviation of a launch's time", ""),
        ("blocks", _REAL, "block", "thread blocks of the grid", ""),
        ("threads_per_block", _REAL, "thread", "threads of a block", ""),
        ("waves", _REAL, "", "blocks over those that fit at once: the report's, else by limits or SMs", ""),
        ("vendor", _TEXT, "", "whose GPU it is: nvidia, amd or hygon", ""),
        ("compute_pct", _REAL, "%", "compute use: SM throughput, else busiest pipe or FLOP rate", ""),
        ("memory_pct", _REAL, "%", "memory use: memory throughput, else the busiest level known", "peak of the busiest level"),
        ("dram_pct", _REAL, "%", "DRAM use: DRAM throughput, else bytes over time and peak", ""),
        ("dram_basis", _TEXT, "", "what dram_pct is measured against", ""),
        ("l1_pct", _REAL, "%", "first-level use: L1 throughput, else LDS or vector cache, the busier", ""),
        ("l1_basis", _TEXT, "", "what l1_pct is measured against", ""),
        ("compute_basis", _TEXT, "", "what compute_pct is measured against", ""),
        ("busiest_pct", _REAL, "%", "the larger of compute_pct and memory_pct", "peak of the busier side"),
        ("tensor_pct", _REAL, "%", "tensor-core use: their pipe, else operations over time and peak", "peak of the tensor cores"),
        ("top_pipe", _TEXT, "", "the busiest instruction pipe", ""),
        ("top_pipe_pct", _REAL, "%", "use of the busiest instruction pipe", "row"),
        ("second_pipe_pct", _REAL, "%", "use of the second busiest instruction pipe", "row"),
        ("dram_bytes_per_s", _REAL, "byte/s", "measured DRAM bytes over time", ""),
        ("dram_peak_bytes_per_s", _REAL, "byte/s", "DRAM peak: the report's, else the device's", ""),
        ("flops", _REAL, "FLOP", "measured operations of one launch, all precisions", ""),
        ("flops_per_s", _REAL, "FLOP/s", "measured operations over time", ""),
        ("flop_dtype", _TEXT, "", "precision of most of the operations", ""),
        ("flop_peak_per_s", _REAL, "FLOP/s", "peak of that precision: the report's, else the device's", ""),
        ("flop_pct", _REAL, "%", "operations over time and peak, of the precision nearest its peak", "peak FLOP rate"),
        ("roof_dtype", _TEXT, "", "row of the device's rates that the FLOP rate is held against", ""),
        ("roof_flops_per_s", _REAL, "FLOP/s", "peak that the FLOP rate is held against", ""),
        ("dram_attainable", _REAL, "", "DRAM rate measured on this device over its peak", "nominal peak"),
        ("flop_attainable", _REAL, "", "FLOP rate measured on this device over its peak, of the precision of flop_pct", "nominal peak"),
        ("intensity", _REAL, "FLOP/byte", "operations per DRAM byte, measured", ""),
        ("model", _TEXT, "", "model that counted the operator's work", ""),
        ("model_shape", _TEXT, "", "sizes that the model used", ""),
        ("model_dtype", _TEXT, "", "element type of the modelled arithmetic", ""),
        ("model_unit", _TEXT, "", "unit that the modelled arithmetic may use: tensor or vector", ""),
        ("model_flops", _REAL, "FLOP", "operations of one launch by the operator's shapes", ""),
        ("model_bytes", _REAL, "byte", "least DRAM traffic of one launch by the operator's shapes", ""),
        ("model_weight_bytes", _REAL, "byte", "the part of model_bytes that is a weight of the product", ""),
        ("model_intensity", _REAL, "FLOP/byte", "modelled operations per modelled byte", ""),
        ("model_ridge", _REAL, "FLOP/byte", "nominal peak of model_dtype over nominal bandwidth", ""),
        ("model_flop_pct", _REAL, "%", "modelled operations over time and nominal peak", "nominal peak"),
        ("model_dram_pct", _REAL, "%", "modelled bytes over time and nominal bandwidth", "nominal peak"),
        ("t_min_ns", _REAL, "ns", "least time of one launch at nominal peaks, 2 µs at least", ""),
        ("roof_pct", _REAL, "%", "least time at nominal peaks over the time taken", "nominal peak"),
        ("traffic_ratio", _REAL, "", "measured DRAM bytes over modelled bytes", ""),
        ("compute_capability", _REAL, "", "NVIDIA compute capability", ""),
        ("tf32_speedup", _REAL, "", "device peak of TF32 over FP32", ""),
        ("fp64_ratio", _REAL, "", "device peak of FP64 over FP32", ""),
        ("narrower_speedup", _REAL, "", "device peak of the next narrower tensor type over tensor_dtype's", ""),
        ("tensor_speedup", _REAL, "", "device peak of operand_dtype on tensor cores over FP32", ""),
        ("half_dtype", _TEXT, "", "16-bit type that FP32 operands could have on this device: bf16, or fp16 without it", ""),
        ("half_speedup", _REAL, "", "device peak of half_dtype over that of the units that FP32 operands use, by name", ""),
        ("operand_dtype", _TEXT, "", "narrowest operand type: the framework's, else of tensor operations, the name, most operations", ""),
        ("declared_dtype", _TEXT, "", "widest type that the framework declares for the operands, else in the name", ""),
        ("pipe_tensor_use_pct", _REAL, "%", "tensor_pct, else 0 where the name marks a kernel without tensor cores", "peak of the tensor cores"),
        ("pipe_fp32_use_pct", _REAL, "%", "pipe that runs FP32 arithmetic: FMA pipe, on AMD the VALU", "peak of the pipe"),
        ("pipe_fp64_use_pct", _REAL, "%", "FP64 pipe, on AMD FP64 operations over time and peak", "peak of the pipe"),
        ("fp64_rate_pct", _REAL, "%", "FP64 operations over time and peak", "peak FLOP rate"),
        ("issue_active_ceiling", _REAL, "inst/cycle", "issue_active, else issue slots busy, else SM throughput, which it cannot exceed, else by samples", ""),
        ("global_sectors_excess_pct", _REAL, "%", "sectors that global accesses move beyond what they need", "sectors needed"),
        ("global_sectors_wasted_pct", _REAL, "%", "moved bytes that no thread asked for: by sectors, else of loads, else of stores", "bytes moved"),
        ("load_wasted_pct", _REAL, "%", "bytes that global loads move and no thread asked for", "bytes loaded"),
        ("store_wasted_pct", _REAL, "%", "bytes of the sectors that global stores touch and no thread wrote", "bytes stored"),
        ("local_requests", _REAL, "request", "spill_requests, else local loads and stores", ""),
        ("atomic_requests_pct", _REAL, "%", "atomic and reduction requests, a sector each at least", "L2 sectors"),
        ("shared_conflict_pct", _REAL, "%", "shared-memory wavefronts caused by bank conflicts", "wavefronts"),
        ("shared_wavefronts_per_request", _REAL, "wavefront/request", "shared-memory wavefronts a request", ""),
        ("dram_peak_at_most", _REAL, "byte/s", "DRAM peak, else that of the fastest device of the compute capability", ""),
        ("kernel_dram_pct", _REAL, "%", "dram_pct, else DRAM bytes over time and dram_peak_at_most: at least that much", "peak of DRAM"),
        ("warps", _REAL, "warp", "warps of the grid", ""),
        ("loads_per_warp", _REAL, "request/warp", "global loads of a warp", ""),
        ("instructions_per_access", _REAL, "inst/request", "warp instructions per global load or store", ""),
        ("used_load_bytes", _REAL, "byte", "bytes of global loads that threads asked for", ""),
        ("used_store_bytes", _REAL, "byte", "bytes of global stores that threads wrote", ""),
        ("compulsory_bytes", _REAL, "byte", "bytes that device memory must carry once: used, and counted there", ""),
        ("block_occupancy_pct", _REAL, "%", "warps that blocks of this size alone let reside", "warp slots"),
        ("product_flops", _REAL, "FLOP", "operations of a product by what its threads load, where none were counted", ""),
        ("product_flop_pct", _REAL, "%", "product_flops over time and FP32 peak", "peak FLOP rate"),
        ("best_shape_ns", _REAL, "ns", "least median of the kernel with as many threads in blocks of another shape", ""),
        ("best_shape", _TEXT, "", "the block shape of best_shape_ns", ""),
        ("role", _TEXT, "", "what the launch is for beyond its category (roles.toml)", ""),
        ("tile_m", _REAL, "row", "rows of the product's output tile that the kernel name states", ""),
        ("tile_n", _REAL, "column", "columns of the product's output tile that the kernel name states", ""),
        ("l2_cache_bytes", _REAL, "byte", "size of the device's second-level cache", ""),
        ("last_cache_bytes", _REAL, "byte", "size at most of the device's last cache before DRAM", ""),
        ("int8_speedup", _REAL, "", "device peak of INT8 over 16 bit", ""),
        ("fp8_over_int8", _REAL, "", "device peak of FP8 over INT8", ""),
        ("name_tensor_core", _REAL, "", "1 where the kernel name marks tensor cores, 0 vector units", ""),
        ("name_no_matrix", _REAL, "", "1 where the name marks matrix-vector, depthwise or helper work", ""),
        ("name_scatter", _REAL, "", "1 where the name marks counting, scattering or adding up by key", ""),
        ("name_split_k", _REAL, "", "1 where the name marks split-K or stream-K", ""),
        ("name_warp_specialised", _REAL, "", "1 where the name marks producer and consumer warps", ""),
        ("name_dtype", _TEXT, "", "narrowest element type that the kernel name mentions", ""),
        ("name_fp64", _REAL, "", "1 where the kernel name mentions FP64", ""),
        ("name_alignment", _REAL, "element", "operand alignment that the kernel name states", ""),
        ("name_route", _TEXT, "", "generic implementation that the kernel name marks", ""),
        ("route", _TEXT, "", "generic implementation that name or operator marks, empty where none", ""),
    )
)  # fmt: skip

#: Every column that a rule of scope ``kernel`` may read, by name.
VOCABULARY: Mapping[str, Column] = {
    entry.name: entry for entry in (*COLUMNS, *GROUP_COLUMNS, *variability.SCATTER_COLUMNS)
}

# What makes two launches the same kernel doing the same work.
_KEY = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "input_shapes", "input_dtypes",
    "process_name",
)  # fmt: skip

# Quantities of one launch that depend on nothing but the launch: averaged per launch, not by time.
_PER_LAUNCH_UNITS = frozenset(
    {"byte", "FLOP", "inst", "sector", "request", "wavefront", "launch", "ns"}
)


@dataclass(frozen=True)
class Groups:
    """n kernel groups, most time first.

    facts: every column of VOCABULARY that is known for any group, one value a group.
    names: full kernel name per group.
    of_row: group of each row of the kernel table; -1 for copies and fills.
    """

    facts: Facts
    names: tuple[str, ...]
    of_row: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)


def group(
    kernels: pa.Table,
    categories: Sequence[str],
    devices: Mapping[int, Device | None] | None = None,
    model: Mapping[str, npt.NDArray[Any] | Coded] | None = None,
    vendor: str | None = None,
) -> Groups:
    """Group the kernel rows of a kernel table.

    categories: the category of every row. devices: device ordinal -> device-table row (None where
    it has none), for the peaks that the report does not give; the key -1 stands for rows without an ordinal. model: the
    modelled work of every row (``workload.model_columns``). vendor: whose GPUs they are where
    the device is not known.
    """
    kind = coded(kernels["kind"])
    rows = np.flatnonzero(kind.spread(np.array([one == "kernel" for one in kind.texts] + [False])))
    part = _Rows(kernels, rows)
    category = np.asarray(categories, dtype=object)[rows]
    codes, first = _codes(part, category)
    count = len(first)

    launches = part.reals("launch_count")
    duration = part.reals("duration_ns")
    timed = ~np.isnan(duration)
    weight = launches * np.where(timed, duration, 0.0)
    time = np.bincount(codes, weights=weight, minlength=count)
    order = np.lexsort((first, -time))
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    codes = place[codes]
    first = first[order]

    columns = _averages(part, codes, count, launches, weight)
    columns.update(_modelled(model or {}, rows, codes, count, launches))
    columns["category"] = category[first]
    columns["launches"] = np.bincount(codes, weights=launches, minlength=count)
    columns["timed_launches"] = np.bincount(codes, weights=launches * timed, minlength=count)
    has_time = np.bincount(codes, weights=timed, minlength=count) > 0
    columns["time_ns"] = np.where(has_time, time[order], np.nan)
    total = float(np.nansum(columns["time_ns"])) if count else 0.0
    columns["share_pct"] = columns["time_ns"] / total * 100 if total else np.full(count, np.nan)
    columns["rank_by_time"] = np.arange(1, count + 1, dtype=np.float64)
    columns["median_ns"] = medians(codes, duration, launches, count)
    deviation = np.abs(duration - columns["median_ns"][codes])
    columns["mad_ns"] = medians(codes, deviation, launches, count)

    full_names = tuple(str(name) for name in part.text("kernel_name").at(first))
    columns.update(name_features.columns(full_names))
    columns.update(tile_shape.columns(full_names))
    ordinal = columns.get("device", np.full(count, np.nan))
    _derive(columns, count, device_of_group(ordinal, devices or {}), vendor)
    columns.update(launch_shapes.columns(full_names, columns))
    of_row = np.full(kernels.num_rows, -1, dtype=np.int64)
    of_row[rows] = codes
    of_times = variability.columns(kernels, of_row, columns["median_ns"], columns["mad_ns"])
    if len(set((devices or {}).values())) > 1:
        # On GPUs of several kinds a kernel takes several times, each as steady as it may be.
        placed = np.bincount(codes, weights=~np.isnan(part.reals("device")), minlength=count) > 0
        apart = np.isnan(ordinal) & placed
        of_times = {name: np.where(apart, np.nan, one) for name, one in of_times.items()}
    columns.update(of_times)
    # What a counter of zero divides is no figure.
    for name, values in columns.items():
        if values.dtype.kind == "f":
            columns[name] = np.where(np.isinf(values), np.nan, values)
    return Groups(facts=Facts(columns, count), names=full_names, of_row=of_row)


@dataclass(frozen=True)
class _Rows:
    """Some rows of a kernel table, a column at a time: all at once they would be there twice."""

    kernels: pa.Table
    rows: npt.NDArray[np.int64]

    def known(self, name: str) -> bool:
        """Whether any row of the table has a value."""
        return bool(self.kernels[name].null_count < self.kernels.num_rows)

    def reals(self, name: str) -> Reals:
        return as_reals(self.kernels[name])[self.rows]

    def numbers(self, name: str) -> npt.NDArray[np.int64]:
        """A number for each distinct value, -1 where unknown."""
        return factorized(self.reals(name))[0]

    def text(self, name: str) -> Coded:
        column = coded(self.kernels[name])
        return Coded(column.codes[self.rows], column.texts)


def _codes(
    part: _Rows, category: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Group number of each row, numbered by first appearance, and each group's first row."""
    return together(_keys(part, category))


def _keys(part: _Rows, category: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    named = part.text("kernel_name")
    # Spellings are unified once per distinct name, then carried to the rows by number.
    spellings, _ = factorized(
        np.array([kernel_names.key(one) for one in named.texts], dtype=object)
    )
    yield named.spread(np.append(spellings, -1))
    yield factorized(category)[0]
    for name in _KEY:
        if part.known(name):
            yield part.text(name).codes if column(name).type == TEXT else part.numbers(name)


def _averages(
    part: _Rows,
    codes: npt.NDArray[np.int64],
    count: int,
    launches: Reals,
    weight: Reals,
) -> dict[str, npt.NDArray[Any]]:
    """Per group: text as first seen, numbers that name something where they are the same on every
    launch, per-launch quantities by launch, the rest by time."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for entry in COLUMNS:
        if not part.known(entry.name):
            continue
        if entry.type == TEXT:
            columns[entry.name] = _first_known(part.text(entry.name), codes, count)
        elif entry.group == "identity":
            columns[entry.name] = _same(part.reals(entry.name), codes, count)
        else:
            by_launch = entry.unit in _PER_LAUNCH_UNITS
            columns[entry.name] = _weighted_mean(
                part.reals(entry.name), codes, count, launches if by_launch else weight, launches
            )
    return columns


def _modelled(
    model: Mapping[str, npt.NDArray[Any] | Coded],
    rows: npt.NDArray[np.int64],
    codes: npt.NDArray[np.int64],
    count: int,
    launches: Reals,
) -> dict[str, npt.NDArray[Any]]:
    """Per group: the modelled work of a launch, text as first seen."""
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, values in model.items():
        if isinstance(values, Coded):
            texts = Coded(values.codes[rows], values.texts)
            columns[name] = _first_known(texts, codes, count)
        else:
            columns[name] = _weighted_mean(values[rows], codes, count, launches, launches)
    return columns


def _first_known(values: Coded, codes: npt.NDArray[np.int64], count: int) -> npt.NDArray[Any]:
    known = np.flatnonzero(values.codes >= 0)
    # Of several values for one index numpy keeps the last: backwards, the first.
    position = np.full(count, -1, dtype=np.int64)
    position[codes[known[::-1]]] = known[::-1]
    some = position >= 0
    result = np.full(count, None, dtype=object)
    result[some] = values.at(position[some])
    return result


def _same(values: Reals, codes: npt.NDArray[np.int64], count: int) -> Reals:
    """The one value that a group's launches share (grid, device); unknown where they differ."""
    known = ~np.isnan(values)
    values, codes = values[known], codes[known]
    result = np.full(count, np.nan)
    result[codes] = values
    result[codes[values != result[codes]]] = np.nan
    return result


def _weighted_mean(
    values: Reals,
    codes: npt.NDArray[np.int64],
    count: int,
    weight: Reals,
    fallback: Reals,
) -> Reals:
    """Mean of the known values per group; by ``fallback`` where no known value has a weight."""
    known = ~np.isnan(values)
    # Averaging the distance from one value of the group keeps equal values exactly as they are.
    origin = np.zeros(count)
    origin[codes[known]] = values[known]
    filled = np.where(known, values - origin[codes], 0.0)
    result = np.full(count, np.nan)
    for weights in (fallback, weight):
        mass = np.bincount(codes, weights=np.where(known, weights, 0.0), minlength=count)
        summed = np.bincount(codes, weights=np.where(known, weights * filled, 0.0), minlength=count)
        result = np.divide(summed, mass, out=result, where=mass > 0)
    return result + origin


def medians(codes: npt.NDArray[np.int64], values: Reals, launches: Reals, count: int) -> Reals:
    """Median over the launches of each group; a row of a summary counts once per launch."""
    result = np.full(count, np.nan)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.lexsort((values[known], codes[known]))]
    reached = np.cumsum(launches[order])
    total = np.bincount(codes[order], weights=launches[order], minlength=count)
    some = total > 0
    half = (np.cumsum(total) - total / 2)[some]
    middle = [values[order][np.searchsorted(reached, half, side)] for side in ("left", "right")]
    result[some] = (middle[0] + middle[1]) / 2
    return result


def device_of_group(ordinal: Reals, devices: Mapping[int, Device | None]) -> list[Device | None]:
    """The device of each group, from the ordinal that its launches share (NaN where they differ
    or have none). An ordinal that is not listed means the only device where only one is listed.

    devices: by ordinal, every one that the recording lists; None for one of unknown peaks.
    """
    known = [-1 if np.isnan(value) else int(value) for value in ordinal]
    only = only_one(devices)
    return [devices.get(number, only) for number in known]


def only_one(devices: Mapping[int, Device | None]) -> Device | None:
    """The device where all that are listed are the same one; else None."""
    return next(iter(devices.values())) if len(set(devices.values())) == 1 else None


@lru_cache(maxsize=1024)
def _device_facts(device: Device) -> Mapping[str, float]:
    peak = device.flops_per_s
    fp32 = peak.get("fp32")
    return {
        "warp_size": float(device.wavefront),
        "compute_capability": float(device.compute_capability or "nan"),
        "dram_peak": device.dram_bandwidth_bytes_per_s or np.nan,
        "tf32_speedup": peak["tf32"] / fp32 if fp32 and "tf32" in peak else np.nan,
        "fp64_ratio": peak["fp64"] / fp32 if fp32 and "fp64" in peak else np.nan,
        "sm_count": float(device.sm_count or "nan"),
        "l2_cache_bytes": float(device.l2_bytes or "nan"),
        "last_cache_bytes": float(device.last_cache_bytes or "nan"),
        "int8_speedup": _over(peak, ("int8",), ("bf16", "fp16")),
        "fp8_over_int8": _over(peak, ("fp8",), ("int8",)),
        **{f"peak_{dtype}": value for dtype, value in peak.items()},
    }


def _over(peak: Mapping[str, float], these: Sequence[str], those: Sequence[str]) -> float:
    """The first known peak of some element types over the first known one of others."""
    one, other = (next((peak[t] for t in types if t in peak), np.nan) for types in (these, those))
    return one / other


def _derive(
    columns: dict[str, npt.NDArray[Any]],
    count: int,
    devices: Sequence[Device | None],
    vendor: str | None,
) -> None:
    """Add what follows from the columns alone; every formula says so in GROUP_COLUMNS."""
    missing = np.full(count, np.nan)

    def get(name: str) -> Reals:
        return np.asarray(columns.get(name, missing), dtype=np.float64)

    def of_device(name: str) -> Reals:
        return np.array(
            [_device_facts(one).get(name, np.nan) if one else np.nan for one in devices],
            dtype=np.float64,
        ).reshape(count)

    with np.errstate(divide="ignore", invalid="ignore"):
        columns["blocks"] = get("grid_x") * get("grid_y") * get("grid_z")
        columns["threads_per_block"] = get("block_x") * get("block_y") * get("block_z")
        for name in _OF_DEVICE:
            columns[name] = of_device(name)
        columns["vendor"] = np.array([one.vendor if one else vendor for one in devices], object)
        # AMD's wavefronts have 32 or 64 lanes: there only the file or the device can say it.
        of_others = np.where(np.isin(columns["vendor"], AMD), np.nan, 32.0)
        columns["warp_size"] = _first_finite(get("warp_size"), of_device("warp_size"), of_others)
        columns["sm_count"] = _first_finite(get("sm_count"), of_device("sm_count"))
        columns["waves"] = _waves(columns["blocks"], columns["sm_count"], get)

        # A launch of no time has no rates.
        seconds = np.where(get("duration_ns") > 0, get("duration_ns"), np.nan) / 1e9
        read_and_written = get("dram_read_bytes") + get("dram_write_bytes")
        columns["dram_bytes"] = _first_finite(get("dram_bytes"), read_and_written)
        columns["dram_bytes_per_s"] = columns["dram_bytes"] / seconds
        columns["dram_peak_bytes_per_s"] = _first_finite(
            get("peak_dram_bytes_per_s"), of_device("dram_peak")
        )
        columns["dram_attainable"] = (
            get("calibrated_dram_bytes_per_s") / columns["dram_peak_bytes_per_s"]
        )
        _derive_flops(columns, count, seconds, get, of_device)
        columns["intensity"] = np.where(
            columns["dram_bytes"] > 0, columns["flops"] / columns["dram_bytes"], np.nan
        )
        _derive_model(columns, count, seconds, get, of_device)
        _derive_utilisation(columns, count, get)
    derived_metrics.derive(columns, count, of_device)
    least_time.derive(columns, count)
    products.derive(columns, count, of_device)


_OF_DEVICE = ("compute_capability", "tf32_speedup", "fp64_ratio", "l2_cache_bytes",
              "last_cache_bytes", "int8_speedup", "fp8_over_int8")  # fmt: skip


def _waves(blocks: Reals, sm_count: Reals, get: Any) -> Reals:
    limits = np.stack([get(f"occupancy_limit_{limit}") for limit in _BLOCK_LIMITS])
    resident = np.fmin.reduce(np.where(limits > 0, limits, np.nan), axis=0)
    # Fewer blocks than multiprocessors: at most this share of a wave, whatever the limits are.
    part = np.where(blocks < sm_count, blocks / sm_count, np.nan)
    return _first_finite(get("waves_per_sm"), blocks / (sm_count * resident), part)


_BLOCK_LIMITS = ("blocks", "registers", "shared_memory", "warps", "barriers")

_FLOP_UNITS = ("fp64", "fp32", "fp16", "tensor")

# FP32 products of matrix units have a rate of their own.
_MATRIX_ROWS = {"fp32": "fp32_tensor"}

# What a tensor kernel could be cast to, best first; a device has the first that its row names.
_NARROWER = {
    "tf32": ("bf16", "fp16"),
    "bf16": ("fp8", "int8"),
    "fp16": ("fp8", "int8"),
    "fp8": ("fp4",),
    "int8": ("fp4",),
}


def _derive_flops(
    columns: dict[str, npt.NDArray[Any]], count: int, seconds: Reals, get: Any, of_device: Any
) -> None:
    work = np.stack([get(f"flop_{unit}") for unit in _FLOP_UNITS])
    known = ~np.isnan(work)
    columns["flops"] = np.where(known.any(axis=0), np.nansum(work, axis=0), np.nan)
    columns["flops_per_s"] = columns["flops"] / seconds

    tensor_dtype = columns.get("tensor_dtype", np.full(count, None, dtype=object))
    tensor = np.array([_tensor_row(one) for one in tensor_dtype], dtype=object)
    # The device table's fp16 is the tensor rate: no peak for plain half arithmetic.
    none = np.full(count, np.nan)
    nominal = [of_device("peak_fp64"), of_device("peak_fp32"), none, none.copy()]
    columns["narrower_speedup"] = none.copy()
    for name in {value for value in tensor if value}:
        here = tensor == name
        nominal[3][here] = of_device(f"peak_{name}")[here]
        narrower = _first_finite(none, *(of_device(f"peak_{to}") for to in _NARROWER.get(name, ())))
        columns["narrower_speedup"][here] = (narrower / nominal[3])[here]
    reported = [get(f"peak_{unit}_flops_per_s") for unit in _FLOP_UNITS]
    peaks = np.stack([_first_finite(*pair) for pair in zip(reported, nominal, strict=True)])

    use = work / seconds / peaks * 100
    columns["flop_pct"] = np.fmax.reduce(use, axis=0)
    columns["fp64_rate_pct"] = use[0]
    nearest = np.argmax(np.nan_to_num(use, nan=-1.0), axis=0)
    measured = np.stack([get(f"calibrated_{unit}_flops_per_s") for unit in _FLOP_UNITS]) / peaks
    columns["flop_attainable"] = measured[nearest, np.arange(count)]
    # What flop_pct is held against: a row of the device's rates, and its figure.
    rows = np.array(["fp64", "fp32", None, None], dtype=object)[nearest]
    of_tensor = np.array([_MATRIX_ROWS.get(one, one) for one in tensor], dtype=object)
    rows[nearest == 3] = of_tensor[nearest == 3]
    rows[np.isnan(columns["flop_pct"])] = None
    columns["roof_dtype"] = rows
    columns["roof_flops_per_s"] = np.where(
        np.isnan(columns["flop_pct"]), np.nan, peaks[nearest, np.arange(count)]
    )
    columns["tensor_pct"] = _first_finite(get("pipe_tensor_pct"), use[3])
    most = np.argmax(np.where(known, work, -1.0), axis=0)
    some = columns["flops"] > 0
    names_of_units = np.array([*_FLOP_UNITS[:3], None], dtype=object)
    dtype: npt.NDArray[Any] = names_of_units[most]
    dtype[most == 3] = tensor_dtype[most == 3]
    dtype[~some] = None
    columns["flop_dtype"] = dtype
    columns["flop_peak_per_s"] = np.where(some, peaks[most, np.arange(count)], np.nan)


# A modelled rate above the peak by more than rounding shows that the bytes came from a cache, or
# the operations were fewer: then the model says nothing about the wall.
_MODEL_LIMIT_PCT = 105.0


def _derive_model(
    columns: dict[str, npt.NDArray[Any]], count: int, seconds: Reals, get: Any, of_device: Any
) -> None:
    """Hold the modelled work against the nominal peaks of the device."""
    if "model_flops" not in columns:
        return
    flops, least_bytes = get("model_flops"), get("model_bytes")
    dtype = columns["model_dtype"]
    peak = np.full(count, np.nan)
    roof = np.full(count, None, dtype=object)
    for name in {value for value in dtype if value}:
        here = dtype == name
        vector = columns["model_unit"] == "vector"
        # FP64 and FP32 have a matrix rate of their own where the units are made for them.
        matrix = _first_finite(of_device(f"peak_{name}_tensor"), of_device(f"peak_{name}"))
        peak[here & ~vector] = matrix[here & ~vector]
        own = ~np.isnan(of_device(f"peak_{name}_tensor"))
        roof[here & ~vector] = np.where(own, f"{name}_tensor", name)[here & ~vector]
        # Plain arithmetic of narrow types runs in the FP32 units at no less than their rate.
        wide = "fp64" if name == "fp64" else "fp32"
        peak[here & vector] = of_device(f"peak_{wide}")[here & vector]
        roof[here & vector] = wide
    tf32 = (dtype == "fp32") & (columns["model_unit"] == "tensor")
    tf32 &= (columns.pop("model_on_tensor_cores") == 1) & ~np.isnan(of_device("peak_tf32"))
    peak[tf32] = of_device("peak_tf32")[tf32]
    dtype[tf32] = "tf32"
    roof[tf32] = "tf32"
    uncounted = np.isnan(columns["flop_pct"])
    columns["roof_dtype"] = np.where(uncounted, roof, columns["roof_dtype"])
    columns["roof_flops_per_s"] = np.where(uncounted, peak, columns["roof_flops_per_s"])
    bandwidth = of_device("dram_peak")

    columns["model_intensity"] = flops / least_bytes
    columns["model_ridge"] = peak / bandwidth
    columns["model_flop_pct"] = flops / seconds / peak * 100
    columns["model_dram_pct"] = least_bytes / seconds / bandwidth * 100
    by_roof = np.fmax(flops / peak, least_bytes / bandwidth) * 1e9
    # Both roofs, or the bytes of work without arithmetic: one alone could be the lower one.
    complete = ~np.isnan(least_bytes / bandwidth) & (~np.isnan(flops / peak) | (flops == 0))
    columns["t_min_ns"] = np.where(complete, np.maximum(by_roof, T_FLOOR_NS), np.nan)
    columns["roof_pct"] = columns["t_min_ns"] / (seconds * 1e9) * 100
    columns["traffic_ratio"] = columns["dram_bytes"] / least_bytes


def _tensor_row(dtype: Any) -> str | None:
    """Key of the device table for the element type of tensor operations: fp8_e4m3 is fp8."""
    if not isinstance(dtype, str):
        return None
    name = dtype.split("_")[0]
    return "fp64_tensor" if name == "fp64" else name


def _derive_utilisation(columns: dict[str, npt.NDArray[Any]], count: int, get: Any) -> None:
    pipes = np.stack([get(f"pipe_{pipe}_pct") for pipe in PIPES])
    ranked = np.sort(np.where(np.isnan(pipes), -1.0, pipes), axis=0)
    columns["top_pipe_pct"] = np.where(ranked[-1] >= 0, ranked[-1], np.nan)
    columns["second_pipe_pct"] = np.where(ranked[-2] >= 0, ranked[-2], np.nan)
    names_of_pipes = list(PIPES)
    busiest = np.argmax(np.nan_to_num(pipes, nan=-1.0), axis=0).tolist()
    top: npt.NDArray[Any] = np.array([names_of_pipes[index] for index in busiest], dtype=object)
    top[np.isnan(columns["top_pipe_pct"])] = None
    columns["top_pipe"] = top

    rate = columns["dram_bytes_per_s"] / columns["dram_peak_bytes_per_s"] * 100
    model_flop, model_dram = get("model_flop_pct"), get("model_dram_pct")
    plausible = ~(np.fmax(model_flop, model_dram) > _MODEL_LIMIT_PCT) & ~np.isnan(get("t_min_ns"))
    model_flop = np.where(plausible, np.nan_to_num(model_flop), np.nan)
    model_dram = np.where(plausible, model_dram, np.nan)
    columns["dram_pct"] = _first_finite(get("dram_throughput_pct"), rate, model_dram)
    columns["dram_basis"] = _basis(
        count,
        ("elapsed", get("dram_throughput_pct")),
        ("report peak", np.where(np.isnan(get("peak_dram_bytes_per_s")), np.nan, rate)),
        ("nominal peak", rate),
        ("model, nominal peak", model_dram),
    )
    flop_rate = columns["flop_pct"]
    busiest_pipe = np.fmax(get("sm_busy_pct"), columns["top_pipe_pct"])
    columns["compute_pct"] = _first_finite(
        get("sm_throughput_pct"), busiest_pipe, flop_rate, model_flop
    )
    columns["compute_basis"] = _basis(
        count,
        ("elapsed", get("sm_throughput_pct")),
        ("pipe", busiest_pipe),
        ("peak FLOP rate", flop_rate),
        ("model, nominal peak", model_flop),
    )
    # AMD counts LDS and vector cache apart from each other, over all cycles.
    apart = np.fmax(get("vector_l1_pct"), get("shared_memory_busy_pct"))
    apart[~np.isin(columns["vendor"], AMD)] = np.nan
    columns["l1_pct"] = _first_finite(get("l1_throughput_pct"), apart)
    columns["l1_basis"] = _basis(count, ("active", get("l1_throughput_pct")), ("elapsed", apart))
    levels = np.fmax(columns["dram_pct"], get("l2_throughput_pct"))
    levels = np.where(np.isnan(levels), np.nan, np.fmax(levels, apart))
    columns["memory_pct"] = _first_finite(get("memory_throughput_pct"), levels)
    # Half an answer is none: a kernel that leaves DRAM idle may still fill its pipes.
    columns["busiest_pct"] = np.maximum(columns["compute_pct"], columns["memory_pct"])


def _basis(count: int, *choices: tuple[str, Reals]) -> npt.NDArray[Any]:
    """The name of the first choice that is known, per group."""
    result = np.full(count, None, dtype=object)
    for name, values in reversed(choices):
        result[~np.isnan(values)] = name
    return result


def _first_finite(*choices: Reals) -> Reals:
    result = np.asarray(choices[0], dtype=np.float64).copy()
    for other in choices[1:]:
        result = np.where(np.isnan(result), other, result)
    return result
