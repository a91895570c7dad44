"""What the host did in an Nsight Systems export: CUDA calls, waits in the operating system, MPI,
and the profiler's own work.

Calls of the operating system are recorded on all threads and mostly say that a helper thread slept.
Kept are those that can explain why a launch came late: long ones on threads that call CUDA,
outside of a CUDA call (which says more).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.recording import HOST_CALLS
from traceroof.ingest.sqlite import UNKNOWN, Whole
from traceroof.parsers.host.arrow import Texts, nulled, wholes
from traceroof.parsers.host.containment import containers
from traceroof.parsers.nsight.nsys_tables import (
    RUNTIME,
    Codes,
    Export,
    Names,
    process_of,
    thread_of,
)

Mask = npt.NDArray[np.bool_]

# What the host did for less than this explains no gap between kernels.
_LONG_NS: Final = 10_000
# CUPTI's names carry the version of the function: cudaLaunchKernel_v7000, ..._ptsz_v7000.
_VERSION: Final = re.compile(r"(_pt(sz|ds))?_v\d{4,}$")
_LAUNCH: Final = re.compile(r"(cuda|cu)Launch(Cooperative)?(Kernel|Grid|HostFunc)?(?!HostFunc)\w*")
_GRAPH_LAUNCH: Final = re.compile(r"(cuda|cu)GraphLaunch")
_CAPTURE: Final = (
    re.compile(r"(cuda|cu)StreamBeginCapture"),
    re.compile(r"(cuda|cu)StreamEndCapture"),
)
_WORK: Final = re.compile(r"(cuda|cu)(Launch|GraphLaunch|Mem(cpy|set|Prefetch))")
# A synchronisation record is named after the call that made it: the numbers of its types differ
# between versions, and those of 2022 to 2025 do not agree with the file's own enumeration.
_SYNCS: Final = (
    (re.compile(r"\w*StreamWaitEvent"), "Stream Wait Event"),
    (re.compile(r"\w*Event\w*Synchronize|\w*EventQuery"), "Event Sync"),
    (re.compile(r"\w*Stream\w*Synchronize"), "Stream Sync"),
    (re.compile(r"\w*(Device|Ctx|Thread)Synchronize"), "Context Sync"),
)
_MPI: Final = (
    "MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS",
)  # fmt: skip


@dataclass(frozen=True)
class Calls:
    """n calls of one kind. thread: globalTid. name: codes of ``texts``, -1 unknown."""

    category: str
    thread: Whole
    start: Whole
    end: Whole
    name: Codes
    texts: Sequence[str]
    correlation: Whole

    def __len__(self) -> int:
        return len(self.start)

    def at(self, rows: npt.NDArray[Any]) -> "Calls":
        """Some of the calls."""
        names = ("thread", "start", "end", "name", "correlation")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def matching(self, pattern: re.Pattern[str]) -> Mask:
        """Which calls have a name that begins with the pattern."""
        named = np.array([bool(pattern.match(text)) for text in self.texts] + [False])
        found: Mask = named[self.name]
        return found


@dataclass(frozen=True)
class Host:
    """What the host did. runtime: calls of the CUDA runtime and driver, in the file's order."""

    runtime: Calls
    others: tuple[Calls, ...]

    def table(self, more: Sequence[Calls] = ()) -> pa.Table:
        """All of it as ``HOST_CALLS``, by start."""
        return _table([*_by_library(self.runtime), *self.others, *more])


def host_of(export: Export) -> Host:
    """Read what the host did."""
    runtime = _runtime(export)
    others = [_syncs(export, runtime), *_overhead(export), *_profiler(export)]
    others += [_named(export, name, "mpi", "textId") for name in _MPI]
    others.append(_waits(_named(export, "OSRT_API", "os_runtime", "nameId"), runtime))
    return Host(runtime, tuple(one for one in others if len(one)))


def _runtime(export: Export) -> Calls:
    found = _named(export, RUNTIME, "cuda_runtime", "nameId")
    names = _renamed(
        Names(found.name, found.texts), [_VERSION.sub("", text) for text in found.texts]
    )
    return replace(found, name=names.codes, texts=names.texts)


