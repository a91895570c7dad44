"""How long launches took: how many took how long, of many things at once, in a form that adds up.

Each thing (a kernel group, a variant of launches) has a map from duration to count. It is exact up to
``MOST`` distinct durations; a thing with more is sketched: durations are counted in buckets that are
at most 0.2 % wide, so that what is read from them is at most 0.1 % off. Whether a thing is sketched,
and what its buckets hold, depends on its launches alone: maps add up in any order, in any grouping,
to the same result (the idea of DDSketch: Masson, Rim, Lee, VLDB 2019). Bounds of buckets are whole
nanoseconds from integer arithmetic, the same on every machine.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Distinct durations of a thing up to which its figures are exact.
MOST = 10_000
#: Relative error of a duration that is read from a sketch.
ERROR = 0.001


@dataclass(frozen=True)
class Durations:
    """Durations of n things, by thing and then by value.

    thing: number of the thing; value: ns, or a bucket's number where the thing is sketched;
    launches: how many took so long. sketched: of each of the n things.
    """

    thing: Ints
    value: Ints
    launches: Ints
    sketched: Mask

    @property
    def ns(self) -> Reals:
        """The duration of each entry, ns; the middle of its bucket where it is sketched."""
        coarse = self.sketched[self.thing]
        if not coarse.any():
            return self.value.astype(np.float64)
        low = _bounds()
        bucket = np.where(coarse, self.value, 0)
        middle = (low[bucket] + low[bucket + 1] - 1) / 2
        return np.where(coarse, middle, self.value.astype(np.float64))

    def by(self, place: Ints, count: int) -> "Durations":
        """The durations of ``count`` things that these are put together to; -1 for none.

        place: which of them each of these belongs to.
        """
        coarse = np.zeros(count, dtype=bool)
        coarse[place[self.sketched & (place >= 0)]] = True
        thing = place[self.thing]
        kept = thing >= 0
        thing, value, launches = thing[kept], self.value[kept], self.launches[kept]
        fine = coarse[thing] & ~self.sketched[self.thing[kept]]
        if fine.any():
            value = np.where(fine, _bucket(np.where(fine, value, 0)), value)
        return _limited(*_summed(thing, value, launches), coarse)


def counted(thing: Ints, ns: Ints, launches: Ints, count: int) -> Durations:
    """The durations of ``count`` things. thing, ns, launches: of each row, in any order."""
    return _limited(*_summed(thing, ns, launches), np.zeros(count, dtype=bool))


def together(parts: "list[Durations]") -> Durations:
    """The things of several, one after another."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(one.sketched) for one in parts)])[:-1].tolist()
    none = np.zeros(0, dtype=np.int64)
    return Durations(
        np.concatenate([none, *(one.thing + at for one, at in zip(parts, before, strict=True))]),
        np.concatenate([none, *(one.value for one in parts)]),
        np.concatenate([none, *(one.launches for one in parts)]),
        np.concatenate([none.astype(bool), *(one.sketched for one in parts)]),
    )


def at_ranks(found: Durations, part: float) -> Reals:
    """Of each thing the duration at a share of its launches in order, 0-1: of n launches the one at
    place ``round(part * (n - 1))``; NaN without launches."""
    count = len(found.sketched)
    total = np.bincount(found.thing, weights=found.launches, minlength=count)
    reached = np.cumsum(found.launches)
    wanted = np.cumsum(total) - total + np.rint(np.maximum(total - 1, 0) * part)
    at = np.searchsorted(reached, wanted, side="right")
    result = np.full(count, np.nan)
    some = total > 0
    result[some] = found.ns[at[some]]
    return result


def _summed(thing: Ints, value: Ints, launches: Ints) -> tuple[Ints, Ints, Ints]:
    """Entries of one thing and value as one, in order."""
    order = np.lexsort((value, thing))
    thing, value, launches = thing[order], value[order], launches[order]
    if not len(thing):
        return thing, value, launches
    new = np.append(True, (thing[1:] != thing[:-1]) | (value[1:] != value[:-1]))
    return thing[new], value[new], np.add.reduceat(launches, np.flatnonzero(new))


def _limited(thing: Ints, value: Ints, launches: Ints, sketched: Mask) -> Durations:
    """Entries in order, with those things sketched that have too many."""
    many = (np.bincount(thing, minlength=len(sketched)) > MOST) & ~sketched
    if many.any():
        fine = many[thing]
        value = np.where(fine, _bucket(np.where(fine, value, 0)), value)
        thing, value, launches = _summed(thing, value, launches)
    return Durations(thing, value, launches, sketched | many)


def _bucket(ns: Ints) -> Ints:
    return np.asarray(np.searchsorted(_bounds(), ns, side="right") - 1, dtype=np.int64)


@cache
def _bounds() -> Ints:
    """The least duration of each bucket, ns: single nanoseconds up to 1 µs, then 0.2 % each."""
    bounds = list(range(1001))
    while bounds[-1] < 1 << 61:
        bounds.append(bounds[-1] + 1 + bounds[-1] // 500)
    return np.array(bounds, dtype=np.int64)
