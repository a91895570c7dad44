"""The rows of one GPU, and what its process did on the host: what a timeline is computed from.

A *lane* is the activities of one rank, process and device in order of their start. Nulls of whole
numbers are ``UNKNOWN`` here, so that times stay exact.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.timeline import intervals
from traceroof.timeline.hostcalls import HOST_KINDS, HostKind, kind_of
from traceroof.timeline.intervals import Intervals, Times

if TYPE_CHECKING:
    import pandas as pd

    from traceroof.recording import Recording

Mask = npt.NDArray[np.bool_]

UNKNOWN = np.iinfo(np.int64).min


def whole(values: Any) -> Times:
    """A column of whole numbers; UNKNOWN where null."""
    return np.asarray(pc.fill_null(values, UNKNOWN), dtype=np.int64)


def codes(values: Any) -> tuple[npt.NDArray[np.int32], list[Any]]:
    """A text column as numbers (-1 for null) and the texts they stand for."""
    encoded = values.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1), dtype=np.int32), encoded.dictionary.to_pylist()


class Rows:
    """The columns of the kernel table that a timeline needs: rows of one launch with a known start
    and duration, by start."""

    def __init__(self, kernels: pa.Table, categories: Sequence[str]) -> None:
        start, duration = whole(kernels["start_ns"]), whole(kernels["duration_ns"])
        single = whole(kernels["launch_count"]) == 1
        at = np.flatnonzero((start != UNKNOWN) & (duration != UNKNOWN) & single)
        start = start[at]
        if np.any(start[1:] < start[:-1]):
            order = np.argsort(start, kind="stable")
            start, at = start[order], at[order]
        self.at = at
        self._kernels = kernels
        self.start = start
        self.end = start + np.maximum(duration[at], 0)
        self.launch = self.column("host_launch_ns")
        self.launch_duration = self.column("host_launch_duration_ns")
        self.correlation = self.column("correlation_id")
        self.stream = self.column("stream")
        self.name, self.names = self.text("kernel_name")
        self.step, self.step_names = self.text("step")
        category, categories_ = _category_codes(categories)
        category = category[at]
        self.is_communication = category == categories_.get("communication", -1)
        self.is_memcpy = category == categories_.get("memcpy", -1)
        self.is_kernel = np.asarray(pc.equal(kernels["kind"], "kernel").fill_null(False))[at]

    def column(self, name: str) -> Times:
        """A column of whole numbers, UNKNOWN where null."""
        return whole(self._kernels[name])[self.at]

    def reals(self, name: str, at: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Some rows of a column of reals, NaN where null."""
        part = self._kernels[name].take(pa.array(self.at[at]))
        return np.asarray(part.to_numpy(), dtype=np.float64)

    def text(
        self, name: str, at: npt.NDArray[np.int64] | None = None
    ) -> tuple[npt.NDArray[np.int32], list[Any]]:
        """A text column, all rows or some, as numbers and the texts they stand for."""
        column = self._kernels[name]
        if at is not None:
            return codes(column.take(pa.array(self.at[at])))
        numbers, texts = codes(column)
        return numbers[self.at], texts

    def wholes(self, name: str, at: npt.NDArray[np.int64]) -> Times:
        """Some rows of a column of whole numbers, UNKNOWN where null."""
        return whole(self._kernels[name].take(pa.array(self.at[at])))


def _category_codes(categories: Sequence[str]) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    import pandas as pd

    numbers, texts = pd.factorize(np.asarray(categories, dtype=object))
    return numbers, {str(text): number for number, text in enumerate(texts)}


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

    def union(self, mask: Mask | None = None) -> Intervals:
        """Where any of the rows, or of some, is."""
        if mask is None:
            return intervals.union(self.start, self.end)
        return intervals.union(self.start[mask], self.end[mask])


