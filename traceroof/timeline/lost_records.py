"""Launches that the profiler saw on the host, and whose work it did not record on the GPU.

A buffer of the profiler overflowed, another tool held the GPU, or the file was thinned out: then the
GPU looks idle where it worked. Launches at the very end are no loss: their work had not run when
the recording stopped. Calls within a graph capture launch nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.dictionary import coded, together
from traceroof.core.kernel_table import UNKNOWN, whole
from traceroof.timeline import intervals
from traceroof.timeline.intervals import Times

if TYPE_CHECKING:
    from traceroof.timeline.lanes import Mask

# Calls that launch kernels: CUDA runtime and driver, HIP, SYCL (Unified Runtime, Level Zero).
# Empty copies and fills leave no record, so these do not count.
_KERNEL = regex.compile(
    r"\s*((cuda|hip|hipExt|cu)(Module|ExtModule)?Launch(Cooperative)?(Kernel|Grid|MultiDevice)?\w*"
    r"|cuLaunch\w*|urEnqueue(Cooperative)?KernelLaunch\w*|zeCommandListAppendLaunch\w*)\s*"
)
_NO_KERNEL = regex.compile(r".*(HostFunc|Bounds).*")
_GRAPH = regex.compile(r"\s*(cuda|hip|cu)GraphLaunch\w*\s*")
_CAPTURE = regex.compile(r"\s*(cuda|hip|cu)Stream(BeginCapture|EndCapture)\w*\s*")

# Of the ids that CUDA and HIP number calls with, traces keep 5 % and more (45 traces); a file with
# under 2 % of a long range was thinned out.
USUAL_DENSITY = 0.05
THINNED = 0.02
_LONG_RANGE = 10_000
# More calls than a host makes in ten seconds: no step within one series of ids.
_NEXT_SERIES = 1 << 24


@dataclass(frozen=True)
class Launched:
    """The launch calls of one process. lost: those without a record, left out what came last (late)
    and graph replays (lost_graphs). density: call ids seen over their range; None for short ones."""

    calls: int
    lost: int
    late: int
    graphs: int
    lost_graphs: int
    density: float | None

    @property
    def lost_share(self) -> float:
        """How much of the work has no record, 0-1: launches counted, or by the density of ids."""
        made = self.calls + self.graphs
        counted = (self.lost + self.lost_graphs) / made if made else 0.0
        if self.density is None or self.density >= THINNED:
            return counted
        return max(counted, 1 - self.density / USUAL_DENSITY)


def launched(calls: pa.Table, kernels: pa.Table) -> dict[tuple[int, int], Launched]:
    """The launches of each (source, process) of the host calls of a recording."""
    names = coded(calls["name"])
    kernel, graph, capture = (
        names.spread(np.array([*(_is(pattern, str(text)) for text in names.texts), False]))
        for pattern in (_KERNEL, _GRAPH, _CAPTURE)
    )
    correlation = whole(calls["correlation_id"])
    wanted = np.flatnonzero((kernel | graph | capture) & (correlation != UNKNOWN))
    if not len(wanted):
        return {}
    source, process = whole(calls["source"]), whole(calls["process_id"])
    start, duration = whole(calls["start_ns"]), whole(calls["duration_ns"])
    row_source, row_process = whole(kernels["source"]), whole(kernels["process_id"])
    recorded = whole(kernels["correlation_id"])
    found = {}
    _, first = together((source[wanted], process[wanted]))
    for at in wanted[first]:
        key = int(source[at]), int(process[at])
        mine = wanted[(source[wanted] == key[0]) & (process[wanted] == key[1])]
        density = _density(correlation[(source == key[0]) & (process == key[1])])
        rows = (row_source == key[0]) & np.isin(row_process, (key[1], UNKNOWN))
        ids = recorded[rows & (recorded != UNKNOWN)]
        mine = mine[np.argsort(start[mine], kind="stable")]
        if capture[mine].any():
            captured = _captured(start[mine], duration[mine], names.at(mine), capture[mine])
            mine = mine[~capture[mine] & ~captured]
        found[key] = _count(correlation[mine], graph[mine], ids, density)
    return found


def _is(pattern: re.Pattern[str], name: str) -> bool:
    return bool(pattern.fullmatch(name)) and not (
        pattern is _KERNEL and (_NO_KERNEL.fullmatch(name) or _GRAPH.fullmatch(name))
    )


def _count(correlation: Times, graph: "Mask", recorded: Times, density: float | None) -> Launched:
    """Calls in order of their start against the ids that the GPU's records have."""
    has_record = np.isin(correlation, recorded)
    known = np.flatnonzero(has_record)
    late = np.arange(len(correlation)) > (known[-1] if len(known) else -1)
    late &= len(known) > 0
    return Launched(
        calls=int((~graph).sum()),
        lost=int((~has_record & ~late & ~graph).sum()),
        late=int((~has_record & late).sum()),
        graphs=int(graph.sum()),
        lost_graphs=int((~has_record & ~late & graph).sum()),
        density=density,
    )


def _captured(
    start: Times, duration: Times, names: Sequence[str | None], capture: "Mask"
) -> "Mask":
    """Which calls, by start, were made while a graph was captured."""
    begins = np.array(
        [bool(one) and "Begin" in str(name) for one, name in zip(capture, names, strict=True)]
    )
    if not begins.any():
        return np.zeros(len(start), dtype=bool)
    ends = start[capture & ~begins] + np.maximum(duration[capture & ~begins], 0)
    stops = np.append(np.sort(ends), np.iinfo(np.int64).max)
    opened = start[begins]
    spans = intervals.union(opened, stops[np.searchsorted(stops, opened)])
    return intervals.holding(spans, start) >= 0


def _density(correlation: Times) -> float | None:
    ids = correlation[(correlation != UNKNOWN) & (correlation != 0)]
    if not len(ids):
        return None
    # They come nearly sorted, which a stable sort makes use of and numpy's unique does not.
    ids.sort(kind="stable")
    steps = np.diff(ids)
    # A profiler may count calls of its own in another series, from 2^31 on.
    near = (steps > 0) & (steps < _NEXT_SERIES)
    reach = int(steps.sum(where=near)) + 1
    return (int(near.sum()) + 1) / reach if reach >= _LONG_RANGE else None
