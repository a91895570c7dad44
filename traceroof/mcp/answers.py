"""Answers that fit: a page of a long answer, and where the next one begins.

An answer is a head and parts in their order, each part an item of one list. A page has the head and as
many parts as fit in ``MOST_BYTES``; ``more`` is where the next page begins, absent on the last.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from traceroof.core.units import one_line
from traceroof.errors import TraceroofError

#: No answer is longer, as UTF-8.
MOST_BYTES = 8_000
# A text is cut to these lengths, in turn, until what holds it fits.
_LENGTHS = (1_600, 800, 400, 200, 100, 40)
# What a single part may take, so that a page has room for the head.
_MOST_OF_PART = 3_500
_MOST_OF_HEAD = 4_000
_LONGEST_ERROR = 600


@dataclass(frozen=True)
class Answer:
    """head: stands on the first page. parts: (list, item) in their order; lists: what is there on the
    first page even where it is empty."""

    head: Mapping[str, Any]
    parts: Sequence[tuple[str, Any]] = ()
    lists: Sequence[str] = field(default=())


def page(answer: Answer, more: str | None = None) -> dict[str, Any]:
    """The page that begins at the cursor ``more``, the first by default, of at most ``MOST_BYTES``."""
    start = _start(more, len(answer.parts))
    made: dict[str, Any] = {}
    if not start:
        made = _fitting(dict(answer.head), _MOST_OF_HEAD)
        made |= {name: [] for name in answer.lists}
    room = MOST_BYTES - size(made) - len(', "more": "99999999"')
    for at in range(start, len(answer.parts)):
        name, item = answer.parts[at]
        item = _fitting(item, _MOST_OF_PART)
        # The brackets and the name of a list that is new, and a comma.
        room -= size(item) + 2 + (0 if name in made else size(name) + 6)
        if room < 0:
            return made | {"more": str(at)}
        made.setdefault(name, []).append(item)
    return made


def _start(more: str | None, parts: int) -> int:
    if more is None:
        return 0
    if not more.isdecimal() or len(more) > 8 or not 0 < int(more) < max(parts, 1):
        raise TraceroofError(
            f"{one_line(more)[:40]!r} is not a cursor of this answer",
            "give the value of `more` with the same arguments, or none for the first page",
        )
    return int(more)


def size(value: Any) -> int:
    """Bytes of a value as it is sent."""
    return len(text(value).encode())


def text(value: Any) -> str:
    """A value as JSON on one line."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def sentence(error: TraceroofError) -> str:
    """An error as one line of bounded length: what is wrong, and what to do."""
    said = one_line(f"{error.message}; {error.hint}" if error.hint else error.message)
    return said if len(said) <= _LONGEST_ERROR else f"{said[: _LONGEST_ERROR - 1]}…"


def _fitting(value: Any, most: int) -> Any:
    """The value with its texts as short as it takes to fit; lists end where even that is too much."""
    value = _plain(value)
    for length in _LENGTHS:
        cut = _cut(value, length)
        if size(cut) <= most:
            return cut
    return _shortened(cut, most)


def _cut(value: Any, length: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= length else f"{value[: length - 1]}…"
    if isinstance(value, Mapping):
        return {key[:length]: _cut(one, length) for key, one in value.items()}
    return [_cut(one, length) for one in value] if isinstance(value, list) else value


def _shortened(value: Any, most: int) -> Any:
    """Lists and mappings halved until they fit."""
    while size(value) > most:
        if isinstance(value, Mapping):
            longest = max(value, key=lambda key: size(value[key]))
            value = {**value, longest: _half(value[longest])}
        else:
            value = _half(value)
    return value


def _half(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(list(value.items())[: len(value) // 2])
    return value[: len(value) // 2] if isinstance(value, list | str) else None


def _number(value: float) -> float | int:
    """Nine digits are more than anything here is known to, and tell one ns in a second."""
    short = float(f"{value:.9g}") if abs(value) >= 1 else float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < _EXACT else short


# Beyond this, a number with a decimal exponent is shorter.
_EXACT = 1e12


def _plain(value: Any) -> Any:
    """Only what JSON has: no NaN, no infinity, no control characters in texts."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return _number(value) if math.isfinite(value) else None
    return one_line(value) if isinstance(value, str) else value
