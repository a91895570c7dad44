"""One broken event: looked at alone, mended or given up.

What would take longer than reading has a budget: searching for the end of a broken event, and
mending where it mends nothing.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from traceroof.core import regex
from traceroof.parsers.torch.buffer import Buffer
from traceroof.parsers.torch.event_text import BOUNDARY, EVENT_START, LIST_END, SCALAR, TOKEN
from traceroof.parsers.torch.repair import mended

FAILURES = (msgspec.MsgspecError, RecursionError)
OFFSET = regex.compile(r"\(byte (\d+)\)")

# An event whose end is not in sight is waited for up to here, then given up as broken.
_PATIENCE_BYTES: Final = 1 << 20

# What searching for the ends of broken events may cost in all, in bytes: so much, and this part of
# the file. A file that is broken throughout would be searched to its end for every event.
_MOST_SCANNED = 1 << 20
_SCANNED_PART = 64
# Looking for the next boundary is that much cheaper than following brackets.
_SEARCH_IS_CHEAP = 16
# An event lacks no more closing brackets than it has levels.
_MOST_MISSING = 3
# Once that is spent, an event is this long at most.
SHORT_EVENT_BYTES = 1 << 12

# Mending an event takes as long as reading twenty. So many may be tried in vain, and one in so many
# bytes; more only while this part of them is mended.
_TRIED_IN_VAIN = 1000
_BYTES_A_TRY = 1 << 14
_MENDED_PART = 4

LOST: Final = "events that could not be read, left out"
MENDED: Final = "broken text in events, repaired"


class BrokenEvents:
    """Takes the events of a buffer one by one.

    decode: turns the bytes of a JSON list into events. counts: what was repaired or lost, by the
    text of the note to make of it. found: the events of the piece that was looked at last.
    """

    def __init__(
        self, buffer: Buffer, decode: Callable[[Any], list[Any]], counts: Counter[str]
    ) -> None:
        self.buffer = buffer
        self.decode = decode
        self.counts = counts
        self.found: list[list[Any]] = []
        self._passed = self._scanned = 0
        self._tried = self._mended = 0

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
        limit = min(buffer.end, start + SHORT_EVENT_BYTES) if self._exhausted else buffer.end
        following = BOUNDARY.search(buffer.data, start + 1, limit)
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

    def _next_start(self, start: int) -> bool:
        """Give a broken event up for whatever begins like one behind it."""
        buffer = self.buffer
        following = EVENT_START.search(buffer.data, start + 1, buffer.end)
        buffer.start = following.start() if following else buffer.end
        self.counts[LOST] += 1
        return following is not None

    def _pass(self, start: int, end: int) -> bool:
        """Go behind a lost event, whose brackets close at ``end`` if they do (else -1), to what
        is surely the next one. Returns False when there is nothing more in the buffer."""
        buffer = self.buffer
        data = buffer.data
        closes = end > 0 and bytes(data[end : end + 64]).lstrip()[:1] in (b",", b"]")
        # A lost quote or bracket can make brackets close thousands of events later.
        for found in EVENT_START.finditer(data, start + 1, end if closes else buffer.end):
            if self._exhausted:
                return self._next_start(start)
            before = bytes(data[max(start, found.start() - 64) : found.start()]).rstrip()
            # In a list or as a value it would be part of the broken event.
            if before[-1:] not in (b"[", b":", b"") and self._is_event(found.start()):
                self.counts[LOST] += 1
                buffer.start = found.start()
                return True
        if closes:
            self.counts[LOST] += 1
            buffer.start = end
            return True
        ending = LIST_END.search(data, start + 1, buffer.end) if buffer.ended else None
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
        except FAILURES:
            return False

    def _take(self, start: int, end: int) -> bool:
        """Find the one event ``data[start:end]``, mended if need be. Returns whether it is one."""
        is_mended = False
        try:
            found = self._decoded(start, end)
        except FAILURES:
            if not self._may_mend:
                return False
            self._tried += 1
            is_mended = True
            text = mended(bytes(self.buffer.data[start:end]))
            try:
                found = self.decode(b"[" + (text or b"{") + b"]")
            except FAILURES:
                return False
        # Part of a broken event can be an object too, but it has no phase.
        if found[0].ph is None:
            return False
        self.buffer.start = end
        if is_mended:
            self._mended += 1
            self.counts[MENDED] += 1
        self.found.append(found)
        return True

    def _take_closed(self, start: int, end: int) -> bool:
        """Find the event ``data[start:end]`` that lacks a few closing brackets."""
        text = bytes(self.buffer.data[start:end])
        if len(text) > SHORT_EVENT_BYTES:
            return False
        missing: list[bytes] = []
        for token in TOKEN.finditer(text):
            mark = token[0]
            if mark in (b"{", b"["):
                missing.append(b"}" if mark == b"{" else b"]")
            elif mark in (b"}", b"]") and missing:
                missing.pop()
        if not 0 < len(missing) <= _MOST_MISSING:
            return False
        try:
            found = self.decode(b"[" + text + b"".join(reversed(missing)) + b"]")
        except FAILURES:
            return False
        if len(found) != 1 or found[0].ph is None:
            return False
        self.buffer.start = end
        self._mended += 1
        self.counts[MENDED] += 1
        self.found.append(found)
        return True

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

    def _value_end(self, start: int) -> int:
        """Where the value at ``start`` ends; -1 where its end is not in the buffer."""
        data, limit = self.buffer.data, self.buffer.end
        if data[start] not in b"{[":
            found = SCALAR.match(data, start, limit)
            return found.end() if found else start + 1
        try:
            # The decoder tells where a value ends, much faster than the brackets do.
            msgspec.json.decode(memoryview(data)[start:limit], type=msgspec.Raw)
            return limit
        except FAILURES as error:
            offset = OFFSET.search(str(error))
            reached = start + int(offset[1]) if offset else limit
            self._scanned += (reached - start) // _SEARCH_IS_CHEAP
            if "trailing characters" in str(error):
                return reached - 1  # it counts what it has read
            if "truncated" in str(error):
                return -1
        depth, end = 0, -1
        reached = start
        for token in TOKEN.finditer(data, start, limit):
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

    @property
    def _exhausted(self) -> bool:
        """Whether searching for the ends of broken events has cost as much as it may."""
        return self._scanned > _MOST_SCANNED + self._passed // _SCANNED_PART

    @property
    def _may_mend(self) -> bool:
        """Whether mending events one by one is worth its time."""
        in_vain = self._tried - _MENDED_PART * self._mended
        return in_vain < _TRIED_IN_VAIN + self._passed // _BYTES_A_TRY
