"""What became of launches and times where one value of a file is damaged, and what of it no reader
can know."""

import random
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traceroof
from tests.fuzzing.inputs import written
from tests.fuzzing.one_value import KINDS, Damage, damaged, sound_seeds
from tests.fuzzing.seeds import Seed
from traceroof.errors import TraceroofError

#: What a row of the kernel table is known by here: starts count from the first one.
_TIMES = ("start_ns", "duration_ns", "launch_count", "kind")

Row = tuple[Any, ...]
Signature = tuple[list[Row], set[str]]


def signature(path: Path) -> Signature:
    """Launches and times of what is read, and its notes."""
    recording = traceroof.read(path).recording
    columns = {name: recording.kernels[name].to_pylist() for name in _TIMES}
    first = min((one for one in columns["start_ns"] if one is not None), default=0)
    columns["start_ns"] = [None if one is None else one - first for one in columns["start_ns"]]
    rows = sorted(zip(*columns.values(), strict=True), key=repr)
    return rows, {str(note) for source in recording.all_sources for note in source.notes}


def outcome(seed: Seed, damage: Damage, sound: Signature, folder: Path) -> str:
    """What became of a damaged seed: "refused", "unchanged" launches and times, changed ones that a
    note tells of ("noted") or that are shown as "unknown", or ``class_of`` a silent change."""
    try:
        rows, notes = signature(written(seed, folder))
    except TraceroofError:
        return "refused"
    if rows == sound[0]:
        return "unchanged"
    if notes - sound[1]:
        return "noted"
    return (
        "unknown" if _only_unknown(sound[0], rows) else class_of(damage, len(rows) - len(sound[0]))
    )


def _only_unknown(before: Sequence[Row], after: Sequence[Row]) -> bool:
    """Whether all launches are there, and what changed of them is unknown."""
    lost = list((Counter(before) - Counter(after)).elements())
    new = list((Counter(after) - Counter(before)).elements())
    return len(lost) == len(new) and all(
        any(all(now in (None, then) for then, now in zip(old, row, strict=True)) for old in lost)
        for row in new
    )


#: A silent change that a reader could have noticed.
FAULT = "a fault of the reader"


@dataclass(frozen=True)
class Class:
    """A kind of damage of which a reader can know nothing: what was damaged, how, and what it did
    to the number of launches (signs: fewer, as many, more)."""

    name: str
    kinds: tuple[str, ...]
    field: str
    launches: tuple[int, ...] = (0,)


_NUMBER = ("digit", "times-ten", "unit", "sign", "neighbour")
_TIME = (
    r"(?i:(.*[._])?(start|end|begin|stop|dur|ts|s|ms|dispatch|complete)(ns|_?timestamp)?"
    r"|.*(duration|total ?time|total|avg|average|time \(ns\)|time: metric value|time_duration\.sum: metric value)(ns)?)( ?\((ns|us|ms|s)\))?"
)

# Offset and duration of an event, by the numbers of XPlane's fields.
_XLA_TIME = r"\.1\.3\.4\.[23]"

#: What no reader can know, first match first.
CLASSES = (
    Class("a launch that is gone: no number tells that it was there", ("deleted",),
          r"row|.*\[\]", (-1,)),
    Class("one of several measurements of a launch that is gone: the others stand for it",
          ("deleted",), r"row|.*\[\]"),
    Class("a launch that stands there twice, without number and start: two may last equally long",
          ("doubled",), "row", (1,)),
    Class("a start, an end or a duration that stays plausible", _NUMBER,
          rf"{_TIME}( <-> .*)?|.* <-> {_TIME}|{_XLA_TIME}"),
    Class("a number of launches that stays plausible", _NUMBER, r"(?i:.*(count|calls|instances))"),
    Class("the unit of a time, with nothing to hold it against", ("unit",),
          r"(?i:.*(duration|time).*)"),
)  # fmt: skip


def class_of(damage: Damage, more: int) -> str:
    """The class of a silent change; ``FAULT`` where it fits none. more: launches, beyond those of
    the sound file."""
    sign = (more > 0) - (more < 0)
    return next(
        (one.name for one in CLASSES
         if damage.kind in one.kinds and sign in one.launches and re.fullmatch(one.field, damage.field)),
        FAULT,
    )  # fmt: skip


def trial(name: str, number: int, sound: Sequence[Signature | None], folder: Path) -> str:
    """The outcome of damage ``number`` of a format, "none" where no value drawn has such damage.

    sound: the signature of each seed, None for one that is refused.
    """
    rng = random.Random(f"{name}:one value:{number}")
    at = rng.choice([n for n, one in enumerate(sound) if one is not None])
    before = sound[at]
    for _ in range(_DRAWS):
        made = damaged(sound_seeds(name)[at], KINDS[number % len(KINDS)], rng)
        if made is not None and before is not None:
            shutil.rmtree(folder / "input", ignore_errors=True)
            return outcome(*made, before, folder)
    return "none"


_DRAWS = 30


def sound_signatures(name: str, folder: Path) -> list[Signature | None]:
    """The signature of each seed of a format."""
    found: list[Signature | None] = []
    for number, seed in enumerate(sound_seeds(name)):
        try:
            found.append(signature(written(seed, folder / f"sound{number}")))
        except TraceroofError:
            found.append(None)
    return found
