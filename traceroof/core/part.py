"""A part of a recording: some of its steps, a named range, one rank."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import kernel_table
from traceroof.core.dictionary import Coded, coded, together
from traceroof.core.recording import Note, Recording
from traceroof.errors import TraceroofError

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]

_UNKNOWN = np.iinfo(np.int64).min
_STEPS = re.compile(r"\s*(\d*)\s*(:)?\s*(\d*)\s*")
_SHOWN = 6


@dataclass(frozen=True)
class Part:
    """What to judge. steps: ``A:B``, ``A:``, ``:B`` or ``A``, both ends included, by the number in the
    name of a step, else by its place from 1 on. range: a name, a part of it or a pattern; of several
    occurrences the one of median time, or the N-th with ``NAME@N``. rank: as in the files."""

    steps: str | None = None
    range: str | None = None
    rank: int | None = None

    def __bool__(self) -> bool:
        return self.steps is not None or self.range is not None or self.rank is not None


def part_of(recording: Recording, part: Part) -> Recording:
    """The rows of a recording that the part holds, and what the host did meanwhile.

    Raises TraceroofError where it holds nothing, with what there is.
    """
    if part.rank is not None:
        recording = _of_rank(recording, part.rank)
    if part.steps is not None:
        recording = _of_steps(recording, part.steps)
    if part.range is not None:
        recording = _of_range(recording, part.range)
    return recording


def _of_rank(recording: Recording, rank: int) -> Recording:
    ranks = _whole(recording.kernels, "rank")
    kept = ranks == rank
    if not kept.any():
        known = sorted({int(one) for one in ranks[ranks != _UNKNOWN].tolist()})
        there = f"ranks: {_listed([str(one) for one in known])}" if known else "it names no ranks"
        raise TraceroofError(f"there is no rank {rank} in this recording", there)
    of = {
        (source, process)
        for source, process in zip(
            _whole(recording.kernels, "source")[kept].tolist(),
            _whole(recording.kernels, "process_id")[kept].tolist(),
            strict=True,
        )
    }
    sources = {source for source, _ in of}

    def mine(table: pa.Table) -> pa.Table:
        pairs = zip(
            _whole(table, "source").tolist(), _whole(table, "process_id").tolist(), strict=True
        )
        keep = [
            (one in of) or (one[1] == _UNKNOWN and one[0] in sources) or (one[0], _UNKNOWN) in of
            for one in pairs
        ]
        return table.filter(pa.array(keep, pa.bool_()))

    return _with(
        recording, kept, f"rank {rank} alone", mine(recording.host_calls), mine(recording.spans)
    )


def _of_steps(recording: Recording, wanted: str) -> Recording:
    found = _STEPS.fullmatch(wanted)
    if not found or not (found[1] or found[3]):
        raise TraceroofError(f"--steps {wanted} names no steps", "write A:B, A:, :B or A")
    low = int(found[1]) if found[1] else 0
    high = int(found[3]) if found[3] else (1 << 62 if found[2] else low)
    steps = coded(recording.kernels["step"])
    start = _whole(recording.kernels, "start_ns")
    order = {}
    for code in np.unique(steps.codes[steps.codes >= 0]).tolist():
        order[steps.texts[code]] = int(start[steps.codes == code].min())
    names = sorted(order, key=lambda name: order[name])
    number = {name: _number(name, place) for place, name in enumerate(names, 1)}
    chosen = [name for name in names if low <= number[name] <= high]
    if not chosen:
        there = f"steps: {_listed(names)}" if names else "no step is marked in it"
        raise TraceroofError(f"no step of this recording is in {wanted}", there)
    kept = steps.spread(np.array([*(text in chosen for text in steps.texts), False]))
    beside = _between(recording.kernels, start, kept) & ~kept
    spans = coded(recording.spans["name"])
    is_chosen = spans.spread(np.array([*(text in chosen for text in spans.texts), False]))
    is_chosen &= coded(recording.spans["kind"]).is_("step")
    # What other steps left to run meanwhile keeps the GPU busy, but is no step of this part.
    return _within(
        replace(recording, kernels=_without_step(recording.kernels, steps, beside)),
        kept | beside,
        is_chosen,
        f"{_count(len(chosen), 'step')} of {len(names)}: {_listed(chosen)}",
    )


def _without_step(kernels: pa.Table, steps: Coded, rows: Mask) -> pa.Table:
    """The kernels, with no step for these rows."""
    field = kernels.schema.field("step")
    codes = pa.array(steps.codes, pa.int32(), mask=rows | (steps.codes < 0))
    column = pa.DictionaryArray.from_arrays(codes, pa.array(steps.texts, pa.string()))
    at = kernels.schema.get_field_index("step")
    return kernels.set_column(at, field, column.cast(field.type))


def _number(name: str | None, place: int) -> int:
    """The number that the name of a step ends in, else its place."""
    found = re.search(r"#\s*(\d+)\s*$", name or "")
    return int(found[1]) if found else place


def _of_range(recording: Recording, wanted: str) -> Recording:
    name, _, turn = wanted.rpartition("@")
    if not name or not turn.isdecimal():
        name, turn = wanted, ""
    spans = coded(recording.spans["name"])
    texts = [str(text) for text in spans.texts]
    meant = [text == name for text in texts]
    if not any(meant):
        sought = name.lower()
        meant = [sought in text.lower() or fnmatchcase(text.lower(), sought) for text in texts]
    chosen = spans.spread(np.array([*meant, False]))
    if not chosen.any():
        raise TraceroofError(
            f"no range is called {name}", f"ranges: {_listed(texts)}" if texts else "there is none"
        )
    at = np.flatnonzero(chosen)
    at = at[np.argsort(_whole(recording.spans, "start_ns")[at], kind="stable")]
    if turn and not 1 <= int(turn) <= len(at):
        raise TraceroofError(
            f"there is no occurrence {turn} of {name}", f"it occurs {_count(len(at), 'time')}"
        )
    # Between two occurrences is other work: one is judged, a typical one unless it is named.
    length = _whole(recording.spans, "duration_ns")[at]
    place = int(turn) - 1 if turn else int(np.argsort(length, kind="stable")[(len(at) - 1) // 2])
    one = np.isin(np.arange(len(chosen)), at[place])
    kept = _launched_within(recording, one)
    if not kept.any():
        raise TraceroofError(
            f"nothing was launched within {name}@{place + 1}",
            f"it occurs {_count(len(at), 'time')}; name another one, or a range around launches",
        )
    text = f"range {spans.at(at[[place]])[0]}"
    if len(at) > 1:
        text += f", number {place + 1} of {len(at)}" + ("" if turn else " (of median time)")
    return _within(recording, kept, one, text)


def _launched_within(recording: Recording, chosen: Mask) -> Mask:
    """The rows launched in one of these ranges; by their own time where no launch is known, or
    where the ranges are the GPU's."""
    spans, kernels = recording.spans, recording.kernels
    on_gpu = coded(spans["kind"]).is_("gpu-annotation")
    if (chosen & ~on_gpu).any():
        chosen = chosen & ~on_gpu
    start = _whole(spans, "start_ns")
    end = start + np.maximum(_whole(spans, "duration_ns"), 0)
    launch, begin = _whole(kernels, "host_launch_ns"), _whole(kernels, "start_ns")
    when = begin if (chosen & on_gpu).any() else np.where(launch == _UNKNOWN, begin, launch)
    kept = np.zeros(len(when), dtype=bool)
    sources, of_row = _whole(spans, "source"), _whole(kernels, "source")
    for source in np.unique(sources[chosen]).tolist():
        low = np.sort(start[chosen & (sources == source)])
        high = np.sort(end[chosen & (sources == source)])
        # Within a range where more have begun than ended.
        open_ = np.searchsorted(low, when, side="right") > np.searchsorted(high, when, side="right")
        kept |= open_ & (of_row == source)
    return kept


