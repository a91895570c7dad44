"""What the host did while the GPU worked: its calls and named ranges, seen from one timeline.

Launches are as many as kernels, and the timeline has them from the kernels' side: here they, and
what has no kind, are only looked at where the host is asked about one stretch of time.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.dictionary import Coded, coded
from traceroof.core.kernel_table import UNKNOWN, whole
from traceroof.timeline import intervals
from traceroof.timeline.hostcalls import HOST_KINDS, OF_CATEGORY, HostKind, kinds_of
from traceroof.timeline.intervals import Intervals, Times
from traceroof.timeline.lanes import Lane, Mask

if TYPE_CHECKING:
    from traceroof.core.recording import Recording

# Records that a profiler keeps beside the host's calls but that lie on the GPU's rows.
_NOT_ON_HOST = ("cuda_sync", "xpu_sync", "gpu-annotation", "Trace")

_NUMBER = {kind: index for index, kind in enumerate(HOST_KINDS)}
# A call takes so many times as long as the others of its name where it sets something up.
ONCE = 10
_COMMON = (_NUMBER["launch"], _NUMBER["other"])


class Host:
    """Host calls and named ranges; times on the kernels' clock."""

    def __init__(self, recording: "Recording") -> None:
        self.tables = (
            _Rows(recording.host_calls, "category", is_call=True),
            _Rows(recording.spans, "kind", is_call=False),
        )

    def __len__(self) -> int:
        return sum(len(one) for one in self.tables)

    def of(self, lane: Lane, begin: int, end: int) -> "HostView":
        """What the lane's process did on the host in [begin, end)."""
        return HostView(self, lane, begin, end)


