"""Events folded into columns of numbers as they stream by; texts are stored once."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np

from traceroof.parsers.torch import events as events_of
from traceroof.parsers.torch.event_columns import (
    CALL_CATEGORIES,
    CALL_TYPES,
    COLLECTIVE_TYPES,
    GPU_KINDS,
    GPU_TYPES,
    LAUNCH_FIELDS,
    LINE_TYPES,
    OPERATOR_CATEGORIES,
    OPERATOR_TYPES,
    OTHER_TYPES,
    RANGE_TYPES,
    SHAPED_CALL_TYPES,
    Codes,
    Columns,
    Intern,
)
from traceroof.parsers.torch.events import UNKNOWN, Args, Whole
from traceroof.parsers.torch.process_groups import described
from traceroof.parsers.torch.python_frames import MODULE, OWN, FrameKinds, own_line
from traceroof.parsers.torch.usual import USUAL

# A shorter frame of Python's stack explains no pause of the GPU.
_LONG_FRAME_NS: Final = 1_000_000

_NO_ARGS = Args()

_of_args = attrgetter(*LAUNCH_FIELDS[2:-3])


_NO_PHASE = "GPU activities of an unknown phase (ph), left out"


class Fold:
    """What is kept of a trace.

    names: kernels, calls, ranges; signatures: operators, as (name, shapes, dtypes, values), the last
    three as JSON; texts: JSON of launch shapes, as bytes; both take over those of ``signatures`` once
    ``signed`` has been called;
    threads: pairs (pid, tid) as written; launches: LAUNCH_FIELDS as written, those of the arguments but
    for the JSON texts in a tuple of their own; collectives: (name,
    elements in, elements out, size of the group, dtype, name of the group, its ranks), the last
    two '' where not given. ``categories`` counts the events of each category, kept or not.
    """

    def __init__(self) -> None:
        self.names, self.texts, self.threads, self.collectives = (Intern() for _ in range(4))
        self.event_categories, self.launches, self.signatures = Intern(), Intern(), Intern()
        self._frames = FrameKinds()
        self.gpu, self.operators = Columns(GPU_TYPES), Columns(OPERATOR_TYPES)
        self.calls, self.shaped_calls = Columns(CALL_TYPES), Columns(SHAPED_CALL_TYPES)
        self.ranges, self.other = Columns(RANGE_TYPES), Columns(OTHER_TYPES)
        self.frames, self.operator_lines = Columns(RANGE_TYPES), Columns(LINE_TYPES)
        self.gpu_collectives, self.operator_collectives = (
            Columns(COLLECTIVE_TYPES),
            Columns(COLLECTIVE_TYPES),
        )
        self.categories: Counter[Any] = Counter()
        self.counts: Counter[str] = Counter()
        self._handlers: dict[Any, Callable[[Any, list[Any]], None]] = {
            **dict.fromkeys(GPU_KINDS, self._fold_gpu),
            **dict.fromkeys(OPERATOR_CATEGORIES, self._fold_operators),
            **dict.fromkeys(CALL_CATEGORIES, self._fold_calls),
            "user_annotation": self._fold_ranges,
            "python_function": self._fold_python,
            **dict.fromkeys(
                ("gpu_user_annotation", "cuda_sync", "xpu_sync", "overhead"), self._fold_other
            ),
        }

    def __getstate__(self) -> dict[str, Any]:
        left = ("_handlers", "_frames")
        return {name: value for name, value in self.__dict__.items() if name not in left}

    def fold(self, events: Sequence[Any]) -> None:
        """Take what is needed of these events."""
        by_class: defaultdict[Any, list[Any]] = defaultdict(list)
        for event in events:
            by_class[type(event)].append(event)
        for kind, found in by_class.items():
            if kind in USUAL:
                self._take(USUAL[kind], found)
            else:
                self._fold_any(found)

    def _take(self, category: Any, complete: list[Any]) -> None:
        """Take complete ("X") events of one category."""
        self.categories[category] += len(complete)
        handler = self._handlers.get(category)
        if handler:
            handler(category, complete)

    def _fold_any(self, events: Sequence[Any]) -> None:
        by_category: defaultdict[Any, list[Any]] = defaultdict(list)
        try:
            for event in events:
                by_category[event.cat].append(event)
        except TypeError:
            by_category.clear()
            for event in events:
                by_category[event.cat if isinstance(event.cat, str) else None].append(event)
        for category, found in by_category.items():
            self.categories[category] += len(found)
            handler = self._handlers.get(category)
            if handler:
                complete = [event for event in found if event.ph == "X"]
                if category in GPU_KINDS and len(complete) < len(found):
                    self.counts[_NO_PHASE] += len(found) - len(complete)
                if complete:
                    handler(category, complete)

    def append(self, later: "Fold") -> None:
        """Take over what was kept of the events that follow."""
        names, texts, threads, whats, categories, launches, signatures = (
            mine.codes(theirs, len(theirs))
            for mine, theirs in (
                (self.names, later.names),
                (self.texts, later.texts),
                (self.threads, later.threads),
                (self.collectives, later.collectives),
                (self.event_categories, later.event_categories),
                (self.launches, later.launches),
                (self.signatures, later.signatures),
            )
        )
        shift = {"gpu": self.gpu.rows, "operator": self.operators.rows, "call": self.calls.rows}
        for column in ("gpu", "operator"):
            mine, theirs = (getattr(fold, f"{column}_collectives") for fold in (self, later))
            mine.add(
                theirs.rows, row=theirs.pop("row") + shift[column], what=whats[theirs.pop("what")]
            )
        lines = later.operator_lines
        self.operator_lines.add(
            lines.rows,
            row=lines.pop("row") + shift["operator"],
            line=names[lines.pop("line")],
        )
        codes = {
            "name": names, "thread": threads, "category": categories, "launch": launches,
            "signature": signatures,
        }  # fmt: skip
        shaped = later.shaped_calls
        self.shaped_calls.add(
            shaped.rows,
            call=shaped.pop("call") + shift["call"],
            grid=texts[shaped.pop("grid")],
            block=texts[shaped.pop("block")],
            shared_memory=shaped.pop("shared_memory"),
            bytes=shaped.pop("bytes"),
        )
        for table in ("gpu", "operators", "calls", "ranges", "frames", "other"):
            getattr(self, table).append(getattr(later, table), codes)
        self.categories.update(later.categories)
        self.counts.update(later.counts)

    # One method a kind of event; all get complete ("X") events of one category.

    def _timed(self, events: list[Any]) -> tuple[list[Any], Whole, Whole]:
        """The events that have a start and a duration, with them. Only GPU work is kept without.
        Kineto writes an end before the start for some waits: none of them lasts less than no time."""
        start = events_of.nanoseconds([event.ts for event in events])
        duration = events_of.nanoseconds([event.dur for event in events])
        known = (start != UNKNOWN) & (duration != UNKNOWN)
        negative = known & (duration < 0)
        if negative.any():
            self.counts["host events that end before they begin: counted as no time"] += int(
                negative.sum()
            )
            duration[negative] = 0
        if known.all():
            return events, start, duration
        self.counts["host events without a time, left out"] += int((~known).sum())
        kept = [event for event, is_known in zip(events, known, strict=True) if is_known]
        return kept, start[known], duration[known]

    def _threads_of(self, events: list[Any]) -> Codes:
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        if not pids:
            return np.empty(0, dtype=np.int32)
        if pids.count(pids[0]) == len(pids) == tids.count(tids[0]):
            pids, tids = pids[:1], tids[:1]
        try:
            codes = self.threads.codes(zip(pids, tids, strict=True), len(pids))
        except TypeError:
            codes = self.threads.codes(map(_hashable, zip(pids, tids, strict=True)), len(pids))
        return codes if len(codes) > 1 else np.full(len(events), codes[0], dtype=np.int32)

    def _range_columns(self, events: list[Any], start: Whole, duration: Whole) -> dict[str, Any]:
        return {
            "name": self.names.names([event.name for event in events]),
            "thread": self._threads_of(events),
            "start": start,
            "duration": duration,
        }

    def _texts_of(self, raws: Iterable[Any], count: int) -> Codes:
        return self.texts.codes(map(bytes, raws), count)

    def _fold_operators(self, category: Any, events: list[Any]) -> None:
        events, start, duration = self._timed(events)
        args = [event.args or _NO_ARGS for event in events]
        comms = [
            at
            for at, arg in enumerate(args)
            if arg.collective is not None and events[at].name == "record_param_comms"
        ]
        if comms:
            self._collectives(
                self.operator_collectives, self.operators.rows, comms, [args[at] for at in comms]
            )
        self._lines([arg.stack for arg in args])
        unfinished = [arg.finished for arg in args if arg.finished is not None]
        self.counts["operators that had not finished when the recording stopped"] += sum(
            str(finished).lower() == "false" for finished in unfinished
        )
        self.operators.add(
            len(events),
            signature=self._signatures_of(category, [event.name for event in events], args),
            thread=self._threads_of(events),
            start=start,
            duration=duration,
            sequence=events_of.wholes(
                [-1 if arg.sequence is None else arg.sequence for arg in args]
            ),
        )

    def _signatures_of(self, category: Any, names: list[Any], args: list[Any]) -> Codes:
        if category == "Operator":
            shapes = [arg.old_shapes for arg in args]
        else:
            shapes = [arg.shapes for arg in args]
        texts = (shapes, [arg.dtypes for arg in args], [arg.values for arg in args])

        def signatures(named: Iterable[Any]) -> Codes:
            columns = (map(bytes, column) for column in texts)
            return self.signatures.codes(zip(named, *columns, strict=True), len(names))

        try:
            return signatures(names)
        except TypeError:
            return signatures(map(str, names))

    def signed(self) -> tuple[Codes, Codes, Codes, Codes]:
        """Of each signature the name, as a code of ``names``, and shapes, dtypes and values, as
        codes of ``texts``."""
        names, *texts = zip(*self.signatures, strict=True) if self.signatures else ((),) * 4
        shapes, dtypes, values = (self.texts.codes(column, len(column)) for column in texts)
        return self.names.codes(names, len(names)), shapes, dtypes, values

    def _lines(self, stacks: Sequence[Any]) -> None:
        """Lines of the program by the call stacks of the operators that come next (to 2021)."""
        if not any(stacks):
            return
        lines = [own_line(stack) if isinstance(stack, str) else None for stack in stacks]
        known = [at for at, line in enumerate(lines) if line]
        self.operator_lines.add(
            len(known),
            row=self.operators.rows + np.array(known, dtype=np.int64),
            line=self.names.codes([lines[at] for at in known], len(known)),
        )

    def _collectives(self, table: Columns, base: int, rows: Sequence[int], args: list[Any]) -> None:
        whats = []
        for arg in args:
            what = (arg.collective, arg.elements_in, arg.elements_out, arg.group_size, arg.dtype)
            group = described(_given(arg.group_name), _given(arg.group_description))
            whats.append(
                (*map(str, what), group, _given(arg.group_ranks))
                if arg.collective is not None
                else None
            )
        known = [at for at, what in enumerate(whats) if what is not None]
        codes = self.collectives.codes([whats[at] for at in known], len(known))
        row = base + np.array(rows, dtype=np.int64)[known]
        table.add(len(known), row=row, what=codes)

    def _fold_calls(self, category: Any, events: list[Any]) -> None:
        events, start, duration = self._timed(events)
        args = [event.args or _NO_ARGS for event in events]
        count = len(events)
        columns = self._range_columns(events, start, duration)
        # AMD writes the launch shape and the size of a copy on the call, not on the GPU activity.
        shaped = [
            at for at, arg in enumerate(args) if arg.grid or arg.bytes is not None or arg.size
        ]
        if shaped:
            mine = [args[at] for at in shaped]
            self.shaped_calls.add(
                len(mine),
                call=self.calls.rows + np.array(shaped, dtype=np.int64),
                grid=self._texts_of([arg.grid for arg in mine], len(mine)),
                block=self._texts_of([arg.block for arg in mine], len(mine)),
                shared_memory=events_of.reals([arg.shared_memory for arg in mine]),
                bytes=events_of.reals(
                    [arg.size if arg.bytes is None else arg.bytes for arg in mine]
                ),
            )
        self.calls.add(
            count,
            **columns,
            category=np.full(count, self.event_categories[category]),
            correlation=events_of.wholes([arg.correlation for arg in args]),
            rank=_ranks(args),
        )

    def _fold_gpu(self, category: Any, events: list[Any]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        count = len(events)
        talking = [at for at, arg in enumerate(args) if arg.collective is not None]
        if talking:
            self._collectives(
                self.gpu_collectives,
                self.gpu.rows,
                talking,
                [args[at] for at in talking],
            )
        self.gpu.add(
            count,
            kind=np.full(count, GPU_KINDS[category]),
            name=self.names.names([event.name for event in events]),
            launch=self._launches_of(events, args),
            start=events_of.nanoseconds([event.ts for event in events]),
            duration=events_of.nanoseconds([event.dur for event in events]),
            correlation=events_of.wholes([arg.correlation for arg in args]),
            bytes=events_of.reals([arg.bytes for arg in args]),
        )

    def _launches_of(self, events: list[Any], args: list[Any]) -> Codes:
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        texts = ([arg.grid for arg in args], [arg.block for arg in args],
                 [arg.occupancy for arg in args])  # fmt: skip

        def launches() -> Iterable[Any]:
            columns = (map(bytes, column) for column in texts)
            return zip(pids, tids, map(_of_args, args), *columns, strict=True)

        try:
            return self.launches.codes(launches(), len(events))
        except TypeError:
            return self.launches.codes(map(_hashable, launches()), len(events))

    def _fold_ranges(self, category: Any, events: list[Any]) -> None:
        events, start, duration = self._timed(events)
        self.ranges.add(len(events), **self._range_columns(events, start, duration))

    def _fold_python(self, category: Any, events: list[Any]) -> None:
        # Only module calls are kept, one frame in ten to twenty, the frames of the program's own
        # files, and what took long: a frame in which the program waited or worked, while no
        # operator says so.
        kinds = self._frames.of([event.name for event in events])
        modules = np.flatnonzero(kinds == MODULE)
        if len(modules):
            self._fold_ranges(category, [events[at] for at in modules])
        own, start, took = self._timed([events[at] for at in np.flatnonzero(kinds == OWN)])
        if own:
            self.frames.add(len(own), **self._range_columns(own, start, took))
        duration = events_of.nanoseconds([event.dur for event in events])
        long = np.flatnonzero(duration >= _LONG_FRAME_NS)
        if len(long):
            self._fold_other(category, [events[at] for at in long])

    def _fold_other(self, category: Any, events: list[Any]) -> None:
        events, start, duration = self._timed(events)
        args = [event.args or _NO_ARGS for event in events]
        self.other.add(
            len(events),
            **self._range_columns(events, start, duration),
            category=np.full(len(events), self.event_categories[category]),
            stream=events_of.wholes([arg.stream for arg in args]),
            device=events_of.wholes([arg.device for arg in args]),
            correlation=events_of.wholes([arg.correlation for arg in args]),
        )


def _given(value: Any) -> str:
    """What was written, '' for nothing."""
    return "" if value is None else str(value)


def _hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    """The values without lists and objects, which none of them should be."""
    return tuple(
        None
        if isinstance(value, list | dict)
        else _hashable(value)
        if isinstance(value, tuple)
        else value
        for value in values
    )


def _ranks(args: Sequence[Args]) -> Whole:
    """Ranks that a tool wrote into the events when it merged the files of several."""
    return events_of.wholes([UNKNOWN if arg.rank is None else arg.rank for arg in args])