def _named(
    export: Export, table: str, category: str, name: str, *, kind: str = "", of: Sequence[int] = ()
) -> Calls:
    """The calls of a table; those without a time are left out, and those whose column ``kind`` is
    none of some numbers."""
    rows = export.timed(table, ("globalTid", name, "correlationId", *filter(None, (kind,))))
    known = (rows["start"] != UNKNOWN) & (rows["end"] >= rows["start"])
    if kind:
        known &= np.isin(rows[kind], list(of))
    rows = {key: values[known] for key, values in rows.items()} if not known.all() else rows
    names = export.names(rows[name])
    start, end, thread = rows["start"], rows["end"], rows["globalTid"]
    return Calls(category, thread, start, end, names.codes, names.texts, rows["correlationId"])


def _renamed(names: Names, texts: Sequence[str]) -> Names:
    """The same rows with other texts, of which several may have become equal."""
    code: dict[str, int] = {}
    new = np.array([*(code.setdefault(text, len(code)) for text in texts), -1], dtype=np.int32)
    return Names(new[names.codes], list(code))


def _by_library(runtime: Calls) -> list[Calls]:
    """Runtime and driver calls apart, as torch.profiler calls them."""
    driver = runtime.matching(re.compile("cu(?!da)"))
    parts = []
    for category, mine in (("cuda_runtime", ~driver), ("cuda_driver", driver)):
        one = runtime.at(np.flatnonzero(mine)) if not mine.all() else runtime
        parts.append(replace(one, category=category))
    return parts


def _syncs(export: Export, runtime: Calls) -> Calls:
    """Synchronisation records: they lie on the GPU's rows, beside the call that waited."""
    rows = export.timed(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", ("globalPid", "correlationId", "streamId")
    )
    call = calls_of(runtime, rows["globalPid"], rows["correlationId"])
    texts = [name for _, name in _SYNCS] + ["Synchronisation"]
    kind = np.full(len(runtime.texts) + 1, len(_SYNCS), dtype=np.int32)
    for at, text in enumerate(runtime.texts):
        kind[at] = next((n for n, (one, _) in enumerate(_SYNCS) if one.match(text)), len(_SYNCS))
    name = np.where(call >= 0, kind[np.append(runtime.name, -1)[call]], len(_SYNCS))
    found = Calls(
        "cuda_sync", np.where(rows["globalPid"] == UNKNOWN, UNKNOWN, rows["globalPid"]),
        rows["start"], rows["end"], name.astype(np.int32), texts, rows["correlationId"],
    )  # fmt: skip
    return found.at(np.flatnonzero((rows["start"] != UNKNOWN) & (rows["end"] >= rows["start"])))


def _overhead(export: Export) -> list[Calls]:
    """CUPTI's records of overhead: the driver's part (loading modules, a full command buffer, which
    holds the host back) is the program's, the rest is the profiler's."""
    table, kinds = "CUPTI_ACTIVITY_KIND_OVERHEAD", export.overhead_kinds
    own = [number for number, name in kinds.items() if "CUPTI" in name]
    rest = [number for number in kinds if number not in own]
    return [
        _named(export, table, category, "nameId", kind="overheadType", of=numbers)
        for category, numbers in (("overhead", own), ("cuda_driver", rest))
    ]


def _profiler(export: Export) -> list[Calls]:
    """What Nsight Systems itself did. Loading a library is the program's work all the same."""
    found = _named(export, "PROFILER_OVERHEAD", "overhead", "nameId")
    loading = found.matching(re.compile("dl(open|close)"))
    own = ~loading & ~found.matching(re.compile("Unknown"))
    return [
        found.at(np.flatnonzero(own)),
        replace(found.at(np.flatnonzero(loading)), category="os_runtime"),
    ]


def _waits(calls: Calls, runtime: Calls) -> Calls:
    """Calls of the operating system that can explain a late launch."""
    if not len(calls) or not len(runtime):
        return calls.at(np.zeros(0, dtype=np.int64))
    callers = np.unique(runtime.thread)
    kept = np.isin(calls.thread, callers) & (calls.end - calls.start >= _LONG_NS)
    calls = calls.at(np.flatnonzero(kept))
    _, lanes = np.unique(np.concatenate((calls.thread, runtime.thread)), return_inverse=True)
    around = containers(lanes[len(calls) :], runtime.start, runtime.end)
    inside = around.innermost(lanes[: len(calls)], calls.start, calls.end)
    return calls.at(np.flatnonzero(inside < 0))