def lanes(rows: Rows) -> list[Lane]:
    """The rows by rank, process and device."""
    import pandas as pd

    owner = pd.DataFrame(
        {
            name: rows.column(column)
            for name, column in (
                ("source", "source"),
                ("rank", "rank"),
                ("device", "device"),
                ("process", "process_id"),
            )
        }
    )
    _settle_processes(owner)
    # Without rank and process, two files are two programs.
    nobody = (owner["process"] == UNKNOWN) & (owner["rank"] == UNKNOWN)
    owner["apart"] = np.where(nobody, owner["source"], -1)
    groups: dict[Any, Any] = owner.groupby(["rank", "process", "device", "apart"]).indices
    source = owner["source"].to_numpy()
    found = []
    for key in sorted(groups):
        rank, process, device = (None if part == UNKNOWN else int(part) for part in key[:3])
        for at in _windows(rows, source, np.sort(groups[key])):
            sources = tuple(int(one) for one in np.unique(source[at]))
            found.append(Lane(rank, process, device, sources, rows, at))
    return found


def _settle_processes(owner: "pd.DataFrame") -> None:
    """Fill in processes. An activity whose launch is not in the file belongs to the only process
    that its GPU, or else its file, knows; among several it stays unknown."""
    for scope in (["source", "rank", "device"], ["source", "rank"]):
        unknown = owner["process"] == UNKNOWN
        if not unknown.any() or unknown.all():
            break
        several = owner[~unknown].groupby(scope)["process"].agg(["min", "max"])
        only = several[several["min"] == several["max"]]["min"].rename("only")
        joined = owner.join(only, on=scope)["only"]
        owner["process"] = owner["process"].where(~unknown | joined.isna(), joined)
        owner["process"] = owner["process"].astype(np.int64)


def _windows(
    rows: Rows, source: Times, at: npt.NDArray[np.int64]
) -> Iterator[npt.NDArray[np.int64]]:
    """The rows of one GPU, split where files of one process are recordings of different times
    (a profiler schedule that repeats). Files that overlap, and files without kernels (copies
    written apart), belong together."""
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
    bounds.sort(key=lambda one: one[0])
    windows: list[list[npt.NDArray[np.int64]]] = []
    reach, has_kernels = 0, False
    for start, end, mine, kernels in bounds:
        if windows and (start < reach or not kernels or not has_kernels):
            windows[-1].append(mine)
            reach, has_kernels = max(reach, end), has_kernels or kernels
        else:
            windows.append([mine])
            reach, has_kernels = end, kernels
    for window in windows:
        yield np.sort(np.concatenate(window))


def known(times: Times) -> Times:
    """The known ones of some times, sorted."""
    found: Times = np.sort(times[times != UNKNOWN])
    return found


# Records that a profiler keeps beside the host's calls but that lie on the GPU's rows.
_NOT_ON_HOST = ("cuda_sync", "xpu_sync", "gpu-annotation", "Trace")


class Host:
    """Host calls and named ranges, by kind; times on the kernels' clock."""

    def __init__(self, recording: "Recording") -> None:
        calls, spans = (
            table.filter(pc.invert(pc.is_in(table[what], pa.array(_NOT_ON_HOST))))
            for table, what in ((recording.host_calls, "category"), (recording.spans, "kind"))
        )
        parts = []
        for table, what in ((calls, "category"), (spans, "kind")):
            names, texts = codes(table["name"])
            categories, kinds = codes(table[what])
            parts.append((table, names, texts, categories, kinds))
        self.source = np.concatenate([whole(table["source"]) for table, *_ in parts])
        self.process = np.concatenate([whole(table["process_id"]) for table, *_ in parts])
        self.start = np.concatenate([whole(table["start_ns"]) for table, *_ in parts])
        duration = np.concatenate([whole(table["duration_ns"]) for table, *_ in parts])
        self.end = self.start + np.maximum(duration, 0)
        self.kind = np.concatenate([_host_kinds(*part[1:]) for part in parts])
        self.is_call = np.concatenate(
            [np.full(table.num_rows, table is calls) for table, *_ in parts]
        )
        shift = len(parts[0][2])
        self.name = np.concatenate(
            [parts[0][1], np.where(parts[1][1] >= 0, parts[1][1] + shift, -1)]
        )
        self.names = [*parts[0][2], *parts[1][2]]
        step = parts[1][4].index("step") if "step" in parts[1][4] else UNKNOWN
        self.is_step = np.concatenate((np.zeros(calls.num_rows, dtype=bool), parts[1][3] == step))
        self.known = (self.start != UNKNOWN) & (duration != UNKNOWN)

    def of(self, lane: Lane, begin: int, end: int) -> "HostView":
        """What the lane's process did on the host in [begin, end)."""
        mine = self.known & _among(self.source, lane.sources)
        if lane.process is not None:
            mine &= (self.process == lane.process) | (self.process == UNKNOWN)
        mine &= (self.start < end) & (self.end > begin)
        return HostView(self, np.flatnonzero(mine))


