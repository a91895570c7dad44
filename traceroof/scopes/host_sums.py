"""What a summary of host calls says of the run: how long the host is busy launching and allocating.

A summary has no timeline, so nothing tells when the GPU waited. But the host cannot launch faster than
a call takes: where launching takes longer than all kernels, the GPU waits, whatever the order.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import Column, sourced
from traceroof.timeline.hostcalls import kinds_of

#: Columns of the facts of scope ``run`` that come from a summary of host calls.
HOST_SUM_COLUMNS: tuple[Column, ...] = sourced(
    (
        Column(name, pa.float64(), unit, meaning, "host", "")
        for name, unit, meaning in (
            ("launch_calls", "call", "calls that launch kernels or graphs, of a summary"),
            ("launching_ns", "ns", "these calls times their typical (median, else shortest) time"),
            ("allocate_calls", "call", "calls that allocate memory, of a summary"),
            ("allocating_ns", "ns", "these calls times their typical time"),
        )
    ),
    launch="launch_calls allocate_calls",
    clock="launching_ns allocating_ns",
)


def facts_of(call_sums: pa.Table) -> Mapping[str, float]:
    """HOST_SUM_COLUMNS -> value, of a table ``CALL_SUMS``; empty where the file sums up no calls.

    A kind of call of which any has no typical time is unknown.
    """
    if not call_sums.num_rows:
        return {}
    names = [str(name) for name in call_sums["name"].to_pylist()]
    kinds = np.array(kinds_of(names), dtype=object)
    kinds[[_OTHERS.search(name) is not None for name in names]] = "other"
    calls = np.asarray(call_sums["calls"], dtype=np.float64)
    typical = np.array(
        [np.nan if one is None else one for one in call_sums["typical_ns"].to_pylist()]
    )
    found = {}
    for kind, count, spent in (
        ("launch", "launch_calls", "launching_ns"),
        ("allocate", "allocate_calls", "allocating_ns"),
    ):
        rows = kinds == kind
        if rows.any():
            found[count] = float(calls[rows].sum())
            found[spent] = float((calls * typical)[rows].sum())
    return {name: value for name, value in found.items() if not np.isnan(value)}


# An asynchronous copy is put on a queue too, but is no kernel's launch. What frees memory may wait
# for the GPU, so that its time says nothing about the host.
_OTHERS = regex.compile(r"Mem(cpy|set)|Free|Release|Unmap|Unregister")
