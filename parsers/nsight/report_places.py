"""Where the metrics of results stand: found in their bytes as arrays, without an object for each.

The metrics of a result follow one another. Where they begin and end is all that is needed of them here;
what is left is small, and read as a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from traceroof.parsers.nsight import wire
from traceroof.parsers.nsight.report_fields import report_messages
from traceroof.parsers.nsight.report_metrics import parsed
from traceroof.parsers.nsight.wire import ROOM, Bytes, Ints, Mask, Words

#: The tag of a metric.
METRIC = b"\x6a"
_METRIC, _NAME = METRIC[0], 0x08
# Fields before the metrics that are looked through, and the largest of them in bytes.
_MOST_FIELDS, _LARGEST = 64, 1 << 24
# The largest length of one byte.
_SHORT = 0x7F
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Places:
    """n metrics of several results, in file order: in ``data`` from start to end. of: the result,
    counted from 0."""

    data: Bytes
    words: Words
    start: Ints
    end: Ints
    of: Ints

    def raw(self, place: int) -> bytes:
        """The bytes of one metric."""
        return self.data[self.start[place] : self.end[place]].tobytes()

    def renumbered(self, kept: Sequence[bool]) -> "Places":
        """The same where some results are left out."""
        keep = np.array(kept)[self.of]
        of = (np.cumsum(kept) - 1)[self.of]
        return Places(self.data, self.words, self.start[keep], self.end[keep], of[keep])


def locate(raws: Sequence[bytes]) -> tuple[list[Any], Places]:
    """(the messages of results without their metrics, where those are). A result that is damaged
    gives None."""
    data, begin, until = wire.joined(raws)
    words = wire.words_of(data)
    first = begin + np.array([before_metrics(one) for one in raws], np.int64)
    at, start, end = _candidates(data, words)
    runs = _runs(data, at, end, first, until)
    kind = report_messages()["Result"]
    messages, found, counts, more = [], list[Ints](), list[int](), list[tuple[int, bytes]]()
    for number, (raw, run) in enumerate(zip(raws, runs, strict=True)):
        kept = raw
        if run is not None and len(run):
            # What is left without the metrics is small.
            origin = int(begin[number])
            kept = raw[: int(first[number]) - origin] + raw[int(end[run[-1]]) - origin :]
        message = parsed(kept, kind)
        sound = run is not None and message is not None
        found.append(run if sound and run is not None else _NONE)
        counts.append(len(found[-1]))
        # Metrics that stand elsewhere in the message.
        more += [(number, one) for one in (message.metrics if message is not None else ())]
        messages.append(message)
    run = np.concatenate([_NONE, *found])
    places = Places(data, words, start[run], end[run], np.repeat(np.arange(len(raws)), counts))
    return messages, _with_more(places, raws, more) if more else places


def _with_more(places: Places, raws: Sequence[bytes], more: Sequence[tuple[int, bytes]]) -> Places:
    """Places with those of metrics apart, each with its result, behind the others of the result."""
    data = wire.joined([*raws, *(one for _, one in more)])[0]
    ends = len(data) - ROOM - np.cumsum([0, *(len(one) for _, one in reversed(more))])[::-1]
    of = np.concatenate([places.of, np.array([number for number, _ in more], np.int64)])
    order = np.argsort(of, kind="stable")
    start, end = np.append(places.start, ends[:-1]), np.append(places.end, ends[1:])
    return Places(data, wire.words_of(data), start[order], end[order], of[order])


def before_metrics(raw: bytes) -> int:
    """Where the first metric of a result stands; its end where it has none, or is in no usual form."""
    at = 0
    for _ in range(_MOST_FIELDS):
        if at >= len(raw) or raw[at] == _METRIC:
            return at
        # A tag and a number of one byte or two: what is longer is left to the message's decoder.
        two = raw[at] > 0x7F
        kind, at = raw[at] & 7, at + 1 + two
        size = shift = 0
        while at < len(raw) and kind in (0, 2):
            size |= (raw[at] & 0x7F) << shift
            shift += 7
            at += 1
            if raw[at - 1] < 0x80:
                break
        if kind == 2 and size < _LARGEST:
            at += size
        elif kind != 0:
            break
    return len(raw)


def _candidates(data: Bytes, words: Words) -> tuple[Ints, Ints, Ints]:
    """(where it stands, begins and ends) of all that has the form of a metric. Some are none: the
    same bytes may stand inside of another."""
    size = len(data) - ROOM
    at = np.flatnonzero(data[:size] == _METRIC)
    length, start = data[1:][at], at + 2
    end = start + length
    long = np.flatnonzero(length > _SHORT)
    if len(long):
        number, more, good = wire.varint(words, at[long] + 1)
        good &= number < size
        start[long] = at[long] + 1 + more
        end[long] = start[long] + np.where(good, number, size).view(np.int64)
    good = (data[np.minimum(start, size)] == _NAME) & (end <= size)
    if good.all():
        return at, start, end
    return at[good], start[good], end[good]


def _runs(data: Bytes, at: Ints, end: Ints, first: Ints, until: Ints) -> list[Ints | None]:
    """Of each result which candidates are its metrics, each behind the one before; None where they
    are in no usual form. first: where its first metric stands. until: where the result ends."""
    if not len(at):
        return [_NONE if one == last else None for one, last in zip(first, until, strict=True)]
    breaks = np.flatnonzero(np.append(_breaks(at, end, until), True))
    found: list[Ints | None] = []
    places = np.searchsorted(at, first).tolist()
    ends = breaks[np.minimum(np.searchsorted(breaks, places), len(breaks) - 1)].tolist()
    for place, last, begins, stop in zip(places, ends, first.tolist(), until.tolist(), strict=True):
        if begins == stop:
            found.append(_NONE)
            continue
        parts, position = [], begins
        while True:
            if place >= len(at) or at[place] != position:
                found.append(None)
                break
            parts.append(np.arange(place, last + 1))
            position = int(end[last])
            if position >= stop or data[position] != _METRIC:
                found.append(np.concatenate(parts) if position <= stop else None)
                break
            place = int(np.searchsorted(at, position))
            last = int(breaks[min(int(np.searchsorted(breaks, place)), len(breaks) - 1)])
    return found


def _breaks(at: Ints, end: Ints, until: Ints) -> Mask:
    """Which candidates, but the last, the next does not follow in the same result."""
    breaks: Mask = end[:-1] != at[1:]
    last = np.searchsorted(at, until) - 1
    breaks[last[(last >= 0) & (last < len(breaks))]] = True
    return breaks
