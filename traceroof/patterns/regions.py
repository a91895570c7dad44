"""Regions of launches that follow one another, and what of them one launch would keep."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.patterns.launch_order import Launches

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """Regions of one pattern: first and last row of each, what would stay, whether it is known."""

    first: Ints
    last: Ints
    least: Reals
    kept: Reals
    gap: Reals
    known: Mask

    @staticmethod
    def none() -> "Found":
        no, zero = np.zeros(0, dtype=np.int64), np.zeros(0)
        return Found(no, no, zero, zero, zero, np.zeros(0, dtype=bool))


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


def launches_saved(rows: Launches, first: Ints, last: Ints) -> Found:
    """Regions that one launch could replace: it does the same work, without the fixed cost of
    each launch but one, and without the gaps."""
    fixed = np.minimum(rows.time, T_FLOOR_NS)
    time = rows.summed(rows.time, first, last)
    kept = time - rows.summed(fixed, first, last) + T_FLOOR_NS
    gap = rows.summed(rows.gap, first, last) - rows.gap[first]
    known = np.ones(len(first), dtype=bool)
    return Found(first, last, np.zeros(len(first)), np.minimum(kept, time), gap, known)


def joined(one: Found, other: Found) -> Found:
    def both(name: str) -> npt.NDArray[Any]:
        return np.concatenate((getattr(one, name), getattr(other, name)))

    return Found(
        both("first"), both("last"), both("least"), both("kept"), both("gap"), both("known")
    )
