"""Which kernel of HEAD is which kernel of BASE?

Kernel groups are paired by the first of several keys that both sides know: the same name with the
same launch and inputs, then ever looser ones. What is left over after the names may be one
kernel under another name: a compiler renumbers what it generates, a library or an autotuner picks
another tile. Such groups are paired by what they compute. A key that names several groups pairs
them all as one, so that their times stay complete.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from traceroof.core import regex

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
_NUMBERS = regex.compile(r"\d+")

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
    for one, other in list(_variants(left, right)):
        found.append(Pair((one,), (other,), "family"))
        del left[one], right[other]
    paired = _pair_of_each(found)
    for one, other in list(_in_order(base, head, left, right, paired)):
        found.append(Pair((one,), (other,), "order"))
        del left[one], right[other]
    found += [Pair((one,), (), None) for one in left]
    found += [Pair((), (other,), None) for other in right]
    return found


# What a new version of a kernel appends to its name: rms_norm_v2, rms_norm_kernel_float4, copyUnroll4.
_VARIANT = regex.compile(
    r"(?i)(_*(v(er|ersion)?_?\d+|(float|half|int|double|vec)\d|vectori[sz]ed|unroll(ed)?_*\d*|opt"
    r"|optimi[sz]ed|naive|tiled|fast|fused|new|old))+(?=\(|<|$)"
)


def _variants(left: dict[int, Identity], right: dict[int, Identity]) -> Iterator[tuple[int, int]]:
    """Groups whose names differ by what a version appends, where either side has one of that name:
    several versions in one program are kernels of their own."""

    def key(one: Identity) -> Hashable:
        return _VARIANT.sub("", one.name, count=1), one.category

    mine, theirs = _by_key(left, key), _by_key(right, key)
    for name in mine:
        if len(mine[name]) == len(theirs.get(name, ())) == 1:
            yield mine[name][0], theirs[name][0]


def _by_key(groups: dict[int, Identity], key: _Key) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = {}
    for index, one in groups.items():
        name = key(one)
        if name is not None:
            found.setdefault(name, []).append(index)
    return found


def _pair_of_each(found: Sequence[Pair]) -> tuple[dict[int, int], dict[int, int]]:
    """The number of the pair of each group that has one, of the base and of the head."""
    return (
        {index: number for number, one in enumerate(found) for index in one.base},
        {index: number for number, one in enumerate(found) for index in one.head},
    )


def _in_order(
    base: Sequence[Identity],
    head: Sequence[Identity],
    left: dict[int, Identity],
    right: dict[int, Identity],
    paired: tuple[dict[int, int], dict[int, int]],
) -> Iterator[tuple[int, int]]:
    """Groups of one category and as many launches, in the order in which they first ran.

    A category alone says nothing: half of all kernels are products or element-wise. So either
    their names share a word, or the same kernels ran before and after them. Only where operators
    are not known: where they are and differ, so does the work.
    """
    places = _places(base, left, paired[0]), _places(head, right, paired[1])
    waiting: dict[Hashable, list[int]] = {}
    for index, key in places[1]:
        waiting.setdefault(key, []).append(index)
    rest: list[int] = []
    for index, key in places[0]:
        if key is not None and waiting.get(key):
            yield index, waiting[key].pop(0)
        else:
            rest.append(index)
    free = {at for several in waiting.values() for at in several}
    saying: dict[Hashable, list[int]] = {}
    for at in sorted(free, key=lambda at: head[at].first):
        for key in _said(head[at]):
            saying.setdefault(key, []).append(at)
    for index in rest:
        alike = [at for key in _said(base[index]) for at in saying.get(key, ()) if at in free]
        if alike:
            first = min(alike, key=lambda at: head[at].first)
            free.discard(first)
            yield index, first


def _said(one: Identity) -> list[Hashable]:
    return [(one.category, one.launches, word) for word in _words(one.name)]


def _places(
    groups: Sequence[Identity], unpaired: dict[int, Identity], pair_of: dict[int, int]
) -> list[tuple[int, Hashable]]:
    """The groups that may be paired by order, in order, each with what surrounds it: category,
    launches and the pairs before and after; None in their place where neither has a pair."""
    order = sorted(range(len(groups)), key=lambda index: groups[index].first)
    after: dict[int, int | None] = {}
    following: int | None = None
    for index in reversed(order):
        after[index] = following
        following = pair_of.get(index, following)
    found: list[tuple[int, Hashable]] = []
    before: int | None = None
    for index in order:
        one = groups[index]
        if index in unpaired and one.operator is None and one.category != "other":
            between = (before, after[index])
            key = None if between == (None, None) else (one.category, one.launches, between)
            found.append((index, key))
        before = pair_of.get(index, before)
    return found


# Parts of names that many kernels have, whatever they compute; as `_words` writes them.
_EVERYWHERE = regex.compile(
    r"kernels?|void|const|float|double|half|n?v?bfloat|complex|long|unsigned|char|bool|true|false"
    r"|native|cuda|detail|internal|impl|device|host|global|template|struct|namespace|anonymous"
    r"|function|lambda|operator|tensor|array|index|data|naive|tiled|simple|basic|fast|slow|base"
    r"|optimi[sz]ed|default|version|test|main|cutlass|cublas|cudnn|triton|volta|turing|ampere|hopper"
)
_WORD = regex.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_SHORTEST = 4


def _words(name: str) -> frozenset[str]:
    """What a kernel's name says about its work: its words of four letters and more."""
    return frozenset(
        word
        for part in _WORD.findall(name)
        if len(word := part.lower()) >= _SHORTEST and not _EVERYWHERE.fullmatch(word)
    )
