"""The events in a piece of a trace: all at once where it is JSON, else around what is broken.

Where decoding fails the events before the place are taken, the broken one is looked at alone and
mended or given up, and decoding goes on behind it: each event is decoded twice at most.
"""

from bisect import bisect_right
from typing import Any

import msgspec

from traceroof.parsers.torch.broken_events import FAILURES, LOST, MENDED, OFFSET, BrokenEvents
from traceroof.parsers.torch.event_text import BOUNDARY, GAP, GOES_ON, SPACE
from traceroof.parsers.torch.repair import unbroken

# Where more than so many events of a piece and this part are broken, each is looked at alone.
_FEW_FAILURES = 8
_FAILING_PART = 16
_PHASE = b'"ph"'

# Where bytes are no UTF-8 is looked for in so many at first.
_WINDOW = 1 << 12
_LONGEST_CHARACTER = 4

# After a failure whose place is unknown so much less is decoded at once.
_SHORTER = 4

# What became of the events before a place where decoding failed.
_ENDED, _ALL, _ONE, _SHORTEN = "ended", "all", "one", "shorten"


class Pieces(BrokenEvents):
    """What the buffer holds of a list of events."""

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
            except FAILURES as error:
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

    def _goes_on(self, bracket: int) -> bool:
        """Whether the list goes on behind a bracket that seems to end it: the bracket belongs to a
        broken event where another follows. Moves the start of the buffer there."""
        found = GOES_ON.match(self.buffer.data, bracket, self.buffer.end)
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
        whole, count = GAP.subn(rb"},\1", text)
        if count:
            self.counts[MENDED] += count
            buffer.replace(buffer.start, buffer.end, whole)
        return count > 0

    def _place(self, upto: int, message: str) -> int:
        """Where decoding up to ``upto`` failed; ``upto`` where that is not known."""
        start = self.buffer.start
        offset = OFFSET.search(message)
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
        except FAILURES:
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
            except FAILURES:
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
            except FAILURES:
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
