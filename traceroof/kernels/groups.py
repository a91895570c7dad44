"""Launches to kernel groups: what is one kernel.

A group is every launch of one kernel name with one launch shape, input shapes, element types and
category. Time adds up, time per call is the median, percentages are weighted by time: a mean over
launches would let a thousand tiny ones outvote the big one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_names, kernel_table
from traceroof.core.dictionary import Coded, coded, compact, factorized, together
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import UNKNOWN, column
from traceroof.core.text_search import Texts
from traceroof.hardware.devices import Device
from traceroof.kernels import (
    launch_shapes,
    name_features,
    tile_shape,
    variability,
)
from traceroof.kernels.derived import Reals, work_out
from traceroof.kernels.group_columns import DERIVED
from traceroof.kernels.group_figures import Launches, averages, exact, medians, modelled, sums
from traceroof.kernels.variants import Variants, of_rows

# What makes two launches the same kernel doing the same work.
_KEY = (
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "input_shapes", "input_dtypes",
    "process_name",
)  # fmt: skip
# What the compiler or the launch fixes: where it differs, so do the kernels.
_CONSTANTS = (
    "registers_per_thread", "accumulation_registers_per_thread", "shared_memory_static_bytes",
    "shared_memory_bytes", "shared_memory_dynamic_bytes", "cluster_size",
)  # fmt: skip


@dataclass(frozen=True)
class Groups:
    """n kernel groups, most time first.

    facts: every column of ``group_columns.VOCABULARY`` that is known for any group, one value a group.
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
    part = Launches(variants, kernel_rows(variants.kernels))
    category = np.asarray(categories, dtype=object)[part.rows]
    if variants.kernel is None:
        codes, first = kernel_codes(part, category)
    else:
        codes, first = together((variants.kernel[part.rows],))
    count = len(first)
    time = exact(codes, part.sums("time_ns"), count)
    order = np.lexsort((first, -time))
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    codes, first = place[codes], first[order]
    of_row = np.full(len(variants), -1, dtype=np.int64)
    of_row[part.rows] = codes

    columns = averages(part, codes, count)
    columns.update(modelled(model or {}, part, codes, count))
    columns["category"] = category[first]
    columns.update(sums(part, codes, count))
    times = variants.durations.by(of_row, count)
    columns["median_ns"] = medians(times.thing, times.ns, times.launches, count)
    deviation = np.abs(times.ns - columns["median_ns"][times.thing])
    columns["mad_ns"] = medians(times.thing, deviation, times.launches, count)
    columns["sketched"] = times.sketched.astype(np.float64)

    full_names = tuple(str(name) for name in part.text("kernel_name").at(first))
    texts = Texts(full_names)
    columns.update(name_features.columns(texts))
    columns.update(tile_shape.columns(texts))
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
            endless = np.isinf(values)
            values = np.where(endless, np.nan, values) if endless.any() else values
        columns[name] = compact(values)
    return Groups(facts=Facts(columns, count), names=full_names, of_row=of_row)


def kernel_rows(kernels: pa.Table) -> npt.NDArray[np.int64]:
    """The rows of a kernel table that are kernels."""
    kind = coded(kernels["kind"])
    return np.flatnonzero(kind.spread(np.array([one == "kernel" for one in kind.texts] + [False])))


def kernels_of(variants: Variants, categories: Sequence[str]) -> npt.NDArray[np.int64]:
    """Which variants are launches of one kernel: a number of each, -1 for copies and fills."""
    part = Launches(variants, kernel_rows(variants.kernels))
    result = np.full(len(variants), -1, dtype=np.int64)
    result[part.rows] = kernel_codes(part, np.asarray(categories, dtype=object)[part.rows])[0]
    return result


def kernel_codes(
    part: Launches, category: npt.NDArray[Any]
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


def _keys(part: Launches, category: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
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
