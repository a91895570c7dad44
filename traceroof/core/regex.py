"""Regular expressions that cost nothing until they can fit.

Half of a small file's time went into compiling hundreds of patterns of formats and names that it
does not have.
"""

import re
from typing import Any, AnyStr, cast

from traceroof.core.regex_words import Words, required_words


def compile(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As ``re.compile``, at the first use that needs it; a wrong pattern is found by that."""
    return cast(re.Pattern[AnyStr], _Lazy(pattern, flags))


class _Lazy:
    """Stands for a compiled pattern and takes its methods over as they are asked for."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags
        self._words: Words = None
        self._scanned = False
        self._compiled: re.Pattern[Any] | None = None

    def search(self, text: Any, *place: int) -> re.Match[Any] | None:
        """As of a compiled pattern."""
        return None if self._lacks(text) else self._method("search")(text, *place)

    def match(self, text: Any, *place: int) -> re.Match[Any] | None:
        """As of a compiled pattern."""
        return None if self._lacks(text) else self._method("match")(text, *place)

    def fullmatch(self, text: Any, *place: int) -> re.Match[Any] | None:
        """As of a compiled pattern."""
        return None if self._lacks(text) else self._method("fullmatch")(text, *place)

    def __getattr__(self, name: str) -> Any:
        return self._method(name)

    def _method(self, name: str) -> Any:
        """A method of the compiled pattern; from now on it is called straight."""
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        for taken in ("search", "match", "fullmatch", name):
            setattr(self, taken, getattr(self._compiled, taken))
        return getattr(self._compiled, name)

    def _lacks(self, text: Any) -> bool:
        """Whether a text lacks a word that all texts hold which the pattern fits."""
        if not self._scanned:
            known = self.pattern
            self._words = required_words(
                known if isinstance(known, str) else known.decode("latin-1"), self._flags
            )
            self._scanned = True
        if self._words is None or not isinstance(text, str | bytes) or not text.isascii():
            return False
        small = (text if isinstance(text, str) else text.decode("ascii")).lower()
        return not any(word in small for word in self._words)
