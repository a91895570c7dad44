"""What the timelines of some files show, apart from their rows: a run of any number of ranks is put
together from such parts.

A ``Partial`` is made from the recording of one file and nothing else, so it can be made on another
machine; partials of different ranks add up (``merge``) in any order to the same result. Files that
show one GPU or one process (``overlapping``) have to be looked at together.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core import recording as recordings
from traceroof.core.dictionary import Coded, coded, together
from traceroof.core.kernel_table import UNKNOWN
from traceroof.core.memory import give_back
from traceroof.timeline.collectives import COLLECTIVES, collectives_of
from traceroof.timeline.lanes import Key, Lane, Owner, Rows, lanes_of, owners_of
from traceroof.timeline.timeline import Timeline, lane_timelines

if TYPE_CHECKING:
    from traceroof.core.recording import Recording

_NOBODY = (UNKNOWN, UNKNOWN)


@dataclass(frozen=True)
class Partial:
    """The timelines of some files of a run.

    files: the run's files that were looked at. keys: what each timeline is told by and sorted by.
    categories: its GPU time by step and operator category, ns. collectives: the communication kernels of
    all, ``COLLECTIVES``, with the position of their timeline. owners: rank, process, device and
    GPU of all rows, UNKNOWN where not known.
    """

    files: tuple[int, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    keys: tuple[Key, ...] = ()
    categories: tuple[Mapping[str, Mapping[str, int]], ...] = ()
    collectives: pa.Table = field(default_factory=lambda: recordings.empty(COLLECTIVES))
    owners: tuple[Owner, ...] = ()

    def shifted(self, files: int) -> "Partial":
        """The same as part of a run in which so many files come before."""
        if not files:
            return self

        def moved(sources: Iterable[int]) -> tuple[int, ...]:
            return tuple(one + files for one in sources)

        return replace(
            self,
            files=moved(self.files),
            timelines=tuple(replace(one, sources=moved(one.sources)) for one in self.timelines),
            keys=tuple((*key[:4], key[4] + files if key[4] >= 0 else -1) for key in self.keys),
        )


def partial_of(recording: "Recording", categories: Coded) -> Partial:
    """The partial of a recording, all its files looked at together.

    categories: the category of every row of the kernel table. Without timelines where the
    recording has none (``timelines``).
    """
    files = tuple(range(len(recording.sources)))
    if not has_timelines(recording):
        return Partial(files)
    rows = Rows(recording.kernels, categories)
    found = lanes_of(rows)
    timelines = tuple(lane_timelines(recording, [lane for _, lane in found]))
    give_back()
    return Partial(
        files=files,
        timelines=timelines,
        keys=tuple(key for key, _ in found),
        categories=tuple(_category_times(lane) for _, lane in found),
        collectives=pa.concat_tables(
            [recordings.empty(COLLECTIVES)]
            + [collectives_of(lane, at) for at, (_, lane) in enumerate(found)]
        ).combine_chunks(),
        owners=owners_of(rows),
    )


def has_timelines(recording: "Recording") -> bool:
    """Whether a recording says when GPUs were busy: not one of a counter tool, nor of copies alone,
    whose kernels were not recorded."""
    if recording.time_basis != "timeline":
        return False
    return bool(coded(recording.kernels["kind"]).is_("kernel").any())


def merge(partials: Sequence[Partial]) -> Partial:
    """Partials of different files of one run as one, whatever their order."""
    entries = sorted(
        (
            (one.keys[at], one.timelines[at].start_ns, one.timelines[at].sources, number, at)
            for number, one in enumerate(partials)
            for at in range(len(one.timelines))
        ),
        key=lambda entry: entry[:3],
    )
    place = {(number, at): new for new, (*_, number, at) in enumerate(entries)}
    tables = [recordings.empty(COLLECTIVES)]
    for number, one in enumerate(partials):
        new = pa.array([place[number, at] for at in range(len(one.timelines))], pa.int64())
        if one.collectives.num_rows:
            moved = new.take(one.collectives["timeline"].combine_chunks())
            tables.append(one.collectives.set_column(0, COLLECTIVES.field(0), moved))
    collectives = pa.concat_tables(tables)
    order = np.argsort(collectives["timeline"].to_numpy(), kind="stable")
    return Partial(
        files=tuple(sorted(file for one in partials for file in one.files)),
        timelines=tuple(partials[number].timelines[at] for *_, number, at in entries),
        keys=tuple(key for key, *_ in entries),
        categories=tuple(partials[number].categories[at] for *_, number, at in entries),
        collectives=collectives.take(pa.array(order)).combine_chunks(),
        owners=tuple(sorted({owner for one in partials for owner in one.owners})),
    )


def partial_of_run(recording: "Recording", categories: Coded) -> Partial:
    """The partial of a run: of its files together where they show one GPU or one process, else of
    each on its own; what is known already (``Recording.summaries``) is taken as it is."""
    known = [one for one in recording.summaries if isinstance(one, Partial)]
    covered = {file for one in known for file in one.files}
    if not covered and len(recording.sources) == 1:
        return partial_of(recording, categories)
    left = [file for file in range(len(recording.sources)) if file not in covered]
    if left and has_timelines(recording):
        known += _of_files(recording, categories, left)
    return merge(known)


def overlapping(owners: Mapping[int, Sequence[Owner]]) -> list[tuple[int, ...]]:
    """Files that show one GPU or one process, together; each other file alone. In order.

    owners: by file.
    """
    first: dict[object, int] = {}
    group = {file: file for file in owners}

    def root(file: int) -> int:
        while group[file] != file:
            file = group[file]
        return file

    told = any(owner[3] != UNKNOWN for each in owners.values() for owner in each)
    for file, each in owners.items():
        for rank, process, device, gpu in each:
            marks: list[object] = []
            if (rank, process) != _NOBODY or told:
                marks.append((rank, process, device))
            if gpu != UNKNOWN:
                marks.append(gpu)
            for mark in marks:
                other = root(first.setdefault(mark, file))
                group[max(root(file), other)] = min(root(file), other)
    together: dict[int, list[int]] = {}
    for file in owners:
        together.setdefault(root(file), []).append(file)
    return [tuple(files) for _, files in sorted(together.items())]


def _of_files(recording: "Recording", categories: Coded, files: Sequence[int]) -> list[Partial]:
    """The partials of some files of a recording, each looked at with those that it overlaps."""
    source = recording.kernels["source"].to_numpy()
    parts = {}
    for file in files:
        at = np.flatnonzero(source == file)
        parts[file] = at
    owners = {
        file: owners_of(Rows(recording.kernels.take(pa.array(at)), categories.take(at)))
        for file, at in parts.items()
        if len(at)
    }
    found = []
    for files_together in overlapping(owners):
        rows = np.sort(np.concatenate([parts[file] for file in files_together]))
        kinds = coded(recording.kernels["kind"].take(pa.array(rows)))
        if not kinds.is_("kernel").any() and len(files_together) == 1:
            continue
        found.append(_seen(recording, categories, rows, files_together))
    return found


def _seen(
    recording: "Recording", categories: Coded, rows: Any, together: tuple[int, ...]
) -> Partial:
    """The partial of some files, which keep their numbers."""
    wanted = pa.array(together, pa.int64())

    def of_files(table: pa.Table) -> pa.Table:
        return table.filter(pc.is_in(table["source"], wanted))

    some = replace(
        recording,
        kernels=recording.kernels.take(pa.array(rows)),
        host_calls=of_files(recording.host_calls),
        spans=of_files(recording.spans),
        summaries=(),
    )
    return replace(partial_of(some, categories.take(rows)), files=together)


def _category_times(lane: Lane) -> dict[str, dict[str, int]]:
    """GPU time of a timeline by step ('' outside of any) and category, ns."""
    of_row, first = together((lane.step, lane.category))
    times = np.zeros(len(first), dtype=np.int64)
    np.add.at(times, of_row, lane.end - lane.start)
    steps, step = _in_order([*map(str, lane.rows.step_names), ""], lane.step[first])
    categories, category = _in_order(lane.rows.categories, lane.category[first])
    order = np.lexsort((category, step))
    found: dict[str, dict[str, int]] = {}
    columns = (column[order].tolist() for column in (step, category, times))
    for number, kind, time in zip(*columns, strict=True):
        of_step = found.setdefault(steps[number], {})
        of_step[categories[kind]] = of_step.get(categories[kind], 0) + time
    return found


def _in_order(texts: Sequence[str], codes: Any) -> tuple[list[str], Any]:
    """Texts in order, each once, and the place there of each code's."""
    ordered = sorted({*texts})
    place = {text: at for at, text in enumerate(ordered)}
    return ordered, np.array([place[text] for text in texts], dtype=np.int64)[codes]


