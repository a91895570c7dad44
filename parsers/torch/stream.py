"""A Chrome trace as a stream: pieces of events out of one reused buffer, whatever the layout.

The file is never held as a whole. The buffer is filled, cut behind the last event that is complete
in it, and handed to the decoder in place: the comma behind that event becomes the ``]`` and the
byte before the first one the ``[`` of a JSON list. Where an event ends is told by what follows it
(``}, {"key":``), which cannot stand inside a JSON string, as its quotes would be escaped. A cut
that was wrong all the same, and a piece that is no JSON, fail to decode and are gone through event
by event.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from traceroof.core import regex
from traceroof.parsers.torch.repair import lenient, mended, unbroken

#: Bytes read at a time. Decoding is fastest while text and objects stay in the processor's cache.
PIECE_BYTES: Final = 1 << 19
# What one event, or one value beside the events, may take; a file that needs more has none.
_LONGEST_BYTES: Final = 1 << 28

_SPACE = b" \t\r\n"
_EVENT_KEYS = rb'"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:'
# End of one event and start of the next.
_BOUNDARY = regex.compile(rb"\}\s*,\s*\{\s*" + _EVENT_KEYS)
_EVENT_START = regex.compile(rb"\{\s*" + _EVENT_KEYS)
# End of the last event and of the list, as far as what follows tells.
_LIST_END = regex.compile(rb'\}\s*\](?=\s*(?:,\s*"|\}?\s*$))')
_EVENTS_KEY = regex.compile(rb'"traceEvents"\s*:\s*\[')
_KEY = regex.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)
_SCALAR = regex.compile(rb'"(?:[^"\\]|\\.)*"|[^\s,\]}"]+', re.DOTALL)
# Strings, so that what they hold is passed over; a lone quote opens one that does not end here.
_GOES_ON = regex.compile(rb"\][\s\]}]{0,64},\s*(?P<event>\{\s*" + _EVENT_KEYS + rb")")
_TOKEN = regex.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_FAILURES = (msgspec.MsgspecError, RecursionError)
_OFFSET = regex.compile(r"\(byte (\d+)\)")

# A key is a word; what has no end within this is none.
_LONGEST_KEY: Final = 1 << 12

# An event whose end is not in sight is waited for up to here, then given up as broken.
_PATIENCE_BYTES: Final = 1 << 20

# Beyond this many failures in one piece it is gone through event by event to its end.
_MOST_FAILURES = 8


class Source(Protocol):
    """What bytes are read from."""

    def readinto(self, buffer: memoryview, /) -> int: ...


class Buffer:
    """The part of a stream that is being looked at: ``data[start:end]``.

    One byte before ``start`` and one at ``end`` are always there to be overwritten.
    """

    def __init__(self, stream: Source, size: int = PIECE_BYTES) -> None:
        self._stream = stream
        self._size = max(size, 16)
        self.data = bytearray(self._size + 2)
        self.start = self.end = 1
        self.ended = False

    def fill(self) -> None:
        """Read until the buffer is full or the stream ends."""
        self._compact()
        with memoryview(self.data) as view:
            while self.end < len(view) - 1 and not self.ended:
                count = self._stream.readinto(view[self.end : -1])
                self.ended = not count
                self.end += count

    def more(self) -> bool:
        """Read on without giving up what is there; False when there is no more."""
        if self.ended:
            return False
        if self.end - self.start >= len(self.data) - 2:
            if len(self.data) > _LONGEST_BYTES:
                return False
            grown = bytearray(2 * len(self.data))
            grown[: self.end] = self.data[: self.end]
            self.data = grown
        before = self.end - self.start
        self.fill()
        return self.end - self.start > before

    def _compact(self) -> None:
        kept = self.end - self.start
        if self.start > 1:
            self.data[1 : 1 + kept] = self.data[self.start : self.end]
            self.start, self.end = 1, 1 + kept
        if len(self.data) > self._size + 2 and kept < self._size // 2:
            self.data = self.data[: self._size + 2]

    def skip(self, characters: bytes) -> int:
        """Pass over these characters; the byte that follows, or -1 at the end of the stream."""
        while True:
            while self.start < self.end:
                byte = self.data[self.start]
                if byte not in characters:
                    return byte
                self.start += 1
            if not self.more():
                return -1


# What searching for the ends of broken events may cost in all, in bytes: so much, and this part of
# the file. A file that is broken throughout would be searched to its end for every event.
_MOST_SCANNED = 4 << 20
_SCANNED_PART = 16
# Looking for the next boundary is that much cheaper than following brackets.
_SEARCH_IS_CHEAP = 16
# An event lacks no more closing brackets than it has levels.
_MOST_MISSING = 3
# Once that is spent, an event is this long at most.
_SHORT_EVENT_BYTES = 1 << 12


class NotJson(Exception):
    """The file begins with something that is neither a JSON object nor a list."""


CUT: Final = "the file is cut short: only what comes before the cut was read"
LOST: Final = "events that could not be read, left out"
MENDED: Final = "broken text in events, repaired"
BESIDE: Final = "broken text beside the events, passed over"
BEHIND: Final = "text behind the end of the trace, not read"


class Reader:
    """The events of one trace, in pieces, and what stands beside them.

    decode: turns the bytes of a JSON list into events.
    wanted: the top-level keys that ``metadata`` is to have, apart from the events.
    counts: what was repaired or lost, by the text of the note to make of it.
    has_ended: whether the end of a list of events was seen.
    """

    def __init__(
        self,
        stream: Source,
        decode: Callable[[Any], list[Any]],
        wanted: frozenset[str],
        size: int = PIECE_BYTES,
    ) -> None:
        self.buffer = Buffer(stream, size)
        self.decode = decode
        self.metadata: dict[str, Any] = {}
        self.counts: Counter[str] = Counter()
        self.has_ended = False
        self._wanted = wanted
        self._found: list[list[Any]] = []
        self._passed = self._scanned = 0

    def whole(self) -> Iterator[list[Any]]:
        """The events of a whole file. Raises NotJson when it is no JSON object or list."""
        buffer = self.buffer
        buffer.fill()
        if buffer.data.startswith(b"\xef\xbb\xbf", buffer.start):
            buffer.start += 3
        first = buffer.skip(_SPACE)
        if first not in (ord("["), ord("{")):
            raise NotJson
        buffer.start += 1
        yield from self.events() if first == ord("[") else self.members()
        self._note_what_follows()

    def rest(self) -> Iterator[list[Any]]:
        """The events from between two events to the end of the file."""
        yield from self.events()
        if self.has_ended and self.buffer.skip(_SPACE) != -1:
            yield from self.members()
            self._note_what_follows()

    def _note_what_follows(self) -> None:
        # Brackets too many happen where several processes wrote one file.
        if self.buffer.skip(_SPACE + b"]}\0") != -1:
            self.counts[BEHIND] = 1

    def members(self) -> Iterator[list[Any]]:
        """The events in the object whose members begin at the buffer's start."""
        buffer = self.buffer
        while (byte := buffer.skip(_SPACE + b",")) != -1:
            if byte == ord("}"):
                buffer.start += 1
                return
            key = self._key()
            if key is None:
                if not self._find_events():
                    break
                yield from self.events()
            elif buffer.skip(_SPACE) == ord("[") and key == "traceEvents":
                buffer.start += 1
                yield from self.events()
            else:
                self._value(key)
        self.counts[CUT] = 1

    def _key(self) -> str | None:
        """The key at the start of the buffer, passed over with its colon; None for other text."""
        buffer = self.buffer
        while True:
            found = _KEY.match(buffer.data, buffer.start, buffer.end)
            if found:
                buffer.start = found.end()
                return bytes(found[1]).decode("utf-8", "replace")
            known = buffer.end - buffer.start
            if buffer.data[buffer.start] != ord('"') or known > _LONGEST_KEY or not buffer.more():
                return None

    def _find_events(self) -> bool:
        """Go to the events further on, past text that is broken."""
        buffer = self.buffer
        while True:
            found = _EVENTS_KEY.search(buffer.data, buffer.start, buffer.end)
            if found:
                buffer.start = found.end()
                self.counts[BESIDE] += 1
                return True
            buffer.start = max(buffer.start, buffer.end - 64)
            if not buffer.more():
                buffer.start = buffer.end
                return False

    def _value(self, key: str) -> None:
        """Pass over one value; keep it where it is wanted."""
        buffer = self.buffer
        byte = buffer.skip(_SPACE)
        if byte == -1:
            return
        text = self._bracketed(key in self._wanted) if byte in b"{[" else self._scalar()
        if text and key in self._wanted:
            self.metadata[key] = lenient(text)

    def _scalar(self) -> bytes:
        buffer = self.buffer
        while True:
            found = _SCALAR.match(buffer.data, buffer.start, buffer.end)
            # A number that the buffer ends with may go on.
            if found and (found.end() < buffer.end or buffer.ended):
                buffer.start = found.end()
                return bytes(found[0])
            if not buffer.more():
                buffer.start += 1
                return b""

    def _bracketed(self, keep: bool) -> bytes:
        """Pass over an object or a list; its text, empty where it is not kept or has no end."""
        buffer = self.buffer
        depth, done = 0, 0
        while True:
            at, limit = buffer.start + done, buffer.end
            for token in _TOKEN.finditer(buffer.data, at, limit):
                mark = buffer.data[token.start()]
                if mark in b"{[":
                    depth += 1
                elif mark in b"}]":
                    depth -= 1
                elif token.end() - token.start() == 1:
                    limit = token.start()
                    break
                if depth == 0:
                    text = bytes(buffer.data[buffer.start : token.end()]) if keep else b""
                    buffer.start = token.end()
                    return text
            if keep:
                done = limit - buffer.start
            else:
                buffer.start = limit
            if not buffer.more():
                buffer.start = buffer.end
                return b""

    def events(self) -> Iterator[list[Any]]:
        """The events of the list whose entries begin at the buffer's start, up to its end."""
        buffer = self.buffer
        while True:
            buffer.fill()
            before = buffer.skip(_SPACE + b",") != -1 and buffer.start
            if not before:
                self.counts[CUT] = 1
                return
            self._passed += buffer.end - before
            cut = buffer.end if buffer.ended else self._last_boundary(buffer.end)
            # Without any: the last events and what follows the list, or one huge event.
            ended = self._run(cut if cut > 0 else buffer.end)
            found, self._found = self._found, []
            yield from found
            if ended:
                self.has_ended = True
                return
            if buffer.start == before and not buffer.more():
                # The event that the end of the file cut through.
                buffer.start = buffer.end

    def _last_boundary(self, end: int) -> int:
        """Where the last event before ``end`` that is whole ends, by what follows it; else -1."""
        buffer = self.buffer
        window = 1 << 12
        while True:
            start = max(buffer.start, end - window)
            last = -1
            for boundary in _BOUNDARY.finditer(buffer.data, start, end):
                last = boundary.start() + 1
            if last > 0 or start == buffer.start:
                return last
            window <<= 3

    def _decoded(self, start: int, end: int) -> list[Any]:
        """The events in ``data[start:end]``, decoded in place. Raises what the decoder raises."""
        data = self.buffer.data
        before, behind = data[start - 1], data[end]
        data[start - 1], data[end] = ord("["), ord("]")
        try:
            # Raw fields of the events point into the buffer until they are folded.
            return self.decode(memoryview(data)[start - 1 : end + 1])
        finally:
            data[start - 1], data[end] = before, behind

    def _run(self, cut: int) -> bool:
        """Find the events from the start of the buffer to ``cut``, if need be one by one.

        Moves the start behind everything that is dealt with, which may be short of ``cut`` or
        beyond it. Returns whether the list ended.
        """
        buffer = self.buffer
        failures = 0
        while True:
            byte = self._next()
            if byte == ord("]"):
                if self._goes_on(buffer.start):
                    continue
                buffer.start += 1
                return True
            if byte == -1 or buffer.start >= cut:
                return False
            if failures < _MOST_FAILURES:
                try:
                    self._found.append(self._decoded(buffer.start, cut))
                except _FAILURES as error:
                    failures += 1
                    ended = self._beginning(cut, error)
                    if ended is not None:
                        return ended
                else:
                    buffer.start = cut
                    return False
            if not self._one():
                return False

    def _goes_on(self, bracket: int) -> bool:
        """Whether the list goes on behind a bracket that seems to end it: the bracket belongs to a
        broken event where another follows. Moves the start of the buffer there."""
        found = _GOES_ON.match(self.buffer.data, bracket, self.buffer.end)
        if found:
            self.buffer.start = found.start("event")
            self.counts[LOST] += 1
        return found is not None

    def _next(self) -> int:
        """Pass over space and commas in the buffer; the byte that follows, or -1."""
        buffer = self.buffer
        while buffer.start < buffer.end:
            byte = buffer.data[buffer.start]
            if byte not in _SPACE and byte != ord(","):
                return byte
            buffer.start += 1
        return -1

    def _beginning(self, cut: int, error: Exception) -> bool | None:
        """Find the events before the place where decoding up to ``cut`` failed.

        Returns True when the list ends there, False when everything up to the cut is dealt with,
        None when the event now at the start of the buffer is to be looked at.
        """
        buffer = self.buffer
        start, message = buffer.start, str(error)
        offset = _OFFSET.search(message)
        where = min(start - 1 + int(offset[1]), cut) if offset else cut
        try:
            if "trailing characters" in message:
                end = buffer.data.rfind(b"]", start, where if where == cut else where - 1)
                self._found.append(self._decoded(start, end))
                if self._goes_on(end):
                    return None
                buffer.start = end + 1
                return True
            if isinstance(error, msgspec.ValidationError):
                self._found.append(self._each_of(bytes(buffer.data[start:cut])))
                buffer.start = cut
                return False
            if "UTF-8" in message or "escape" in message:
                text, count = unbroken(bytes(buffer.data[start:cut]))
                self._found.append(self.decode(b"[" + text + b"]"))
                self.counts[MENDED] += count
                buffer.start = cut
                return False
        except _FAILURES:
            pass
        end = self._last_boundary(where)
        if end > 0:
            try:
                self._found.append(self._decoded(start, end))
            except _FAILURES:
                return None
            buffer.start = end
            self._next()
        return None

    def _each_of(self, texts: bytes) -> list[Any]:
        """The events of a list in which something is no event."""
        events: list[Any] = []
        for text in msgspec.json.decode(b"[" + texts + b"]", type=list[msgspec.Raw]):
            try:
                events += self.decode(b"[" + bytes(text) + b"]")
            except msgspec.MsgspecError:
                self.counts[LOST] += 1
        return events

    def _one(self) -> bool:
        """Deal with what stands at the start of the buffer, whatever is wrong with it.

        Returns False when its end is not in the buffer.
        """
        buffer = self.buffer
        start = buffer.start
        if buffer.data[start] != ord("{"):
            if self._exhausted:
                return self._next_start(start)
            end = self._value_end(start)
            # A value of the list ends with it or before a comma; else something stands in its place.
            if end > 0 and bytes(buffer.data[end : end + 64]).lstrip()[:1] not in (b",", b"]", b""):
                return self._next_start(start)
            self.counts[LOST] += 1
            buffer.start = end if end > 0 else start + 1
            return True
        # What looks like the next event tells where this one ends, broken quotes or not; only
        # if that does not give an event, what is inside may look like one, and brackets decide.
        limit = min(buffer.end, start + _SHORT_EVENT_BYTES) if self._exhausted else buffer.end
        following = _BOUNDARY.search(buffer.data, start + 1, limit)
        behind = following.start() + 1 if following else -1
        self._scanned += ((behind if behind > 0 else limit) - start) // _SEARCH_IS_CHEAP
        if behind > 0 and self._take(start, behind):
            return True
        if self._exhausted:
            return (behind > 0 and self._take_closed(start, behind)) or self._next_start(start)
        end = self._value_end(start)
        if end > 0 and self._take(start, end):
            return True
        if not buffer.ended and (behind < 0 or end < 0) and buffer.end - start < _PATIENCE_BYTES:
            return False
        # Brackets that close give the event above; here they do not, or not as an event.
        if behind > 0 and self._take_closed(start, behind):
            return True
        return self._pass(start, end)

    @property
    def _exhausted(self) -> bool:
        """Whether searching for the ends of broken events has cost as much as it may."""
        return self._scanned > _MOST_SCANNED + self._passed // _SCANNED_PART

    def _next_start(self, start: int) -> bool:
        """Give a broken event up for whatever begins like one behind it."""
        buffer = self.buffer
        following = _EVENT_START.search(buffer.data, start + 1, buffer.end)
        buffer.start = following.start() if following else buffer.end
        self.counts[LOST] += 1
        return following is not None

    def _pass(self, start: int, end: int) -> bool:
        """Go behind a lost event, whose brackets close at ``end`` if they do (else -1), to what
        is surely the next one. Returns False when there is nothing more in the buffer."""
        buffer = self.buffer
        data = buffer.data
        if end > 0 and bytes(data[end : end + 64]).lstrip()[:1] in (b",", b"]"):
            self.counts[LOST] += 1
            buffer.start = end
            return True
        for found in _EVENT_START.finditer(data, start + 1, buffer.end):
            if self._exhausted:
                return self._next_start(start)
            before = bytes(data[max(start, found.start() - 64) : found.start()]).rstrip()
            # In a list or as a value it would be part of the broken event.
            if before[-1:] not in (b"[", b":", b"") and self._is_event(found.start()):
                self.counts[LOST] += 1
                buffer.start = found.start()
                return True
        ending = _LIST_END.search(data, start + 1, buffer.end) if buffer.ended else None
        if ending:
            self.counts[LOST] += 1
            buffer.start = ending.end() - 1
            return True
        # The end of the file cut through it; or nothing in a long stretch is an event.
        if not buffer.ended:
            self.counts[LOST] += 1
        buffer.start = buffer.end
        return False

    def _is_event(self, start: int) -> bool:
        end = self._value_end(start)
        try:
            return end > 0 and self._decoded(start, end)[0].ph is not None
        except _FAILURES:
            return False

    def _take(self, start: int, end: int) -> bool:
        """Find the one event ``data[start:end]``, mended if need be. Returns whether it is one."""
        is_mended = False
        try:
            found = self._decoded(start, end)
        except _FAILURES:
            text = mended(bytes(self.buffer.data[start:end]))
            is_mended = True
            try:
                found = self.decode(b"[" + (text or b"{") + b"]")
            except _FAILURES:
                return False
        # Part of a broken event can be an object too, but it has no phase.
        if found[0].ph is None:
            return False
        self.buffer.start = end
        if is_mended:
            self.counts[MENDED] += 1
        self._found.append(found)
        return True

    def _take_closed(self, start: int, end: int) -> bool:
        """Find the event ``data[start:end]`` that lacks a few closing brackets."""
        text = bytes(self.buffer.data[start:end])
        if len(text) > _SHORT_EVENT_BYTES:
            return False
        missing: list[bytes] = []
        for token in _TOKEN.finditer(text):
            mark = token[0]
            if mark in (b"{", b"["):
                missing.append(b"}" if mark == b"{" else b"]")
            elif mark in (b"}", b"]") and missing:
                missing.pop()
        if not 0 < len(missing) <= _MOST_MISSING:
            return False
        try:
            found = self.decode(b"[" + text + b"".join(reversed(missing)) + b"]")
        except _FAILURES:
            return False
        if len(found) != 1 or found[0].ph is None:
            return False
        self.buffer.start = end
        self.counts[MENDED] += 1
        self._found.append(found)
        return True

    def _value_end(self, start: int) -> int:
        """Where the value at ``start`` ends; -1 where its end is not in the buffer."""
        data, limit = self.buffer.data, self.buffer.end
        if data[start] not in b"{[":
            found = _SCALAR.match(data, start, limit)
            return found.end() if found else start + 1
        depth, end = 0, -1
        reached = start
        for token in _TOKEN.finditer(data, start, limit):
            mark, reached = data[token.start()], token.end()
            if mark in b"{[":
                depth += 1
            elif mark in b"}]":
                depth -= 1
            elif reached - token.start() == 1:
                break
            if depth == 0:
                end = reached
                break
        self._scanned += reached - start
        return end


def cuts(path: Path, size: int, step: int) -> list[int]:
    """Places behind events at which a plain file can be cut into sections of about ``step`` bytes,
    beginning with 0 and ending with its size."""
    found = [0]
    with path.open("rb") as file:
        for target in range(step, size - step // 2, step):
            file.seek(target)
            boundary = _BOUNDARY.search(file.read(_CUT_BYTES))
            if boundary:
                found.append(target + boundary.start() + 1)
    return [*found, size]


# Where no event ends within this, the file is not cut.
_CUT_BYTES: Final = 1 << 20
