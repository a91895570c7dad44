"""Launches to kernel groups: what is one kernel, and what its launches say together.

A group is every launch of one kernel name with one launch shape, input shapes, element types and
category. Time adds up, time per call is the median, percentages are weighted by time: a mean over
launches would let a thousand tiny ones outvote the big one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names, kernel_table
from traceroof.core.dictionary import Coded, coded, factorized, together
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import COLUMNS, UNKNOWN, Column, Source, as_reals, column
from traceroof.hardware.devices import Device
from traceroof.kernels import (
    derived_metrics,
    launch_shapes,
    least_time,
    name_features,
    products,
    rates,
    tile_shape,
    utilisation,
    variability,
)
from traceroof.kernels.derived import REAL, TEXT, Derived, Reals, work_out
from traceroof.kernels.variants import PLACES, Variants, greatest, least, of_rows, summed

# What grouping itself, the operator's model, roles and the kernel's name say of a group.
_GIVEN: tuple[Column, ...] = tuple(
    Column(name, kind, unit, meaning, "group", basis, cast(Source, source))
    for name, kind, unit, meaning, basis, source in (
        ("category", TEXT, "", "operator category", "", "name"),
        ("join_confidence", REAL, "", "how sure the counters joined to a timeline are this kernel's, 0-1", "", "name"),
        ("join_level", TEXT, "", "how they were recognised", "", "name"),
        ("logged_clock_hz", REAL, "Hz", "core clock in the clock log while the kernel ran, else while the GPU was under load", "", "log"),
        ("logged_clock_pct", REAL, "%", "the same over the clock that the device's peaks are rated at", "boost clock", "log"),
        ("primary_class", TEXT, "", "the wall that the kernel hit", "", "derived"),
        ("by_counters", REAL, "", "1 where a counter tool ran the kernel for its own sake", "", "launch"),
        ("dram_chain_bytes", REAL, "byte", "bytes of a launch that its neighbours in a chain at DRAM speed move again", "", "counter"),
        ("dram_chain_with", TEXT, "", "a neighbour in that chain", "", "name"),
        ("launches", REAL, "launch", "launches of the group", "", "launch"),
        ("mean_over_launches", REAL, "launch", "most launches that a row of a summary stands for: its time is their mean", "", "launch"),
        ("timed_launches", REAL, "launch", "launches of the group with a known duration", "", "launch"),
        ("time_ns", REAL, "ns", "GPU time of all launches with a known duration", "", "clock"),
        ("share_pct", REAL, "%", "share of all kernel time", "kernel time", "clock"),
        ("rank_by_time", REAL, "", "1 for the group with the most time", "", "clock"),
        ("median_ns", REAL, "ns", "median time of a launch", "", "clock"),
        ("mad_ns", REAL, "ns", "median absolute deviation of a launch's time", "", "clock"),
        ("sketched", REAL, "", "1 where median and deviation are read from a sketch (0.1 %), 0 where exact", "", "clock"),
        ("model", TEXT, "", "model that counted the operator's work", "", "model"),
        ("model_shape", TEXT, "", "sizes that the model used", "", "model"),
        ("model_unit", TEXT, "", "unit that the modelled arithmetic may use: tensor or vector", "", "model"),
        ("model_flops", REAL, "FLOP", "operations of one launch by the operator's shapes", "", "model"),
        ("model_bytes", REAL, "byte", "least DRAM traffic of one launch by the operator's shapes", "", "model"),
        ("model_weight_bytes", REAL, "byte", "the part of model_bytes that is a weight of the product", "", "model"),
        ("best_shape_ns", REAL, "ns", "least median of the kernel with as many threads in blocks of another shape", "", "derived"),
        ("best_shape", TEXT, "", "the block shape of best_shape_ns", "", "derived"),
        ("role", TEXT, "", "what the launch is for beyond its category (roles.toml)", "", "name"),
        ("tile_m", REAL, "row", "rows of the product's output tile that the kernel name states", "", "name"),
        ("tile_n", REAL, "column", "columns of the product's output tile that the kernel name states", "", "name"),
        ("name_tensor_core", REAL, "", "1 where the kernel name marks tensor cores, 0 vector units", "", "name"),
        ("name_no_matrix", REAL, "", "1 where the name marks matrix-vector, depthwise or helper work", "", "name"),
        ("name_scatter", REAL, "", "1 where the name marks counting, scattering or adding up by key", "", "name"),
        ("name_flush", REAL, "", "1 where the name marks a flush of the caches, 0 a fill", "", "name"),
        ("name_accumulates", TEXT, "", "type in which the name says that products are added up", "", "name"),
        ("least_instructions", REAL, "inst", "fewest instructions of the kernel on the same bytes with another grid", "", "counter"),
        ("name_split_k", REAL, "", "1 where the name marks split-K or stream-K", "", "name"),
        ("name_warp_specialised", REAL, "", "1 where the name marks producer and consumer warps", "", "name"),
        ("name_range", REAL, "", "1 where the result is of a range of several kernels", "", "name"),
        ("name_dtype", TEXT, "", "narrowest element type that the kernel name mentions", "", "name"),
        ("name_fp64", REAL, "", "1 where the kernel name mentions FP64", "", "name"),
        ("name_alignment", REAL, "element", "operand alignment that the kernel name states", "", "name"),
        ("name_route", TEXT, "", "generic implementation that the kernel name marks", "", "name"),
        ("name_flash2", REAL, "", "1 where the name is that of FlashAttention 2", "", "name"),
        ("name_capability", REAL, "", "NVIDIA compute capability that the name says it is compiled for", "", "name"),
        ("name_operands", TEXT, "", "operands of PyTorch's element-wise kernel: contiguous or strided", "", "name"),
    )
)  # fmt: skip

#: The columns that follow from others, in the order in which they are worked out.
DERIVED: tuple[Derived, ...] = (
    *rates.TABLE,
    *utilisation.TABLE,
    *derived_metrics.TABLE,
    *least_time.TABLE,
    *products.TABLE,
)

#: What a group has beyond the columns of the kernel table.
GROUP_COLUMNS: tuple[Column, ...] = (
    *_GIVEN,
    *(row.column for row in DERIVED if row.column is not None),
)

#: Every column that a rule of scope ``kernel`` may read, by name.
VOCABULARY: Mapping[str, Column] = {
    entry.name: entry for entry in (*COLUMNS, *GROUP_COLUMNS, *variability.SCATTER_COLUMNS)
}

# What makes two launches the same kernel doing the same work.
_KEY = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "input_shapes", "input_dtypes",
    "process_name",
)  # fmt: skip
# What the compiler fixes for all launches of one kernel: where it differs, so do the kernels.
_CONSTANTS = (
    "registers_per_thread", "accumulation_registers_per_thread", "shared_memory_static_bytes",
    "shared_memory_bytes",
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
    of_row: group of each row that was grouped; -1 for copies and fills.
    """

    facts: Facts
    names: tuple[str, ...]
    of_row: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)


