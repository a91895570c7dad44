"""Things chosen by the number or the name that people type: kernels, subjects of a rule, rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TypeVar

from traceroof.core import kernel_names
from traceroof.core.units import count, one_line
from traceroof.errors import TraceroofError

Entry = TypeVar("Entry")


@dataclass(frozen=True)
class Narrowed:
    """What of a run is looked at: ``kernels`` of its ``of_kernels`` kernels, those that ``wanted``
    means. Shares, noise and verdicts keep the base of the whole run."""

    wanted: str
    kernels: int
    of_kernels: int

    @property
    def words(self) -> str:
        """'1 of 30 kernels (gemm)'."""
        return f"{self.kernels:,} of {count(self.of_kernels, 'kernel')} ({one_line(self.wanted)})"


_NEAR = 3


def choose(
    wanted: str, among: Sequence[str], *, one: str, many: str, numbered_by: str
) -> tuple[int, ...]:
    """Places of what ``wanted`` means: a number from 1 on (``3``, ``#3``), a part of a name in any
    case, or a pattern (``*gemm*``).

    one, many: what is chosen from, in words. numbered_by: where people see the numbers. Raises
    TraceroofError where nothing is meant, with names that are near.
    """
    number = wanted.strip().removeprefix("#")
    if number.isdecimal():
        if 1 <= int(number) <= len(among):
            return (int(number) - 1,)
        there = count(len(among), one, many)
        raise TraceroofError(f"there is no {one} {int(number)}: this run has {there}", numbered_by)
    sought = wanted.strip().lower()
    lowered = [name.lower() for name in among]
    found = [place for place, name in enumerate(lowered) if sought and sought in name]
    if not found:
        # A "*" may be the mark of a pointer in a name: a pattern is what is no part of one.
        pattern = f"*{sought}*"
        found = [
            place for place, name in enumerate(lowered) if sought and fnmatchcase(name, pattern)
        ]
    if not found:
        raise TraceroofError(
            f"no {one} has {wanted.strip()!r} in its name", _nearest(sought, among, numbered_by)
        )
    return tuple(found)


def _nearest(sought: str, among: Sequence[str], otherwise: str) -> str:
    """Names that are spelled like what was sought, as a question; else where all names stand."""
    words: dict[str, str] = {}
    for name in among[:_MOST]:
        function = kernel_names.function(name).split("<")[0].split("::")[-1] or name
        for word in (function, *re.split(r"[\W_]+", function)):
            words.setdefault(word.lower(), function)
    near = get_close_matches(sought, words, n=_NEAR, cutoff=0.5)
    shown = dict.fromkeys(words[one][:_LONGEST] for one in near)
    return f"did you mean {' or '.join(shown)}?" if shown else otherwise


# So many names are searched for one that is near, and so much of one is shown.
_MOST, _LONGEST = 2000, 80


def known_rule(rule_id: str, known: Mapping[str, Entry]) -> Entry:
    """The rule of that id. Raises TraceroofError, with ids that are near, where there is none."""
    found = known.get(rule_id)
    if found is None:
        near = [name for name in known if rule_id in name][:5]
        near = near or get_close_matches(rule_id, known, n=_NEAR)
        hint = f"did you mean {', '.join(near)}?" if near else "`traceroof rules` lists them"
        raise TraceroofError(f"no rule is called {rule_id}", hint)
    return found
