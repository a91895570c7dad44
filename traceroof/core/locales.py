"""Numbers as a locale writes them: what groups digits, and what begins decimals.

Whether "," or "." groups thousands depends on the locale of the machine, so ``vote`` decides once
per file from what only one reading allows.
"""

import math
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from traceroof.core import regex


class DecimalSign(Enum):
    """Which sign starts the decimals. UNDECIDED: both readings fit, so neither is taken."""

    POINT = "."
    COMMA = ","
    UNDECIDED = ""


#: Said of a file whose locale is another than that of most.
LOCALE_READ = "numbers read in the locale of the file: '.' groups digits, ',' begins decimals"

# What separates thousands beside "," and ".": blanks of all widths (French), apostrophes (Swiss).
_BLANKS = regex.compile("(?<=\\d)[\u00a0\u202f\u2009 '\u2019](?=\\d)")
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
        number = clean(text)
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


def plain(text: str, sign: DecimalSign) -> str:
    """A number as a program reads it: no groups, "." before decimals. Other text is not changed
    in what it says."""
    text = clean(text)
    if sign is DecimalSign.COMMA:
        text = text.translate(_SWAPPED)
    return text.replace(",", "") if _NUMBER_WITH_POINT.fullmatch(text) else text


_SWAPPED = str.maketrans(",.", ".,")


def decimals(text: str, sign: DecimalSign) -> int:
    """How many decimals a number was printed with."""
    mark = "," if sign is DecimalSign.COMMA else "."
    head, found, tail = clean(text).rpartition(mark)
    return len(tail) if found and head.lstrip("+-").replace(",", "").replace(".", "") else 0
