"""XSpace messages, plane by plane: names looked up, times in ns, statistics by name.

Field numbers: ``xplane.proto`` of OpenXLA (Apache-2.0). A plane is one device or one view of the
host, a line one stream or thread, an event one activity.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from traceroof.ingest.messages import messages

_DESCRIBED = {
    "XPlane": """
        1 id int64
        2 name string
        3 lines *XLine
        4 event_metadata *EventEntry
        5 stat_metadata *StatEntry
        6 stats *XStat
    """,
    "XLine": """
        1 id int64
        2 name string
        3 timestamp_ns int64
        4 events *XEvent
        11 display_name string
    """,
    "XEvent": """
        1 metadata_id int64
        2 offset_ps int64
        3 duration_ps int64
        4 stats *XStat
    """,
    "XStat": """
        1 metadata_id int64
        2 double_value double
        3 uint64_value uint64
        4 int64_value int64
        5 str_value string
        7 ref_value uint64
    """,
    "EventEntry": """
        1 key int64
        2 value EventName
    """,
    "EventName": """
        2 name string
        4 display_name string
        5 stats *XStat
    """,
    "StatEntry": """
        1 key int64
        2 value StatName
    """,
    "StatName": """
        2 name string
    """,
}
_PLANES, _ERRORS = 1, 2
_LONGEST_PS = 2**62


@cache
def _messages() -> Any:
    return messages("traceroof.xplane", _DESCRIBED)


@dataclass(frozen=True)
class Event:
    """One activity. Times in ns since the profile began; statistics by name."""

    name: str
    start_ns: int
    duration_ns: int
    stats: dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One stream or thread."""

    id: int
    name: str
    events: tuple[Event, ...]


class Plane:
    """One plane; its lines are taken apart when they are asked for."""

    def __init__(self, message: Any) -> None:
        self._message = message
        self.name = _text(message.name)
        self._stats = {entry.key: _text(entry.value.name) for entry in message.stat_metadata}
        self._events = {
            entry.key: (
                _text(entry.value.name or entry.value.display_name),
                self._read(entry.value.stats),
            )
            for entry in message.event_metadata
        }

    @property
    def stats(self) -> dict[str, Any]:
        """The statistics of the plane itself: of a device its properties."""
        return self._read(self._message.stats)

    @property
    def is_empty(self) -> bool:
        return not len(self._message.lines)

    def lines(self) -> Iterator[Line]:
        """Every line with its events; events without a sane time are left out."""
        for line in self._message.lines:
            begin = line.timestamp_ns * 1000
            events = tuple(
                Event(self._named(event), _ns(begin + event.offset_ps), _ns(event.duration_ps),
                      self._stats_of(event))
                for event in line.events
                if _is_sane(event)
            )  # fmt: skip
            yield Line(line.id, _text(line.name or line.display_name), events)

    def broken(self) -> int:
        """How many events have no sane time."""
        return sum(not _is_sane(event) for line in self._message.lines for event in line.events)

    def _named(self, event: Any) -> str:
        return self._events.get(event.metadata_id, ("", {}))[0]

    def _stats_of(self, event: Any) -> dict[str, Any]:
        shared = self._events.get(event.metadata_id, ("", {}))[1]
        return {**shared, **self._read(event.stats)}

    def _read(self, stats: Any) -> dict[str, Any]:
        return {self._stats.get(stat.metadata_id, ""): self._value(stat) for stat in stats}

    def _value(self, stat: Any) -> Any:
        if stat.HasField("ref_value"):
            return self._stats.get(stat.ref_value, "")
        if stat.HasField("str_value"):
            return _text(stat.str_value)
        for field in ("int64_value", "uint64_value", "double_value"):
            if stat.HasField(field):
                return getattr(stat, field)
        return None


@dataclass(frozen=True)
class Space:
    """A whole file. cut: it ends inside a plane, or a plane could not be read."""

    planes: tuple[Plane, ...]
    errors: tuple[str, ...]
    cut: bool


def space(data: bytes) -> Space:
    """Read a file plane by plane, so that a cut file loses its last plane only."""
    from google.protobuf.message import DecodeError

    planes, errors, cut = [], [], False
    for number, payload in _fields(data):
        if number is None:
            cut = True
        elif number == _PLANES:
            message = _messages()["XPlane"]()
            try:
                message.ParseFromString(payload)
                planes.append(Plane(message))
            except (DecodeError, RecursionError):
                cut = True
        elif number == _ERRORS:
            errors.append(payload.decode("utf-8", "replace"))
    return Space(tuple(planes), tuple(errors), cut)


def _fields(data: bytes) -> Iterator[tuple[int | None, bytes]]:
    """The length-delimited fields of a message; (None, b"") where it ends early."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        size, at = _varint(data, at)
        if at < 0 or key & 7 != 2 or at + size > len(data):
            yield None, b""
            return
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; -1 where it does not."""
    value = shift = 0
    while 0 <= at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, -1


def _is_sane(event: Any) -> bool:
    return bool(0 <= event.duration_ps < _LONGEST_PS and 0 <= event.offset_ps < _LONGEST_PS)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _ns(ps: int) -> int:
    """Whole ns, halves up; XLA's sources count in ns, so nothing is lost there."""
    return (ps + 500) // 1000
