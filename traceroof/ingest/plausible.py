"""What holds for every recording, whatever wrote it: no launch stands in it twice, and the work on
one stream runs in order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import dictionary
from traceroof.core.recording import Note, Recording, only_rows, with_notes
from traceroof.ingest import credible

Whole = npt.NDArray[np.int64]

_LANE = ("source", "rank", "process_id", "device", "context", "stream")
_SAME = (
    "kind", "kernel_name", "start_ns", "duration_ns", "launch_id", "launch_count", "correlation_id",
    "grid_x", "block_x", "copy_bytes", "shortest_launch_ns", "longest_launch_ns", *_LANE,
)  # fmt: skip


_NUMBERS = ("start_ns", "duration_ns", "launch_id", "correlation_id", "stream")


def plausible(recording: Recording) -> Recording:
    """The recording without launches that stand in it twice and without durations that cannot be,
    with notes on both."""
    recording = _in_order(_once(_lasting(_dated(_countable(recording)))))
    missing = _missing(recording)
    return with_notes(recording, [Note(_GAPS, missing, severe=False)] if missing else [])


# 10^12 launches of a microsecond take eleven days; no profile is of a month of GPU time.
_MOST_LAUNCHES: Final = 10**12
_LONGEST_NS: Final = 30 * 86_400 * 10**9


def _countable(recording: Recording) -> Recording:
    """The recording with launches and times that can be added up: where there are more launches in a
    row than can be, it is one launch of unknown time; a time of over a month is unknown."""
    kernels = recording.kernels
    launches = _whole(kernels["launch_count"])
    duration = _whole(kernels["duration_ns"])
    many = launches > _MOST_LAUNCHES
    long = launches.astype(np.float64) * duration > _LONGEST_NS
    if not many.any() and not long.any():
        return recording
    kernels = _unknown_at(kernels, "duration_ns", np.flatnonzero(many | long))
    at = kernels.column_names.index("launch_count")
    field = kernels.schema.field(at)
    counts = pa.array(np.where(many, 1, launches)).cast(field.type)
    notes = [
        Note(text, int(mask.sum()))
        for text, mask in ((_MANY, many), (_LONG, long & ~many))
        if mask.any()
    ]
    return with_notes(replace(recording, kernels=kernels.set_column(at, field, counts)), notes)


_MANY: Final = "numbers of launches that cannot be (over 10^12): one launch of unknown time"
_LONG: Final = "times of over a month: unknown"
_MICROSECOND: Final = 1_000


# A nanosecond clock gets here in 2116; what starts later, or as long before 1970, is damaged.
_LATEST_NS: Final = 2**62


def _dated(recording: Recording) -> Recording:
    """The recording with starts that a clock can show; a call or range of the host without one is
    left out."""
    kernels = recording.kernels
    notes = []
    rows = np.flatnonzero(~_shown(kernels))
    if len(rows):
        kernels = _unknown_at(kernels, "start_ns", rows)
        notes.append(Note(_NO_CLOCK, len(rows)))
    host = {}
    for name in ("host_calls", "spans"):
        shown = _shown(getattr(recording, name))
        if not shown.all():
            host[name] = getattr(recording, name).filter(pa.array(shown))
            notes.append(Note(_NO_CALL, int((~shown).sum())))
    if not notes:
        return recording
    return with_notes(replace(recording, kernels=kernels, **host), notes)


def _shown(table: pa.Table) -> npt.NDArray[np.bool_]:
    known = np.asarray(table["start_ns"].is_valid())
    start = _whole(table["start_ns"])
    near = (start < _LATEST_NS) & (start > -_LATEST_NS)
    # The first and the last of a sound recording are less than a month apart.
    sane = start[known & near]
    if len(sane) > 2 and int(sane.max()) - int(sane.min()) > _LONGEST_NS:
        near &= ~known | (np.abs(start - np.median(sane)) < _LONGEST_NS)
    return np.asarray(near)


_NO_CLOCK: Final = "starts that no clock shows: unknown"
_NO_CALL: Final = "calls and ranges of the host that start where no clock is, left out"


def _lasting(recording: Recording) -> Recording:
    """The recording with kernels that last: no time at all is unknown, but in whole microseconds it
    is less than one."""
    kernels = recording.kernels
    duration = _whole(kernels["duration_ns"])
    # In whole microseconds some are below one, not all.
    if duration.any() and not (duration % _MICROSECOND).any():
        return recording
    none = np.asarray(kernels["duration_ns"].is_valid()) & (duration == 0)
    rows = np.flatnonzero(none)
    if len(rows):
        kind = np.asarray(kernels["kind"].take(rows).to_pylist(), dtype=object)
        rows = rows[kind == "kernel"]
    if not len(rows):
        return recording
    kernels = _unknown_at(kernels, "duration_ns", rows)
    return with_notes(replace(recording, kernels=kernels), [Note(_NO_TIME, len(rows))])


_NO_TIME: Final = "kernels that last no time at all: duration unknown"
_GAPS: Final = "launches that the profiler numbered and the file does not hold (filtered, or lost)"


def _missing(recording: Recording) -> int:
    """How many numbers of launches are missing between the first and the last, of a counter tool,
    which numbers what it profiles."""
    if recording.time_basis != "counter-tool" or len(recording.sources) != 1:
        return 0
    ids = recording.kernels["launch_id"]
    if ids.null_count or not len(ids):
        return 0
    numbers = np.unique(_whole(ids))
    missing = int(numbers[-1]) - int(numbers[0]) + 1 - len(numbers)
    # Numbers that are further apart than launches are many count something else.
    return missing if missing <= len(numbers) else 0


def _once(recording: Recording) -> Recording:
    """Every launch once: a row that equals another in its times, its stream and its numbers is a
    copy of it, for a stream does not start two launches in the same nanosecond."""
    candidates = _several(recording.kernels, _candidates(recording.kernels))
    if not len(candidates):
        return recording
    rows = recording.kernels.select(_SAME).take(candidates).to_pylist()
    equal: dict[object, list[int]] = {}
    for place, row in zip(candidates.tolist(), rows, strict=True):
        equal.setdefault(tuple(row.values()), []).append(place)
    several = [places for places in equal.values() if len(places) > 1]
    if several and recording.kernels["start_ns"].null_count:
        several = _of_equal_metrics(recording, several)
    again = [place for places in several for place in places[1:]]
    if not again:
        return recording
    keep = np.ones(recording.kernels.num_rows, dtype=bool)
    keep[again] = False
    return with_notes(only_rows(recording, keep), [Note(TWICE, len(again))])


#: As a note calls what is read once.
TWICE: Final = "rows that stand in the file twice (same kernel, times and stream), read once"


def _candidates(kernels: pa.Table) -> Whole:
    """Rows that may stand in the table twice: of launches those that start with another one, of
    rows without a start those with a number or a spread, which tell them apart."""
    start = kernels["start_ns"]
    known = np.asarray(start.is_valid())
    times = np.asarray(start.fill_null(0).to_numpy(), dtype=np.int64)
    # The branches of a replayed graph may run the same kernel side by side.
    timed = np.flatnonzero(known & np.asarray(kernels["graph_id"].is_null()))
    ordered = times[timed]
    if len(ordered) > 1 and not (ordered[1:] > ordered[:-1]).all():
        order = np.argsort(ordered, kind="stable")
        equal = np.flatnonzero(np.diff(ordered[order]) == 0)
        timed = np.sort(timed[order[np.union1d(equal, equal + 1)]])
    else:
        timed = timed[:0]
    told = np.asarray(kernels["launch_id"].is_valid()) | np.asarray(
        kernels["longest_launch_ns"].is_valid()
    )
    untimed = np.flatnonzero(~known & told & np.asarray(kernels["duration_ns"].is_valid()))
    return np.concatenate([timed, untimed])


def _several(kernels: pa.Table, rows: Whole) -> Whole:
    """Those of some rows that share their times and numbers with another: few are looked at whole."""
    if not len(rows):
        return rows
    told = (kernels[one].fill_null(-1).to_numpy()[rows] for one in _NUMBERS)
    codes, first = dictionary.together(told)
    return rows[np.bincount(codes, minlength=len(first))[codes] > 1]


def _of_equal_metrics(recording: Recording, several: Sequence[Sequence[int]]) -> list[list[int]]:
    """Rows that seem equal, apart where their metrics differ: two short launches of one kernel
    often last equally long."""
    metrics = recording.raw_metrics
    values: dict[int, list[str]] = {place: [] for places in several for place in places}
    for row, *rest in zip(
        *(metrics[name].to_pylist() for name in ("row", "metric", "value", "text")), strict=True
    ):
        if row in values:
            values[row].append(repr(rest))
    equal: dict[object, list[int]] = {}
    for number, places in enumerate(several):
        for place in places:
            equal.setdefault((number, *sorted(values[place])), []).append(place)
    return [places for places in equal.values() if len(places) > 1]


def _in_order(recording: Recording) -> Recording:
    """Times that cannot be are unknown: durations that reach far over the next work on their stream,
    starts of another clock (``credible``)."""
    kernels = recording.kernels
    timed = np.flatnonzero(
        np.asarray(kernels["start_ns"].is_valid())
        & np.asarray(kernels["duration_ns"].is_valid())
        # The branches of a replayed graph may overlap.
        & np.asarray(kernels["graph_id"].is_null())
    )
    if len(timed) < 2:
        return recording
    start, duration = (_whole(kernels[name])[timed] for name in ("start_ns", "duration_ns"))
    lane = _lanes(kernels)[timed]
    name = dictionary.coded(kernels["kernel_name"]).codes[timed].astype(np.int64) + 1
    no_start, no_duration, broken = credible.impossible(start, duration, lane, name)
    for column, mask in (("start_ns", no_start), ("duration_ns", no_duration | broken)):
        kernels = _unknown_at(kernels, column, timed[mask])
    notes = [
        Note(text, int(mask.sum()))
        for text, mask in ((_STRAY, no_start | no_duration), (credible.REACHING, broken))
        if mask.any()
    ]
    recording = replace(recording, kernels=kernels)
    if any(note.text.startswith(_LATE) for note in recording.notes):
        return with_notes(recording, notes)
    rest = ~(no_duration | broken)
    late = len(credible.overlapping(start[rest], duration[rest], lane[rest]))
    return with_notes(recording, [*notes, *([Note(_LATE, late)] if late else [])])


_STRAY: Final = "times of another clock than the rest of the run, or far longer: unknown"
_LATE: Final = "GPU activities that end well after the next one on their stream began"


def _unknown_at(kernels: pa.Table, name: str, rows: Whole) -> pa.Table:
    if not len(rows):
        return kernels
    known = np.array(kernels[name].is_valid(), dtype=bool)
    known[rows] = False
    at = kernels.column_names.index(name)
    field = kernels.schema.field(at)
    values = pa.array(_whole(kernels[name]), pa.int64(), mask=~known).cast(field.type)
    return kernels.set_column(at, field, values)


def _whole(column: pa.ChunkedArray) -> Whole:
    return np.asarray(column.fill_null(0).to_numpy(), dtype=np.int64)


def _lanes(kernels: pa.Table) -> Whole:
    """A number for the stream that each row ran on, from 0 on."""
    lane = np.zeros(kernels.num_rows, dtype=np.int64)
    for name in _LANE:
        column = dictionary.one_array(kernels[name])
        if column.null_count == len(column):
            continue
        codes = column.fill_null(-1).dictionary_encode()
        count = len(codes.dictionary)
        if count > 1:
            lane = lane * count + codes.indices.to_numpy(zero_copy_only=False)
            # Few streams, many rows: the numbers stay small.
            lane = pa.array(lane).dictionary_encode().indices.to_numpy().astype(np.int64)
    return lane
