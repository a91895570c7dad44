"""Regular expressions that cost nothing until they are used.

Half of a small file's time went into compiling hundreds of patterns of formats and names that it
does not have.
"""

import re
from typing import Any, AnyStr, cast


def compile(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As ``re.compile``, at the first use; a wrong pattern is found by that."""
    return cast(re.Pattern[AnyStr], _Lazy(pattern, flags))


class _Lazy:
    """Stands for a compiled pattern and takes its methods over as they are asked for."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        found = getattr(self._compiled, name)
        setattr(self, name, found)  # the next use does not come here
        return found
