"""Launches that the files say the same of, put together: what a run of any size is judged by.

A *variant* is all launches with one name, operator, place in the program, inputs, launch shape and
resources: whatever a file says of a launch, apart from when and on which GPU it ran and how long it
took. A kernel group is several variants; a file has as many variants as its program has places that
launch something, however often they do. So the variants of a thousand ranks are few.

What a variant has of its launches adds up, in any order to the same result:

    sums       launches, those with a known time, their time, modelled work (whole numbers)
    extremes   shortest and longest launch, most launches of a row, least and greatest rank, GPU, stream
    map        duration -> launches (``durations``: exact up to 10,000 of them, then a sketch)
    beside     the first launch of each kernel on each GPU; launches and time by step and GPU

Text that differs between launches of a variant (step, process group) is that of its first launch,
and variants stand in the order of their first launches: by file, then by row. Where launches follow
one another (``patterns``), regions are found in the file and add up too. What a file says of single
launches only (counters) makes each of them a variant of its own.

``variants_of`` is the map of one file; ``merge`` adds up; ``of_rows`` takes a kernel table as it is,
each row a variant, which gives the same groups.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import kernel_table
from traceroof.core.dictionary import coded, compact, factorized, together
from traceroof.core.kernel_table import COLUMNS, TEXT, UNKNOWN, as_reals, whole
from traceroof.kernels import durations
from traceroof.kernels.durations import Durations

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Numbers that say where a launch ran: of a variant the one that all its launches share.
PLACES = ("rank", "process_id", "device", "gpu", "context", "stream", "group_size")
# What tells one launch from the next; of a variant the first launch's text, and no number.
_OF_A_LAUNCH = frozenset(
    {"source", "launch_id", "launch_count", "correlation_id", "operator_call", "start_ns",
     "duration_ns", "host_launch_ns", "host_launch_duration_ns", "shortest_launch_ns",
     "longest_launch_ns", "step", "process_group", "group_ranks", "graph_id", *PLACES}
)  # fmt: skip
#: The columns in which launches of one variant agree.
KEY = tuple(entry.name for entry in COLUMNS if entry.name not in _OF_A_LAUNCH)

#: Parts of modelled work are counted in units of 2**-36: sums of them are exact.
SHARE = 1 << 36

#: First launch of each kernel of a file on each GPU: its variant, where, when, how long.
FIRSTS = ("variant", "source", "process_id", "device", "start_ns", "duration_ns")
#: Launches and time of each variant on each GPU in each step.
BY_STEP = ("source", "rank", "process_id", "device", "step", "variant", "launches", "untimed",
           "time_ns")  # fmt: skip


@dataclass(frozen=True)
class Sums:
    """What is added up of n variants, and extremes (UNKNOWN where no launch tells).

    source, row: of the first launch. launches, timed: all, and those of known duration, which took
    time_ns. most: most launches that a row stands for. bearing: launches that do a part of their
    operator's modelled work, share: these parts, in units of 1 / SHARE. low, high: of PLACES, n each.
    """

    source: Ints
    row: Ints
    launches: Ints
    timed: Ints
    time_ns: Ints
    most: Ints
    shortest: Ints
    longest: Ints
    bearing: Ints
    share: Ints
    low: Mapping[str, Ints]
    high: Mapping[str, Ints]


@dataclass(frozen=True)
class Variants:
    """The variants of some files of a run.

    kernels: the kernel table of the first launches. firsts, by_step: FIRSTS and BY_STEP as columns
    of numbers, UNKNOWN where not known; steps: the names that ``by_step`` numbers. kernel: which are
    launches of one kernel, a number each, -1 for copies and fills; None where nobody has asked.
    """

    kernels: pa.Table
    sums: Sums
    durations: Durations
    firsts: Mapping[str, Ints]
    by_step: Mapping[str, Ints]
    steps: tuple[str, ...]
    kernel: Ints | None = None

    def __len__(self) -> int:
        return len(self.sums.row)

    @cached_property
    def part(self) -> Reals:
        """The part of its operator's modelled work that a launch of each does; NaN where none."""
        bearing = self.sums.bearing
        with np.errstate(divide="ignore", invalid="ignore"):
            found = self.sums.share / bearing / SHARE
        return np.where(bearing > 0, found, np.nan)

    @cached_property
    def launches(self) -> Reals:
        """Launches of each variant."""
        return self.sums.launches.astype(np.float64)

    @cached_property
    def time(self) -> Reals:
        """Time of each variant, ns; 0 where unknown."""
        return self.sums.time_ns.astype(np.float64)


