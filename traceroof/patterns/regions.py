"""Regions of launches that follow one another, in a form that adds up over files.

A *sequence* is what a region is made of: the variants of its launches, in order. Regions with one
sequence differ in their times alone, so a file has few of them, and those of a thousand ranks are
the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.core.dictionary import together
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.kernels.variants import summed
from traceroof.patterns.launch_order import Launches

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: What a region keeps when fused is counted in thirds of nanoseconds: sums of whole numbers.
THIRDS = 3


@dataclass(frozen=True)
class Found:
    """Regions of one kind in one file: first and last launch of each, what would stay where its
    least time is not known, thirds of ns, and idle time for its launches, ns. period: launches after which the sequence starts
    again, 0 where it does not."""

    first: Ints
    last: Ints
    kept: Ints
    gap: Ints
    period: Ints

    @staticmethod
    def of(first: Ints, last: Ints, kept: Ints | None = None) -> "Found":
        none = np.zeros(len(first), dtype=np.int64)
        return Found(first, last, none if kept is None else kept, none, none)

    @staticmethod
    def none() -> "Found":
        return Found.of(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class Regions:
    """The regions of some files.

    regions: columns sequence, time_ns, count, kept, gap (sums over count regions that took time_ns).
    sequences: columns kind (number of the kind of region), length in launches, stored (launches that
    ``launches`` has of it: they repeat up to its length). launches: variants of all sequences, one
    after another. members: launches and time_ns by pattern and variant. time_ns: of all launches that
    were looked at.
    """

    regions: Mapping[str, Ints]
    sequences: Mapping[str, Ints]
    launches: Ints
    members: Mapping[str, Ints]
    time_ns: int

    @property
    def begin(self) -> Ints:
        """Where each sequence begins in ``launches``."""
        stored = self.sequences["stored"]
        return np.asarray(np.cumsum(stored) - stored, dtype=np.int64)


_NONE = np.zeros(0, dtype=np.int64)
NO_REGIONS = Regions(
    dict.fromkeys(("sequence", "time_ns", "count", "kept", "gap"), _NONE),
    dict.fromkeys(("kind", "length", "stored"), _NONE),
    _NONE,
    dict.fromkeys(("pattern", "variant", "launches", "time_ns"), _NONE),
    0,
)


def regions_of(
    rows: Launches, found: Sequence[Found], patterns: Sequence[int], variant: Ints, first: Ints
) -> Regions:
    """The regions of one file. found: by kind; patterns: what each kind is counted as. variant: of
    each row of the kernel table. first: the first variant of the kernel of each launch."""
    parts = [NO_REGIONS]
    for kind, one in enumerate(found):
        if not len(one.first):
            continue
        length = one.last - one.first + 1
        stored = np.where(one.period > 0, np.minimum(one.period, length), length)
        begin = np.cumsum(stored) - stored
        at = np.repeat(one.first - begin, stored) + np.arange(int(stored.sum()))
        parts.append(
            Regions(
                {
                    "sequence": np.arange(len(length)),
                    "time_ns": rows.summed(rows.time, one.first, one.last),
                    "count": np.ones(len(length), dtype=np.int64),
                    "kept": one.kept,
                    "gap": one.gap,
                },
                {"kind": np.full(len(length), kind), "length": length, "stored": stored},
                first[at],
                _members(rows, one, patterns[kind], variant),
                0,
            )
        )
    made = merge(parts)
    return Regions(made.regions, made.sequences, made.launches, made.members, int(rows.time.sum()))


def _members(rows: Launches, found: Found, pattern: int, variant: Ints) -> Mapping[str, Ints]:
    inside = rows.within(found.first, found.last)
    return {
        "pattern": np.full(len(inside), pattern),
        "variant": variant[rows.at[inside]],
        "launches": np.ones(len(inside), dtype=np.int64),
        "time_ns": rows.time[inside],
    }


def moved(one: Regions, place: Ints) -> Regions:
    """The regions, whose variants have other numbers now."""
    members = {**one.members, "variant": place[one.members["variant"]]}
    return Regions(one.regions, one.sequences, place[one.launches], members, one.time_ns)


def merge(parts: Sequence[Regions]) -> Regions:
    """The regions of several files as those of all, whatever their order."""
    launches = np.concatenate([one.launches for one in parts])
    sequences = _joined([one.sequences for one in parts])
    before = np.cumsum([0, *(len(one.sequences["kind"]) for one in parts)])[:-1].tolist()
    regions = _joined(
        [{**one.regions, "sequence": one.regions["sequence"] + at}
         for one, at in zip(parts, before, strict=True)]
    )  # fmt: skip
    marks = _marks(launches, sequences["stored"])
    order = np.lexsort((marks, sequences["length"], sequences["kind"]))
    number, first = together(
        (sequences["kind"][order], sequences["length"][order], _ranked(marks[order]))
    )
    new = np.empty(len(order), dtype=np.int64)
    new[order] = number
    first = order[first]
    begin = np.cumsum(sequences["stored"]) - sequences["stored"]
    kept = [launches[begin[at] : begin[at] + sequences["stored"][at]] for at in first.tolist()]
    return Regions(
        _added({**regions, "sequence": new[regions["sequence"]]}, ("sequence", "time_ns")),
        {name: one[first] for name, one in sequences.items()},
        np.concatenate([_NONE, *kept]),
        _added(_joined([one.members for one in parts]), ("pattern", "variant")),
        sum(one.time_ns for one in parts),
    )


def _ranked(values: npt.NDArray[np.uint64]) -> Ints:
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64)


def _marks(launches: Ints, stored: Ints) -> npt.NDArray[np.uint64]:
    """A number of 64 bits that tells sequences apart: collisions would only misname an example."""
    if not len(stored):
        return np.zeros(0, dtype=np.uint64)
    begin = np.cumsum(stored) - stored
    place = (np.arange(len(launches)) - np.repeat(begin, stored)).astype(np.uint64)
    mixed = (launches.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(29))) * (
        place * np.uint64(2) + np.uint64(0xBF58476D1CE4E5B9)
    )
    mixed ^= mixed >> np.uint64(32)
    return np.asarray(np.add.reduceat(mixed, begin), dtype=np.uint64)


def _joined(parts: Sequence[Mapping[str, Ints]]) -> dict[str, Ints]:
    return {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}


def _added(columns: Mapping[str, Ints], by: Sequence[str]) -> dict[str, Ints]:
    """Rows of equal ``by`` as one, in its order; the other columns add up."""
    order = np.lexsort([columns[name] for name in reversed(by)])
    codes, first = together(columns[name][order] for name in by)
    return {
        name: one[order][first] if name in by else summed(codes, one[order], len(first))
        for name, one in columns.items()
    }


def disjoint(first: Ints, last: Ints) -> Mask:
    """Regions, in order, that do not overlap the one before."""
    if not len(first):
        return np.zeros(0, dtype=bool)
    return np.append(True, first[1:] > np.maximum.accumulate(last)[:-1])


def runs(mask: Mask, least: int) -> tuple[Ints, Ints]:
    """First and last place of each run of True of a least length."""
    edge = np.diff(np.concatenate(([0], mask.astype(np.int8), [0])))
    first, last = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1) - 1
    long = last - first + 1 >= least
    return first[long].astype(np.int64), last[long].astype(np.int64)


def launches_saved(rows: Launches, first: Ints, last: Ints, period: Ints) -> Found:
    """Regions that one launch could replace: it does the same work, without the fixed cost of
    each launch but one, and without the gaps."""
    floor = int(T_FLOOR_NS)
    time = rows.summed(rows.time, first, last)
    kept = time - rows.summed(np.minimum(rows.time, floor), first, last) + floor
    gap = rows.summed(rows.gap, first, last) - rows.gap[first]
    return Found(first, last, np.minimum(kept, time) * THIRDS, gap, period)