def group(
    launches: pa.Table | Variants,
    categories: Sequence[str],
    devices: Mapping[int, Device | None] | None = None,
    model: Mapping[str, npt.NDArray[Any] | Coded] | None = None,
    vendor: str | None = None,
) -> Groups:
    """Group launches: the rows of a kernel table, or the variants that they were put together to.

    categories: the category of every row. devices: device ordinal -> device-table row (None where
    it has none), for the peaks that the report does not give; the key -1 stands for rows without an ordinal. model: the
    modelled work of every row (``workload.model_columns``). vendor: whose GPUs they are where
    the device is not known.
    """
    variants = launches if isinstance(launches, Variants) else of_rows(launches)
    part = _Launches(variants, kernel_rows(variants.kernels))
    category = np.asarray(categories, dtype=object)[part.rows]
    codes, first = kernel_codes(part, category)
    count = len(first)
    time = _exact(codes, part.sums("time_ns"), count)
    order = np.lexsort((first, -time))
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    codes, first = place[codes], first[order]
    of_row = np.full(len(variants), -1, dtype=np.int64)
    of_row[part.rows] = codes

    columns = _averages(part, codes, count)
    columns.update(_modelled(model or {}, part, codes, count))
    columns["category"] = category[first]
    columns.update(_sums(part, codes, count))
    times = variants.durations.by(of_row, count)
    columns["median_ns"] = medians(times.thing, times.ns, times.launches, count)
    deviation = np.abs(times.ns - columns["median_ns"][times.thing])
    columns["mad_ns"] = medians(times.thing, deviation, times.launches, count)
    columns["sketched"] = times.sketched.astype(np.float64)

    full_names = tuple(str(name) for name in part.text("kernel_name").at(first))
    columns.update(name_features.columns(full_names))
    columns.update(tile_shape.columns(full_names))
    ordinal = columns.get("device", np.full(count, np.nan))
    columns = work_out(DERIVED, columns, device_of_group(ordinal, devices or {}), vendor)
    columns.update(launch_shapes.columns(full_names, columns))
    columns.update(launch_shapes.same_work(full_names, columns))
    columns.pop("model_on_tensor_cores", None)  # has told model_dtype what it knows
    of_times = variability.columns(variants, of_row, times, columns["median_ns"], columns["mad_ns"])
    if len(set((devices or {}).values())) > 1:
        # On GPUs of several kinds a kernel takes several times, each as steady as it may be.
        placed = np.bincount(codes, weights=part.low("device") != UNKNOWN, minlength=count) > 0
        apart = np.isnan(ordinal) & placed
        of_times = {name: np.where(apart, np.nan, one) for name, one in of_times.items()}
    columns.update(of_times)
    # What a counter of zero divides is no figure.
    for name, values in columns.items():
        if values.dtype.kind == "f":
            columns[name] = np.where(np.isinf(values), np.nan, values)
    return Groups(facts=Facts(columns, count), names=full_names, of_row=of_row)


