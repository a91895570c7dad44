"""What a parser returns: everything that a profiler file says, nothing that we conclude.

A ``Recording`` is the content of one or more files of one kind; a ``Run`` is a recording with a
name and an identity, the unit that is stored, diagnosed and compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa

from traceroof.core import dictionary, kernel_table, regex
from traceroof.core.clock_log import CLOCK_LOG
from traceroof.core.displayed import Displayed
from traceroof.core.source_lines import SOURCE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

# Durations of a counter tool come from serialised replays, often at locked clocks; a timeline's
# are production times; a summary gives means only. They are never mixed in one run (DESIGN §3).
TimeBasis = Literal["timeline", "counter-tool"]

#: Metrics that no kernel-table column names. ``row`` is the row of the kernel table;
#: exactly one of ``value`` (number) and ``text`` is known.
RAW_METRICS: pa.Schema = pa.schema(
    [
        ("row", pa.int64()),
        ("section", kernel_table.TEXT),
        ("metric", kernel_table.TEXT),
        ("unit", kernel_table.TEXT),
        ("value", pa.float64()),
        ("text", kernel_table.TEXT),
    ]
)

#: What the profiler's own rules said. ``row`` is the row of the kernel table; ``level`` is OPT,
#: INF, WRN or ERR; ``speedup_pct`` is the time saved in percent of the kernel ("global") or of
#: the part of the hardware that the rule looks at ("local").
VERDICTS: pa.Schema = pa.schema(
    [
        ("row", pa.int64()),
        ("section", pa.string()),
        ("rule", pa.string()),
        ("level", pa.string()),
        ("text", pa.string()),
        ("speedup_scope", pa.string()),
        ("speedup_pct", pa.float64()),
    ]
)

#: What the host did: launches, synchronisations, operators. Times are on the kernels' clock.
HOST_CALLS: pa.Schema = pa.schema(
    [
        ("source", pa.int64()),
        ("process_id", pa.int64()),
        ("thread_id", pa.int64()),
        ("category", kernel_table.TEXT),
        ("name", kernel_table.TEXT),
        ("start_ns", pa.int64()),
        ("duration_ns", pa.int64()),
        ("correlation_id", pa.int64()),
    ]
)

#: What a summary adds up of the host's calls, which then have no times of their own. ``typical_ns``
#: is what one call takes where nothing holds it up: the median, else the shortest; unknown where
#: only a mean is printed, because a mean holds the waits too.
CALL_SUMS: pa.Schema = pa.schema(
    [
        ("source", pa.int64()),
        ("name", kernel_table.TEXT),
        ("calls", pa.int64()),
        ("total_ns", pa.int64()),
        ("typical_ns", pa.int64()),
    ]
)

#: Stretches of time with a name: steps, user annotations, ranges.
SPANS: pa.Schema = pa.schema(
    [
        ("source", pa.int64()),
        ("process_id", pa.int64()),
        ("thread_id", pa.int64()),
        ("kind", kernel_table.TEXT),
        ("name", kernel_table.TEXT),
        ("start_ns", pa.int64()),
        ("duration_ns", pa.int64()),
    ]
)


def empty(schema: pa.Schema) -> pa.Table:
    """A table without rows. Arrow's own way imports pandas, which costs 0.2 s and 40 MB."""
    return pa.Table.from_arrays([pa.nulls(0, one.type) for one in schema], schema=schema)


@dataclass(frozen=True)
class Note:
    """Something skipped, repaired or guessed while reading, and how often.

    severe: the reader lost or could not decide something, so ``--strict`` fails the run;
    otherwise the note only tells what the file is like.
    """

    text: str
    count: int = 1
    severe: bool = True

    def __str__(self) -> str:
        return f"{self.text} ({self.count:,} times)" if self.count > 1 else self.text


#: What a file is among files that were given together (``ingest.combine``); empty for a file alone.
Role = Literal["", "timeline", "counters", "pass", "part", "rank", "repeat", "clock-log"]


@dataclass(frozen=True)
class Source:
    """One file that was read.

    launches: kernel launches, aggregates multiplied. role: what it is among several files. stacks: whether Python stacks were recorded,
    which make the host slower than it is.
    """

    path: str
    format: str
    launches: int
    notes: tuple[Note, ...] = ()
    stacks: bool = False
    role: Role = ""


