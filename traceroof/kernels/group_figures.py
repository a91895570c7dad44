"""What the launches of a group say together: sums, means, medians, values that all share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_table
from traceroof.core.dictionary import Coded, coded, factorized
from traceroof.core.kernel_table import COLUMNS, UNKNOWN, as_reals
from traceroof.kernels.derived import Reals
from traceroof.kernels.variants import PLACES, Variants, greatest, least, summed

# Quantities of one launch that depend on nothing but the launch: averaged per launch, not by time.
_PER_LAUNCH_UNITS = frozenset(
    {"byte", "FLOP", "inst", "sector", "request", "wavefront", "launch", "ns"}
)


def exact(codes: npt.NDArray[np.int64], values: npt.NDArray[np.int64], count: int) -> Reals:
    """Sums of whole numbers."""
    return summed(codes, values, count).astype(np.float64)


def sums(part: "Launches", codes: npt.NDArray[np.int64], count: int) -> dict[str, npt.NDArray[Any]]:
    """What adds up over the launches of each group, and their extremes where rows of summaries tell
    them."""
    timed = exact(codes, part.sums("timed"), count)
    time = exact(codes, part.sums("time_ns"), count)
    found: dict[str, npt.NDArray[Any]] = {
        "launches": exact(codes, part.sums("launches"), count),
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
class Launches:
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


def averages(
    part: Launches, codes: npt.NDArray[np.int64], count: int
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
    part: Launches, name: str, codes: npt.NDArray[np.int64], count: int
) -> Reals | None:
    """The number of a place that all launches of a group share, NaN where they differ; None where
    no launch has one."""
    low, high = least(codes, part.low(name), count), greatest(codes, part.high(name), count)
    if not (high != UNKNOWN).any():
        return None
    return np.where(low == high, _known(low), np.nan)


def modelled(
    model: Mapping[str, npt.NDArray[Any] | Coded],
    part: Launches,
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