def calls_of(runtime: Calls, process: Whole, correlation: Whole) -> Whole:
    """For each activity the row of the call that made it, or -1.

    process: globalPid. Numbers repeat between processes; where several calls of one share a
    number (a runtime call and the driver call in it), one that puts work on the GPU counts first.
    """
    found = np.full(len(correlation), -1, dtype=np.int64)
    known = (correlation > 0) & (correlation < 1 << 32) & (process != UNKNOWN)
    usable = (runtime.correlation > 0) & (runtime.correlation < 1 << 32)
    usable &= runtime.thread != UNKNOWN
    if not usable.any() or not known.any():
        return found
    processes = np.unique(process_of(runtime.thread[usable]))
    rows = np.flatnonzero(usable)

    def keys(of: Whole, number: Whole) -> Whole:
        place = np.searchsorted(processes, of)
        place = np.minimum(place, len(processes) - 1)
        return np.where(processes[place] == of, (place << 32) + number, -1)

    key = keys(process_of(runtime.thread[rows]), runtime.correlation[rows])
    order = np.argsort(key, kind="stable")
    if np.any(np.diff(key[order]) == 0):
        order = np.lexsort((runtime.start[rows], ~runtime.matching(_WORK)[rows], key))
    rows, key = rows[order], key[order]
    wanted = keys(process_of(process), np.where(known, correlation, 0))
    place = np.minimum(np.searchsorted(key, wanted, side="left"), len(key) - 1)
    hit = known & (key[place] == wanted) & (wanted >= 0)
    found[hit] = rows[place[hit]]
    return found


def is_graph_launch(runtime: Calls) -> Mask:
    """Which calls replay a graph."""
    return runtime.matching(_GRAPH_LAUNCH)


def launches(runtime: Calls) -> Mask:
    """Which calls launch a kernel now: those inside a stream capture only record it."""
    found = runtime.matching(_LAUNCH)
    begin, end = (np.flatnonzero(runtime.matching(one)) for one in _CAPTURE)
    for opened in begin.tolist():
        here = runtime.thread == runtime.thread[opened]
        closes = runtime.start[end[here[end]]]
        after = closes[closes >= runtime.start[opened]]
        until = after.min() if len(after) else np.iinfo(np.int64).max
        found &= ~(here & (runtime.start >= runtime.start[opened]) & (runtime.start <= until))
    return found


def _table(parts: Sequence[Calls]) -> pa.Table:
    parts = [one for one in parts if len(one)]
    if not parts:
        return HOST_CALLS.empty_table()
    start = np.concatenate([one.start for one in parts])
    order = np.argsort(start, kind="stable")
    thread = np.concatenate([one.thread for one in parts])[order]
    # Synchronisation records have a process and no thread.
    on_gpu = np.repeat([one.category == "cuda_sync" for one in parts], [len(one) for one in parts])[
        order
    ]
    texts: list[str] = []
    codes = []
    for one in parts:
        codes.append(np.where(one.name >= 0, one.name + len(texts), -1))
        texts += one.texts
    categories = list(dict.fromkeys(one.category for one in parts))
    category = np.repeat(
        [categories.index(one.category) for one in parts], [len(one) for one in parts]
    )
    end = np.concatenate([one.end for one in parts])
    correlation = np.concatenate([one.correlation for one in parts])[order]
    columns: Mapping[str, Any] = {
        "source": wholes(np.zeros(len(order), dtype=np.int64)),
        "process_id": wholes(process_of(thread)),
        "thread_id": wholes(np.where(on_gpu, UNKNOWN, thread_of(thread))),
        "category": Texts(categories).at(category[order]),
        "name": Texts(texts).at(np.concatenate(codes)[order]),
        "start_ns": wholes(start[order]),
        "duration_ns": wholes((end - start)[order]),
        "correlation_id": nulled(correlation, (correlation != UNKNOWN) & (correlation != 0)),
    }
    return pa.Table.from_arrays([columns[one.name] for one in HOST_CALLS], schema=HOST_CALLS)
