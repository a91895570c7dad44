"""The rows of one GPU, and what its process did on the host: what a timeline is computed from.

A *lane* is the activities of one rank, process and device in order of their start. Nulls of whole
numbers are ``UNKNOWN`` here, so that times stay exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.dictionary import Coded, coded, together
from traceroof.core.groups import Groups
from traceroof.core.kernel_table import UNKNOWN, as_reals, whole
from traceroof.timeline import intervals
from traceroof.timeline.hostcalls import direction_of
from traceroof.timeline.intervals import Intervals, Times
from traceroof.timeline.unmeasured import Unmeasured, unmeasured_in

Mask = npt.NDArray[np.bool_]


class Rows:
    """The columns of the kernel table that a timeline needs: rows of one launch with a known start
    and duration, by start."""

    def __init__(self, kernels: pa.Table, categories: Coded) -> None:
        start, duration = whole(kernels["start_ns"]), whole(kernels["duration_ns"])
        single = whole(kernels["launch_count"]) == 1
        at = np.flatnonzero((start != UNKNOWN) & (duration != UNKNOWN) & single)
        untimed = np.flatnonzero(((start == UNKNOWN) | (duration == UNKNOWN)) & single)
        in_order = not np.any(start[1:] < start[:-1])
        # A trace that is in order and complete needs no copy of its columns.
        self.as_it_is = len(at) == kernels.num_rows and in_order
        if not self.as_it_is:
            start = start[at]
            order = np.argsort(start, kind="stable")
            start, at = start[order], at[order]
        self.at = at
        self._kernels = kernels
        self.start = start
        self.end = start + np.maximum(self._of(duration), 0)
        self.launch = self.column("host_launch_ns")
        self.launch_duration = self.column("host_launch_duration_ns")
        self.correlation = self.column("correlation_id")
        self.stream = self.column("stream")
        self.name, self.names = self.text("kernel_name")
        self.step, self.step_names = self.text("step")
        self.category, self.categories = self._of(categories.codes), categories.texts
        self.is_communication = self._is("communication")
        self.is_memcpy = self._is("memcpy")
        self.is_memset = self._is("memset")
        kind, kinds = self.text("kind")
        self.unmeasured = self._unmeasured(untimed)
        self.is_kernel = kind == (kinds.index("kernel") if "kernel" in kinds else len(kinds))

    def _is(self, category: str) -> Mask:
        at = self.categories.index(category) if category in self.categories else -1
        found: Mask = self.category == at
        return found

    def _unmeasured(self, at: npt.NDArray[np.int64]) -> Unmeasured:
        names = ("start_ns", "host_launch_ns", "rank", "process_id", "device")
        return Unmeasured(*(whole(self._kernels[name].take(pa.array(at))) for name in names))

    def _of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self.as_it_is else values[self.at]

    def named(self, code: int) -> str:
        """The name of a code; rows without a name have -1."""
        return str(self.names[code]) if code >= 0 else "(no name)"

    def column(self, name: str) -> Times:
        """A column of whole numbers, UNKNOWN where null."""
        return self._of(whole(self._kernels[name]))

    def reals(self, name: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Some rows of a column of reals, NaN where null."""
        return as_reals(self._kernels[name])[self.at[at]]

    def text(
        self, name: str, at: npt.NDArray[np.int64] | None = None
    ) -> tuple[npt.NDArray[np.int32], list[Any]]:
        """A text column, all rows or some, as numbers and the texts they stand for."""
        column = coded(self._kernels[name])
        rows = self._of(column.codes)
        return rows if at is None else rows[at], column.texts

    def wholes(self, name: str, at: npt.NDArray[np.int64]) -> Times:
        """Some rows of a column of whole numbers, UNKNOWN where null."""
        return self.column(name)[at]


