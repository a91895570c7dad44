"""One pattern searched in many texts: what Python's ``re`` finds, in a small part of the time.

Most patterns have a word that every text they fit must hold; where no text has it, nothing is
searched. Ten thousands of names consist of a few hundred words. A pattern of Python is written anew
for RE2, which Arrow runs over a whole column, with everything left out that RE2 lacks (look-around,
possessive repeats): where something was left out it finds the same texts and some more, and ``re``
decides on these few. Texts beyond ASCII, on which the two differ, ``re`` searches alone, but for those with
U+FFFD, which damaged bytes become: no pattern tells it from DEL, as both are no letter, digit or space.
"""

import importlib
import re
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.regex_words import required_words

Mask = npt.NDArray[np.bool_]

#: Below so many texts translating the pattern takes longer than searching.
FEW = 512
_LONGEST_REPEAT = 20  # RE2 writes repeats out; longer ones are relaxed to no limit


class Texts:
    """n texts that many patterns are searched in."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    @staticmethod
    def of(texts: "Sequence[str] | Texts") -> "Texts":
        """Texts as they are, or made of a list."""
        return texts if isinstance(texts, Texts) else Texts(texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: int) -> str:
        return self._texts[row]

    def found(self, pattern: re.Pattern[str], among: Mask | None = None) -> Mask:
        """In which texts ``pattern.search`` finds something; of ``among`` only, where given."""
        among = np.ones(len(self), dtype=bool) if among is None else among
        written = None if len(self) < FEW else _written(pattern.pattern, pattern.flags)
        if written is None:
            return self._searched(pattern, among)
        result = np.zeros(len(self), dtype=bool)
        if written.words is None or any(word in self._parts for word in written.words):
            import pyarrow.compute as pc

            hits = np.array(pc.match_substring_regex(self._ascii, written.text)) & among
            result = hits if written.exact else self._searched(pattern, hits)
        if self._has_others:
            result = result | self._searched(pattern, self._others & among)
        return result

    def _searched(self, pattern: re.Pattern[str], among: Mask) -> Mask:
        search, texts = pattern.search, self._texts
        result = np.zeros(len(self), dtype=bool)
        result[[row for row in np.flatnonzero(among).tolist() if search(texts[row])]] = True
        return result

    @cached_property
    def _plain(self) -> Sequence[str]:
        """The texts without U+FFFD."""
        if all(map(str.isascii, self._texts)):
            return self._texts
        return [text.replace("\ufffd", "\x7f") for text in self._texts]

    @cached_property
    def _others(self) -> Mask:
        """Which texts are beyond ASCII."""
        return np.array([not text.isascii() for text in self._plain], dtype=bool)

    @cached_property
    def _has_others(self) -> bool:
        return bool(self._others.any())

    @cached_property
    def _ascii(self) -> Any:
        """The texts as an Arrow array, empty where they are beyond ASCII."""
        import pyarrow as pa

        if not self._has_others:
            return pa.array(self._plain, pa.string())
        return pa.array([text if text.isascii() else "" for text in self._plain], pa.string())

    @cached_property
    def _parts(self) -> str:
        """What the ASCII texts consist of: each run of letters and underscores once, in small
        letters, however many names have it."""
        texts = self._ascii.to_pylist() if self._has_others else self._plain
        parts: set[bytes] = set()
        # Some at a time: as one text all would be there three times.
        for at in range(0, len(texts), _AT_ONCE):
            whole = "\n".join(texts[at : at + _AT_ONCE]).encode("ascii")
            parts.update(whole.translate(_TO_LETTERS).split())
        return b"\n".join(parts).decode()


_AT_ONCE = 4096
_LETTERS = string.ascii_lowercase + "_"
_TO_LETTERS = bytes(
    ord(letter) if (letter := chr(code).lower()) in _LETTERS else ord(" ") for code in range(256)
)


@dataclass(frozen=True)
class _Written:
    """A pattern for RE2, which finds every ASCII text that ``re`` finds; exact: and no other.
    words: one of them, in small letters, is in each of these texts; None where none must be."""

    text: str
    exact: bool
    words: frozenset[str] | None


@cache
def _written(pattern: str, flags: int) -> _Written | None:
    """The pattern for RE2; None where this module cannot write it."""
    try:
        # The one place that knows what a pattern consists of; private, so that it may go.
        parsed = importlib.import_module("re._parser").parse(pattern, flags)
        if parsed.state.flags & (re.MULTILINE | re.DOTALL):
            return None
        writer = _Writer()
        text = writer.sequence(parsed, first=True, last=True)
        return _Written(
            text=f"(?i){text}" if parsed.state.flags & re.IGNORECASE else text,
            exact=writer.exact,
            words=_words(pattern, flags),
        )
    except (ImportError, AttributeError, _Unwritable):
        return None


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


class _Writer:
    """Writes one pattern for RE2. exact: whether nothing was left out that says what is not found."""

    def __init__(self) -> None:
        self.exact = True

    def sequence(self, parsed: Any, *, first: bool, last: bool) -> str:
        """Some of the pattern; first: nothing stands before it, last: nothing behind it."""
        end = len(parsed) - 1
        return "".join(
            self.one(str(op), value, first=first and at == 0, last=last and at == end)
            for at, (op, value) in enumerate(parsed)
        )

    def one(self, op: str, value: Any, *, first: bool, last: bool) -> str:
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
                branches = (self.sequence(one, first=first, last=last) for one in value[1])
                return f"(?:{'|'.join(branches)})"
            case "SUBPATTERN":
                return self.group(value, first=first, last=last)
            case "ATOMIC_GROUP":
                self.exact = False
                return f"(?:{self.sequence(value, first=False, last=False)})"
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                self.exact &= op != "POSSESSIVE_REPEAT"
                return self.repeat(*value)
            case "ASSERT" | "ASSERT_NOT":
                return self.beside(op, *value, first=first, last=last)
            case "AT" if str(value) in _PLACES:
                return _PLACES[str(value)]
            case _:
                raise _Unwritable

    def group(self, value: Any, *, first: bool, last: bool) -> str:
        _, added, dropped, inner = value
        known = int(re.IGNORECASE)
        if (added | dropped) & ~known:
            raise _Unwritable
        mark = "i" if added & known else "-i" if dropped & known else ""
        return f"(?{mark}:{self.sequence(inner, first=first, last=last)})"

    def repeat(self, least: int, most: Any, inner: Any) -> str:
        has_limit = str(most) != "MAXREPEAT"
        self.exact &= least <= _LONGEST_REPEAT and not (has_limit and most > _LONGEST_REPEAT)
        least = min(least, _LONGEST_REPEAT)
        limit = str(most) if has_limit and most <= _LONGEST_REPEAT else ""
        return f"(?:{self.sequence(inner, first=False, last=False)}){{{least},{limit}}}"

    def beside(self, op: str, direction: int, inner: Any, *, first: bool, last: bool) -> str:
        """What must (not) stand before or behind. RE2 has no such look, but at an end of the pattern
        a sign that it takes changes nothing."""
        at_end = first if direction < 0 else last
        if not at_end or len(inner) != 1 or str(inner[0][0]) not in ("LITERAL", "IN"):
            self.exact = False
            return ""
        sign = inner[0][1]
        choice = _any_of([inner[0]] if str(inner[0][0]) == "LITERAL" else sign)
        if op == "ASSERT":
            return choice
        other = f"[{choice[2:]}" if choice.startswith("[^") else f"[^{choice[1:]}"
        return rf"(?:\A|{other})" if direction < 0 else rf"(?:{other}|\z)"


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


def _words(pattern: str, flags: int) -> frozenset[str] | None:
    """The longest run of letters and underscores of each word that a text needs (``_parts`` holds
    whole runs); None where it needs none."""
    found = (
        max(_RUN.findall(word), key=len, default="")
        for word in required_words(pattern, flags) or ("",)
    )
    runs = frozenset(found)
    return runs if all(runs) else None


_RUN = re.compile("[a-z_]+")