def of_rows(kernels: pa.Table, part: Reals | None = None) -> Variants:
    """A kernel table, each row a variant. part: of its operator's modelled work that each row does,
    NaN where none."""
    numbers = np.arange(kernels.num_rows, dtype=np.int64)
    made = _made(kernels, kernels, numbers, numbers, part)
    return replace(made, firsts=_firsts(kernels, numbers, numbers))


def variants_of(
    kernels: pa.Table, part: Reals | None, kernel_of: Callable[[Variants], Ints]
) -> tuple[Variants, Ints]:
    """The variants of the rows of a kernel table, and the variant of each row.

    part: as for ``of_rows``. kernel_of: which variants are launches of one kernel.
    """
    codes, first = together(_keys(kernels))
    said = kernel_table.narrowed(kernels.select(KEY)).take(pa.array(first))
    made = _made(kernel_table.widened(said), kernels, codes, first, part)
    kernel = kernel_of(made)
    return replace(made, firsts=_firsts(kernels, kernel[codes], codes), kernel=kernel), codes


def _keys(kernels: pa.Table) -> Iterator[Ints]:
    yield np.zeros(kernels.num_rows, dtype=np.int64)
    for name in KEY:
        column = kernels[name]
        if column.null_count == kernels.num_rows:
            continue
        if column.type == TEXT:
            yield coded(column).codes.astype(np.int64)
        elif pa.types.is_integer(column.type):
            yield whole(column)
        else:
            yield factorized(as_reals(column))[0]


def _made(
    said: pa.Table, kernels: pa.Table, codes: Ints, first: Ints, part: Reals | None
) -> Variants:
    """The variants of rows, without the first launches of kernels. said: what is said of each.
    codes: variant of each row; first: first row of each."""
    count = len(first)
    launches, duration = whole(kernels["launch_count"]), whole(kernels["duration_ns"])
    is_timed = duration != UNKNOWN
    timed = np.where(is_timed, launches, 0)
    bears = np.zeros(len(codes), dtype=bool) if part is None else ~np.isnan(part)
    shares = np.zeros(len(codes), dtype=np.int64)
    if part is not None:
        shares[bears] = np.maximum(np.rint(part[bears] * SHARE), 1).astype(np.int64)
    places = {name: _extremes(codes, whole(kernels[name]), count) for name in PLACES}
    added = {
        "source": whole(kernels["source"])[first],
        "launches": summed(codes, launches, count),
        "timed": summed(codes, timed, count),
        "time_ns": summed(codes, timed * np.where(is_timed, duration, 0), count),
        "most": greatest(codes, launches, count),
        "shortest": least(codes, whole(kernels["shortest_launch_ns"]), count),
        "longest": greatest(codes, whole(kernels["longest_launch_ns"]), count),
        "bearing": summed(codes, np.where(bears, launches, 0), count),
        "share": summed(codes, shares * launches, count),
    }
    sums = Sums(
        row=first,
        low={name: low for name, (low, _) in places.items()},
        high={name: high for name, (_, high) in places.items()},
        **{name: compact(column) for name, column in added.items()},
    )
    times = durations.counted(codes[is_timed], duration[is_timed], launches[is_timed], count)
    steps = tuple(coded(kernels["step"]).texts)
    return Variants(said, sums, times, {}, _by_step(kernels, codes), steps)


