"""Types of the compiled scanner (_scan.c)."""

from typing import Self

class Scanner:
    """layouts: by category (kind, absent, fields) of each column: kind 0 microseconds as nanoseconds,
    1 whole number (``absent`` where not given), 2 real (NaN where not given), 3 code of the texts of
    one or several fields. A field is one of the event, or behind "args." one of its arguments. An event
    of a layout without columns is only counted."""

    def __new__(
        cls, layouts: tuple[tuple[str, tuple[tuple[int, int, tuple[str, ...]], ...]], ...]
    ) -> Self: ...
    def scan(self, buffer: bytearray, start: int, end: int, /) -> int:
        """Take the events in these bytes, separated by commas, up to the first about which anything
        is not as usual; the place behind the last one taken, or ``start``."""

    def take(self) -> list[tuple[int, int, list[bytes]]]:
        """The rows since the last call, of each layout that has any: its number, how many, and the
        columns (numbers of 8 bytes, codes of 4)."""

    def texts(self, layout: int, column: int, code: int, /) -> tuple[bytes, ...]:
        """The JSON texts that a code stands for, empty where a field is not given."""
