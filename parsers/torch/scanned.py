"""Usual events by the compiled scanner: from text into columns, without an object for each event.

Which fields become which columns is said here; ``_scan.c`` does it for millions of events. Codes of
texts are the scanner's own: what each stands for is looked at once, by the functions that look at
decoded events (``event_codes``). Where nothing was compiled, or the text is not as Kineto usually
writes it, events are decoded (``events``).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from traceroof.parsers.torch import event_codes as codes_of
from traceroof.parsers.torch.columns import Fold, Rows, kept_frames
from traceroof.parsers.torch.event_columns import FAMILIES, LAUNCH_FIELDS, Codes
from traceroof.parsers.torch.events import UNKNOWN, Args, Event

if TYPE_CHECKING:
    from traceroof.parsers.torch._scan import Scanner

# Kinds of columns as the scanner numbers them, and the types of their values.
_TIME, _WHOLE, _REAL, _CODE = range(4)
_TYPES: Final = (np.int64, np.int64, np.float64, np.int32)

#: What each of some codes of the scanner is to a fold.
_Meaning = Callable[[Fold, str, list[Any]], Codes]


@dataclass(frozen=True)
class _Column:
    """kind and fields: what the scanner makes of which fields of an event, absent: where a whole
    number is not given. meaning: of the codes of a column, by events that hold no more than its fields."""

    kind: int
    fields: tuple[str, ...]
    absent: int = UNKNOWN
    meaning: _Meaning | None = None


_COLLECTIVE_FIELDS: Final = (
    "collective", "elements_in", "elements_out", "group_size", "dtype", "group_name",
    "group_description", "group_ranks",
)  # fmt: skip
_KEYS: Final = {one.name: f"args.{one.encode_name}" for one in msgspec.structs.fields(Args)}


def _keys(*names: str) -> tuple[str, ...]:
    """Fields of an event as the scanner is told of them."""
    return tuple(_KEYS.get(name, name) for name in names)


def _whole(name: str, absent: int = UNKNOWN) -> _Column:
    return _Column(_WHOLE, _keys(name), absent)


def _real(name: str) -> _Column:
    return _Column(_REAL, _keys(name))


def _coded(meaning: _Meaning, *names: str) -> _Column:
    return _Column(_CODE, _keys(*names), meaning=meaning)


_TIMES: Final = {"start": _Column(_TIME, ("ts",)), "duration": _Column(_TIME, ("dur",))}
_NAME: Final = {"name": _coded(lambda fold, _, events: codes_of.names(fold, events), "name")}
_RANGES: Final = {
    **_NAME,
    "thread": _coded(lambda fold, _, events: codes_of.threads(fold, events), "pid", "tid"),
    **_TIMES,
}
# What the kind of a frame follows from; no column of the scanner's.
_KIND: Final = _coded(
    lambda fold, _, events: fold.frame_kinds.of([one.name for one in events]).astype(np.int32),
    "name",
)
_COLLECTIVE: Final = _coded(codes_of.collectives, "name", *_COLLECTIVE_FIELDS)


def _text(name: str) -> _Column:
    def meaning(fold: Fold, _: str, events: list[Any]) -> Codes:
        return codes_of.texts(fold, [getattr(one, name) for one in codes_of.args_of(events)])

    return _coded(meaning, name)


# Columns by family (``event_columns.FAMILIES``).
_COLUMNS: Final[Mapping[str, Mapping[str, _Column]]] = {
    "operators": {
        "signature": _coded(
            codes_of.signatures, "name", "shapes", "old_shapes", "dtypes", "values"
        ),
        "thread": _RANGES["thread"],
        **_TIMES,
        "sequence": _whole("sequence", absent=-1),
        "collective": _COLLECTIVE,
        "unfinished": _coded(lambda _fold, _, events: codes_of.unfinished(events), "finished"),
        "line": _coded(lambda fold, _, events: codes_of.lines(fold, events), "stack"),
    },
    "calls": {
        **_RANGES,
        "correlation": _whole("correlation"),
        "rank": _whole("rank"),
        "grid": _text("grid"),
        "block": _text("block"),
        "shared_memory": _real("shared_memory"),
        "bytes": _real("bytes"),
        "size": _real("size"),
    },
    "gpu": {
        **_NAME,
        "launch": _coded(lambda fold, _, events: codes_of.launches(fold, events), *LAUNCH_FIELDS),
        **_TIMES,
        "correlation": _whole("correlation"),
        "bytes": _real("bytes"),
        "collective": _COLLECTIVE,
    },
    "ranges": _RANGES,
    "frames": _RANGES,
    "other": {
        **_RANGES,
        "stream": _whole("stream"),
        "device": _whole("device"),
        "correlation": _whole("correlation"),
    },
}
_CATEGORIES: Final = (
    "cpu_op", "cuda_runtime", "cuda_driver", "hip_runtime", "kernel", "gpu_memcpy", "gpu_memset",
    "user_annotation", "python_function", "gpu_user_annotation", "cuda_sync", "overhead",
    # Kineto of 2020 and 2021
    "Operator", "Runtime", "Kernel", "Memcpy", "Memset",
)  # fmt: skip

# Nothing of these is used but how many there are.
_UNUSED: Final = (
    "ac2g", "fwdbwd", "async_cpu_to_gpu", "async", "cpu_instant_event", "Trace",
)  # fmt: skip
# How the scanner is told of events that have none.
_NO_CATEGORY: Final = ""

#: Rows wait in the scanner until they are of so many bytes of text.
SCANNED_AT_ONCE: Final = 16 << 20

_UNSEEN: Final = -2
_NOTHING: Final[Codes] = np.empty(0, dtype=np.int32)


def _compiled(layouts: "list[tuple[str, Mapping[str, _Column]]]") -> "Scanner | None":
    """The compiled scanner, if there is one: it takes a C compiler where no wheel has it."""
    try:
        from traceroof.parsers.torch._scan import Scanner
    except ImportError:
        return None
    return Scanner(
        tuple(
            (category, tuple((one.kind, one.absent, one.fields) for one in columns.values()))
            for category, columns in layouts
        )
    )


@dataclass(frozen=True)
class Taken:
    """Rows of usual events: of some layouts the number, how many, and the columns as bytes."""

    layouts: list[tuple[int, int, list[bytes]]]


class Scan:
    """Takes the usual events of a trace."""

    def __init__(self) -> None:
        layouts = [(category, _COLUMNS[FAMILIES[category]]) for category in _CATEGORIES]
        unused = ((category, dict[str, _Column]()) for category in (*_UNUSED, _NO_CATEGORY))
        self._layouts = [*layouts, *unused]
        self._scanner = _compiled(self._layouts)
        self._known: dict[tuple[int, str], Codes] = {}
        self._waiting = 0

    def pass_over(self, text: bytearray, start: int, end: int) -> int:
        """Take the events in ``text[start:end]`` up to the first that is unusual; the place behind
        the last one taken."""
        if self._scanner is None:
            return start
        done = self._scanner.scan(text, start, end)
        self._waiting += done - start
        return done

    def taken(self, least: int = 0) -> Taken | None:
        """What was taken since the last call, where it is of more than so many bytes of text."""
        if self._scanner is None or self._waiting <= least:
            return None
        self._waiting = 0
        return Taken(self._scanner.take())

    def fold(self, fold: Fold, taken: Taken) -> None:
        """Hand rows over to a fold."""
        for number, count, given in taken.layouts:
            category, columns = self._layouts[number]
            fold.categories[category or None] += count
            if not columns:
                continue
            rows: dict[str, npt.NDArray[Any]] = {
                name: np.frombuffer(values, _TYPES[column.kind])
                for (name, column), values in zip(columns.items(), given, strict=True)
            }
            if FAMILIES[category] == "frames":
                rows = dict(self._frames(fold, number, rows))
            for name, column in columns.items():
                if column.meaning:
                    rows[name] = self._meant(fold, number, name, column, rows[name])
            fold.add(category, rows)

    def _frames(self, fold: Fold, number: int, rows: Rows) -> Rows:
        """The frames that are kept, with their kinds."""
        kinds = self._meant(fold, number, "kind", _KIND, rows["name"])
        kept = kept_frames(kinds, rows["duration"])
        return {**{name: values[kept] for name, values in rows.items()}, "kind": kinds[kept]}

    def _meant(self, fold: Fold, number: int, name: str, column: _Column, codes: Codes) -> Codes:
        """Codes of a layout's column as what they are to the fold."""
        if not len(codes):
            return codes
        known = self._known.get((number, name), _NOTHING)
        lacking = int(codes.max()) + 1 - len(known)
        if lacking > 0:
            known = np.append(known, np.full(lacking + len(known), _UNSEEN, dtype=np.int32))
            self._known[number, name] = known
        found: Codes = known[codes]
        unseen = np.unique(codes[found == _UNSEEN])
        if len(unseen):
            category, columns = self._layouts[number]
            place = [one.fields for one in columns.values()].index(column.fields)
            assert self._scanner
            assert column.meaning
            texts = (self._scanner.texts(number, place, code) for code in unseen.tolist())
            events = _decoded(column.fields, texts)
            known[unseen] = column.meaning(fold, category, events)
            found = known[codes]
        return found


_EVENTS: Final = msgspec.json.Decoder(list[Event])


def _decoded(fields: Sequence[str], texts: Iterable[Sequence[bytes]]) -> list[Any]:
    """Events that hold these fields only, for each of some combinations of their JSON texts."""
    own = [(at, name.encode()) for at, name in enumerate(fields) if not name.startswith("args.")]
    args = [(at, name[5:].encode()) for at, name in enumerate(fields) if name.startswith("args.")]
    events = []
    for one in texts:
        members = [b'"%s":%s' % (name, one[at]) for at, name in own if one[at]]
        inner = b",".join([b'"%s":%s' % (name, one[at]) for at, name in args if one[at]])
        events.append(b"{%s}" % b",".join([*members, b'"args":{%s}' % inner]))
    return _EVENTS.decode(b"[%s]" % b",".join(events))