def encoded(partial: Partial) -> bytes:
    """A partial as bytes that another process, machine or day can read: no pickle."""
    columns = {
        name: partial.collectives[name].to_pylist() for name in partial.collectives.column_names
    }
    return msgspec.msgpack.encode(
        {
            "timelines": [one.to_dict() for one in partial.timelines],
            "keys": partial.keys,
            "files": partial.files,
            "categories": partial.categories,
            "owners": partial.owners,
            "collectives": columns,
        }
    )


def decoded(data: bytes) -> Partial:
    """The inverse of ``encoded``. Raises msgspec.MsgspecError where ``data`` is something else."""
    found = msgspec.msgpack.decode(data, type=_Encoded)
    columns = {name: found.collectives[name] for name in COLLECTIVES.names}
    return Partial(
        files=found.files,
        timelines=found.timelines,
        keys=found.keys,
        categories=found.categories,
        collectives=pa.table(columns, schema=COLLECTIVES),
        owners=found.owners,
    )


class _Encoded(msgspec.Struct):
    timelines: tuple[Timeline, ...]
    keys: tuple[Key, ...]
    files: tuple[int, ...]
    categories: tuple[dict[str, dict[str, int]], ...]
    owners: tuple[Owner, ...]
    collectives: dict[str, list[Any]]