@dataclass(frozen=True)
class DeviceInfo:
    """A GPU as the file describes it; null where the file does not say. Sizes in bytes, Hz.

    vendor: "nvidia", "amd", "hygon" or "intel" where the tool runs on no other's GPUs. driver: its version in
    the file's terms: "CUDA 13.0" (the newest that it runs), "HIP 7.2.53211", "ROCm 6.5.0-831".
    measured: what the tool itself measured on it: "dram" in byte/s, types of the device table in
    FLOP/s. refused: the same, where it cannot be believed. A compute capability that is no version
    is none, nor is a number that is a text or the other way round.
    """

    index: int | None = None
    name: str | None = None
    compute_capability: str | None = None
    gfx_target: str | None = None
    wavefront: int | None = None
    pci_device_id: int | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    sm_clock_hz: float | None = None
    dram_clock_hz: float | None = None
    dram_bus_bits: int | None = None
    vendor: str | None = None
    driver: str | None = None
    measured: tuple[tuple[str, float], ...] = ()
    refused: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value is not None and not _fits(value, str(entry.type)):
                object.__setattr__(self, entry.name, None)
        if self.compute_capability and not _CAPABILITY.fullmatch(self.compute_capability):
            object.__setattr__(self, "compute_capability", None)


def _fits(value: object, declared: str) -> bool:
    """Whether a value that a file gives is of the kind that a field holds."""
    if declared.startswith("tuple"):
        return True
    if declared.startswith("str"):
        return isinstance(value, str)
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


_CAPABILITY = regex.compile(r"[0-9]{1,3}\.[0-9]{1,2}")


class Summary(Protocol):
    """What was worked out of some files of a recording.

    files: their numbers. shifted: the same where so many files come before.
    """

    @property
    def files(self) -> tuple[int, ...]: ...

    def shifted(self, files: int) -> "Summary": ...


@dataclass(frozen=True)
class Recording:
    """What one file, or several files read together, say."""

    format: str
    time_basis: TimeBasis
    kernels: pa.Table
    sources: tuple[Source, ...]
    devices: tuple[DeviceInfo, ...] = ()
    raw_metrics: pa.Table = field(default_factory=lambda: empty(RAW_METRICS))
    verdicts: pa.Table = field(default_factory=lambda: empty(VERDICTS))
    host_calls: pa.Table = field(default_factory=lambda: empty(HOST_CALLS))
    spans: pa.Table = field(default_factory=lambda: empty(SPANS))
    call_sums: pa.Table = field(default_factory=lambda: empty(CALL_SUMS))
    #: Samples and counts per instruction, with its source line.
    source_lines: pa.Table = field(default_factory=lambda: empty(SOURCE))
    #: Clocks and power that were logged beside the run.
    clock_logs: pa.Table = field(default_factory=lambda: empty(CLOCK_LOG))
    #: What a counter tool measured of the same program, beside this timeline.
    counters: "Recording | None" = None
    #: What is known of files already (``timeline.partial``), so that their host calls and spans need
    #: not be there.
    summaries: "tuple[Summary, ...]" = field(default=(), compare=False)

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """Every file, those of the counters last."""
        return (*self.sources, *(self.counters.sources if self.counters else ()))

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of all sources, in order."""
        return tuple(note for source in self.sources for note in source.notes)

    def judged(self) -> "Recording":
        """The recording without repeats: further runs of the same thing stand beside and are in
        no sum."""
        beside = [at for at, one in enumerate(self.sources) if one.role == "repeat"]
        if not beside:
            return self
        return _without(self, beside)


@dataclass(frozen=True, repr=False)
class Run(Displayed):
    """A recording that has a name. ``id`` is empty while the run is not stored."""

    recording: Recording
    name: str
    id: str = ""
    created: str | None = None

    @property
    def said(self) -> str:
        """Its name, id and format, and how many launches it has."""
        launches = kernel_table.launches(self.recording.judged().kernels)
        named = f"{self.name} ({self.id})" if self.id else self.name
        return f"{named}: {launches:,} kernel launches, {self.recording.format}"

    @cached_property
    def kernels(self) -> "pd.DataFrame":
        """The kernel table as a DataFrame, one row per GPU activity, of the same types for every run:
        whole numbers ``Int64``, real numbers ``float64``, texts ``string``. Unknown is NA (NaN in a
        real number)."""
        return _frame(self.recording.kernels)

    @cached_property
    def source_lines(self) -> "pd.DataFrame":
        """The source table as a DataFrame, one row per instruction or line of a launch; ``row``
        is the launch's in ``kernels`` (of its counters, beside a timeline)."""
        return _frame((self.recording.counters or self.recording).source_lines)


