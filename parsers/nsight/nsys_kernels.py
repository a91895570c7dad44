"""What the GPUs did in an Nsight Systems export: kernels, copies, fills and replays of graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import Note
from traceroof.ingest.credible import at_zero
from traceroof.ingest.sqlite import UNKNOWN, Whole
from traceroof.parsers.host.arrow import Texts, nulled, reals, wholes
from traceroof.parsers.nsight.nsys_devices import Gpus
from traceroof.parsers.nsight.nsys_host import Calls, is_graph_launch
from traceroof.parsers.nsight.nsys_ranges import PHASE_NAMES, Links
from traceroof.parsers.nsight.nsys_tables import (
    GRAPH,
    KERNEL,
    MEMCPY,
    MEMSET,
    Export,
    Names,
    process_of,
)

Mask = npt.NDArray[np.bool_]

#: What a row can be, in the words of the kernel table, and the table that it comes from.
KINDS: Final = {"kernel": KERNEL, "memcpy": MEMCPY, "memset": MEMSET, "graph": GRAPH}

_IDENTITY: Final = (
    "deviceId", "contextId", "streamId", "correlationId", "globalPid", "graphNodeId", "graphId",
)  # fmt: skip
_AXES: Final = "XYZ"
_SHAPE: Final = (
    *(f"grid{axis}" for axis in _AXES), *(f"block{axis}" for axis in _AXES),
    *(f"cluster{axis}" for axis in _AXES),
    "registersPerThread", "staticSharedMemory", "dynamicSharedMemory",
)  # fmt: skip
_NAMES: Final = ("demangledName", "shortName", "mangledName")
# An activity of more than a week is a broken counter.
_LONGEST_NS: Final = 7 * 24 * 3600 * 10**9


@dataclass
class Activities:
    """Everything that the GPUs did, by start; whole numbers UNKNOWN where not given.

    kind: of KINDS. columns: those of the tables. bytes: of copies and fills. broken: rows whose
    end is not credible.
    """

    kind: npt.NDArray[np.int8]
    start: Whole
    duration: Whole
    name: Names
    copy_kind: Names
    columns: dict[str, Whole]
    bytes: Whole
    broken: int

    def __len__(self) -> int:
        return len(self.kind)

    def of_kind(self, kind: str) -> Mask:
        found: Mask = self.kind == list(KINDS).index(kind)
        return found


def activities_of(export: Export) -> Activities:
    """Read what the GPUs did."""
    tables = [
        export.timed(table, (*_IDENTITY, *_OWN_COLUMNS[kind])) for kind, table in KINDS.items()
    ]
    sizes = [len(rows["start"]) for rows in tables]
    start = np.concatenate([rows["start"] for rows in tables])
    order = np.argsort(np.where(start == UNKNOWN, np.iinfo(np.int64).max, start), kind="stable")
    in_order = bool(np.all(np.diff(order) == 1))

    def column(name: str) -> Whole:
        """A column of all tables, by start; taken out of them, so that nothing is there twice."""
        parts = [
            rows.pop(name) if name in rows else np.full(size, UNKNOWN, dtype=np.int64)
            for rows, size in zip(tables, sizes, strict=True)
        ]
        found = np.concatenate(parts)
        return found if in_order else found[order]

    name, copy_kind = _named(export, tables, order)
    columns = {one: column(one) for one in (*_IDENTITY, *_SHAPE)}
    start, end = column("start"), column("end")
    duration = np.where((start == UNKNOWN) | (end == UNKNOWN), UNKNOWN, end - start)
    known = np.flatnonzero(start != UNKNOWN)
    early, reaching = at_zero(start[known] - export.epoch_ns, duration[known])
    start[known[early]] = UNKNOWN
    duration[known[reaching]] = UNKNOWN
    kind = np.repeat(np.arange(len(sizes), dtype=np.int8), sizes)[order]
    broken = (duration < 0) | (duration > _LONGEST_NS)
    broken |= (duration == 0) & (kind == list(KINDS).index("kernel"))
    # An end that is no time counts as well.
    broken &= start != UNKNOWN
    duration[broken] = UNKNOWN
    return Activities(
        kind=kind,
        start=start,
        duration=duration,
        name=name,
        copy_kind=copy_kind,
        columns=columns,
        bytes=column("bytes"),
        broken=int(broken.sum()),
    )


_OWN_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "kernel": (_NAMES[0], *_SHAPE),
    "memcpy": ("bytes", "copyKind", "srcKind", "dstKind"),
    "memset": ("bytes",),
    "graph": ("graphExecId",),
}


def _named(export: Export, tables: Sequence[dict[str, Whole]], order: Whole) -> tuple[Names, Names]:
    """Names and copy kinds of all rows, in the words of `nsys stats`."""
    kernels, copies, fills, graphs = tables
    found = export.names(kernels.pop("demangledName"))
    codes, texts = found.codes, list(found.texts)
    for other in _NAMES[1:]:
        missing = np.flatnonzero(codes < 0)
        if not len(missing):
            break
        # Only where a table was cut down by hand, or is damaged.
        ids = export.database.wholes(KERNEL, (other,))[other]
        if len(ids) == len(codes):
            more = export.names(ids[missing])
            codes[missing] = np.where(more.codes >= 0, more.codes + len(texts), -1)
            texts += more.texts
    copied = _copy_kinds(export, copies)
    words = [f"[CUDA memcpy {text.partition(' (')[0]}]" for text in copied.texts]
    replays = [f"[CUDA graph {one}]" for one in np.unique(graphs["graphId"]).tolist()]
    of_graph = np.unique(graphs["graphId"], return_inverse=True)[1].reshape(-1)
    base = len(texts)
    name = np.concatenate(
        (
            codes,
            base + copied.codes,
            np.full(len(fills["start"]), base + len(words)),
            base + len(words) + 1 + of_graph,
        )
    ).astype(np.int32)
    texts = [*texts, *words, "[CUDA memset]", *(_plain_graph(one) for one in replays)]
    nothing = np.full(len(name), -1, dtype=np.int32)
    nothing[len(codes) : len(codes) + len(copied.codes)] = copied.codes
    return Names(name[order], texts), Names(nothing[order], copied.texts)


def _plain_graph(name: str) -> str:
    return "[CUDA graph]" if str(UNKNOWN) in name else name


def _copy_kinds(export: Export, rows: dict[str, Whole]) -> Names:
    """Direction and memory kinds of copies: ``Host-to-Device (Pageable -> Device)``."""
    keys = np.stack([rows.pop(name) for name in ("copyKind", "srcKind", "dstKind")])
    distinct, place = np.unique(keys, axis=1, return_inverse=True)
    texts = []
    for kind, source, target in distinct.T.tolist():
        way = export.copy_kinds.get(kind, "of unknown kind")
        ends = [export.memory_kinds.get(one) for one in (source, target)]
        texts.append(f"{way} ({ends[0]} -> {ends[1]})" if all(ends) else way)
    return Names(place.reshape(-1).astype(np.int32), texts)


def kernels_of(
    done: Activities,
    call: Whole,
    runtime: Calls,
    links: Links,
    gpus: Gpus,
    process_names: Mapping[int, str],
    rank: Whole,
) -> pa.Table:
    """The kernel table, rows by start. call: row of the call that made each activity, or -1.

    links: of all runtime calls. rank: of each activity, UNKNOWN where not known.
    """
    process = process_of(done.columns["globalPid"])
    return kernel_table(
        {
            **_identity(done, gpus, process, process_names, rank),
            **_times(done, call, runtime),
            **_shape(done),
            **_around(done, call, runtime, links),
        }
    )


def _identity(
    done: Activities, gpus: Gpus, process: Whole, process_names: Mapping[int, str], rank: Whole
) -> dict[str, Any]:
    columns = done.columns
    correlation, stream = columns["correlationId"], columns["streamId"]
    # Migrations of unified memory are nobody's call and on no stream: both are 0 there.
    by_itself = (correlation <= 0) & (stream == 0)
    owners, owner = np.unique(columns["globalPid"], return_inverse=True)
    programs = [process_names.get(int(one), "") for one in owners]
    has_name = np.array([bool(one) for one in programs])
    sm_count = np.full(len(done), np.nan)
    bandwidth = np.full(len(done), np.nan)
    for one in gpus.devices:
        here = gpus.number == one.index
        if one.sm_count is not None:
            sm_count[here] = one.sm_count
        if one.index is not None and one.index in gpus.bandwidth:
            bandwidth[here] = gpus.bandwidth[one.index]
    return {
        "kind": Texts(list(KINDS)).at(done.kind.astype(np.int64)),
        "kernel_name": Texts(done.name.texts).at(done.name.codes),
        "copy_kind": Texts(done.copy_kind.texts).at(done.copy_kind.codes),
        "process_name": Texts(programs).at(np.where(has_name[owner], owner, -1).reshape(-1)),
        # Given here, as Arrow imports pandas to repeat a number.
        "launch_count": wholes(np.ones(len(done), dtype=np.int64)),
        "source": wholes(np.zeros(len(done), dtype=np.int64)),
        "process_id": wholes(process),
        "rank": wholes(rank),
        "device": wholes(gpus.number),
        "gpu": nulled(gpus.physical, gpus.physical != UNKNOWN),
        "context": wholes(columns["contextId"]),
        "stream": nulled(stream, (stream != UNKNOWN) & ~by_itself),
        "correlation_id": nulled(correlation, correlation > 0),
        "copy_bytes": _real(done.bytes),
        "sm_count": reals(sm_count),
        "peak_dram_bytes_per_s": reals(bandwidth),
    }


def _times(done: Activities, call: Whole, runtime: Calls) -> dict[str, Any]:
    linked = call >= 0
    start = np.append(runtime.start, 0)[call]
    return {
        "start_ns": wholes(done.start),
        "duration_ns": wholes(done.duration),
        "host_launch_ns": nulled(start, linked),
        "host_launch_duration_ns": nulled(np.append(runtime.end, 0)[call] - start, linked),
    }


def _shape(done: Activities) -> dict[str, Any]:
    columns = done.columns
    found: dict[str, Any] = {}
    for what in ("grid", "block"):
        for axis in _AXES:
            values = columns.pop(f"{what}{axis}")
            found[f"{what}_{axis.lower()}"] = nulled(values, values > 0)
    cluster = [columns.pop(f"cluster{axis}") for axis in _AXES]
    in_cluster = (cluster[0] > 0) & (cluster[1] > 0) & (cluster[2] > 0)
    size = np.where(in_cluster, cluster[0] * cluster[1] * cluster[2], UNKNOWN)
    static, dynamic = columns.pop("staticSharedMemory"), columns.pop("dynamicSharedMemory")
    both = np.where((static >= 0) & (dynamic >= 0), static + dynamic, UNKNOWN)
    return found | {
        "registers_per_thread": _real(columns.pop("registersPerThread")),
        "shared_memory_bytes": _real(both),
        "shared_memory_static_bytes": _real(static),
        "shared_memory_dynamic_bytes": _real(dynamic),
        "cluster_size": _real(size),
    }


def _real(values: Whole) -> pa.Array | pa.ChunkedArray:
    return reals(np.where(values >= 0, values, np.nan))


def _around(done: Activities, call: Whole, runtime: Calls, links: Links) -> dict[str, Any]:
    """Operators, ranges, steps and graphs."""
    texts = [one.name for one in links.meanings]
    shapes = [one.shapes for one in links.meanings]
    has_shapes = np.array([*map(bool, shapes), False])
    is_graph = replayed(done, call, runtime)

    def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = np.append(values, -1)[call]
        return found

    # The operator around a replay is not what launched the node.
    operator = np.where(is_graph, -1, spread(links.operator))
    operator_call = np.where(is_graph, -1, spread(links.operator_call))
    graph, graphs = _graphs(done, call, is_graph)
    return {
        "operator": Texts(texts).at(operator),
        "operator_path": Texts(links.operator_path.texts).at(spread(links.operator_path.codes)),
        "module_path": Texts(links.module_path.texts).at(spread(links.module_path.codes)),
        "input_shapes": Texts(shapes).at(np.where(has_shapes[operator], operator, -1)),
        "phase": Texts(PHASE_NAMES).at(spread(links.phase)),
        "step": Texts(links.steps.names).at(spread(links.step)),
        "operator_call": nulled(operator_call, operator_call >= 0),
        "graph_id": Texts(graphs).at(graph),
    }


def replayed(done: Activities, call: Whole, runtime: Calls) -> Mask:
    """Which activities are nodes of a replayed graph, or a replay."""
    found: Mask = np.append(is_graph_launch(runtime), False)[call]
    return found | (done.columns["graphNodeId"] > 0) | done.of_kind("graph")


def _graphs(done: Activities, call: Whole, is_graph: Mask) -> tuple[Whole, list[str]]:
    """The graph of each replayed activity: the file's own number, else one for each distinct set
    of nodes that one call launched."""
    own = np.where(is_graph & (done.columns["graphId"] > 0), done.columns["graphId"], UNKNOWN)
    numbers, codes = np.unique(own, return_inverse=True)
    codes = np.where(own == UNKNOWN, -1, codes.reshape(-1))
    texts = [str(number) for number in numbers.tolist()]
    node = done.columns["graphNodeId"]
    rest = np.flatnonzero(is_graph & (codes < 0) & (call >= 0))
    by_call = rest[np.lexsort((node[rest], call[rest]))]
    replays: dict[bytes, int] = {}
    if len(rest):
        for nodes in np.split(by_call, np.flatnonzero(np.diff(call[by_call])) + 1):
            replay = replays.setdefault(node[nodes].tobytes(), len(replays))
            codes[nodes] = len(texts) + replay
    return codes, [*texts, *(f"replay {number + 1}" for number in range(len(replays)))]


def notes_of(done: Activities, call: Whole, runtime: Calls) -> list[Note]:
    """What is odd about the activities."""
    linked = call >= 0
    is_graph = replayed(done, call, runtime)
    early = linked & (done.start != UNKNOWN)
    early &= done.start < np.append(runtime.start, 0)[call]
    found = [
        ("GPU activities without a start", (done.start == UNKNOWN).sum(), True),
        ("GPU activities without a credible duration", done.broken, True),
        ("kernels without a name", (done.name.codes < 0).sum(), True),
        (
            "GPU activities whose launch call was not recorded (most: from before the recording)",
            (~linked & (done.columns["correlationId"] > 0)).sum(),
            False,
        ),
        (
            "GPU activities that seem to start before their launch call (clocks differ)",
            early.sum(),
            False,
        ),
        (
            "GPU activities of replayed graphs: operators not known",
            (is_graph & ~done.of_kind("graph")).sum(),
            False,
        ),
    ]
    return [Note(text, int(count), severe) for text, count, severe in found if count]