class _Rows:
    """The rows of a table of host calls or spans that say what the host did."""

    def __init__(self, table: pa.Table, what: str, is_call: bool) -> None:
        kinds = coded(table[what])
        on_host = kinds.spread(np.array([one not in _NOT_ON_HOST for one in kinds.texts] + [True]))
        self._table, self.is_call = table, is_call
        self._at = None if on_host.all() else np.flatnonzero(on_host)
        names = coded(table["name"])
        self.name = Coded(self._of(names.codes), names.texts)
        what_of_row = Coded(self._of(kinds.codes), kinds.texts)
        self.kind = _kinds(self.name, what_of_row)
        self.start, self.duration = self.column("start_ns"), self.column("duration_ns")
        # A step covers everything and says nothing.
        self.is_step = None if is_call or "step" not in kinds.texts else what_of_row.is_("step")

    def __len__(self) -> int:
        return len(self.start)

    def _of(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self._at is None else values[self._at]

    def column(self, name: str) -> Times:
        """A column of whole numbers; UNKNOWN where null. A view of the table where that serves."""
        return self._of(whole(self._table[name]))

    def of(self, lane: Lane, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of some rows that are of the lane's process."""
        own = _among(self.column("source")[at], lane.sources)
        if lane.process is not None:
            own &= _among(self.column("process_id")[at], (lane.process, UNKNOWN))
        return at[own]


def _kinds(names: Coded, categories: Coded) -> npt.NDArray[np.int8]:
    """Index into HOST_KINDS per call; each distinct (name, category) is looked at once."""
    plain = [_NUMBER[kind] for kind in kinds_of(names.texts)] + [_NUMBER["other"]]
    result: npt.NDArray[np.int8] = names.spread(np.array(plain, dtype=np.int8))
    for category, kind in OF_CATEGORY.items():
        if category in categories.texts:
            result[categories.is_(category) & (result == _NUMBER["other"])] = _NUMBER[kind]
    return result


def _among(values: npt.NDArray[Any], wanted: Sequence[int]) -> Mask:
    """Where a column is one of a few numbers."""
    found = np.zeros(len(values), dtype=bool)
    for one in wanted:
        found |= values == one
    return found


@dataclass(frozen=True)
class SlowCalls:
    """n calls of the host. kind: one of HOST_KINDS. once: the first call of its name, ten times as
    long as the others."""

    start: Times
    end: Times
    kind: npt.NDArray[np.object_]
    once: Mask


class HostView:
    """What one process did on the host in [begin, end): calls and ranges by position.

    start, end, kind, is_call: of those that have a kind, launches left out.
    """

    def __init__(self, host: Host, lane: Lane, begin: int, end: int) -> None:
        self.host, self._lane, self._begin, self._end = host, lane, begin, end
        parts = []
        for rows in host.tables:
            at = rows.of(lane, np.flatnonzero(~_among(rows.kind, _COMMON)))
            start, duration = rows.start[at], rows.duration[at]
            stop = start + np.maximum(duration, 0)
            mine = (start != UNKNOWN) & (duration != UNKNOWN) & (start < end) & (stop > begin)
            is_call = np.full(int(mine.sum()), rows.is_call)
            parts.append((start[mine], stop[mine], rows.kind[at][mine], is_call))
        self.start, self.end, self.kind, self.is_call = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )

    @cached_property
    def _own(self) -> list[slice | npt.NDArray[np.int64]]:
        """Per table the rows of the process; a slice where it is all of them."""
        found: list[slice | npt.NDArray[np.int64]] = []
        for rows in self.host.tables:
            at = rows.of(self._lane, np.arange(len(rows)))
            found.append(slice(None) if len(at) == len(rows) else at)
        return found

    def of_kind(self, *wanted: HostKind) -> npt.NDArray[np.int64]:
        """Positions of the calls and ranges of these kinds."""
        found: npt.NDArray[np.int64] = np.flatnonzero(
            _among(self.kind, [_NUMBER[kind] for kind in wanted])
        )
        return found

    def union(self, *wanted: HostKind) -> Intervals:
        """Where any call or range of these kinds is."""
        at = self.of_kind(*wanted)
        return intervals.union(self.start[at], self.end[at])

    def time_in(self, at: npt.NDArray[np.int64]) -> int:
        """How long the calls at these positions last, as far as they lie within the view. ns."""
        inside = np.minimum(self.end[at], self._end) - np.maximum(self.start[at], self._begin)
        return int(np.maximum(inside, 0).sum())

    def slow_calls(self, least: int, named: re.Pattern[str]) -> "SlowCalls":
        """The calls of ``least`` ns or more whose name matches, by start."""
        rows, mine = self.host.tables[0], self._own[0]
        duration, start = rows.duration[mine], rows.start[mine]
        at = np.flatnonzero((duration >= least) & (start < self._end) & (start >= self._begin))
        code = rows.name.codes[mine]
        wanted = np.array([bool(named.fullmatch(str(text))) for text in rows.name.texts] + [False])
        at = at[wanted[code[at]]]
        once = np.zeros(len(at), dtype=bool)
        for one in np.unique(code[at]):
            same = np.flatnonzero((code == one) & (start != UNKNOWN) & (duration != UNKNOWN))
            first = same[np.argmin(start[same])]
            others = duration[same[same != first]]
            if not len(others) or duration[first] >= ONCE * np.median(others):
                once |= at == first
        order = np.argsort(start[at], kind="stable")
        at = at[order]
        kind = np.array(HOST_KINDS, dtype=object)[rows.kind[mine][at]]
        return SlowCalls(start[at], start[at] + duration[at], kind, once[order])

    def calls(self, *wanted: HostKind) -> npt.NDArray[np.int64]:
        """Positions of the calls of these kinds, ranges left out."""
        at = self.of_kind(*wanted)
        found: npt.NDArray[np.int64] = at[self.is_call[at]]
        return found

    def count(self, named: re.Pattern[str]) -> int:
        """How many calls and ranges have a name that matches."""
        total = 0
        for rows in self.host.tables:
            meant = np.array(
                [bool(named.fullmatch(str(text))) for text in rows.name.texts] + [False]
            )
            if meant.any():
                at = rows.of(self._lane, np.flatnonzero(rows.name.spread(meant)))
                total += len(at[_within(rows, at, self._begin, self._end)])
        return total

    def during(self, start: int, end: int) -> str | None:
        """What the host did in [start, end): the calls of one name, or the innermost call, that fill
        half of it or more; else the range around it, in which nothing was recorded that long; None where neither is known.
        A step says nothing."""
        if end <= start:
            return None
        for rows, mine in zip(self.host.tables, self._own, strict=True):
            begins, lasts = rows.start[mine], rows.duration[mine]
            near = begins < end
            near &= begins + np.maximum(lasts, 0) > start
            if rows.is_step is not None:
                near &= ~rows.is_step[mine]
            found = np.flatnonzero(near)
            at = found if isinstance(mine, slice) else mine[found]
            at = at[_within(rows, at, self._begin, self._end)]
            length = np.maximum(rows.duration[at], 0)
            stop = rows.start[at] + length
            inside = np.minimum(stop, end) - np.maximum(rows.start[at], start)
            if rows.is_call and (many := _many(rows.name, at, inside, (end - start) / 2)):
                return many
            filling = np.flatnonzero(2 * inside >= end - start)
            if len(filling):
                chosen = filling[np.argmin(length[filling])]
                name = str(rows.name.at(at[[chosen]])[0]).strip()
                return name if rows.is_call else f"nothing recorded within {name}"
        return None


def _many(name: Coded, at: npt.NDArray[np.int64], inside: Times, least: float) -> str | None:
    """Several calls of one name that only together fill ``least`` ns, the shortest such ones:
    ``17 × cudaFree``. inside: how much of the time each call takes."""
    code = name.codes[at]
    total, longest = np.zeros(len(name.texts)), np.zeros(len(name.texts))
    known = code >= 0
    np.add.at(total, code[known], inside[known])
    np.maximum.at(longest, code[known], inside[known])
    found = np.flatnonzero((total >= least) & (longest < least))
    if not len(found):
        return None
    counts = np.bincount(code[known], minlength=len(total))
    best = int(found[np.argmin(longest[found])])
    return f"{counts[best]} × {str(name.texts[best]).strip()}"


def _within(rows: _Rows, at: npt.NDArray[np.int64], begin: int, end: int) -> Mask:
    """Which of some rows have a known time that lies in [begin, end)."""
    start, duration = rows.start[at], rows.duration[at]
    known = (start != UNKNOWN) & (duration != UNKNOWN)
    return np.asarray(known & (start < end) & (start + np.maximum(duration, 0) > begin))
