"""Cells and units as Nsight Compute prints them, in any unit spelling.

Non-integers have two decimals, integers none; of the locale see ``traceroof.core.locales``.
"""

from functools import lru_cache
from typing import NamedTuple

from traceroof.core import regex
from traceroof.core.locales import clean

# A spreadsheet writes "7.0" for 7; three zeros are a group of digits.
_NO_DECIMALS = regex.compile(r"\.0{1,2}$|\.0{4,}$")
_GROUPS = regex.compile(r"[+-]?\d{1,3}(?:[.,]\d{2,3})*[.,]\d{3}")


def split_instances(text: str) -> tuple[str, str]:
    """``"12.5 (1; 2; 3)"`` -> ``("12.5", "1; 2; 3")``; a cell without instances -> (text, "").

    The form comes from ``--print-metric-instances``.
    """
    if text.endswith(")"):
        aggregate, found, instances = text.partition(" (")
        if found and any(letter.isdigit() for letter in aggregate):
            return aggregate, instances[:-1]
    return text, ""


def whole(text: str | None) -> int | None:
    """An identifier or count: ``"7"``, ``"7.0"`` (re-saved), ``"1,024"``, ``"1.024"``; None where
    it is none."""
    if not text:
        return None
    text = _NO_DECIMALS.sub("", clean(text))
    if _GROUPS.fullmatch(text):
        text = text.replace(",", "").replace(".", "")
    # 18 digits fit into 64 bits.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


class Unit(NamedTuple):
    """A unit as printed, brought to its base.

    base: canonical unit: ``ns`` for times, ``Hz`` for cycles per second, ``byte/s``, ``%``, …;
    empty for none. scale: what a printed number is multiplied with.
    """

    base: str
    scale: float


# Prefixes are decimal: 32768 byte prints as 32.77 Kbyte (seen on real files).
_PREFIXES = {
    "K": 3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15,
    "m": -3, "u": -6, "µ": -6, "μ": -6, "n": -9, "p": -12,
}  # fmt: skip
# Spellings of the words that may carry a prefix, to one name.
_SCALED = {
    "s": "s", "sec": "s", "second": "s", "seconds": "s",
    "byte": "byte", "bytes": "byte", "B": "byte",
    "hz": "Hz", "Hz": "Hz", "HZ": "Hz",
    "W": "W", "J": "J",
}  # fmt: skip
_NO_UNIT = frozenset({"", "-", "none", "(none)", "nan", "NaN"})


@lru_cache(maxsize=4096)
def unit(text: str) -> Unit:
    """Read a unit: ``usecond``, ``Gbyte/s``, ``cycle/nsecond``, ``Kbyte/block``, ``Ghz``, ``%``.

    Words that are not known keep their spelling with scale 1: nothing is guessed about them.
    """
    text = text.strip()
    if text in _NO_UNIT:
        return Unit("", 1.0)
    above, slash, below = text.partition("/")
    name, power = _term(above)
    if not slash:
        return Unit("ns", 10.0 ** (power + 9)) if name == "s" else Unit(name, 10.0**power)
    per, power_below = _term(below)
    scale = 10.0 ** (power - power_below)
    if per == "s":
        return Unit("Hz", scale) if name in ("cycle", "") else Unit(f"{name}/s", scale)
    return Unit(f"{name}/{per}", scale)


def _term(text: str) -> tuple[str, int]:
    """A unit without a slash: its name, and the power of ten of its prefix."""
    text = text.strip()
    if text in _SCALED:
        return _SCALED[text], 0
    prefix, word = text[:1], text[1:]
    if prefix in _PREFIXES and word in _SCALED:
        name = _SCALED[word]
        # "mbyte" is a megabyte: there are no thousandths of a byte.
        return name, 6 if prefix == "m" and name in ("byte", "Hz") else _PREFIXES[prefix]
    if text.lower() in _SCALED:
        return _SCALED[text.lower()], 0
    return text, 0
