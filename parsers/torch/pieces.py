"""The events in a piece of a trace: all at once where it is JSON, else around what is broken.

Where decoding fails the events before the place are taken, the broken one is looked at alone and
mended or given up, and decoding goes on behind it. How much is decoded at once follows from how far
apart the failures are, so that few events are decoded twice.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from traceroof.parsers.torch.broken_events import FAILURES, LOST, MENDED, OFFSET, BrokenEvents
from traceroof.parsers.torch.buffer import PIECE_BYTES, Buffer
from traceroof.parsers.torch.event_text import BOUNDARY, GAP, GOES_ON, SPACE
from traceroof.parsers.torch.repair import unbroken
from traceroof.parsers.torch.scanned import SCANNED_AT_ONCE, Scan, Taken

# Where more than so many events of a piece and one in so many bytes are broken, no more is searched
# for the end of one than what looks like the next.
_FEW_FAILURES = 8
_BYTES_A_FAILURE = 1 << 12
# So many broken events of a file are looked at, and one in so many bytes, which takes about as long as
# reading the file; more where they can be mended. Behind others what is decoded at once is left out.
_LOOKED_AT = 5000
_BYTES_LOOKED_AT = 1 << 13
_PHASE = b'"ph"'
_BETWEEN = SPACE + b","

# Where bytes are no UTF-8, and where the event before a place ends, is looked for in so many at first.
_WINDOW = 1 << 12
_LONGEST_CHARACTER = 4
# What follows an event and tells its end, at most.
_BEHIND_BYTES = 1 << 6

# The end of an event among broken ones is searched this far.
_SEARCHED = 1 << 14

# Usual events of fewer bytes are not worth the change from decoding to the scan and back.
_LONG_RUN = 1 << 12

# What is decoded at once at least; after a failure whose place is unknown so much less is.
_LEAST_STRIDE = 1 << 12
_SHORTER = 4

# What became of the events before a place where decoding failed.
_ENDED, _ALL, _ONE, _SHORTEN = "ended", "all", "one", "shorten"


class Pieces(BrokenEvents):
    """What the buffer holds of a list of events.

    scan: takes the usual ones, so that only others are decoded; None for who wants all of them.
    taken: what it took of the piece that was looked at last and before, if it is to be folded now.
    """

    def __init__(
        self,
        buffer: Buffer,
        decode: Callable[[Any], list[Any]],
        counts: Counter[str],
        scan: Scan | None,
    ) -> None:
        super().__init__(buffer, decode, counts)
        self._scan = scan
        self.taken: Taken | None = None

    # Bytes decoded before the scan is asked again: one event, more where it took little.
    _unusual = 0
    # Bytes decoded at once: about half of what stands between two broken events, so that little is
    # decoded twice.
    _stride = PIECE_BYTES
    _failures = 0

    def read(self) -> bool:
        """Find the events from the start of the buffer to the last that is whole in it.

        Moves the start behind everything that is dealt with, which may be short of that or beyond
        it. Returns whether the list ended.
        """
        self.found = []
        has_ended = self._read()
        if self._scan:
            # Before events of a later piece are folded, so that the order does not depend on these.
            self.taken = self._scan.taken(0 if self.found else SCANNED_AT_ONCE)
        return has_ended

    def _read(self) -> bool:
        buffer = self.buffer
        self._passed += buffer.end - buffer.start
        cut = self._end()
        few = _FEW_FAILURES + (cut - buffer.start) // _BYTES_A_FAILURE
        failures = unusual_to = 0
        may_lack_commas = True
        while True:
            byte = self._next()
            if byte == ord("]"):
                if self._goes_on(buffer.start) or (failures and self._has_more(cut)):
                    continue
                buffer.start += 1
                return True
            if byte == -1 or buffer.start >= cut:
                return False
            if self._scan and buffer.start >= unusual_to:
                unusual_to = self._pass_usual(self._scan, cut)
                continue
            upto = self._stride_end(cut, unusual_to if self._scan else cut)
            try:
                self.found.append(self._decoded(buffer.start, upto))
            except FAILURES as error:
                message = str(error)
                if may_lack_commas and "expected ','" in message:
                    may_lack_commas = False
                    if self._commas(upto, message):
                        cut = self._end()
                        continue
                failures += 1
                done = self._beginning(upto, error)
                if done == _ENDED:
                    return True
                if done == _ONE and not (self._next_event(cut) if failures > few else self._one()):
                    return False
            else:
                buffer.start = upto
                self._stride = min(self._stride + self._stride // 4, PIECE_BYTES)

    def _pass_usual(self, scan: Scan, cut: int) -> int:
        """Let usual events be taken; how far to decode what follows them, beyond ``cut`` where
        nothing does."""
        buffer = self.buffer
        start = buffer.start
        buffer.start = scan.pass_over(buffer.data, start, cut)
        if buffer.start == cut:
            return cut
        if buffer.start > start and buffer.pass_over(SPACE) == ord("{"):
            self.counts[MENDED] += 1  # a comma that is not there
        unusual_to = buffer.start + 1 + self._unusual
        is_rare = buffer.start - start >= _LONG_RUN
        self._unusual = 0 if is_rare else min(max(2 * self._unusual, _LEAST_STRIDE), PIECE_BYTES)
        return unusual_to

    def _stride_end(self, cut: int, wanted: int) -> int:
        """Where the events end that are decoded at once: at ``wanted`` or soon behind it, or before."""
        at = min(self.buffer.start + self._stride, max(wanted, self.buffer.start + 1))
        limit = min(at + _SEARCHED, cut)
        found = BOUNDARY.search(self.buffer.data, at, limit) if at < cut else None
        return found.start() + 1 if found else cut

    def _end(self) -> int:
        """Where the last event in the buffer ends that is whole there. Without any: the end, for the
        last events and what follows the list, or for one huge event."""
        buffer = self.buffer
        last = -1 if buffer.ended else self._last_boundary(buffer.end)
        return last if last > 0 else buffer.end

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

    def _has_more(self, cut: int) -> bool:
        """The same by the events that are still to come in a broken piece."""
        start = self.buffer.start
        return bool(BOUNDARY.search(self.buffer.data, start, cut)) and self._next_start(start)

    def _next(self) -> int:
        """Pass over space and commas in the buffer; the byte that follows, or -1."""
        return self.buffer.pass_over(_BETWEEN)

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

    def _beginning(self, upto: int, error: Exception) -> str:
        """Find the events before the place where decoding up to ``upto`` failed.

        Returns _ENDED where the list ends there, _ALL when everything up to ``upto`` is dealt with,
        _ONE when the event now at the start of the buffer is to be looked at, _SHORTEN when less is
        to be decoded at once.
        """
        buffer = self.buffer
        start, message = buffer.start, str(error)
        if isinstance(error, msgspec.ValidationError):
            try:
                self.found.append(self._each_of(bytes(buffer.data[start:upto])))
            except FAILURES as broken:
                message = str(broken)  # which says where
            else:
                buffer.start = upto
                return _ALL
        where = self._place(upto, message)
        self._stride = max((where - start) // 2, _LEAST_STRIDE)
        try:
            if "trailing characters" in message:
                end = buffer.data.rfind(b"]", start, where if where == upto else where - 1)
                self.found.append(self._decoded(start, end))
                if self._goes_on(end):
                    return _ALL
                buffer.start = end + 1
                return _ENDED
            if "UTF-8" in message or "escape" in message:
                text, count = unbroken(bytes(buffer.data[start:upto]))
                self.found.append(self.decode(b"[" + text + b"]"))
                self.counts[MENDED] += count
                buffer.start = upto
                return _ALL
        except FAILURES:
            pass
        ends = self._ends_before(min(where, upto - 1))
        for end in ends:
            try:
                self.found.append(self._decoded(start, end))
            except FAILURES:
                continue
            buffer.start = end
            self._next()
            break
        else:
            if ends and where == upto:
                self._stride = min((upto - start) // _SHORTER, ends[0] - 1 - start)
                if self._stride_end(upto, upto) < upto:
                    return _SHORTEN
        return _ONE if self._may_look_at_one else self._leave_out(upto)

    @property
    def _may_look_at_one(self) -> bool:
        """Whether looking at broken events one by one is worth its time."""
        self._failures += 1
        budget = _LOOKED_AT + self._passed // _BYTES_LOOKED_AT + self._mended // 2
        return self._failures <= budget

    def _leave_out(self, upto: int) -> str:
        """Give everything up to ``upto`` up."""
        self._failures -= 1
        self.counts[LOST] += max(1, self.buffer.data.count(_PHASE, self.buffer.start, upto))
        self.buffer.start = upto
        return _ALL

    def _ends_before(self, where: int) -> list[int]:
        """Where the last two events before a place end, by what follows each, the later one first.
        A string without its end goes on into the next event: then the one before is broken."""
        buffer = self.buffer
        limit = min(where + _BEHIND_BYTES, buffer.end)
        window = _WINDOW // _SHORTER
        while True:
            start = max(buffer.start, where - window)
            ends = [one.start() + 1 for one in BOUNDARY.finditer(buffer.data, start, limit)]
            ends = [end for end in ends if end <= where][-2:]
            if len(ends) == 2 or start == buffer.start:
                return ends[::-1]
            window <<= 3

    def _next_event(self, cut: int) -> bool:
        """Take or give up what stands before the next event, where many are broken. Returns False
        when its end is not in the buffer."""
        buffer = self.buffer
        start = buffer.start
        found = BOUNDARY.search(buffer.data, start + 1, min(start + _SEARCHED, cut))
        if found is None:
            # What stands last may be more than an event: the end of the list, and beyond.
            return self._one()
        end = found.start() + 1
        if not (self._may_mend and (self._take(start, end) or self._take_closed(start, end))):
            self.counts[LOST] += max(1, buffer.data.count(_PHASE, start, end))
            buffer.start = end
        return True

    def _each_of(self, texts: bytes) -> list[Any]:
        """The events of a list in which something is no event."""
        events: list[Any] = []
        for text in msgspec.json.decode(b"[" + texts + b"]", type=list[msgspec.Raw]):
            try:
                events += self.decode(b"[" + bytes(text) + b"]")
            except msgspec.MsgspecError:
                self.counts[LOST] += 1
        return events
