"""The kernel table of a folded and linked trace, column by column."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo
from traceroof.ingest import credible
from traceroof.parsers.host.arrow import (
    Mask,
    Texts,
    nulled,
    reals,
    wholes,
)
from traceroof.parsers.torch.collectives import Collectives
from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import (
    KINDS,
    Codes,
    Intern,
)
from traceroof.parsers.torch.events import (
    UNKNOWN,
    Reals,
    Whole,
)
from traceroof.parsers.torch.host_events import Host
from traceroof.parsers.torch.launches import Launches, sizes
from traceroof.parsers.torch.link import PHASES, Links

# An activity of more than a week is a broken counter (HTA drops the same).
_LONGEST_NS: Final = 7 * 24 * 3600 * 10**9
_MICROSECOND: Final = 1_000


@dataclass(frozen=True)
class _Source:
    """What the kernel table is made of, whole."""

    fold: Fold
    host: Host
    links: Links
    base: int
    rank: int
    names: Texts
    copies: Texts
    arguments: Texts
    is_argument: Mask
    operator_paths: Texts
    module_paths: Texts
    steps: Texts
    phases: Texts
    kinds: Texts
    collectives: "Collectives"
    graphs: Texts
    graph: Codes
    sm_count: Reals
    launches: Launches
    calls: "_Calls"
    unknown: "Unknown"


@dataclass(frozen=True)
class _Rows:
    """Some GPU activities, as rows of the kernel table in this order."""

    source: _Source
    order: npt.NDArray[np.int64]

    @cached_property
    def launch(self) -> npt.NDArray[Any]:
        """The launch of each."""
        return self.of_gpu("launch")

    def of_gpu(self, name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = self.source.fold.gpu.peek(name)[self.order]
        return values

    def of_launch(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value of each row's launch."""
        found: npt.NDArray[Any] = values[self.launch]
        return found

    def of_call(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A value of each row's launch call; whatever where there is no call."""
        if not len(values):
            return np.zeros(len(self.order), dtype=values.dtype)
        found: npt.NDArray[Any] = values[self.source.links.call[self.order]]
        return found


# Shapes of a thousand tensors are shorter; what is longer is left out rather than repeated in
# every row.
_LONGEST_ARGUMENT: Final = 1 << 16


def kernels_of(
    fold: Fold,
    host: Host,
    links: Links,
    launches: Launches,
    unknown: "Unknown",
    base: int,
    rank: int,
    devices: Sequence[DeviceInfo],
    groups: Mapping[str, str] | None = None,
) -> pa.Table:
    """The kernel table, rows by start. Uses up the fold's GPU columns and the links' codes.

    unknown: as ``settle_times`` found them. base: nanoseconds to add to all times. rank: the file's, for rows without their own. groups: what
    process groups are, by name (``process_groups.descriptions``).
    """
    graph, graphs = _graphs(fold, links, launches)
    sm_count = np.full(len(launches.device), np.nan)
    for one in devices:
        if one.index is not None and one.sm_count is not None:
            sm_count[launches.device == one.index] = one.sm_count
    source = _Source(
        fold, host, links, base, rank,
        names=Texts(host.names),
        copies=Texts([text.removeprefix("Memcpy ") for text in host.names]),
        arguments=Texts([text.decode("utf-8", "replace") for text in fold.texts]),
        # An operator without the argument has the empty text.
        is_argument=np.array([0 < len(text) <= _LONGEST_ARGUMENT for text in fold.texts] + [False]),
        operator_paths=Texts(links.operator_paths),
        module_paths=Texts(links.module_paths),
        steps=Texts(links.steps.names),
        phases=Texts(PHASES),
        kinds=Texts(KINDS),
        collectives=Collectives(fold.collectives, groups),
        graphs=Texts(graphs),
        graph=graph,
        sm_count=sm_count,
        launches=launches,
        calls=_Calls(fold, host),
        unknown=unknown,
    )  # fmt: skip
    start = fold.gpu.peek("start")
    order = np.argsort(np.where(start > 0, start, np.iinfo(np.int64).max), kind="stable")
    rows = _Rows(source, order)
    columns: dict[str, Any] = {}
    for part, used in (
        (_operators, ()),
        (_launch_shape, ("bytes", "launch")),
        (_times, ("start", "duration")),
        (_identity, ("name", "kind", "correlation")),
    ):
        columns |= part(rows)
        for name in used:  # so that nothing is there twice
            fold.gpu.pop(name)
    return kernel_table(columns)


def _identity(rows: _Rows) -> dict[str, Any]:
    source, order, launches = rows.source, rows.order, rows.source.launches
    name, kind = rows.of_gpu("name"), rows.of_gpu("kind")
    rank = source.links.rank[order]
    return {
        "kernel_name": source.names.at(name),
        "kind": source.kinds.at(kind),
        # Given here, as Arrow imports pandas to repeat a number.
        "launch_count": wholes(np.ones(len(order), dtype=np.int64)),
        "source": wholes(np.zeros(len(order), dtype=np.int64)),
        "copy_kind": source.copies.at(np.where(kind == KINDS.index("memcpy"), name, -1)),
        "sm_count": reals(rows.of_launch(source.sm_count)),
        "rank": wholes(np.where(rank == UNKNOWN, source.rank, rank)),
        "process_id": wholes(source.links.process[order]),
        "device": wholes(rows.of_launch(launches.device)),
        "context": wholes(rows.of_launch(launches.context)),
        "stream": wholes(rows.of_launch(launches.stream)),
        "correlation_id": wholes(rows.of_gpu("correlation")),
    }


@dataclass(frozen=True)
class Unknown:
    """Which GPU activities lack a start and a credible duration."""

    start: Mask
    duration: Mask


def _unknown_times(start: Whole, duration: Whole) -> Unknown:
    # Kineto writes 0 for a time before its base.
    no_start = start <= 0
    # In whole microseconds, 0 is a kernel shorter than one.
    is_fine = bool(np.any(start % _MICROSECOND))
    no_duration = (duration < 0) | (duration > _LONGEST_NS)
    no_duration |= (duration == 0) & (no_start | is_fine)
    known = np.flatnonzero(~no_start & ~no_duration)
    stray_start, stray_duration = credible.strays(start[known], duration[known])
    no_start[known[stray_start]] = True
    no_duration[known[stray_duration]] = True
    return Unknown(no_start, no_duration)


def _times(rows: _Rows) -> dict[str, Any]:
    unknown, base, calls = rows.source.unknown, rows.source.base, rows.source.host.calls
    linked = rows.source.links.call[rows.order] >= 0
    times = {"start_ns": rows.of_gpu("start"), "duration_ns": rows.of_gpu("duration"),
             "host_launch_ns": rows.of_call(calls.start),
             "host_launch_duration_ns": rows.of_call(calls.end)}  # fmt: skip
    times["host_launch_duration_ns"] -= times["host_launch_ns"]
    for name in ("start_ns", "host_launch_ns"):
        times[name] += base
    known = {"start_ns": ~unknown.start[rows.order], "duration_ns": ~unknown.duration[rows.order]}
    return {name: nulled(values, known.get(name, linked)) for name, values in times.items()}


def settle_times(
    fold: Fold, host: Host, links: Links, launches: Launches, note: Callable[..., None]
) -> Unknown:
    """Note what is odd about the times of GPU activities, and which are unknown afterwards: also
    durations that cannot be."""
    start, duration = fold.gpu.peek("start"), fold.gpu.peek("duration")
    unknown = _unknown_times(start, duration)
    note(int(unknown.start.sum()), "GPU activities without a start", True)
    note(int(unknown.duration.sum()), "GPU activities without a credible duration", True)
    linked = links.call >= 0
    note(
        int((~linked).sum()),
        "GPU activities whose launch call was not recorded (most: from before the recording)",
    )
    both = np.flatnonzero(linked & ~unknown.start)
    note(
        int((start[both] < host.calls.start[links.call[both]]).sum()),
        "GPU activities that seem to start before their launch call (clocks differ)",
    )
    del both
    known = np.flatnonzero(~unknown.start & ~unknown.duration)
    lanes = _lanes(fold, launches)[known]
    overlaps = len(credible.overlapping(start[known], duration[known], lanes))
    del lanes
    broken = known[:0]
    if overlaps or links.is_graph.any():
        broken = _broken(fold, links, launches, unknown)
    note(len(broken), "durations that reach far over the next work on their stream: unknown", True)
    note(
        overlaps - len(broken),
        "GPU activities that end well after the next one on their stream began",
        True,
    )
    if not len(broken):
        return unknown
    settled = duration.copy()
    settled[broken] = UNKNOWN
    fold.gpu.set("duration", settled)
    return _unknown_times(start, settled)


def _broken(fold: Fold, links: Links, launches: Launches, unknown: Unknown) -> Whole:
    """The activities whose duration reaches far over the activities behind it on its stream
    and is far longer than all others of its kernel: its end was not recorded (ROCm). The branches
    of a replayed graph may overlap."""
    start, duration, name = (fold.gpu.peek(one) for one in ("start", "duration", "name"))
    known = np.flatnonzero(~unknown.start & ~unknown.duration & ~links.is_graph)
    lanes = _lanes(fold, launches)[known]
    broken = credible.broken_durations(start[known], duration[known], lanes, name[known])
    return known[broken]


def _lanes(fold: Fold, launches: Launches) -> Whole:
    """A number for the rank, device and stream of each activity."""
    places = zip(launches.rank, launches.device, launches.stream, strict=True)
    lane_of_launch = Intern().codes(places, len(launches.device)).astype(np.int64)
    lanes: Whole = lane_of_launch[fold.gpu.peek("launch")]
    return lanes


def note_operators(fold: Fold, links: Links, note: Callable[..., None]) -> None:
    """Note which GPU activities have no operator."""
    note(int(links.is_graph.sum()), "GPU activities of replayed graphs: operators not known")
    is_kernel = fold.gpu.peek("kind") == KINDS.index("kernel")
    outside = is_kernel & (links.call >= 0) & ~links.is_graph & (links.codes["operator"] < 0)
    note(int(outside.sum()), "kernels launched outside of any operator")


def _operators(rows: _Rows) -> dict[str, Any]:
    source, order = rows.source, rows.order

    def codes(name: str) -> Codes:
        taken: Codes = source.links.codes.pop(name)[order]
        return taken

    def arguments(name: str) -> pa.Array:
        found = codes(name)
        found[~source.is_argument[found]] = -1
        return source.arguments.at(found)

    call = codes("operator_call").astype(np.int64)
    return {
        "operator": source.names.at(codes("operator")),
        "operator_path": source.operator_paths.at(codes("operator_path")),
        "module_path": source.module_paths.at(codes("module_path")),
        "source_line": source.names.at(codes("source_line")),
        "phase": source.phases.at(codes("phase")),
        "step": source.steps.at(codes("step")),
        "graph_id": source.graphs.at(source.graph[order]),
        "input_shapes": arguments("shapes"),
        "input_dtypes": arguments("dtypes"),
        "input_values": arguments("values"),
        "operator_call": nulled(call, call >= 0),
        **source.collectives.at(codes("collective")),
    }


def _graphs(fold: Fold, links: Links, launches: Launches) -> tuple[Codes, list[str]]:
    """The graph of each replayed activity, as a code and its text: the file's own number, else
    one for each distinct set of kernels that one replay launched."""
    name, call = fold.gpu.peek("name"), links.call
    numbers, code_of_launch = np.unique(launches.graph, return_inverse=True)
    texts = [str(number) for number in numbers.tolist()]
    of_launch = np.where(launches.graph == UNKNOWN, -1, code_of_launch).astype(np.int32)
    codes = of_launch[fold.gpu.peek("launch")]
    rest = np.flatnonzero(links.is_graph & (codes < 0))
    by_call = rest[np.lexsort((name[rest], call[rest]))]
    replays: dict[bytes, int] = {}
    if len(rest):
        for nodes in np.split(by_call, np.flatnonzero(np.diff(call[by_call])) + 1):
            replay = replays.setdefault(name[nodes].tobytes(), len(replays))
            codes[nodes] = len(texts) + replay
    return codes, [*texts, *(f"replay {number + 1}" for number in range(len(replays)))]


class _Calls:
    """What AMD writes on the call that launches: by row of the host's calls."""

    def __init__(self, fold: Fold, host: Host) -> None:
        table = fold.shaped_calls
        self.exist = table.rows > 0
        self.row = np.full(len(host.calls), -1, dtype=np.int64)
        self.row[table.pop("call")] = np.arange(table.rows)
        texts = list(fold.texts)
        self._sizes: dict[str, tuple[Whole, Codes]] = {}
        for name in ("grid", "block"):
            distinct, code = np.unique(table.pop(name), return_inverse=True)
            self._sizes[name] = sizes([texts[one] for one in distinct]), code.astype(np.int32)
        self.bytes, self.shared_memory = table.pop("bytes"), table.pop("shared_memory")

    def size(self, name: str, rows: npt.NDArray[Any]) -> Whole:
        distinct, code = self._sizes[name]
        found: Whole = distinct[code[rows]]
        return found


# These take the global work size, in threads (hip_ext.h); every other launch call takes blocks.
_IN_THREADS: Final = regex.compile(r"hip(Ext|Hcc)ModuleLaunchKernel$")


def _in_blocks(rows: _Rows, grid: Sequence[Whole], block: Sequence[Whole]) -> None:
    """Make blocks of grids that their launch call gives in threads."""
    host, call = rows.source.host, rows.source.links.call[rows.order]
    named = host.matching(_IN_THREADS)
    if not len(host.calls) or not named.any():
        return
    at = np.flatnonzero((call >= 0) & named[host.calls.name[call]])
    at = at[np.all([size[at] > 0 for size in (*grid, *block)], axis=0)]
    for blocks, threads in zip(grid, block, strict=True):
        blocks[at] = -(-blocks[at] // threads[at])


def _launch_shape(rows: _Rows) -> dict[str, Any]:
    launches, calls, kind = rows.source.launches, rows.source.calls, rows.of_gpu("kind")
    grid, block = (
        [rows.of_launch(size[:, axis]) for axis in range(3)]
        for size in (launches.grid, launches.block)
    )
    moved, shared = rows.of_gpu("bytes"), rows.of_launch(launches.shared_memory)
    dynamic = np.full(len(kind), np.nan)
    if calls.exist:
        # What the launch call says, where the activity does not.
        at = rows.of_call(calls.row)
        at[rows.source.links.call[rows.order] < 0] = -1
        is_kernel = (kind == KINDS.index("kernel")) & (at >= 0)
        is_other = (kind != KINDS.index("kernel")) & (at >= 0)
        for size, name in ((grid, "grid"), (block, "block")):
            fill = np.flatnonzero(is_kernel & (size[0] == UNKNOWN))
            for axis, found in zip(size, calls.size(name, at[fill]).T, strict=True):
                axis[fill] = found
        fill = np.flatnonzero(is_other & np.isnan(moved))
        moved[fill] = calls.bytes[at[fill]]
        fill = np.flatnonzero(is_kernel & np.isnan(shared))
        dynamic[fill] = calls.shared_memory[at[fill]]
    _in_blocks(rows, grid, block)
    columns: dict[str, Any] = {
        "copy_bytes": reals(moved),
        "registers_per_thread": reals(rows.of_launch(launches.registers)),
        "shared_memory_bytes": reals(shared),
        "shared_memory_dynamic_bytes": reals(dynamic),
        "estimated_occupancy_pct": reals(rows.of_launch(launches.estimated_occupancy)),
        "theoretical_occupancy_pct": reals(rows.of_launch(launches.theoretical_occupancy)),
    }
    for what, size in (("grid", grid), ("block", block)):
        for axis, letter in zip(size, "xyz", strict=True):
            columns[f"{what}_{letter}"] = wholes(axis)
    return columns | {
        name: reals(rows.of_launch(values)) for name, values in launches.limits.items()
    }
