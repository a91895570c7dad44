"""What a summary says of the host's calls: how often, how long in all, how long one takes."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from traceroof.core.recording import CALL_SUMS, Note
from traceroof.core.units import count, quantity

_LONGEST = 1 << 62  # ns; what is longer is a damaged number


@dataclass(frozen=True)
class CallSum:
    """One row of a summary of host calls; null where it does not say. Times in ns.

    typical_ns: the median call, else the shortest one.
    """

    name: str
    calls: int | None
    total_ns: int | None
    typical_ns: int | None = None


def table(rows: Iterable[CallSum]) -> pa.Table:
    """The rows as ``CALL_SUMS`` of the first source, without those that cannot be."""
    sound = [one for one in rows if one.name and 0 < (one.calls or 0) < _LONGEST]
    rows_of = [
        {
            "source": 0,
            "name": one.name,
            "calls": one.calls,
            "total_ns": _time(one.total_ns),
            "typical_ns": _time(one.typical_ns),
        }
        for one in sound
    ]
    return pa.Table.from_pylist(rows_of, schema=CALL_SUMS)


def _time(value: int | None) -> int | None:
    return value if value is not None and 0 <= value < _LONGEST else None


def notes(sums: pa.Table) -> list[Note]:
    """How long the host was in these calls, and in which most."""
    spent = [one or 0 for one in sums["total_ns"].to_pylist()]
    if not any(spent):
        return []
    most = max(range(len(spent)), key=spent.__getitem__)
    name, calls = sums["name"][most].as_py(), sums["calls"][most].as_py()
    text = (
        f"host calls took {quantity(sum(spent), 'ns')}, {quantity(spent[most], 'ns')} of it in "
        f"{count(calls, 'call')} of {name}"
    )
    return [Note(text, severe=False)]
