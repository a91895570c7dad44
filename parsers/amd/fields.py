"""Single values as AMD's files write them: numbers with many ways to say none, gfx targets."""

import re
from typing import Any

from traceroof.core import regex

#: What stands where there is no value, in lower case.
NO_VALUE = {"", "0", "na", "n/a", "none", "nan"}
# A gfx target: digits, then hexadecimal stepping (gfx90a), perhaps features (gfx90a:sramecc+).
_GFX = regex.compile(r"gfx[0-9a-f]{3,5}", re.IGNORECASE)


def read_real(text: Any) -> float | None:
    """A positive number, or None for the many ways to say that there is none."""
    if text is None or str(text).strip().lower() in NO_VALUE:
        return None
    try:
        value = float(str(text).strip())
    except ValueError:
        return None
    return value if 0 < value < 1e18 else None


def read_whole(text: Any) -> int | None:
    value = read_real(text)
    return int(value) if value is not None else None


def gfx(text: Any) -> str | None:
    """The gfx target in a text: ``gfx90a:sramecc+:xnack-`` is gfx90a."""
    match = _GFX.match(str(text).strip()) if text is not None else None
    return match.group().lower() if match else None


def gfx_of_version(version: Any) -> str | None:
    """90402 is gfx942, 90010 gfx90a: major, minor, and a stepping printed in hexadecimal."""
    number = read_whole(version)
    if number is None:
        return None
    return f"gfx{number // 10000}{number // 100 % 100}{number % 100:x}"
