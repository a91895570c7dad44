"""How one change reads: its mark, its words, and the lines that hold it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from traceroof.compare import Overall
from traceroof.compare.changes import Change
from traceroof.compare.verdicts import Word
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.diagnosis import KernelGroup
from traceroof.report.compare import words

Tone = Literal["worse", "better", "plain"]
#: What stands for something that is unknown, or that one side does not have.
DASH = "–"


@dataclass(frozen=True)
class Mark:
    """A verdict as a reader sees it: sign, word and colour say the same; rank: for sorting."""

    sign: str
    word: str
    tone: Tone
    rank: int


MARKS: Mapping[Word, Mark] = {
    "regressed": Mark("▲", "slower", "worse", 6),
    "new": Mark("+", "new", "plain", 5),
    "inconclusive": Mark("?", "unclear", "plain", 4),
    "improved": Mark("▼", "faster", "better", 3),
    "gone": Mark("−", "gone", "plain", 2),
    "unchanged": Mark("=", "same", "plain", 1),
    "not-compared": Mark("≠", "not compared", "plain", 0),
}
OVERALL: Mapping[Overall, Mark] = {
    "regressed": MARKS["regressed"],
    "improved": MARKS["improved"],
    "unchanged": Mark("=", "no change", "plain", 1),
    "inconclusive": Mark("?", "inconclusive", "plain", 4),
    "not-comparable": Mark("≠", "not comparable", "plain", 0),
}


@dataclass(frozen=True)
class Line:
    """A thing on both sides; ``mark`` is None where nothing judges it."""

    what: str
    base: str
    now: str
    change: str
    mark: Mark | None = None
    why: str = ""


@dataclass(frozen=True)
class KernelChange:
    """What a row of the kernel table says of its change; ``note``: what it rests on beside times."""

    times: str
    delta: str
    base_ns: float | None
    delta_ns: float | None
    mark: Mark
    note: str = ""


@dataclass(frozen=True)
class FixChange:
    """Whether the base had the fix too, and what it could save there. new: rules that only fire now."""

    mark: Mark
    saved: str
    new: frozenset[str]


@dataclass(frozen=True)
class Told:
    """A finding, or a fix that is gone: its title, rule, subject (``kernel``: index) and text."""

    title: str
    rule: str
    where: str
    kernel: int | None
    because: str
    fix: str = ""


@dataclass(frozen=True)
class Some:
    """The first of several entries, and how many more there are."""

    shown: Sequence[Any]
    left: int


NEW = Mark("+", "new", "plain", 5)
KEPT = Mark("=", "also in the base", "plain", 1)


def notes_of(change: Change) -> list[str]:
    together = len(groups_of(change, "head"))
    found = [f"{together} kernels together"] if together > 1 else []
    found += [calls] if (calls := words.calls(change)) else []
    return [*found, "by counters"] if change.basis == "counters" else found


def groups_of(change: Change, side: str) -> tuple[KernelGroup, ...]:
    if change.pair is None:
        return ()
    return change.pair.base if side == "base" else change.pair.head


def class_of(change: Change) -> str:
    found = words.bound_by(change)
    return DASH if found == "-" else found


def time_of(value: float | None) -> str:
    return DASH if value is None else quantity(value, "ns")


def share_of(value: float | None) -> str:
    return DASH if value is None else percent(value)


def count_of(value: float | None) -> str:
    return DASH if value is None else quantity(value)


def sides_of(change: Change) -> tuple[float | None, float | None]:
    """Time on both sides, ns; None where it is unknown, or where nothing of it ran."""
    base, head = (one.median_ns if one.launches else None for one in (change.base, change.head))
    return base, head


def mark_of(change: Change) -> Mark:
    """The verdict; what ran on one side only is new or gone unless more can be said."""
    base, head = sides_of(change)
    if change.verdict in ("unchanged", "inconclusive") and (base is None) != (head is None):
        return MARKS["gone" if head is None else "new"]
    return verdict_mark(change)


def arrow(base: float | None, now: float | None) -> str:
    """'10 → 11 µs'; a dash for a side that is unknown, or that does not have it."""
    if base is None or now is None:
        return DASH if base is None and now is None else f"{time_of(base)} → {time_of(now)}"
    return words.from_to(base, now)


def delta(change: Change) -> str:
    """'+30 µs (+10.0 %)'; a dash where times are unknown or do not compare."""
    if change.delta_ns is None:
        return DASH
    pct = words.change_pct(change) if change.base.median_ns else ""
    return words.signed(change.delta_ns) + (f" ({pct})" if pct else "")


def verdict_mark(change: Change) -> Mark:
    """The verdict; where only the number of calls turned the time, that."""
    mark, word = MARKS[change.verdict], words.more_or_less(change)
    return replace(mark, word=word) if word else mark