def kernel_rows(kernels: pa.Table) -> npt.NDArray[np.int64]:
    """The rows of a kernel table that are kernels."""
    kind = coded(kernels["kind"])
    return np.flatnonzero(kind.spread(np.array([one == "kernel" for one in kind.texts] + [False])))


def kernels_of(variants: Variants, categories: Sequence[str]) -> npt.NDArray[np.int64]:
    """Which variants are launches of one kernel: a number of each, -1 for copies and fills."""
    part = _Launches(variants, kernel_rows(variants.kernels))
    result = np.full(len(variants), -1, dtype=np.int64)
    result[part.rows] = kernel_codes(part, np.asarray(categories, dtype=object)[part.rows])[0]
    return result


def _exact(codes: npt.NDArray[np.int64], values: npt.NDArray[np.int64], count: int) -> Reals:
    """Sums of whole numbers."""
    return summed(codes, values, count).astype(np.float64)


def _sums(
    part: "_Launches", codes: npt.NDArray[np.int64], count: int
) -> dict[str, npt.NDArray[Any]]:
    """What adds up over the launches of each group, and their extremes where rows of summaries tell
    them."""
    timed = _exact(codes, part.sums("timed"), count)
    time = _exact(codes, part.sums("time_ns"), count)
    found: dict[str, npt.NDArray[Any]] = {
        "launches": _exact(codes, part.sums("launches"), count),
        "timed_launches": timed,
        "time_ns": np.where(timed > 0, time, np.nan),
        "rank_by_time": np.arange(1, count + 1, dtype=np.float64),
    }
    total = float(np.nansum(found["time_ns"])) if count else 0.0
    found["share_pct"] = found["time_ns"] / total * 100 if total else np.full(count, np.nan)
    most = part.sums("most")
    for name, values, over in (
        ("mean_over_launches", np.where(most > 1, most, UNKNOWN), greatest),
        ("shortest_launch_ns", part.sums("shortest"), least),
        ("longest_launch_ns", part.sums("longest"), greatest),
    ):
        extreme = _known(over(codes, values, count))
        if not np.isnan(extreme).all():
            found[name] = extreme
    return found


def _known(values: npt.NDArray[np.int64]) -> Reals:
    """Whole numbers, NaN where unknown."""
    return np.where(values == UNKNOWN, np.nan, values.astype(np.float64))


@dataclass(frozen=True)
class _Launches:
    """Some variants, a column at a time: all at once they would be there twice."""

    variants: Variants
    rows: npt.NDArray[np.int64]

    @property
    def kernels(self) -> pa.Table:
        return self.variants.kernels

    def sums(self, name: str) -> npt.NDArray[np.int64]:
        """A column of ``Sums``."""
        found: npt.NDArray[np.int64] = getattr(self.variants.sums, name)[self.rows]
        return found

    def low(self, name: str) -> npt.NDArray[np.int64]:
        return self.variants.sums.low[name][self.rows]

    def high(self, name: str) -> npt.NDArray[np.int64]:
        return self.variants.sums.high[name][self.rows]

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


