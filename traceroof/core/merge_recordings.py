"""Several recordings as one: the files of a run that add up."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from traceroof.core import kernel_table
from traceroof.core.recording import DeviceInfo, Recording, Source, Summary
from traceroof.errors import TraceroofError


def merge(recordings: Sequence[Recording]) -> Recording:
    """Join the recordings of several files into one, in the order given.

    Rows keep their file in the column ``source``; ``row`` of raw metrics and verdicts is shifted.
    Raises TraceroofError when timeline durations and counter-tool durations would be mixed.
    """
    if not recordings:
        raise TraceroofError("there is nothing to read", "name at least one profiler file")
    if len(recordings) == 1:
        return recordings[0]
    first = recordings[0]
    for other in recordings[1:]:
        if other.time_basis != first.time_basis:
            raise TraceroofError(
                f"{first.sources[0].path} holds {_TIMES[first.time_basis]} and "
                f"{other.sources[0].path} {_TIMES[other.time_basis]}, which do not add up",
                "ingest them as two runs",
            )
    parts: dict[str, list[pa.Table]] = {}
    sources: list[Source] = []
    summaries: list[Summary] = []
    devices: dict[DeviceInfo, None] = {}
    rows = 0
    for one in recordings:
        for name, shift in _SHIFTED.items():
            part = getattr(one, name)
            for column, base in shift.items():
                amount = rows if base == "row" else len(sources)
                part = _shift(part, column, amount)
            parts.setdefault(name, []).append(part)
        rows += one.kernels.num_rows
        summaries.extend(each.shifted(len(sources)) for each in one.summaries)
        sources.extend(one.sources)
        devices.update(dict.fromkeys(one.devices))
    joined: dict[str, Any] = {name: pa.concat_tables(tables) for name, tables in parts.items()}
    joined["kernels"] = kernel_table.widened(joined["kernels"])
    formats = list(dict.fromkeys(one.format for one in recordings))
    return replace(
        first,
        format="+".join(formats),
        sources=tuple(sources),
        devices=tuple(devices),
        summaries=tuple(summaries),
        **joined,
    )


_TIMES = {
    "timeline": "times from a timeline",
    "counter-tool": "times from a counter tool",
}

# Per table: which columns point at rows of the kernel table or at sources.
_SHIFTED = {
    "kernels": {"source": "source"},
    "raw_metrics": {"row": "row"},
    "verdicts": {"row": "row"},
    "source_lines": {"row": "row"},
    "host_calls": {"source": "source"},
    "spans": {"source": "source"},
    "call_sums": {"source": "source"},
    "clock_logs": {"source": "source"},
}


def _shift(part: pa.Table, column: str, amount: int) -> pa.Table:
    import pyarrow.compute as pc

    if not amount or not part.num_rows:
        return part
    position = part.column_names.index(column)
    return part.set_column(position, part.schema.field(position), pc.add(part[column], amount))