def _host_kinds(
    names: npt.NDArray[np.int32],
    texts: list[Any],
    categories: npt.NDArray[np.int32],
    kinds: list[Any],
) -> npt.NDArray[np.int8]:
    """Index into HOST_KINDS per call; each distinct (name, category) is looked at once."""
    number = {kind: index for index, kind in enumerate(HOST_KINDS)}
    plain = np.array([number[kind_of(text)] for text in texts] + [number["other"]], dtype=np.int8)
    result: npt.NDArray[np.int8] = plain[names]
    if "overhead" in kinds:
        own = (categories == kinds.index("overhead")) & (result == number["other"])
        result[own] = number["profiler"]
    return result


def _among(values: npt.NDArray[Any], wanted: Sequence[int]) -> Mask:
    """Where a column is one of a few numbers."""
    found = np.zeros(len(values), dtype=bool)
    for one in wanted:
        found |= values == one
    return found


@dataclass(frozen=True)
class HostView:
    """A part of the host's calls and ranges, by position."""

    host: Host
    at: npt.NDArray[np.int64]

    def of_kind(self, *wanted: HostKind) -> npt.NDArray[np.int64]:
        """Positions of the calls and ranges of these kinds."""
        numbers = [HOST_KINDS.index(kind) for kind in wanted]
        found: npt.NDArray[np.int64] = self.at[_among(self.host.kind[self.at], numbers)]
        return found

    def union(self, *wanted: HostKind) -> Intervals:
        """Where any call or range of these kinds is."""
        at = self.of_kind(*wanted)
        return intervals.union(self.host.start[at], self.host.end[at])

    def calls(self, *wanted: HostKind) -> npt.NDArray[np.int64]:
        """Positions of the calls of these kinds, ranges left out."""
        at = self.of_kind(*wanted)
        found: npt.NDArray[np.int64] = at[self.host.is_call[at]]
        return found

    def count(self, name: str) -> int:
        """How many calls and ranges have this name."""
        names = self.host.names
        numbers = [number for number, text in enumerate(names) if text == name]
        return int(_among(self.host.name[self.at], numbers).sum())

    def during(self, start: int, end: int) -> str | None:
        """The call or range that best names what the host did in [start, end): the innermost one
        that fills half of it, else the one that fills most. A step says nothing."""
        host = self.host
        at = self.at[~host.is_step[self.at]]
        if not len(at) or end <= start:
            return None
        inside = np.minimum(host.end[at], end) - np.maximum(host.start[at], start)
        if inside.max() <= 0:
            return None
        filling = np.flatnonzero(2 * inside >= end - start)
        if len(filling):
            best = filling[np.argmin((host.end - host.start)[at[filling]])]
        else:
            best = int(np.argmax(inside))
        code = int(host.name[at[best]])
        return str(host.names[code]) if code >= 0 else None


@dataclass(frozen=True)
class Unions:
    """Where the GPU did what."""

    busy: Intervals
    compute: Intervals
    communication: Intervals
    exposed_communication: Intervals
    memcpy: Intervals
    exposed_memcpy: Intervals


def unions_of(lane: Lane) -> Unions:
    communication = lane.union(lane.is_communication)
    memcpy = lane.union(lane.is_memcpy)
    compute = lane.union(~lane.is_communication & ~lane.is_memcpy)
    return Unions(
        busy=lane.union(),
        compute=compute,
        communication=communication,
        exposed_communication=intervals.subtraction(communication, compute),
        memcpy=memcpy,
        exposed_memcpy=intervals.subtraction(memcpy, intervals.joined(compute, communication)),
    )
