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
from itertools import chain
from pathlib import Path
from typing import Any, Final

from traceroof.core import regex
from traceroof.parsers.torch.buffer import PIECE_BYTES, Buffer, Source
from traceroof.parsers.torch.event_text import BOUNDARY, SCALAR, SPACE, TOKEN
from traceroof.parsers.torch.pieces import Pieces
from traceroof.parsers.torch.repair import lenient
from traceroof.parsers.torch.scanned import Scan, Taken

_EVENTS_KEY = regex.compile(rb'"traceEvents"\s*:\s*\[')
_KEY = regex.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*', re.DOTALL)

# A key is a word; what has no end within this is none.
_LONGEST_KEY: Final = 1 << 12


class NotJson(Exception):
    """The file begins with something that is neither a JSON object nor a list."""


CUT: Final = "the file is cut short: only what comes before the cut was read"
BESIDE: Final = "broken text beside the events, passed over"
BEHIND: Final = "text behind the end of the trace, not read"


class Reader:
    """The events of one trace, in pieces, and what stands beside them.

    decode: turns the bytes of a JSON list into events. scan: takes the usual ones before (``Pieces``).
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
        scan: Scan | None = None,
    ) -> None:
        self.buffer = Buffer(stream, size)
        self.metadata: dict[str, Any] = {}
        self.counts: Counter[str] = Counter()
        self.has_ended = False
        self._wanted = wanted
        self._pieces = Pieces(self.buffer, decode, self.counts, scan)

    def whole(self) -> Iterator[list[Any] | Taken]:
        """The events of a whole file. Raises NotJson when it is no JSON object or list."""
        buffer = self.buffer
        buffer.fill()
        if buffer.data.startswith(b"\xef\xbb\xbf", buffer.start):
            buffer.start += 3
        first = buffer.skip(SPACE)
        if first not in (ord("["), ord("{")):
            raise NotJson
        buffer.start += 1
        yield from self.events() if first == ord("[") else self.members()
        self._note_what_follows()

    def rest(self) -> Iterator[list[Any] | Taken]:
        """The events from between two events to the end of the file."""
        yield from self.events()
        if self.has_ended and self.buffer.skip(SPACE) != -1:
            yield from self.members()
            self._note_what_follows()

    def _note_what_follows(self) -> None:
        # Brackets too many happen where several processes wrote one file.
        if self.buffer.skip(SPACE + b"]}\0") != -1:
            self.counts[BEHIND] = 1

    def members(self) -> Iterator[list[Any] | Taken]:
        """The events in the object whose members begin at the buffer's start."""
        buffer = self.buffer
        while (byte := buffer.skip(SPACE + b",")) != -1:
            if byte == ord("}"):
                buffer.start += 1
                return
            key = self._key()
            if key is None:
                if not self._find_events():
                    break
                yield from self.events()
            elif buffer.skip(SPACE) == ord("[") and key == "traceEvents":
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
        byte = buffer.skip(SPACE)
        if byte == -1:
            return
        text = self._bracketed(key in self._wanted) if byte in b"{[" else self._scalar()
        if text and key in self._wanted:
            self.metadata[key] = lenient(text)

    def _scalar(self) -> bytes:
        buffer = self.buffer
        while True:
            found = SCALAR.match(buffer.data, buffer.start, buffer.end)
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
            for token in TOKEN.finditer(buffer.data, at, limit):
                mark = buffer.data[token.start()]
                if mark in b"{[":
                    depth += 1
                elif mark in b"}]":
                    depth -= 1
                elif token.end() - token.start() == 1:
                    limit = token.start()
                    break
                elif _EVENTS_KEY.match(buffer.data, token.start(), buffer.end):
                    # The value has lost an end: nothing but the trace has events.
                    self.counts[BESIDE] += 1
                    buffer.start = token.start()
                    return b""
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

    def events(self) -> Iterator[list[Any] | Taken]:
        """The events of the list whose entries begin at the buffer's start, up to its end."""
        buffer = self.buffer
        while True:
            buffer.fill()
            before = buffer.skip(SPACE + b",") != -1 and buffer.start
            if not before:
                self.counts[CUT] = 1
                return
            ended = self._pieces.read()
            if self._pieces.taken:
                yield self._pieces.taken
            # Folding has a cost per list, which a broken piece has many of.
            yield list(chain.from_iterable(self._pieces.found))
            if ended:
                self.has_ended = True
                return
            if buffer.start == before and not buffer.more():
                # The event that the end of the file cut through.
                buffer.start = buffer.end


def cuts(path: Path, size: int, step: int) -> list[int]:
    """Places behind events at which a plain file can be cut into sections of about ``step`` bytes,
    beginning with 0 and ending with its size."""
    found = [0]
    with path.open("rb") as file:
        for target in range(step, size - step // 2, step):
            file.seek(target)
            boundary = BOUNDARY.search(file.read(_CUT_BYTES))
            if boundary:
                found.append(target + boundary.start() + 1)
    return [*found, size]


# Where no event ends within this, the file is not cut.
_CUT_BYTES: Final = 1 << 20
