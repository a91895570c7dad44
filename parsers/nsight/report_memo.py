"""What was made of bytes that come again: launches of one kernel repeat much of what is said of them."""

from collections.abc import Callable
from typing import Generic, TypeVar

# Bytes that are remembered.
_MOST = 1 << 25

Made = TypeVar("Made")


class Memo(Generic[Made]):
    """What was made of bytes; it begins anew where these are too many."""

    def __init__(self) -> None:
        self._made: dict[bytes, Made] = {}
        self._bytes = 0

    def of(self, raw: bytes, make: Callable[[bytes], Made]) -> Made:
        """What is made of some bytes."""
        made = self._made.get(raw)
        if made is None:
            self._bytes += len(raw)
            if self._bytes > _MOST:
                self._made.clear()
                self._bytes = len(raw)
            made = self._made[raw] = make(raw)
        return made
