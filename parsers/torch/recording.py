"""A folded and linked trace as a recording: the kernel table, host calls, spans, devices, notes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core import regex
from traceroof.core.recording import (
    HOST_CALLS,
    SPANS,
    DeviceInfo,
    Note,
)
from traceroof.parsers.host.arrow import Texts, wholes
from traceroof.parsers.host.unrecorded import placed
from traceroof.parsers.torch.columns import Fold
from traceroof.parsers.torch.event_columns import KINDS
from traceroof.parsers.torch.events import UNKNOWN, Whole, whole_number
from traceroof.parsers.torch.host_events import Host, Ranges
from traceroof.parsers.torch.kernels import kernels_of, note_operators, settle_times
from traceroof.parsers.torch.launches import Launches
from traceroof.parsers.torch.link import Links
from traceroof.parsers.torch.process_groups import descriptions
from traceroof.timeline.lost_records import THINNED, launched

# What file names say, the surest first: rank-0, worker3, TP-0 (SGLang; tp8 is a number of ranks).
_RANKS_IN_NAMES: Final = (
    regex.compile(r"global[-_]?rank[-_]?(\d+)", re.IGNORECASE),
    regex.compile(r"(?<![a-z])(?<!local_)(?<!local-)rank[-_]?(\d+)", re.IGNORECASE),
    regex.compile(r"(?<![a-z])worker[-_]?(\d+)", re.IGNORECASE),
    regex.compile(r"(?<![A-Za-z])TP-(\d+)"),
    # Of one node: the rank where no other is named.
    regex.compile(
        r"\A(?!.*(?<![a-z])(?:node|host|machine)[-_]?\w*\d).*local[-_]rank[-_]?(\d+)", re.IGNORECASE
    ),
)


@dataclass
class Built:
    """What a recording is made of."""

    kernels: pa.Table
    launches: int
    host_calls: pa.Table
    spans: pa.Table
    devices: tuple[DeviceInfo, ...]
    notes: list[Note] = field(default_factory=list)


def build(
    fold: Fold,
    host: Host,
    links: Links,
    launches: Launches,
    metadata: Mapping[str, Any],
    path: Path,
) -> Built:
    """Make the tables. Takes the columns out of ``fold``, ``host`` and ``links`` as it goes, so that
    memory is freed."""
    base = whole_number(metadata.get("baseTimeNanoseconds"))
    base = base if 0 <= base < 1 << 62 else 0
    used = np.bincount(host.calls.name, minlength=1)
    vendor = _vendor(host.names[code] for code in np.flatnonzero(used).tolist())
    devices = _devices(metadata, launches.device, vendor)
    notes: list[Note] = []

    def note(count: int, text: str, severe: bool = False) -> None:
        if count:
            notes.append(Note(text, count, severe))

    rank, rank_note = _rank(metadata, path)
    if np.all(links.rank == UNKNOWN):
        note(bool(rank_note), rank_note)
    note(links.by_time, "GPU activities linked by time among calls of one correlation id", True)
    for text, count in fold.counts.items():
        note(count, text, severe="left out" in text)
    host_calls = _host_calls(fold, host, links, base)
    spans = _spans(fold, host, links, base)
    host.tabled()
    unknown = settle_times(fold, host, links, launches, note)
    note_operators(fold, links, note)
    count = int((fold.gpu.peek("kind") == KINDS.index("kernel")).sum())
    groups = descriptions(metadata)
    kernels = kernels_of(fold, host, links, launches, unknown, base, rank, devices, groups)
    kernels, told = placed(kernels)
    note(told, _TOLD)
    for text, number, severe in lost_records(host_calls, kernels):
        note(number, text, severe)
    if metadata.get("with_stack"):
        note(1, "recorded with Python stacks, which make the host slower than it is")
    return Built(kernels, count, host_calls, spans, devices, notes)


_TOLD: Final = (
    "GPU activities without a recorded call whose operator or module is that of recorded launches "
    "of the same kernels in the same order"
)
_LOST: Final = "without a record on the GPU: the profiler lost their kernels"
_LATE: Final = (
    "last launch calls without a record on the GPU: their kernels had not run when the recording "
    "stopped"
)


def lost_records(host_calls: pa.Table, kernels: pa.Table) -> Iterator[tuple[str, int, bool]]:
    """Notes on launches whose work the profiler did not record: text, count, severe."""
    found = launched(host_calls, kernels).values()
    yield f"launch calls {_LOST}", sum(one.lost for one in found), True
    yield f"graph launches {_LOST}", sum(one.lost_graphs for one in found), True
    yield _LATE, sum(one.late for one in found), False
    thin = [one.density for one in found if one.density is not None and one.density < THINNED]
    if thin:
        share = f"{min(thin):.1%} of the call ids (usual: over 5 %)"
        yield f"the file holds only {share}: records are missing", 1, True


def _rank(metadata: Mapping[str, Any], path: Path) -> tuple[int, str]:
    """The rank of a file, from what it says, else from its name; and a note on a guess."""
    distributed = metadata.get("distributedInfo")
    if isinstance(distributed, dict) and whole_number(distributed.get("rank")) != UNKNOWN:
        return whole_number(distributed["rank"]), ""
    for name in (path.name, path.parent.name):
        for pattern in _RANKS_IN_NAMES:
            found = pattern.search(name)
            if found and len(found[1]) < 9:
                return int(found[1]), f"rank {found[1]} is a guess from the file's name"
    return UNKNOWN, ""


def _vendor(names: Iterable[str]) -> str | None:
    """Whose GPUs these are, by the names of the calls."""
    calls = list(names)
    for vendor, pattern in (
        ("amd", r"hip[A-Z]"),
        ("nvidia", r"cu(da)?[A-Z]"),
        ("intel", r"ur[A-Z]|ze(Command|Mem|Event|Module|Kernel)[A-Z]?"),
    ):
        if any(re.match(pattern, call) for call in calls):
            return vendor
    return None


def _devices(
    metadata: Mapping[str, Any], used: Whole, vendor: str | None
) -> tuple[DeviceInfo, ...]:
    """The GPUs that did something. The file lists all that the process could see; AMD numbers the
    ones that work differently, so a number that is not listed means the only kind there is."""
    listed: dict[int, DeviceInfo] = {}
    properties = metadata.get("deviceProperties") or metadata.get("computeProperties")
    for one in properties if isinstance(properties, list) else []:
        if isinstance(one, dict):
            listed[whole_number(one.get("id"))] = _device(one)
    numbers = [int(number) for number in np.unique(used) if number != UNKNOWN]
    kinds = {replace(one, index=None) for one in listed.values()}
    only = next(iter(kinds)) if len(kinds) == 1 else DeviceInfo()
    driver = _driver(metadata)
    return tuple(
        replace(listed.get(number, only), index=number, vendor=vendor, driver=driver)
        for number in numbers
    )


def _driver(metadata: Mapping[str, Any]) -> str | None:
    """13000 is CUDA 13.0 (cudaDriverGetVersion), 70253211 HIP 7.2.53211 (hipDriverGetVersion)."""
    cuda, hip = (whole_number(metadata.get(f"{name}_driver_version")) for name in ("cuda", "hip"))
    if cuda > 0:
        return f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"
    if hip > 0:
        return f"HIP {hip // 10_000_000}.{hip // 100_000 % 100}.{hip % 100_000}"
    return None


def _device(one: Mapping[str, Any]) -> DeviceInfo:
    def whole(*names: str) -> int | None:
        found = [whole_number(one.get(name)) for name in names]
        return next((number for number in found if number != UNKNOWN), None)

    major, minor = whole("computeMajor"), whole("computeMinor")
    name = one.get("name")
    return DeviceInfo(
        index=whole("id"),
        name=name if isinstance(name, str) and name.strip() else None,
        # HIP prints such a pair too: 9.0 is gfx90a where wavefronts have 64 threads, else Hopper.
        compute_capability=(
            f"{major}.{minor}" if major is not None and minor is not None else None
        ),
        wavefront=whole("warpSize"),
        sm_count=whole("numSms", "maxComputeUnits"),
        memory_bytes=whole("totalGlobalMem"),
    )


@dataclass(frozen=True)
class _Events:
    """Rows for the tables of what the host did. Unknown whole numbers are UNKNOWN."""

    process: Whole
    thread: Whole
    name: npt.NDArray[Any]
    kind: npt.NDArray[Any]
    start: Whole
    duration: Whole
    correlation: Whole


def _events(host: Host, ranges: Ranges, kind: npt.NDArray[Any], correlation: Whole) -> _Events:
    thread = host.threads[ranges.lane]
    return _Events(
        thread[:, 0], thread[:, 1], ranges.name, kind, ranges.start, ranges.end - ranges.start,
        correlation,
    )  # fmt: skip


def _table(
    parts: Sequence[_Events],
    names: Sequence[str],
    kinds: Sequence[str],
    base: int,
    schema: pa.Schema,
) -> pa.Table:
    """The parts as one table by start."""
    start = np.concatenate([part.start for part in parts])
    order = np.argsort(start, kind="stable")
    texts = {"kind": Texts(kinds), "name": Texts(names)}
    sources = {"process_id": "process", "thread_id": "thread", "correlation_id": "correlation",
               "duration_ns": "duration", "category": "kind"}  # fmt: skip
    columns: dict[str, Any] = {
        "source": wholes(np.zeros(len(order), dtype=np.int64)),
        "start_ns": wholes(start[order] + base),
    }
    for column in schema.names:
        if column in columns:
            continue
        source = sources.get(column, column)
        values = np.concatenate([getattr(part, source) for part in parts])
        make = texts[source].at if source in texts else wholes
        columns[column] = make(values[order])
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _unknown(count: int) -> Whole:
    return np.broadcast_to(UNKNOWN, count)


def _host_calls(fold: Fold, host: Host, links: Links, base: int) -> pa.Table:
    """Runtime and driver calls, outermost operators, synchronisation records and the profiler's
    own work, by start."""
    own = fold.event_categories["cpu_op"]
    kinds = [str(category) for category in fold.event_categories]
    operators = host.operators
    calls = _events(host, host.calls, host.call_category, host.call_correlation)
    count = len(operators)
    outer = _events(host, operators, np.broadcast_to(own, count), _unknown(count))
    parts = [calls, outer, _others(fold, host, links)]
    return _table(parts, host.names, kinds, base, HOST_CALLS)


def _others(fold: Fold, host: Host, links: Links) -> _Events:
    """Long frames of Python's stack on threads that launch; synchronisation records, which are
    drawn on the row of a GPU; profiler overhead, on the row of process -1."""
    other = fold.other
    number = fold.event_categories
    category = other.peek("category")
    lane = host.lane_of_thread[other.peek("thread")]
    launching = np.unique(host.calls.lane[links.call[links.call >= 0]])
    is_frame = category == number["python_function"]
    at = np.flatnonzero(
        (category != number["gpu_user_annotation"]) & (~is_frame | np.isin(lane, launching))
    )
    category, thread = category[at], host.threads[lane[at]]
    on_host = (category == number["overhead"]) | is_frame[at]
    thread[~on_host | (thread[:, 0] < 0)] = UNKNOWN
    return _Events(
        thread[:, 0],
        thread[:, 1],
        other.peek("name")[at],
        category,
        other.peek("start")[at],
        other.peek("duration")[at],
        other.peek("correlation")[at],
    )


def _spans(fold: Fold, host: Host, links: Links, base: int) -> pa.Table:
    """Steps, annotations of the host and of the GPU, by start. Module calls are no spans: they
    are in the kernels' module_path."""
    kinds = ("step", "annotation", "gpu-annotation")
    steps = host.ranges.at(links.steps.rows)
    names = [*host.names, *links.steps.names]
    steps.name = len(host.names) + np.arange(len(steps), dtype=np.int32)
    plain = ~host.matching(regex.compile("nn.Module"))[host.ranges.name]
    plain[links.steps.rows] = False
    annotations = host.ranges.at(np.flatnonzero(plain))
    other = fold.other
    at = np.flatnonzero(other.peek("category") == fold.event_categories["gpu_user_annotation"])
    nothing = _unknown(len(at))
    on_gpu = _Events(
        nothing,
        nothing,
        other.peek("name")[at],
        np.full(len(at), 2),
        other.peek("start")[at],
        other.peek("duration")[at],
        nothing,
    )
    parts = [
        _events(host, steps, np.zeros(len(steps), dtype=np.int64), _unknown(len(steps))),
        _events(host, annotations, np.ones(len(annotations), int), _unknown(len(annotations))),
        on_gpu,
    ]
    return _table(parts, names, kinds, base, SPANS)
