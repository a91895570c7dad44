"""Values as people write them, checked, each with a sentence where it is none."""

from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from traceroof.errors import TraceroofError


def near(word: str, known: Sequence[str]) -> str:
    """What was meant, as a question; else what there is."""
    found = get_close_matches(word, known, n=2, cutoff=0.5)
    if found:
        return f"did you mean {' or '.join(found)}?"
    listed = ", ".join(known[:_LISTED])
    return f"there is {listed}{' and more' if len(known) > _LISTED else ''}" if known else ""


_LISTED = 12


def fits(pattern: str, name: str) -> bool:
    """Whether a kernel is meant: a part of its name in any case, or a pattern."""
    name, pattern = name.lower(), pattern.lower()
    return pattern in name or fnmatchcase(name, pattern)


def text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise TraceroofError(f"{where}: {value!r} is not text", 'write it in quotes: "…"')
    return value


def number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TraceroofError(f"{where}: {value!r} is not a number")
    return float(value)


def listed_of(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise TraceroofError(f"{where}: {value!r} is not a list", "write it in brackets: [ … ]")
    return value


def plain(value: Any) -> Any:
    """A value of TOML as JSON has it."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value
