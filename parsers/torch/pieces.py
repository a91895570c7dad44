"""The events in a piece of a trace: all at once where it is JSON, else around what is broken.

Where decoding fails the events before the place are taken, the broken one is looked at alone and
mended or given up, and decoding goes on behind it: each event is decoded twice at most. What would
take longer than reading has a budget: searching for the end of a broken event, and mending where
it mends nothing.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec

from traceroof.core import regex
from traceroof.parsers.torch.buffer import Buffer
from traceroof.parsers.torch.repair import mended, unbroken

SPACE: Final = b" \t\r\n"
_EVENT_KEYS = rb'"(?:ph|name|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:'
#: End of one event and start of the next.
BOUNDARY = regex.compile(rb"\}\s*,\s*\{\s*" + _EVENT_KEYS)
# The same without the comma.
_GAP = regex.compile(rb"\}(\s*\{\s*" + _EVENT_KEYS + rb")")
_EVENT_START = regex.compile(rb"\{\s*" + _EVENT_KEYS)
# End of the last event and of the list, as far as what follows tells.
_LIST_END = regex.compile(rb'\}\s*\](?=\s*(?:,\s*"|\}?\s*$))')
SCALAR = regex.compile(rb'"(?:[^"\\]|\\.)*"|[^\s,\]}"]+', re.DOTALL)
_GOES_ON = regex.compile(rb"\][\s\]}]{0,64},\s*(?P<event>\{\s*" + _EVENT_KEYS + rb")")
# Strings, so that what they hold is passed over; a lone quote opens one that does not end here.
TOKEN = regex.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\]]', re.DOTALL)
_FAILURES = (msgspec.MsgspecError, RecursionError)
_OFFSET = regex.compile(r"\(byte (\d+)\)")

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
_SHORT_EVENT_BYTES = 1 << 12

# Mending an event takes as long as reading twenty. So many may be tried in vain, and one in so many
# bytes; more only while this part of them is mended.
_TRIED_IN_VAIN = 1000
_BYTES_A_TRY = 1 << 14
_MENDED_PART = 4

# Where more than so many events of a piece and this part are broken, each is looked at alone.
_FEW_FAILURES = 8
_FAILING_PART = 16
_PHASE = b'"ph"'

# Where bytes are no UTF-8 is looked for in so many at first.
_WINDOW = 1 << 12
_LONGEST_CHARACTER = 4

# After a failure whose place is unknown so much less is decoded at once.
_SHORTER = 4

LOST: Final = "events that could not be read, left out"
MENDED: Final = "broken text in events, repaired"


class Pieces:
    """What the buffer holds of a list of events.

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

    def read(self) -> bool:
        """Find the events from the start of the buffer to the last that is whole in it.

        Moves the start behind everything that is dealt with, which may be short of that or beyond
        it. Returns whether the list ended.
        """
        buffer = self.buffer
        self.found = []
        self._passed += buffer.end - buffer.start
        cut = self._end()
        ends: list[int] = []  # of the events up to the cut, once something in them is broken
        at_once = failures = 0
        may_lack_commas = True
        while True:
            byte = self._next()
            if byte == ord("]"):
                if self._goes_on(buffer.start) or self._has_more(ends):
                    continue
                buffer.start += 1
                return True
            if byte == -1 or buffer.start >= cut:
                return False
            upto = cut
            if ends:
                upto = ends[min(bisect_right(ends, buffer.start) + at_once, len(ends)) - 1]
            try:
                self.found.append(self._decoded(buffer.start, upto))
            except _FAILURES as error:
                message = str(error)
                if may_lack_commas and "expected ','" in message:
                    may_lack_commas = False
                    if self._commas(upto, message):
                        cut, ends = self._end(), []
                        continue
                if not ends:
                    ends = self._ends(buffer.start, cut)
                    at_once = len(ends)
                failures += 1
                if failures > _FEW_FAILURES + len(ends) // _FAILING_PART:
                    if self._each(ends[:-1]):
                        return True
                    # What stands last may be more than an event: the end of the list, and beyond.
                    ends, failures = ends[-1:], 0
                    continue
                done = self._beginning(upto, error, ends, is_first=failures == 1)
                if done == _ENDED:
                    return True
                if done == _SHORTEN and at_once > 1:
                    at_once = max(at_once // _SHORTER, 1)
                elif done != _ALL and not self._one():
                    return False
            else:
                buffer.start = upto
                at_once *= 2

    def _end(self) -> int:
        """Where the last event in the buffer ends that is whole there. Without any: the end, for the
        last events and what follows the list, or for one huge event."""
        buffer = self.buffer
        last = -1 if buffer.ended else self._last_boundary(buffer.end)
        return last if last > 0 else buffer.end

    def _ends(self, start: int, cut: int) -> list[int]:
        """Where the events up to ``cut`` end, by what follows each."""
        found = [one.start() + 1 for one in BOUNDARY.finditer(self.buffer.data, start, cut)]
        return [*found, cut]

    def _last_boundary(self, end: int) -> int:
        """Where the last event before ``end`` that is whole ends, by what follows it; else -1."""
        buffer = self.buffer
        window = 1 << 12
        while True:
            start = max(buffer.start, end - window)
            last = -1
            for boundary in BOUNDARY.finditer(buffer.data, start, end):
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

    def _goes_on(self, bracket: int) -> bool:
        """Whether the list goes on behind a bracket that seems to end it: the bracket belongs to a
        broken event where another follows. Moves the start of the buffer there."""
        found = _GOES_ON.match(self.buffer.data, bracket, self.buffer.end)
        if found:
            self.buffer.start = found.start("event")
            self.counts[LOST] += 1
        return found is not None

    def _has_more(self, ends: list[int]) -> bool:
        """The same by the events that are still to come in a broken piece, where they end."""
        start = self.buffer.start
        return bisect_right(ends, start) < len(ends) - 1 and self._next_start(start)

    def _next(self) -> int:
        """Pass over space and commas in the buffer; the byte that follows, or -1."""
        buffer = self.buffer
        while buffer.start < buffer.end:
            byte = buffer.data[buffer.start]
            if byte not in SPACE and byte != ord(","):
                return byte
            buffer.start += 1
        return -1

    def _commas(self, upto: int, message: str) -> bool:
        """Put commas between events that have none between them, all in the buffer, if that is
        what decoding up to ``upto`` failed for."""
        buffer = self.buffer
        where = self._place(upto, message)
        if buffer.data[where : where + 1] != b"{":
            return False
        text = bytes(buffer.data[buffer.start : buffer.end])
        whole, count = _GAP.subn(rb"},\1", text)
        if count:
            self.counts[MENDED] += count
            buffer.replace(buffer.start, buffer.end, whole)
        return count > 0

    def _place(self, upto: int, message: str) -> int:
        """Where decoding up to ``upto`` failed; ``upto`` where that is not known."""
        start = self.buffer.start
        offset = _OFFSET.search(message)
        if offset:
            return min(start - 1 + int(offset[1]), upto)
        size = _WINDOW if "UTF-8" in message else upto - start
        while size < upto - start:
            try:
                self.buffer.data[start : start + size].decode()
            except UnicodeDecodeError as error:
                if error.start < size - _LONGEST_CHARACTER:
                    return start + error.start
            size *= _SHORTER
        return upto

    def _beginning(self, upto: int, error: Exception, ends: list[int], *, is_first: bool) -> str:
        """Find the events before the place where decoding up to ``upto`` failed.

        ends: where events end. is_first: whether nothing of the piece has failed before. Returns
        _ENDED where the list ends there, _ALL when everything up to ``upto`` is dealt with, _ONE
        when the event now at the start of the buffer is to be looked at, _SHORTEN when less is to
        be decoded at once.
        """
        buffer = self.buffer
        start, message = buffer.start, str(error)
        where = self._place(upto, message)
        try:
            if "trailing characters" in message:
                end = buffer.data.rfind(b"]", start, where if where == upto else where - 1)
                self.found.append(self._decoded(start, end))
                if self._goes_on(end):
                    return _ALL
                buffer.start = end + 1
                return _ENDED
            if isinstance(error, msgspec.ValidationError):
                self.found.append(self._each_of(bytes(buffer.data[start:upto])))
                buffer.start = upto
                return _ALL
            if is_first and ("UTF-8" in message or "escape" in message):
                text, count = unbroken(bytes(buffer.data[start:upto]))
                self.found.append(self.decode(b"[" + text + b"]"))
                self.counts[MENDED] += count
                buffer.start = upto
                return _ALL
        except _FAILURES:
            pass
        # A string without its end goes on into the next event: then the one before is broken.
        last = bisect_right(ends, where) - 1
        for at in (last, last - 1):
            if at < 0 or ends[at] <= start:
                return _ONE
            if ends[at] >= upto:
                break
            try:
                self.found.append(self._decoded(start, ends[at]))
            except _FAILURES:
                continue
            buffer.start = ends[at]
            self._next()
            return _ONE
        return _SHORTEN

    def _each(self, ends: list[int]) -> bool:
        """Look at each of the events that are left alone, by where they end. Returns whether the
        list ended."""
        buffer = self.buffer
        for end in ends[bisect_right(ends, buffer.start) :]:
            byte = self._next()
            if byte == ord("]") and not (self._goes_on(buffer.start) or self._has_more(ends)):
                buffer.start += 1
                return True
            start = buffer.start
            if start >= end:
                continue
            try:
                found = self._decoded(start, end)
            except _FAILURES:
                if self._may_mend and (self._take(start, end) or self._take_closed(start, end)):
                    continue
                self.counts[LOST] += max(1, buffer.data.count(_PHASE, start, end))
            else:
                self.found.append(found)
            buffer.start = end
        return False

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
        closes = end > 0 and bytes(data[end : end + 64]).lstrip()[:1] in (b",", b"]")
        # A lost quote or bracket can make brackets close thousands of events later.
        for found in _EVENT_START.finditer(data, start + 1, end if closes else buffer.end):
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
            if not self._may_mend:
                return False
            self._tried += 1
            is_mended = True
            text = mended(bytes(self.buffer.data[start:end]))
            try:
                found = self.decode(b"[" + (text or b"{") + b"]")
            except _FAILURES:
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

    @property
    def _may_mend(self) -> bool:
        """Whether mending events one by one is worth its time."""
        in_vain = self._tried - _MENDED_PART * self._mended
        return in_vain < _TRIED_IN_VAIN + self._passed // _BYTES_A_TRY

    def _take_closed(self, start: int, end: int) -> bool:
        """Find the event ``data[start:end]`` that lacks a few closing brackets."""
        text = bytes(self.buffer.data[start:end])
        if len(text) > _SHORT_EVENT_BYTES:
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
        except _FAILURES:
            return False
        if len(found) != 1 or found[0].ph is None:
            return False
        self.buffer.start = end
        self._mended += 1
        self.counts[MENDED] += 1
        self.found.append(found)
        return True

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
        except _FAILURES as error:
            offset = _OFFSET.search(str(error))
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


_ENDED, _ALL, _ONE, _SHORTEN = "ended", "all", "one", "shorten"
