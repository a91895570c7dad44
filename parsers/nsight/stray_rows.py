"""Rows of a table whose launch number, process or kernel name is damaged: launches that never were."""

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from traceroof.parsers.nsight.launches import Launches

Ints = npt.NDArray[np.int64]

#: A launch of damaged rows has this many times fewer rows than the one that it is torn from.
_FEWER = 3
# More of them are no damage.
_FEW, _FEW_SHARE, _MOST = 3, 0.05, 100


class Identity(Protocol):
    """What a table says of the launch of a row."""

    @property
    def name(self) -> str: ...
    @property
    def process_id(self) -> str: ...
    @property
    def launch_id(self) -> str: ...


class Remark(NamedTuple):
    """A rule's row: its launch, and the metric row that it comes after (-1: none)."""

    launch: int
    after: int


def drop_strays(launches: Launches) -> None:
    """Leave out rows of damaged identity, which would be launches of their own."""
    if launches.numbers or len(launches.found) < 2:
        return
    launch, slot, cell = (
        np.array(column, np.int64)
        for column in (launches.row_launch, launches.row_slot, launches.row_cell)
    )
    remarks = [Remark(one.launch, one.after) for one in launches.verdicts]
    strays = stray_launches(launches.found, launch, slot, remarks)
    if not strays:
        return
    keep = ~np.isin(launch, list(strays))
    # Of each row its place among those that are kept, or of the last kept one before it.
    place = np.cumsum(keep) - 1
    kept = [one for one in range(len(launches.found)) if one not in strays]
    number = {old: new for new, old in enumerate(kept)}
    verdicts = [one for one in launches.verdicts if one.launch not in strays]
    lost = int((~keep).sum()) + len(launches.verdicts) - len(verdicts)
    launches.note("rows whose number, process or kernel does not fit their launch, left out", lost)
    for one in verdicts:
        one.launch = number[one.launch]
        one.after = int(place[one.after]) if one.after >= 0 else -1
    launches.verdicts = verdicts
    launches.sources = [(number[one], table) for one, table in launches.sources if one in number]
    launches.found = [launches.found[one] for one in kept]
    launches.row_launch = array("i", [number[one] for one in launch[keep].tolist()])
    launches.row_slot = array("i", slot[keep].tolist())
    launches.row_cell = array("i", cell[keep].tolist())


def stray_launches(
    found: Sequence[Identity], launch: Ints, slot: Ints, remarks: Sequence[Remark]
) -> set[int]:
    """Which launches are rows torn from the launch beside them.

    found: the launches. launch, slot: of each metric row in file order, its launch and what it
    measures. A torn row stands among the rows of a launch that shares two of number, process and
    name with it, and that lacks just what the row measures.
    """
    if not all(one.launch_id for one in found) or not len(launch):
        return set()
    rows = np.bincount(launch, minlength=len(found))
    remarked = np.bincount([one.launch for one in remarks], minlength=len(found))
    total = rows + remarked
    small = np.flatnonzero((total > 0) & (total * _FEWER <= total.max()))
    if not 0 < len(small) <= min(max(_FEW, int(_FEW_SHARE * len(found))), _MOST):
        return set()
    places = {one.launch: one.after for one in remarks}
    strays = set()
    for one in small.tolist():
        at = np.flatnonzero(launch == one)
        measured = slot[at]
        beside = list(_beside(at, places.get(one, -1), launch, one))
        elsewhere = np.isin(launch, [one, *beside], invert=True)
        # Between two rows of one launch, or what other launches have there.
        told = len(beside) == 2 > len(set(beside)) or bool(np.isin(measured, slot[elsewhere]).any())
        for other in set(beside):
            is_larger = total[other] >= _FEWER * total[one]
            lacks = not np.isin(measured, slot[launch == other]).any()
            if told and is_larger and lacks and _shared(found[one], found[other]) >= 2:
                strays.add(one)
    return strays


def _beside(at: Ints, after: int, launch: Ints, own: int) -> Iterator[int]:
    """The launches of the rows before and behind those of one launch."""
    ends = (at[0] - 1, at[-1] + 1) if len(at) else (after, after + 1)
    for place in ends:
        if 0 <= place < len(launch) and launch[place] != own:
            yield int(launch[place])


def _shared(one: Identity, other: Identity) -> int:
    pairs = ((one.name, other.name), (one.process_id, other.process_id),
             (one.launch_id, other.launch_id))  # fmt: skip
    return sum(left == right for left, right in pairs)
