"""Which kernel of HEAD is which kernel of BASE?

Kernel groups are paired by the first of several keys that both sides know: the same name with the
same launch and inputs, then ever looser ones. What is left over after the names may be one
kernel under another name: a compiler renumbers what it generates, a library or an autotuner picks
another tile. Such groups are paired by what they compute. A key that names several groups pairs
them all as one, so that their times stay complete.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

By = Literal["launch", "name", "inputs", "family", "operator", "order"]

#: How far a pair is to be trusted, 0-1: a name with its launch, a name, what was computed, place.
TRUST: dict[By, float] = {
    "launch": 0.95,
    "name": 0.8,
    "inputs": 0.7,
    "family": 0.55,
    "operator": 0.55,
    "order": 0.35,
}


@dataclass(frozen=True)
class Identity:
    """What a kernel group is known by.

    name: ``names.key`` of its name. launch: grid and block. inputs: shapes and types of the
    operator's inputs as recorded. first: place of its first launch. launches: of a step or run.
    """

    name: str
    launch: tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]
    inputs: tuple[str | None, str | None]
    operator: str | None
    category: str
    first: int
    launches: float


@dataclass(frozen=True)
class Pair:
    """Groups of the base and groups of the head that are one kernel; by: the key that said so.

    A kernel on one side only has none on the other, and no ``by``.
    """

    base: tuple[int, ...]
    head: tuple[int, ...]
    by: By | None


# Numbers in generated and tuned names: triton_poi_fused_add_3, cutlass_80_…_64x64_32x4.
_NUMBERS = re.compile(r"\d+")

_Key = Callable[[Identity], Hashable | None]
_KEYS: tuple[tuple[By, _Key], ...] = (
    ("launch", lambda one: (one.name, one.launch, one.inputs, one.category)),
    ("launch", lambda one: (one.name, one.launch)),
    ("name", lambda one: one.name),
    ("inputs", lambda one: (one.operator, one.inputs, one.category) if _worked(one) else None),
    ("family", lambda one: (_NUMBERS.sub("#", one.name), one.category)),
    ("operator", lambda one: (one.operator, one.category) if one.operator else None),
)


def _worked(one: Identity) -> bool:
    return one.operator is not None and one.inputs[0] is not None


def pair(base: Sequence[Identity], head: Sequence[Identity]) -> list[Pair]:
    """Pair the kernel groups of two sides; every group is in exactly one pair."""
    left = dict(enumerate(base))
    right = dict(enumerate(head))
    found: list[Pair] = []
    for by, key in _KEYS:
        mine, theirs = _by_key(left, key), _by_key(right, key)
        for one in [one for one in mine if one in theirs]:
            found.append(Pair(tuple(mine[one]), tuple(theirs[one]), by))
            for index in mine[one]:
                del left[index]
            for index in theirs[one]:
                del right[index]
    for one, other in list(_in_order(left, right)):
        found.append(Pair((one,), (other,), "order"))
        del left[one], right[other]
    found += [Pair((one,), (), None) for one in left]
    found += [Pair((), (other,), None) for other in right]
    return found


def _by_key(groups: dict[int, Identity], key: _Key) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for index, one in groups.items():
        name = key(one)
        if name is not None:
            found.setdefault(name, []).append(index)
    return found


def _in_order(left: dict[int, Identity], right: dict[int, Identity]) -> Iterator[tuple[int, int]]:
    """Groups of one category and as many launches, in the order in which they first ran.

    Only where operators are not known: where they are and differ, so does the work.
    """
    waiting: dict[Hashable, list[int]] = {}
    for index, key in _places(right):
        waiting.setdefault(key, []).append(index)
    for index, key in _places(left):
        if waiting.get(key):
            yield index, waiting[key].pop(0)


def _places(groups: dict[int, Identity]) -> Iterator[tuple[int, Hashable]]:
    for index, one in sorted(groups.items(), key=lambda item: item[1].first):
        if one.operator is None and one.category != "other":
            yield index, (one.category, one.launches)