@dataclass(frozen=True)
class Lane:
    """The rows of one timeline, by start. Columns of ``Rows`` are reached as attributes."""

    rank: int | None
    process: int | None
    device: int | None
    sources: tuple[int, ...]
    rows: Rows
    at: npt.NDArray[np.int64]

    def __getattr__(self, name: str) -> Any:
        # Reached only the first time: what is found stays in the instance.
        found = getattr(self.rows, name)
        if len(self.at) < len(found):  # rows are in order, so one lane of all is no copy
            found = found[self.at]
        self.__dict__[name] = found
        return found

    @cached_property
    def launches(self) -> Times:
        """The known times of launch, sorted."""
        # Nearly in order as they are: merging what is takes a fifth of the time of sorting anew.
        return np.sort(self.launch[self.launch != UNKNOWN], kind="stable")

    def is_to_device(self, at: npt.NDArray[np.int64]) -> Mask:
        """Which of the rows at these positions copy from the host to the GPU."""
        number, kinds = self.rows.text("copy_kind", self.at[at])
        # What says which way a copy went: its kind where recorded, else its name.
        words = [*map(str, kinds), *map(str, self.rows.names)]
        word = np.where(number >= 0, number, len(kinds) + self.name[at])
        return np.array([direction_of(words[one]) == "host-to-device" for one in word], dtype=bool)

    def union(self, mask: Mask | None = None) -> Intervals:
        """Where any of the rows, or of some, is."""
        if mask is None:
            return intervals.union(self.start, self.end)
        return intervals.union(self.start[mask], self.end[mask])


#: Rank, process, device and GPU of some rows; UNKNOWN where not known.
Owner = tuple[int, int, int, int]
#: What tells a timeline from others: its ``Owner``, and its file where nobody is known, else -1.
Key = tuple[int, int, int, int, int]

_OWNER = ("rank", "process", "device", "gpu")


def owners_of(rows: Rows) -> tuple[Owner, ...]:
    """Who the rows of some files belong to, by what each file says."""
    owner, _ = _owners(rows)
    return tuple(sorted({*zip(*(owner[name].tolist() for name in _OWNER), strict=True)}))


def _owners(rows: Rows) -> tuple[dict[str, Times], npt.NDArray[np.int64]]:
    """The distinct owners within each file, a column a property, and the number of that of each
    row. What is not known of one is filled in where only one is possible."""
    names = ("source", "rank", "device", "process_id", "gpu")
    columns = {name.removesuffix("_id"): rows.column(name) for name in names}
    of_row, first = together(columns.values())
    owner = {name: values[first] for name, values in columns.items()}
    # An activity whose launch is not in the file belongs to the only process that its GPU, or else
    # its file, knows; among several it stays unknown.
    owner["process"] = _filled(owner, "process", ("source", "rank", "device"))
    owner["process"] = _filled(owner, "process", ("source", "rank"))
    # An activity of unknown GPU ran on the only one that its process uses.
    owner["device"] = _filled(owner, "device", ("source", "rank", "process"))
    return owner, of_row


def _filled(owner: Mapping[str, Times], name: str, scope: Sequence[str]) -> Times:
    """A property where it is not known: the only known one of those owners that agree in ``scope``."""
    values = owner[name]
    unknown = values == UNKNOWN
    alike = Groups(together(owner[one] for one in scope)[0])
    least = alike.reduced(np.minimum, np.where(unknown, np.iinfo(np.int64).max, values))
    most = alike.reduced(np.maximum, values)  # UNKNOWN is the smallest of all
    only = np.where(least == most, most, UNKNOWN)
    return np.where(unknown, only[alike.codes], values)


def lanes(rows: Rows) -> list[Lane]:
    """The rows by rank, process and device."""
    return [lane for _, lane in lanes_of(rows)]