def _between(kernels: pa.Table, start: Times, kept: Mask) -> Mask:
    """The rows that start between the first and the last kept one of their file, rank and GPU."""
    found = np.zeros(len(start), dtype=bool)
    place, _ = together([_whole(kernels, name) for name in ("source", "rank", "device")])
    for one in np.unique(place[kept]).tolist():
        mine = place == one
        times = start[mine & kept]
        found |= mine & (start >= times.min()) & (start <= times.max())
    return found


def _within(recording: Recording, kept: Mask, spans: Mask, text: str) -> Recording:
    """The kept rows, and what the host did while the spans were open or the rows ran."""
    if not kept.any():
        raise TraceroofError(f"nothing ran in {text}", "choose another part")
    kernels = recording.kernels
    begin, duration = _whole(kernels, "start_ns"), _whole(kernels, "duration_ns")
    launch = _whole(kernels, "host_launch_ns")
    timed = kept & (begin != _UNKNOWN)
    low, high = int(begin[timed].min()), int((begin + np.maximum(duration, 0))[timed].max())
    launched = launch[kept & (launch != _UNKNOWN)]
    first = [int(one) for one in (*launched[:1], *_whole(recording.spans, "start_ns")[spans])]
    low = min([low, int(launched.min()) if len(launched) else low, *first])

    def near(table: pa.Table) -> Mask:
        start = _whole(table, "start_ns")
        end = start + np.maximum(_whole(table, "duration_ns"), 0)
        return np.asarray((start < high) & (end > low))

    calls = near(recording.host_calls) & ~_of_rows(recording, ~kept)
    return _with(
        recording,
        kept,
        text,
        recording.host_calls.filter(pa.array(calls)),
        recording.spans.filter(pa.array(near(recording.spans))),
    )


