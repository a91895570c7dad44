"""Tracks as Chrome trace events (JSON): processes with threads of slices, and counters.

The format is the Trace Event Format of Google: ``X`` a slice, ``C`` a counter, ``M`` a name, times
in microseconds. A viewer takes two slices of one thread that overlap for a call within a call, or
drops one of them: slices that overlap go to threads of their own.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: What the file says it is, at its very beginning.
SCHEMA = "traceroof/perfetto/1"

# So many events are written at a time.
_PIECE = 20_000


@dataclass(frozen=True)
class Label:
    """What slices of one kind are called. category: what a viewer may filter by. color: one of the
    names of chrome://tracing; others choose their own."""

    name: str
    category: str
    args: Mapping[str, Any] = field(default_factory=dict)
    color: str = ""

    def text(self) -> str:
        """The fields of an event that do not differ from slice to slice."""
        fields: dict[str, Any] = {"name": self.name, "cat": self.category}
        if self.color:
            fields["cname"] = self.color
        if self.args:
            fields["args"] = self.args
        return _dumped(fields)[1:-1]


@dataclass(frozen=True)
class Track:
    """The slices of a thread: n starts and durations in ns, and the number of each one's label.

    nested: a slice within another is a call of its own (host calls); else slices that overlap ran
    side by side, and are shown so. tiles: slices touch by their nature: each is written 1 ns short
    of the next, since a viewer that rounds would nest them.
    """

    name: str
    start: Times
    duration: Times
    label: Times
    labels: Sequence[Label]
    nested: bool = False
    tiles: bool = False

    def lines(self) -> list[Times]:
        """The slices by the thread that shows them: indices, by start."""
        if self.tiles:
            return [np.argsort(self.start, kind="stable")]
        return (_nested if self.nested else _apart)(self.start, self.duration)


@dataclass(frozen=True)
class Counter:
    """Values over time: n times in ns; each value holds until the next."""

    name: str
    unit: str
    time: Times
    value: Reals


@dataclass(frozen=True)
class Process:
    """What stands together under one heading."""

    name: str
    tracks: Sequence[Track] = ()
    counters: Sequence[Counter] = ()


def pieces(processes: Sequence[Process], about: Mapping[str, Any]) -> Iterator[bytes]:
    """The file, piece by piece. Times are written from the first of all, whose place is in the
    file's head: microseconds since the epoch are more than a viewer's double holds."""
    base = min((int(times.min()) for times in _times(processes) if len(times)), default=0)
    head = {"schema": SCHEMA, **about, "base_ns": base}
    yield _dumped({"traceroof": head, "displayTimeUnit": "ns"})[:-1].encode()
    yield b',"traceEvents":[\n'
    first = True
    for lines in _batches(_events(processes, base)):
        yield (("" if first else ",\n") + ",\n".join(lines)).encode("utf-8", "replace")
        first = False
    yield b"\n]}\n"


def _dumped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # What a terminal or a CI runner would obey is written in the escapes of JSON.
    text = text if text.isprintable() else json.dumps(value, separators=(",", ":"))
    return text.replace("##", "#\\u0023")


def _times(processes: Sequence[Process]) -> Iterator[Times]:
    for one in processes:
        yield from (track.start for track in one.tracks)
        yield from (counter.time for counter in one.counters)


def _batches(lines: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == _PIECE:
            yield batch
            batch = []
    if batch:
        yield batch


def _events(processes: Sequence[Process], base: int) -> Iterator[str]:
    # Numbers of threads are unique, and none is that of a process: a viewer takes such a thread for
    # the process's main one.
    thread = len(processes) + 1
    for pid, process in enumerate(processes, 1):
        yield _named("process_name", pid, pid, name=process.name)
        yield _named("process_sort_index", pid, pid, sort_index=pid)
        for track in process.tracks:
            for number, at in enumerate(track.lines()):
                name = track.name if not number else f"{track.name} ({number + 1})"
                yield _named("thread_name", pid, thread, name=name)
                yield _named("thread_sort_index", pid, thread, sort_index=thread)
                yield from _slices(track, at, pid, thread, base)
                thread += 1
        for counter in process.counters:
            yield from _values(counter, pid, base)


def _named(what: str, pid: int, tid: int, **args: Any) -> str:
    return _dumped({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args})


def _slices(track: Track, at: Times, pid: int, tid: int, base: int) -> Iterator[str]:
    texts = [one.text() for one in track.labels]
    where = f'{{"ph":"X","pid":{pid},"tid":{tid},"ts":'
    start, duration = track.start[at], track.duration[at]
    if track.tiles:
        touches = np.append(start[:-1] + duration[:-1] >= start[1:], False)
        duration = np.where(touches, np.append(np.diff(start), 1) - 1, duration)
    rows = zip(
        _microseconds(start - base),
        _microseconds(duration),
        track.label[at].tolist(),
        strict=True,
    )
    for begins, lasts, label in rows:
        yield f'{where}{begins},"dur":{lasts},{texts[label]}}}'


def _values(counter: Counter, pid: int, base: int) -> Iterator[str]:
    name, unit = _dumped(counter.name), _dumped(counter.unit)
    where = f'{{"ph":"C","pid":{pid},"name":{name},"ts":'
    for time, value in zip(_microseconds(counter.time - base), counter.value.tolist(), strict=True):
        yield f'{where}{time},"args":{{{unit}:{value:.6g}}}}}'


def _microseconds(times: Times) -> list[str]:
    """ns as decimals of a microsecond, exactly."""
    return [f"{time // 1000}.{time % 1000:03d}" for time in times.tolist()]


def _apart(start: Times, duration: Times) -> list[Times]:
    """Indices by start, in as few threads as show no two slices at once. Slices that touch count as
    overlapping unless a double holds their times exactly: whole microseconds."""
    order = np.lexsort((duration, start))
    begin, end = start[order], (start + duration)[order]
    # Where the thread is free again, as seen by a viewer that rounds.
    free_at = np.where((begin % 1000 == 0) & (end % 1000 == 0), end, end + 1)
    if np.all(begin[1:] >= np.maximum.accumulate(free_at)[:-1]):
        return [order]
    free: list[int] = []  # when each thread is free; the first of them takes a slice
    taken = np.empty(len(order), dtype=np.int64)
    for at, (first, last) in enumerate(zip(begin.tolist(), free_at.tolist(), strict=True)):
        line = next((number for number, until in enumerate(free) if until <= first), len(free))
        if line == len(free):
            free.append(last)
        free[line] = last
        taken[at] = line
    return [order[taken == line] for line in range(len(free))]


def _nested(start: Times, duration: Times) -> list[Times]:
    """Indices by start, the longer of two first, in as few threads as show proper nesting."""
    order = np.lexsort((-duration, start))
    open_: list[list[int]] = []  # of each thread the ends of what is open, outermost first
    taken = np.empty(len(order), dtype=np.int64)
    rows = zip(start[order].tolist(), (start + duration)[order].tolist(), strict=True)
    for at, (first, last) in enumerate(rows):
        line = next((n for n, ends in enumerate(open_) if _fits(ends, first, last)), len(open_))
        if line == len(open_):
            open_.append([])
        open_[line].append(last)
        taken[at] = line
    return [order[taken == line] for line in range(len(open_))]


def _fits(ends: list[int], first: int, last: int) -> bool:
    """Whether a slice lies within what is open, or beside it; what has ended is closed."""
    while ends and ends[-1] <= first:
        ends.pop()
    return not ends or last <= ends[-1]