def lanes_of(rows: Rows) -> list[tuple[Key, Lane]]:
    """The same, each with what it is told by; in this order."""
    owner, of_row = _owners(rows)
    _settle_gpus(owner)
    # Without rank and process, two files are two programs.
    nobody = (owner["process"] == UNKNOWN) & (owner["rank"] == UNKNOWN)
    owner["apart"] = np.where(nobody & (owner["gpu"] == UNKNOWN), owner["source"], -1)
    key_of = list(zip(*(owner[name].tolist() for name in (*_OWNER, "apart")), strict=True))
    source = rows.column("source")
    found: list[tuple[Key, Lane]] = []
    for key in sorted({*key_of}):
        rank, process, device = (None if part == UNKNOWN else part for part in key[:3])
        mine = np.array([one == key for one in key_of], dtype=bool)
        for at in _windows(rows, source, np.flatnonzero(mine[of_row])):
            sources = tuple(np.unique(source[at]).tolist())
            if rows.as_it_is and len(at) == len(rows.at):
                at = rows.at  # once
            found.append((key, Lane(rank, process, device, sources, rows, at)))
    return found


def _settle_gpus(owner: dict[str, Times]) -> None:
    """Make one owner of the processes that share a GPU: its rank and process are unknown then.

    What a process does on a device whose GPU another of its rows tells is on that GPU."""
    place = ("rank", "process", "device")
    owner["gpu"] = _filled(owner, "gpu", place)
    gpus = Groups(together((owner["gpu"],))[0])
    for name in place:
        least, most = (gpus.reduced(how, owner[name]) for how in (np.minimum, np.maximum))
        shared = (owner["gpu"] != UNKNOWN) & (least != most)[gpus.codes]
        owner[name] = np.where(shared, UNKNOWN, owner[name])


def _windows(
    rows: Rows, source: Times, at: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    """The rows of one GPU, split where files of one process are recordings of different times
    (a profiler schedule that repeats), or of two GPUs that happen to have equal numbers (two hosts):
    a process does not write its kernels into two files at once. Files without kernels (copies
    written apart) belong to the file before them."""
    sources = np.unique(source[at])
    if len(sources) == 1:
        yield at
        return
    bounds = []
    for one in sources:
        mine = at[source[at] == one]
        bounds.append(
            (int(rows.start[mine].min()), int(rows.end[mine].max()), mine,
             bool(rows.is_kernel[mine].any()))
        )  # fmt: skip
    gpus = np.unique(rows.column("gpu")[at])
    one_gpu = len(gpus) == 1 and gpus[0] != UNKNOWN
    bounds.sort(key=lambda one: one[0])
    windows: list[list[npt.NDArray[np.int64]]] = []
    has_kernels = False
    last = 0
    for start, end, mine, kernels in bounds:
        # Of one GPU, what is at the same time belongs together, whoever recorded it.
        beside = start < last if one_gpu else not (kernels and has_kernels)
        last = max(last, end) if windows and beside else end
        if windows and beside:
            windows[-1].append(mine)
            has_kernels = has_kernels or kernels
        else:
            windows.append([mine])
            has_kernels = kernels
    for window in windows:
        yield np.sort(np.concatenate(window))


@dataclass(frozen=True)
class Unions:
    """Where the GPU did what. unmeasured: where it is not known whether it did anything."""

    busy: Intervals
    compute: Intervals
    communication: Intervals
    exposed_communication: Intervals
    memcpy: Intervals
    exposed_memcpy: Intervals
    unmeasured: Intervals


def unions_of(lane: Lane) -> Unions:
    """The unions of a lane's rows by what they are."""
    communication = lane.union(lane.is_communication)
    memcpy = lane.union(lane.is_memcpy)
    compute = lane.union(~lane.is_communication & ~lane.is_memcpy)
    busy = lane.union()
    return Unions(
        busy=busy,
        compute=compute,
        communication=communication,
        exposed_communication=intervals.subtraction(communication, compute),
        memcpy=memcpy,
        exposed_memcpy=intervals.subtraction(memcpy, intervals.joined(compute, communication)),
        unmeasured=unmeasured_in(lane, busy),
    )
