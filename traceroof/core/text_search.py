"""One pattern searched in many texts: what Python's ``re`` finds, in a twentieth of the time.

A pattern of Python is written anew for RE2, which Arrow runs over a whole column, with everything
left out that RE2 lacks (look-around, possessive repeats): it then finds the same texts and some more.
``re`` decides on these few. Texts beyond ASCII, on which the two differ, ``re`` searches alone.
"""

import importlib
import re
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

#: Below so many texts translating the pattern takes longer than searching.
FEW = 512
_LONGEST_REPEAT = 20  # RE2 writes repeats out; longer ones are relaxed to no limit


class Texts:
    """n texts that many patterns are searched in."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def found(self, pattern: re.Pattern[str], among: Mask | None = None) -> Mask:
        """In which texts ``pattern.search`` finds something; of ``among`` only, where given."""
        rows = self._candidates(pattern, among)
        result = np.zeros(len(self), dtype=bool)
        search = pattern.search
        result[[row for row in rows if search(self._texts[row])]] = True
        return result

    def _candidates(self, pattern: re.Pattern[str], among: Mask | None) -> list[int]:
        relaxed = None if len(self) < FEW else _relaxed(pattern.pattern, pattern.flags)
        if relaxed is None:
            rows = np.arange(len(self)) if among is None else np.flatnonzero(among)
            return list(rows.tolist())
        import pyarrow.compute as pc

        ascii_texts, others = self._as_array
        hits = np.array(pc.match_substring_regex(ascii_texts, relaxed)) | others
        return list(np.flatnonzero(hits if among is None else hits & among).tolist())

    @cached_property
    def _as_array(self) -> tuple[Any, Mask]:
        """The texts as an Arrow array, and which of them are beyond ASCII (empty there)."""
        import pyarrow as pa

        others = np.array([not text.isascii() for text in self._texts], dtype=bool)
        return pa.array([text if text.isascii() else "" for text in self._texts]), others


@cache
def _relaxed(pattern: str, flags: int) -> str | None:
    """The pattern for RE2, which finds every ASCII text that ``re`` finds; None where this module
    cannot write it."""
    try:
        # The one place that knows what a pattern consists of; private, so that it may go.
        parsed = importlib.import_module("re._parser").parse(pattern, flags)
        written = _sequence(parsed)
    except (ImportError, AttributeError, _Unwritable):
        return None
    return f"(?i){written}" if parsed.state.flags & re.IGNORECASE else written


class _Unwritable(Exception):
    pass


_CLASSES = {
    "CATEGORY_DIGIT": r"0-9",
    "CATEGORY_WORD": r"0-9A-Za-z_",
    "CATEGORY_SPACE": r"\x{9}-\x{d}\x{1c}-\x{20}",
    "CATEGORY_NOT_DIGIT": r"\x{0}-/:-\x{10ffff}",
}
_PLACES = {
    "AT_BEGINNING": r"\A",
    "AT_BEGINNING_STRING": r"\A",
    "AT_END": r"(?:\n?\z)",
    "AT_END_STRING": r"\z",
    "AT_BOUNDARY": r"\b",
    "AT_NON_BOUNDARY": r"\B",
}


def _sequence(parsed: Any) -> str:
    return "".join(_one(str(op), value) for op, value in parsed)


def _one(op: str, value: Any) -> str:
    match op:
        case "LITERAL":
            return _sign(value)
        case "NOT_LITERAL":
            return f"[^{_sign(value)}]"
        case "ANY":
            return "."
        case "IN":
            return _any_of(value)
        case "BRANCH":
            return f"(?:{'|'.join(_sequence(one) for one in value[1])})"
        case "SUBPATTERN":
            return _group(value)
        case "ATOMIC_GROUP":
            return f"(?:{_sequence(value)})"
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _repeat(*value)
        case "ASSERT" | "ASSERT_NOT":
            return ""
        case "AT" if str(value) in _PLACES:
            return _PLACES[str(value)]
        case _:
            raise _Unwritable


def _sign(code: int) -> str:
    return rf"\x{{{code:x}}}"


def _any_of(items: Any) -> str:
    parts = []
    for op, value in items:
        match str(op):
            case "NEGATE":
                parts.append("^")
            case "LITERAL":
                parts.append(_sign(value))
            case "RANGE":
                parts.append(f"{_sign(value[0])}-{_sign(value[1])}")
            case "CATEGORY" if str(value) in _CLASSES:
                parts.append(_CLASSES[str(value)])
            case _:
                raise _Unwritable
    return f"[{''.join(parts)}]"


def _group(value: Any) -> str:
    _, added, dropped, inner = value
    known = int(re.IGNORECASE)
    if (added | dropped) & ~known:
        raise _Unwritable
    mark = "i" if added & known else "-i" if dropped & known else ""
    return f"(?{mark}:{_sequence(inner)})"


def _repeat(least: int, most: Any, inner: Any) -> str:
    least = min(least, _LONGEST_REPEAT)
    limit = "" if str(most) == "MAXREPEAT" or most > _LONGEST_REPEAT else str(most)
    return f"(?:{_sequence(inner)}){{{least},{limit}}}"