def kernel_codes(
    part: _Launches, category: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Group number of each row, numbered by first appearance, and each group's first row."""
    codes, first = together(_keys(part, category))
    for name in _CONSTANTS:
        if part.known(name):
            values = _filled(part.reals(name), codes, len(first))
            if (values != values[first][codes]).any():
                codes, first = together((codes, factorized(values)[0]))
    return codes, first


def _filled(values: Reals, codes: npt.NDArray[np.int64], count: int) -> Reals:
    """The values, unknown ones as the one that their group knows, -1 where it knows none or
    several."""
    known = np.flatnonzero(~np.isnan(values))
    own = np.full(count, -1.0)
    own[codes[known]] = values[known]
    own[codes[known[values[known] != own[codes[known]]]]] = -1.0
    return np.where(np.isnan(values), own[codes], values)


def _keys(part: _Launches, category: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    named = part.text("kernel_name")
    # Spellings are unified once per distinct name, then carried to the rows by number.
    spellings, _ = factorized(
        np.array([kernel_names.key(one) for one in named.texts], dtype=object)
    )
    yield named.spread(np.append(spellings, -1))
    yield factorized(category)[0]
    for name in _KEY:
        if part.known(name):
            yield (
                part.text(name).codes
                if column(name).type == kernel_table.TEXT
                else part.numbers(name)
            )


def _averages(
    part: _Launches, codes: npt.NDArray[np.int64], count: int
) -> dict[str, npt.NDArray[Any]]:
    """Per group: text as first seen, numbers that name something where they are the same on every
    launch, per-launch quantities by launch, the rest by time."""
    columns: dict[str, npt.NDArray[Any]] = {}
    launches, time = (part.sums(name).astype(np.float64) for name in ("launches", "time_ns"))
    for entry in COLUMNS:
        if entry.name in PLACES:
            same = _where_same(part, entry.name, codes, count)
            if same is not None:
                columns[entry.name] = same
        elif not part.known(entry.name) or entry.name in _NO_AVERAGE:
            continue
        elif entry.type == kernel_table.TEXT:
            columns[entry.name] = first_known(part.text(entry.name), codes, count)
        elif entry.group == "identity":
            columns[entry.name] = _same(part.reals(entry.name), codes, count)
        else:
            by_launch = entry.unit in _PER_LAUNCH_UNITS
            columns[entry.name] = _weighted_mean(
                part.reals(entry.name), codes, count, launches if by_launch else time, launches
            )
    if part.sums("timed").any():
        timed = part.sums("timed").astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = part.sums("time_ns") / timed
        columns["duration_ns"] = _weighted_mean(mean, codes, count, timed, timed)
    return columns


# Of single launches: a mean of them says nothing, or is made from sums.
_NO_AVERAGE = frozenset(
    {"start_ns", "duration_ns", "host_launch_ns", "host_launch_duration_ns", "shortest_launch_ns",
     "longest_launch_ns", "source", "launch_id", "launch_count", "correlation_id", "operator_call"}
)  # fmt: skip


def _where_same(
    part: _Launches, name: str, codes: npt.NDArray[np.int64], count: int
) -> Reals | None:
    """The number of a place that all launches of a group share, NaN where they differ; None where
    no launch has one."""
    low, high = least(codes, part.low(name), count), greatest(codes, part.high(name), count)
    if not (high != UNKNOWN).any():
        return None
    return np.where(low == high, _known(low), np.nan)


def _modelled(
    model: Mapping[str, npt.NDArray[Any] | Coded],
    part: _Launches,
    codes: npt.NDArray[np.int64],
    count: int,
) -> dict[str, npt.NDArray[Any]]:
    """Per group: the modelled work of a launch that bears some, text as first seen."""
    columns: dict[str, npt.NDArray[Any]] = {}
    bearing, launches = part.sums("bearing"), part.sums("launches")
    weight = np.where(bearing > 0, bearing, launches).astype(np.float64)
    for name, values in model.items():
        if isinstance(values, Coded):
            texts = Coded(values.codes[part.rows], values.texts)
            columns[name] = first_known(texts, codes, count)
        else:
            columns[name] = _weighted_mean(values[part.rows], codes, count, weight, weight)
    return columns


def first_known(values: Coded, codes: npt.NDArray[np.int64], count: int) -> npt.NDArray[Any]:
    """The first text that is known of each of ``count`` things."""
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


def medians(
    codes: npt.NDArray[np.int64],
    values: Reals,
    launches: Reals | npt.NDArray[np.int64],
    count: int,
) -> Reals:
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
