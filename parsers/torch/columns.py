"""What is kept of a trace, as columns of numbers that grow while its events stream by."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from traceroof.parsers.torch.event_columns import (
    CALL_TYPES,
    COLLECTIVE_TYPES,
    FAMILIES,
    GPU_KINDS,
    GPU_TYPES,
    LINE_TYPES,
    OPERATOR_TYPES,
    OTHER_TYPES,
    RANGE_TYPES,
    SHAPED_CALL_TYPES,
    Codes,
    Columns,
    Intern,
)
from traceroof.parsers.torch.events import UNKNOWN, Whole
from traceroof.parsers.torch.python_frames import MODULE, OWN, FrameKinds

# A shorter frame of Python's stack explains no pause of the GPU.
_LONG_FRAME_NS: Final = 1_000_000

#: Events of one category as columns of equal length; which, ``event_rows`` has by family.
Rows = Mapping[str, npt.NDArray[Any]]


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
        self.frame_kinds = FrameKinds()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "frame_kinds": FrameKinds()}

    def add(self, category: str, rows: Rows) -> None:
        """Take complete ("X") events of one category of ``FAMILIES``."""
        families: dict[str, Callable[[str, Rows], None]] = {
            "gpu": self._add_gpu,
            "operators": self._add_operators,
            "calls": self._add_calls,
            "ranges": self._add_ranges,
            "frames": self._add_frames,
            "other": self._add_other,
        }
        families[FAMILIES[category]](category, rows)

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

    def signed(self) -> tuple[Codes, Codes, Codes, Codes]:
        """Of each signature the name, as a code of ``names``, and shapes, dtypes and values, as
        codes of ``texts``."""
        names, *texts = zip(*self.signatures, strict=True) if self.signatures else ((),) * 4
        shapes, dtypes, values = (self.texts.codes(column, len(column)) for column in texts)
        return self.names.codes(names, len(names)), shapes, dtypes, values

    # One method a family of categories.

    def _timed(self, rows: Rows) -> Rows:
        """The rows that have a start and a duration. Only GPU work is kept without.
        Kineto writes an end before the start for some waits: none of them lasts less than no time."""
        duration = rows["duration"]
        known = (rows["start"] != UNKNOWN) & (duration != UNKNOWN)
        negative = known & (duration < 0)
        if negative.any():
            self.counts["host events that end before they begin: counted as no time"] += int(
                negative.sum()
            )
            rows = {**rows, "duration": np.where(negative, 0, duration)}
        if known.all():
            return rows
        self.counts["host events without a time, left out"] += int((~known).sum())
        return _at(rows, known)

    def _add_operators(self, category: str, rows: Rows) -> None:
        rows = self._timed(rows)
        count, base = len(rows["start"]), self.operators.rows
        comms = np.flatnonzero(rows["collective"] >= 0)
        self.operator_collectives.add(len(comms), row=base + comms, what=rows["collective"][comms])
        # Lines of the program by the call stacks of operators (to 2021).
        lines = np.flatnonzero(rows["line"] >= 0)
        self.operator_lines.add(len(lines), row=base + lines, line=rows["line"][lines])
        self.counts["operators that had not finished when the recording stopped"] += int(
            rows["unfinished"].sum()
        )
        self.operators.add(count, **rows)

    def _add_calls(self, category: str, rows: Rows) -> None:
        rows = self._timed(rows)
        count, bytes_, size = len(rows["start"]), rows["bytes"], rows["size"]
        # AMD writes the launch shape and the size of a copy on the call, not on the GPU activity.
        is_shaped = (
            (rows["grid"] != self.texts[b""]) | ~np.isnan(bytes_) | (np.nan_to_num(size) > 0)
        )
        shaped = np.flatnonzero(is_shaped)
        self.shaped_calls.add(
            len(shaped),
            call=self.calls.rows + shaped,
            grid=rows["grid"][shaped],
            block=rows["block"][shaped],
            shared_memory=rows["shared_memory"][shaped],
            bytes=np.where(np.isnan(bytes_), size, bytes_)[shaped],
        )
        self.calls.add(count, **rows, category=self._category(category, count))

    def _add_gpu(self, category: str, rows: Rows) -> None:
        count = len(rows["start"])
        comms = np.flatnonzero(rows["collective"] >= 0)
        self.gpu_collectives.add(
            len(comms), row=self.gpu.rows + comms, what=rows["collective"][comms]
        )
        self.gpu.add(count, **rows, kind=np.full(count, GPU_KINDS[category]))

    def _add_ranges(self, category: str, rows: Rows) -> None:
        rows = self._timed(rows)
        self.ranges.add(len(rows["start"]), **rows)

    def _add_frames(self, category: str, rows: Rows) -> None:
        # Only module calls are kept, one frame in ten to twenty, the frames of the program's own
        # files, and what took long: a frame in which the program waited or worked, while no
        # operator says so.
        self._add_ranges(category, _at(rows, rows["kind"] == MODULE))
        own = self._timed(_at(rows, rows["kind"] == OWN))
        self.frames.add(len(own["start"]), **own)
        long = _at(rows, rows["duration"] >= _LONG_FRAME_NS)
        unknown = np.full(len(long["start"]), UNKNOWN)
        if len(unknown):
            self._add_other(
                category, {**long, "stream": unknown, "device": unknown, "correlation": unknown}
            )

    def _add_other(self, category: str, rows: Rows) -> None:
        rows = self._timed(rows)
        count = len(rows["start"])
        self.other.add(count, **rows, category=self._category(category, count))

    def _category(self, category: str, count: int) -> Codes:
        return np.full(count, self.event_categories[category], dtype=np.int32)


def kept_frames(kinds: npt.NDArray[Any], duration: Whole) -> npt.NDArray[np.int64]:
    """Which frames of Python's stack are kept: for what they are (``FrameKinds``), or their length."""
    return np.flatnonzero((kinds > 0) | (duration >= _LONG_FRAME_NS))


def _at(rows: Rows, mask: npt.NDArray[np.bool_]) -> Rows:
    return {name: values[mask] for name, values in rows.items()}
