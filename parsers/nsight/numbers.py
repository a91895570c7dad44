"""Numbers and units as Nsight Compute prints them, in any locale and unit spelling.

Non-integers have two decimals, integers none; whether "," or "." groups thousands depends on the
locale of the machine, so ``vote`` decides once per file from what only one reading allows.
"""

import math
from collections.abc import Iterable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from traceroof.core import regex


class DecimalSign(Enum):
    """Which sign starts the decimals. UNDECIDED: both readings fit, so neither is taken."""

    POINT = "."
    COMMA = ","
    UNDECIDED = ""


# What separates thousands beside "," and ".": blanks of all widths (French), apostrophes (Swiss).
_BLANKS = regex.compile("(?<=\\d)[\u00a0\u202f\u2009 '\u2019](?=\\d)")
_NO_DECIMALS = regex.compile(r"\.0+$")
# So many cells that can be read in one way only are enough.
_ENOUGH_VOTES = 2000
_NUMBER_WITH_POINT = regex.compile(
    r"[+-]?(?:\d{1,3}(?:,\d{2,3})*,\d{3}|\d+)?(?:\.\d*)?(?:[eE][+-]?\d+)?"
)


def clean(text: str) -> str:
    """The number in a cell without what never matters: blanks, percent sign, typographic minus."""
    text = text.strip().replace("\u2212", "-")
    if text.endswith("%"):
        text = text[:-1].rstrip()
    return _BLANKS.sub("", text)


def split_instances(text: str) -> tuple[str, str]:
    """``"12.5 (1; 2; 3)"`` -> ``("12.5", "1; 2; 3")``; a cell without instances -> (text, "").

    The form comes from ``--print-metric-instances``.
    """
    if text.endswith(")"):
        aggregate, found, instances = text.partition(" (")
        if found and any(letter.isdigit() for letter in aggregate):
            return aggregate, instances[:-1]
    return text, ""


def _evidence(text: str, whole: bool) -> DecimalSign | None:
    """What a cleaned number with a separator says about the decimal sign; None: nothing."""
    comma, point = text.rfind(","), text.rfind(".")
    if comma >= 0 and point >= 0:
        return DecimalSign.POINT if point > comma else DecimalSign.COMMA
    sign = "," if comma >= 0 else "."
    if_decimal = DecimalSign.COMMA if sign == "," else DecimalSign.POINT
    if_thousands = DecimalSign.POINT if sign == "," else DecimalSign.COMMA
    if text.count(sign) > 1:
        return if_thousands
    before, _, after = text.lstrip("+-").partition(sign)
    grouped = len(after) == 3 and 1 <= len(before) <= 3 and before[0] != "0"
    if not grouped:
        return if_decimal
    return if_thousands if whole else None


class Vote(NamedTuple):
    """The decimal sign of a file. by_groups: nothing but groups of three in whole numbers says so.

    unclear: how many cells have two readings, where no other cell decides between them.
    """

    sign: DecimalSign
    by_groups: bool = False
    unclear: int = 0


def vote(cells: Iterable[tuple[str, bool, bool]], *, spreadsheet: bool) -> Vote:
    """The decimal sign of a file.

    cells: (text, whole, base): a cell, whether its metric can only be a whole number, and whether
    its unit is one that is counted (ns, cycle, byte, warp): such a number may be a mean, but Nsight
    Compute prints means with two decimals, so three digits behind every sign are groups. Cells
    without "," or "." say nothing and may be left out.
    spreadsheet: the table was saved again by a spreadsheet. Otherwise, with no evidence at all,
    it is the point: every real file seen uses it, and a lone "1,234" is then 1234, as Nsight
    Compute never prints three decimals.
    """
    votes = {DecimalSign.POINT: 0, DecimalSign.COMMA: 0}
    grouped = {DecimalSign.POINT: 0, DecimalSign.COMMA: 0}
    undecided = voted = 0
    for text, whole, base in cells:
        number = clean(split_instances(text)[0])
        if not number or not (number[0].isdigit() or number[0] in "+-.,"):
            continue
        if "," not in number and "." not in number:
            continue
        evidence = _evidence(number, whole)
        if evidence is not None:
            votes[evidence] += 1
            voted += 1
            if voted == _ENOUGH_VOTES:
                break
        elif base:
            grouped[DecimalSign.POINT if "," in number else DecimalSign.COMMA] += 1
        else:
            undecided += 1
    if any(votes.values()):
        return Vote(max(votes, key=lambda sign: votes[sign]))
    if any(grouped.values()):
        sign = max(grouped, key=lambda sign: grouped[sign])
        return Vote(sign, sign is DecimalSign.COMMA)
    if undecided and spreadsheet:
        return Vote(DecimalSign.UNDECIDED, unclear=undecided)
    return Vote(DecimalSign.POINT, unclear=undecided)


def number(text: str, sign: DecimalSign) -> float:
    """The finite number in a cell, NaN where there is none (words, ``n/a``, ``inf``, empty)."""
    if sign is DecimalSign.POINT and text.replace(".", "", 1).isdecimal():
        return float(text)  # most cells, at a fifth of the cost
    text = clean(text)
    if sign is DecimalSign.COMMA:
        text = text.translate(_SWAPPED)
    elif sign is DecimalSign.UNDECIDED and ("," in text or "." in text):
        return math.nan
    if not text or not _NUMBER_WITH_POINT.fullmatch(text):
        return math.nan
    try:
        value = float(text.replace(",", ""))
    except ValueError:  # a lone sign or point
        return math.nan
    return value if math.isfinite(value) else math.nan


_SWAPPED = str.maketrans(",.", ".,")


def decimals(text: str, sign: DecimalSign) -> int:
    """How many decimals a number was printed with."""
    mark = "," if sign is DecimalSign.COMMA else "."
    head, found, tail = clean(text).rpartition(mark)
    return len(tail) if found and head.lstrip("+-").replace(",", "").replace(".", "") else 0


def whole(text: str | None) -> int | None:
    """An identifier or count: ``"7"``, ``"7.0"`` (re-saved), ``"1,024"``; None where it is none."""
    if not text:
        return None
    text = _NO_DECIMALS.sub("", text.strip()).replace(",", "")
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
