"""Communication kernels as columns, and the process groups in which they ran."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import coded, together
from traceroof.core.kernel_table import UNKNOWN
from traceroof.timeline.lanes import Lane

Whole = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

# A list of all ranks; torch elides long ones: "[0, 1, ..., 63]".
_ALL_RANKS = regex.compile(r"\[?\s*\d+(\s*,\s*\d+)*\s*,?\s*\]?")
_NUMBER = regex.compile(r"\d+")


@dataclass(frozen=True)
class Group:
    """What identifies a group. Its ranks where the trace lists them all and the rank that says so
    is among them; else its name, the ranks as written (part of them) and its size, as far as they
    are known: '' and UNKNOWN where not."""

    ranks: tuple[int, ...] = ()
    name: str = ""
    written: str = ""
    size: int = UNKNOWN


@dataclass(frozen=True)
class Called:
    """A group as some ranks call it: its name, ranks and size as written, '' and UNKNOWN where not
    known; and what that identifies."""

    name: str
    ranks: str
    size: int
    group: Group


@dataclass(frozen=True)
class Collectives:
    """n communication kernels.

    operation, step, group: n numbers, of the texts ``operations`` and ``steps``, which are sorted, and
    of ``groups``. rank: UNKNOWN where not known. size: payload in bytes, -1 where not known.
    start, end: ns on the rank's own clock.
    """

    operation: Whole
    step: Whole
    group: Whole
    rank: Whole
    size: Reals
    start: Whole
    end: Whole
    operations: Sequence[str]
    steps: Sequence[str]
    groups: Sequence[Called]

    def some(self, chosen: npt.NDArray[Any]) -> "Collectives":
        """Those of a mask or of positions."""
        rows = ("operation", "step", "group", "rank", "size", "start", "end")
        return replace(self, **{name: getattr(self, name)[chosen] for name in rows})


#: The communication kernels of timelines. timeline: position of the timeline. rank: UNKNOWN where not
#: known. size: payload in bytes, -1 where not known. start, end: ns on the rank's own clock.
#: group_name, group_ranks, group_size: as written, '' and UNKNOWN where not known.
COLLECTIVES: pa.Schema = pa.schema(
    [
        ("timeline", pa.int64()),
        ("rank", pa.int64()),
        ("operation", pa.string()),
        ("size", pa.float64()),
        ("step", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("group_name", pa.string()),
        ("group_ranks", pa.string()),
        ("group_size", pa.int64()),
    ]
)


def collectives_of(lane: Lane, timeline: int) -> pa.Table:
    """``COLLECTIVES`` of one timeline."""
    if not lane.is_communication.any():
        return COLLECTIVES.empty_table()
    sent = of_lane(lane)

    def texts(values: Sequence[str], codes: Whole) -> pa.Array:
        return pa.array(values, pa.string()).take(pa.array(codes))

    columns = {
        "timeline": np.full(len(sent.rank), timeline, dtype=np.int64),
        "rank": sent.rank,
        "operation": texts(sent.operations, sent.operation),
        "size": sent.size,
        "step": texts(sent.steps, sent.step),
        "start": sent.start,
        "end": sent.end,
        "group_name": texts([one.name for one in sent.groups], sent.group),
        "group_ranks": texts([one.ranks for one in sent.groups], sent.group),
        "group_size": np.array([one.size for one in sent.groups])[sent.group],
    }
    return pa.table(columns, schema=COLLECTIVES)


def with_groups(collectives: pa.Table) -> Collectives:
    """``COLLECTIVES`` with what identifies the group of each."""
    operation, step, name, ranks = (
        coded(collectives[one]) for one in ("operation", "step", "group_name", "group_ranks")
    )
    rank, size = (collectives[one].to_numpy() for one in ("rank", "group_size"))
    of_row, first = together((name.codes, ranks.codes, size, rank))
    made = zip(
        name.at(first), ranks.at(first), size[first].tolist(), rank[first].tolist(), strict=True
    )
    groups = [_called(str(called), str(written), *rest) for called, written, *rest in made]
    # The members of one group share one object: a list of a thousand ranks is there once.
    shared = {one.group: one.group for one in groups}
    return Collectives(
        **_texts("operation", operation.codes, operation.texts),
        **_texts("step", step.codes, step.texts),
        group=of_row,
        groups=[replace(one, group=shared[one.group]) for one in groups],
        rank=rank,
        **{one: collectives[one].to_numpy() for one in ("size", "start", "end")},
    )


def of_lane(lane: Lane) -> Collectives:
    """The communication kernels of a timeline. A kernel whose operation is not known goes by its
    name."""
    at = lane.at[lane.is_communication]
    rows = lane.rows
    number, known = rows.text("collective", at)
    name = np.where(rows.name[at] >= 0, rows.name[at], len(rows.names))
    operation = np.where(number >= 0, number, len(known) + name)
    name, names = rows.text("process_group", at)
    ranks, lists = rows.text("group_ranks", at)
    size = rows.wholes("group_size", at)
    of_row, first = together((name, ranks, size))
    names, lists = [*names, ""], [*lists, ""]
    return Collectives(
        **_texts("operation", operation, [*known, *rows.names, ""]),
        **_texts("step", rows.step[at], [*rows.step_names, ""]),
        group=of_row,
        groups=[
            _called(str(names[name[one]]), str(lists[ranks[one]]), int(size[one]), lane.rank)
            for one in first
        ],
        rank=np.full(len(at), UNKNOWN if lane.rank is None else lane.rank, dtype=np.int64),
        size=np.nan_to_num(rows.reals("message_bytes", at), nan=-1.0),
        start=rows.start[at],
        end=rows.end[at],
    )


def _texts(name: str, codes: npt.NDArray[Any], texts: Sequence[str]) -> dict[str, Any]:
    """A column of texts as numbers in the order of the texts. -1 is the last text."""
    used, number = np.unique(codes, return_inverse=True)
    found = [str(texts[one]) for one in used]
    place = {text: at for at, text in enumerate(sorted({*found}))}
    places = np.array([place[text] for text in found], dtype=np.int64)
    return {name: places[number], f"{name}s": list(place)}


def _called(name: str, written: str, size: int, rank: int | None) -> Called:
    return Called(name, written, size, _group(name, written, size, rank))


def _group(name: str, written: str, size: int, rank: int | None) -> Group:
    if _ALL_RANKS.fullmatch(written.strip()):
        ranks = tuple(sorted({int(text) for text in _NUMBER.findall(written)}))
        if rank in ranks:
            return Group(ranks)
        # Numbered within the group: the list says nothing.
        return Group(name=name, size=size)
    return Group(name=name, written=written, size=size)
