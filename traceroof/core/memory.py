"""Memory that is free in this process but not yet the system's."""

import ctypes
from contextlib import suppress


def give_back() -> None:
    """Give free memory back to the system, where the C library is one that keeps it among what is in
    use (glibc): after a trace of 1 GB 100 MB, which the diagnosis would come on top of."""
    with suppress(AttributeError, OSError, TypeError):  # another C library, or Windows
        ctypes.CDLL(None).malloc_trim(0)