def _firsts(kernels: pa.Table, kernel: Ints, codes: Ints) -> dict[str, Ints]:
    """The first launch of each kernel in each process on each GPU; FIRSTS. Rows without a start
    stand in the order in which they ran, behind those with one."""
    duration, start = whole(kernels["duration_ns"]), whole(kernels["start_ns"])
    rows = np.flatnonzero((duration != UNKNOWN) & (kernel >= 0))
    late = np.where(start[rows] == UNKNOWN, np.iinfo(np.int64).max, start[rows])
    if (late[1:] < late[:-1]).any():
        rows = rows[np.argsort(late, kind="stable")]
    del late
    lanes = {name: whole(kernels[name]) for name in ("source", "process_id", "device")}
    _, first = together(chain((kernel[rows],), (one[rows] for one in lanes.values())))
    at = rows[np.sort(first)]
    return {
        "variant": codes[at],
        **{name: one[at] for name, one in lanes.items()},
        "start_ns": start[at],
        "duration_ns": duration[at],
    }


def _by_step(kernels: pa.Table, codes: Ints) -> dict[str, Ints]:
    """BY_STEP of the rows of a kernel table. codes: variant of each."""
    columns: dict[str, npt.NDArray[Any]] = {
        name: whole(kernels[name]) for name in ("source", "rank", "process_id", "device")
    }
    # Most launches are the only one of their variant in their step: short numbers.
    columns["step"] = coded(kernels["step"]).codes
    columns["variant"] = codes.astype(np.int32)
    of_row, first = together(columns.values())
    launches, duration = whole(kernels["launch_count"]), whole(kernels["duration_ns"])
    is_timed = duration != UNKNOWN
    count = len(first)
    return {
        **{name: compact(one[first]) for name, one in columns.items()},
        "launches": summed(of_row, launches, count),
        "untimed": compact(summed(of_row, np.where(is_timed, 0, launches), count)),
        "time_ns": summed(of_row, np.where(is_timed, launches * duration, 0), count),
    }


def summed(codes: Ints, values: Ints, count: int) -> Ints:
    """Sums of whole numbers, exact."""
    result = np.zeros(count, dtype=np.int64)
    np.add.at(result, codes, values)
    return result


def least(codes: Ints, values: Ints, count: int) -> Ints:
    """The least known value of each; UNKNOWN without one."""
    known = values != UNKNOWN
    result = np.full(count, UNKNOWN, dtype=np.int64)
    result[codes[known]] = np.iinfo(np.int64).max
    np.minimum.at(result, codes[known], values[known])
    return result


def greatest(codes: Ints, values: Ints, count: int) -> Ints:
    """The greatest known value of each; UNKNOWN without one, which is less than all."""
    result = np.full(count, UNKNOWN, dtype=np.int64)
    np.maximum.at(result, codes, values)
    return result


def _extremes(codes: Ints, values: Ints, count: int) -> tuple[Ints, Ints]:
    """The least and the greatest known value of each; UNKNOWN without one."""
    if count and (values == values[0]).all():
        same = np.broadcast_to(values[:1].copy(), count)
        return same, same
    return compact(least(codes, values, count)), compact(greatest(codes, values, count))


