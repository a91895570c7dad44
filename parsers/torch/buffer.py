"""The part of a stream of bytes that is being looked at, in one reused buffer."""

import re
from functools import cache
from typing import Final, Protocol

#: Bytes read at a time. Decoding is fastest while text and objects stay in the processor's cache.
PIECE_BYTES: Final = 1 << 20
# What one event, or one value beside the events, may take; a file that needs more has none.
_LONGEST_BYTES: Final = 1 << 28


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

    def replace(self, start: int, end: int, text: bytes) -> None:
        """Put ``text``, which may be of another length, for ``data[start:end]``; in a buffer of its
        own, since what was decoded may point into this one."""
        self.data = self.data[:start] + text + self.data[end:]
        self.end += len(text) - (end - start)

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
            byte = self.pass_over(characters)
            if byte != -1 or not self.more():
                return byte

    def pass_over(self, characters: bytes) -> int:
        """Pass over these characters in the buffer; the byte that follows, or -1 at its end."""
        if self.start < self.end and self.data[self.start] in characters:
            other = _other_than(characters).search(self.data, self.start, self.end)
            self.start = other.start() if other else self.end
        return self.data[self.start] if self.start < self.end else -1


@cache
def _other_than(characters: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[^" + re.escape(characters) + b"]")
