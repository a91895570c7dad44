"""Cells of nvprof as numbers: times, sizes, rates, percent and levels.

Sizes count in powers of 1,024: 64 MB of a trace are 16,777,216 integers.
"""

import math
from decimal import Decimal, DecimalException
from functools import lru_cache

from traceroof.core import regex

_TIMES = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_SIZES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_CELL = regex.compile(r"(?P<number>-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z%]*(?:/s)?)")
#: A number of more digits is no time in ns: 10**18 ns are 31 years.
_DIGITS = 18
_LEVEL = regex.compile(r"(?:Idle|Low|Mid|High|Max) \((?P<level>\d+)\)")


def time_ns(cell: str, unit: str = "") -> int | None:
    """A time in ns, exactly; None where the cell holds none. ``unit``: the column's, if any."""
    found = _CELL.fullmatch(cell.strip())
    if found is None:
        return None
    scale = _TIMES.get(found["unit"] or unit)
    if scale is None:
        return None
    try:
        value = Decimal(found["number"]) * scale
        return int(value.to_integral_value()) if value.adjusted() < _DIGITS else None
    except DecimalException:  # beyond what Decimal holds
        return None


def size_bytes(cell: str, unit: str = "") -> float | None:
    """A size in bytes, or a rate in byte/s; None where the cell holds none."""
    found = _CELL.fullmatch(cell.strip())
    if found is None:
        return None
    scale = _SIZES.get((found["unit"] or unit).removesuffix("/s"))
    return None if scale is None else _finite(float(found["number"]) * scale)


@lru_cache(maxsize=65536)
def measured(cell: str) -> tuple[float | None, str]:
    """The value of a metric and its unit: percent as 0-100, levels as 0-10, rates in byte/s.

    Value None for what is no number (``<OVERFLOW>``, ``N/A``).
    """
    text = cell.strip()
    level = _LEVEL.fullmatch(text)
    if level is not None:
        return float(level["level"]), "level of 10"
    found = _CELL.fullmatch(text)
    if found is None:
        return None, ""
    unit = found["unit"]
    if unit.removesuffix("/s") in _SIZES:
        return size_bytes(text), "byte/s" if unit.endswith("/s") else "byte"
    return (_finite(float(found["number"])), unit) if unit in ("", "%") else (None, "")


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def whole(cell: str) -> int | None:
    """A whole number; None where the cell holds none."""
    text = cell.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