def merge(parts: Sequence[Variants]) -> tuple[Variants, list[Ints]]:
    """The variants of different files of one run as those of all, whatever their order; and which
    of these each of theirs is."""
    if len(parts) == 1:
        (one,) = parts
        said = kernel_table.widened(one.kernels)
        return replace(one, kernels=said), [np.arange(len(one))]
    kernels, places = _alike(parts)
    of_old = np.concatenate(places)
    count = kernels.num_rows
    # The first launch of each: by file, then by row.
    where = (_all(parts, "source") << _ROW_BITS) + _all(parts, "row")
    first = least(of_old, where, count)
    order = np.argsort(first, kind="stable")
    number = np.empty(count, dtype=np.int64)
    number[order] = np.arange(count)
    places, of_old, first = [number[one] for one in places], number[of_old], first[order]
    low, high = (
        {name: over(of_old, np.concatenate([getattr(one.sums, which)[name] for one in parts]), count)
         for name in PLACES}
        for which, over in (("low", least), ("high", greatest))
    )  # fmt: skip
    added = {name: over(of_old, _all(parts, name), count) for name, over in _ADDED.items()}
    steps = sorted({name for one in parts for name in one.steps})
    made = Variants(
        kernels=kernel_table.widened(kernels.take(pa.array(order))),
        sums=Sums(
            source=first >> _ROW_BITS, row=first & (1 << _ROW_BITS) - 1, low=low, high=high, **added
        ),
        durations=durations.together([one.durations for one in parts]).by(of_old, count),
        firsts=_by_file([_moved(one.firsts, at) for one, at in zip(parts, places, strict=True)]),
        by_step=_by_file(
            [_stepped(_moved(one.by_step, at), one.steps, steps)
             for one, at in zip(parts, places, strict=True)]
        ),
        steps=tuple(steps),
    )  # fmt: skip
    return made, places


# File and row in one number; no file has 2**40 rows.
_ROW_BITS = 40


def _alike(parts: Sequence[Variants]) -> tuple[pa.Table, list[Ints]]:
    """What the variants of all parts are, in no order, and which of these each of theirs is. A table
    that several parts share (``interned``) is looked at once."""
    tables = list({id(one.kernels): one.kernels for one in parts}.values())
    kernels = kernel_table.widened(
        pa.concat_tables([kernel_table.narrowed(one) for one in tables], promote_options="default")
    )
    codes, first = together(_keys(kernels))
    of_table = np.split(codes, np.cumsum([one.num_rows for one in tables])[:-1])
    place = {id(table): at for table, at in zip(tables, of_table, strict=True)}
    return kernels.take(pa.array(first)), [place[id(one.kernels)] for one in parts]


def _all(parts: Sequence[Variants], name: str) -> Ints:
    return np.concatenate([getattr(one.sums, name) for one in parts])


_ADDED: Mapping[str, Callable[[Ints, Ints, int], Ints]] = {
    **dict.fromkeys(("launches", "timed", "time_ns", "bearing", "share"), summed),
    "most": greatest,
    "shortest": least,
    "longest": greatest,
}


def _moved(columns: Mapping[str, Ints], place: Ints) -> dict[str, Ints]:
    """Columns with a variant, which has another number now."""
    return {**columns, "variant": place[columns["variant"]]}


def _stepped(
    columns: Mapping[str, Ints], names: Sequence[str], among: Sequence[str]
) -> dict[str, Ints]:
    """Columns with a step, whose name has another number now."""
    number = {name: at for at, name in enumerate(among)}
    moved = np.array([*(number[name] for name in names), -1], dtype=np.int64)
    return {**columns, "step": moved[columns["step"]]}


def _by_file(parts: Sequence[Mapping[str, Ints]]) -> dict[str, Ints]:
    """Columns below one another by file, and in a file as they were made: whatever the order of the
    parts."""
    columns = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
    order = np.argsort(columns["source"], kind="stable")
    return {name: one[order] for name, one in columns.items()}


def interned(one: Variants, known: dict[object, list[pa.Table]]) -> Variants:
    """The same in less memory: ranks of one program launch the same variants, whose table is held
    once.

    known: the tables of those before, to which it is added.
    """
    tables = known.setdefault((len(one), tuple(one.kernels.column_names)), [])
    table = next((each for each in tables if each is one.kernels or each.equals(one.kernels)), None)
    if table is None:
        table = one.kernels
        tables.append(table)
    return replace(one, kernels=table)


def shifted(one: Variants, files: int) -> Variants:
    """The same as part of a run in which so many files come before."""
    if not files:
        return one
    return replace(
        one,
        sums=replace(one.sums, source=compact(one.sums.source + files)),
        firsts={**one.firsts, "source": compact(one.firsts["source"] + files)},
        by_step={**one.by_step, "source": compact(one.by_step["source"] + files)},
    )
