"""What the host did beside the kernels: calls, named ranges, copies."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.recording import HOST_CALLS, SPANS
from traceroof.parsers.amd.dispatches import as_reals
from traceroof.parsers.amd.values import Mask


@dataclass(frozen=True)
class Calls:
    """n host calls or ranges of one process; arrays of int64 (null where unknown) and text."""

    process_id: pa.Array
    thread_id: pa.Array
    category: pa.Array
    name: pa.Array
    start_ns: pa.Array
    duration_ns: pa.Array
    correlation_id: pa.Array

    def __len__(self) -> int:
        return len(self.name)

    def where(self, mask: Mask) -> "Calls":
        """Some of the calls."""
        keep = pa.array(mask)
        return Calls(*(getattr(self, name).filter(keep) for name in _CALL_FIELDS))

    def table(self, source: int) -> pa.Table:
        """The calls as ``HOST_CALLS``, read from the source of this number."""
        column = pa.repeat(pa.scalar(source, pa.int64()), len(self))
        values = {name: getattr(self, name) for name in _CALL_FIELDS} | {"source": column}
        return pa.Table.from_arrays(
            [values[entry.name].cast(entry.type) for entry in HOST_CALLS], schema=HOST_CALLS
        )

    def spans(self, source: int) -> pa.Table:
        """The calls as ``SPANS`` of kind range."""
        size = len(self)
        values = {name: getattr(self, name) for name in _CALL_FIELDS} | {
            "source": pa.repeat(pa.scalar(source, pa.int64()), size),
            "kind": pa.repeat(pa.scalar("range"), size),
        }
        return pa.Table.from_arrays(
            [values[entry.name].cast(entry.type) for entry in SPANS], schema=SPANS
        )


_CALL_FIELDS = (
    "process_id",
    "thread_id",
    "category",
    "name",
    "start_ns",
    "duration_ns",
    "correlation_id",
)


def joined_calls(calls: Sequence[Calls]) -> Calls:
    """Several lists of calls below one another."""
    return Calls(
        *(pa.concat_arrays([getattr(one, name) for one in calls]) for name in _CALL_FIELDS)
    )


def spent(start: pa.Array, end: pa.Array) -> pa.Array:
    """Durations in ns; null where an end is unknown or lies before its start."""
    # Unchecked: times at the far ends of int64 wrap, and a wrapped duration is negative or huge.
    difference = pc.subtract(end, start)
    return pc.if_else(pc.greater_equal(difference, 0), difference, None)


def launched_by(columns: dict[str, Any], calls: Calls) -> None:
    """Add when the host launched each row, from the call with its correlation number.

    ``columns`` and ``calls`` must be of one process. Where several calls share a number, the one
    whose name speaks of a launch counts, else the first.
    """
    correlation = columns.get("correlation_id")
    if correlation is None or not len(calls):
        return
    import pandas as pd

    frame = pd.DataFrame(
        {
            "number": as_reals(calls.correlation_id),
            "start": as_reals(calls.start_ns),
            "row": np.arange(len(calls)),
            "other": ~np.asarray(
                pc.match_substring_regex(calls.name, "(?i)launch").fill_null(False)
            ),
        }
    ).dropna()
    frame = frame.sort_values(["number", "other", "start"]).drop_duplicates("number")
    numbers = frame["number"].to_numpy()
    wanted = as_reals(correlation)
    place = np.clip(np.searchsorted(numbers, wanted), 0, max(len(numbers) - 1, 0))
    if not len(numbers):
        return
    hit = numbers[place] == wanted
    row = pa.array(frame["row"].to_numpy()[place], mask=~hit)
    columns["host_launch_ns"] = calls.start_ns.take(row)
    columns["host_launch_duration_ns"] = calls.duration_ns.take(row)


_COPIES = {
    "HOST_TO_DEVICE": "HtoD",
    "HOSTTODEVICE": "HtoD",
    "DEVICE_TO_HOST": "DtoH",
    "DEVICETOHOST": "DtoH",
    "DEVICE_TO_DEVICE": "DtoD",
    "DEVICETODEVICE": "DtoD",
    "HOST_TO_HOST": "HtoH",
    "HOSTTOHOST": "HtoH",
}


def copy_kind(name: str) -> str:
    """``MEMORY_COPY_HOST_TO_DEVICE`` and ``CopyHostToDevice`` are HtoD; others stay as they are."""
    upper = name.upper()
    return next((short for long, short in _COPIES.items() if long in upper), name)