def _of_rows(recording: Recording, rows: Mask) -> Mask:
    """The host calls that launched some of the rows: without their records these are not lost."""
    key = ("source", "process_id", "correlation_id")
    launched = recording.kernels.filter(pa.array(rows)).select(key)
    ids = [
        np.concatenate([_whole(launched, name), _whole(recording.host_calls, name)]) for name in key
    ]
    number, _ = together(ids)
    known = _whole(recording.host_calls, "correlation_id") != _UNKNOWN
    return np.asarray(known & np.isin(number[launched.num_rows :], number[: launched.num_rows]))


def _with(
    recording: Recording, kept: Mask, text: str, host_calls: pa.Table, spans: pa.Table
) -> Recording:
    place = np.cumsum(kept) - 1
    kernels = recording.kernels.filter(pa.array(kept))

    def of_rows(table: pa.Table) -> pa.Table:
        row = _whole(table, "row")
        table = table.filter(pa.array(kept[row] if len(row) else np.zeros(0, dtype=bool)))
        moved = pa.array(place[_whole(table, "row")], pa.int64())
        return table.set_column(table.column_names.index("row"), table.schema.field("row"), moved)

    note = Note(f"judged: {text}", severe=False)
    sources = []
    for index, source in enumerate(recording.sources):
        rows = kernels.filter(pc.equal(kernels["source"], index))
        sources.append(
            replace(source, launches=kernel_table.launches(rows), notes=(*source.notes, note))
        )
    return replace(
        recording,
        kernels=kernels,
        sources=tuple(sources),
        raw_metrics=of_rows(recording.raw_metrics),
        verdicts=of_rows(recording.verdicts),
        source_lines=of_rows(recording.source_lines),
        host_calls=host_calls,
        spans=spans,
        summaries=(),
    )


def _whole(table: pa.Table, name: str) -> Times:
    column = table[name].combine_chunks()
    filled: Times = pc.fill_null(column, _UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    return filled


def _count(count: int, one: str) -> str:
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def _listed(names: Sequence[str | None]) -> str:
    shown = ", ".join(str(name) for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