def _frame(table: pa.Table) -> "pd.DataFrame":
    import pandas as pd

    nullable = {
        pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype(),
    }  # fmt: skip
    texts = [one.name for one in table.schema if one.type == kernel_table.TEXT]
    frame: pd.DataFrame = table.drop_columns(texts).to_pandas(types_mapper=nullable.get)
    # Categories would surprise: a group-by over two of them lists every combination. As objects
    # the rows still share their texts.
    shared = pd.StringDtype("python")
    columns = {
        name: pd.array(dictionary.coded(table[name]).values(), dtype=shared)
        if name in texts
        else frame[name]
        for name in table.column_names
    }
    return pd.DataFrame(columns, copy=False)


def with_notes(recording: Recording, notes: Sequence[Note]) -> Recording:
    """The recording with notes added to its first file."""
    if not notes:
        return recording
    first, *rest = recording.sources
    first = replace(first, notes=(*first.notes, *notes))
    return replace(recording, sources=(first, *rest))


def on_device(recording: Recording, name: str) -> Recording:
    """The recording with its GPUs named by the user, who knows what the file does not say."""
    devices = recording.devices or (DeviceInfo(),)
    return replace(recording, devices=tuple(replace(one, name=name) for one in devices))


def _without(recording: Recording, sources: Sequence[int]) -> Recording:
    """The recording without the rows of some sources; sources keep their numbers."""
    import pyarrow.compute as pc

    gone = pa.array(sources, pa.int64())

    def kept(table: pa.Table) -> pa.Table:
        return table.filter(pc.invert(pc.is_in(table["source"], gone)))

    keep = pc.invert(pc.is_in(recording.kernels["source"], gone)).to_numpy()
    return replace(
        _of_rows(recording, keep),
        host_calls=kept(recording.host_calls),
        spans=kept(recording.spans),
        call_sums=kept(recording.call_sums),
        clock_logs=kept(recording.clock_logs),
        summaries=tuple(one for one in recording.summaries if not {*one.files} & {*sources}),
    )


def only_rows(recording: Recording, keep: "npt.NDArray[np.bool_]") -> Recording:
    """The recording with some rows of the kernel table alone, and what belongs to them."""
    found = _of_rows(recording, keep)
    sources = [
        replace(one, launches=kernel_table.launches(of_source(found.kernels, number)))
        for number, one in enumerate(found.sources)
    ]
    return replace(found, sources=tuple(sources))


def of_source(kernels: pa.Table, number: int) -> pa.Table:
    """The rows of one source."""
    import pyarrow.compute as pc

    return kernels.filter(pc.equal(kernels["source"].fill_null(0), number))


def _of_rows(recording: Recording, keep: "npt.NDArray[np.bool_]") -> Recording:
    import numpy as np
    import pyarrow.compute as pc

    place = pa.array(np.where(keep, np.cumsum(keep) - 1, -1))

    def moved(table: pa.Table) -> pa.Table:
        rows = place.take(table["row"].combine_chunks()) if table.num_rows else table["row"]
        at = table.column_names.index("row")
        return table.set_column(at, "row", rows).filter(pc.greater_equal(rows, 0))

    return replace(
        recording,
        kernels=recording.kernels.filter(pa.array(keep)),
        raw_metrics=moved(recording.raw_metrics),
        verdicts=moved(recording.verdicts),
        source_lines=moved(recording.source_lines),
    )


def note_lines(sources: Sequence[Source]) -> list[str]:
    """The notes of all files as lines; one that several files have is said once."""
    of: dict[str, list[str]] = {}
    for source in sources:
        for note in source.notes:
            of.setdefault(str(note), []).append(source.path)
    if len(sources) == 1:
        return list(of)
    return [
        f"{paths[0]}: {text}" if len(paths) == 1 else f"{text} (in {len(paths)} files)"
        for text, paths in of.items()
    ]


def source_of(path: str, format: str, kernels: pa.Table, notes: Sequence[Note] = ()) -> Source:
    """The ``Source`` entry for a file whose kernels are ``kernels``."""
    return Source(
        path=path, format=format, launches=kernel_table.launches(kernels), notes=tuple(notes)
    )
