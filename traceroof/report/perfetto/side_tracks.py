"""What stands beside the GPUs: the host's calls and ranges, and a log of clocks and power."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceroof.core.clock_log import utc_window
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import UNKNOWN, as_reals, whole
from traceroof.core.recording import Recording
from traceroof.report.perfetto.events import Counter, Label, Process, Times, Track

# Column of a clock log -> what it is called, its unit, and the factor to it.
_LOGGED = (
    ("sm_clock_hz", "core clock", "MHz", 1e-6),
    ("memory_clock_hz", "memory clock", "MHz", 1e-6),
    ("power_w", "power", "W", 1.0),
    ("temperature_c", "temperature", "°C", 1.0),
    ("utilisation_pct", "utilisation", "%", 1.0),
)
# A log covers more than the run: so much of it before and after is shown.
_AROUND_NS = 1_000_000_000


def host(recording: Recording) -> Iterator[Process]:
    """A process per process of the host, a thread per thread: calls within the ranges around them."""
    parts = (
        (recording.spans, "kind"),
        (recording.host_calls, "category"),
    )
    columns = [_columns(table, what) for table, what in parts if table.num_rows]
    if not columns:
        return
    process, thread, start, duration, label = (
        np.concatenate([one[at] for one in columns]) for at in range(5)
    )
    labels: list[Label] = []
    for at, one in enumerate(columns):
        first = sum(len(before[0]) for before in columns[:at])
        label[first : first + len(one[0])] += len(labels)
        labels += one[5]
    timed = np.flatnonzero((start != UNKNOWN) & (duration != UNKNOWN) & (duration >= 0))
    for pid in np.unique(process[timed]).tolist():
        mine = timed[process[timed] == pid]
        tracks = []
        for tid in np.unique(thread[mine]).tolist():
            at_ = mine[thread[mine] == tid]
            name = "thread unknown" if tid == UNKNOWN else f"thread {tid}"
            used, which = np.unique(label[at_], return_inverse=True)
            named = [labels[number] for number in used.tolist()]
            tracks.append(Track(name, start[at_], duration[at_], which, named, nested=True))
        yield Process("host" if pid == UNKNOWN else f"host, process {pid}", tracks)


def _columns(table: pa.Table, what: str) -> tuple[Times, Times, Times, Times, Times, list[Label]]:
    names, kinds = coded(table["name"]), coded(table[what])
    width = len(kinds.texts) + 1
    # Both from 0 on: what has no name is -1.
    code = (names.codes.astype(np.int64) + 1) * width + kinds.codes + 1
    distinct, label = np.unique(code, return_inverse=True)
    labels = [
        Label(
            ["(no name)", *names.texts][one // width],
            ["host", *kinds.texts][one % width],
        )
        for one in distinct.tolist()
    ]
    found = (whole(table[name]) for name in ("process_id", "thread_id", "start_ns", "duration_ns"))
    process, thread, start, duration = found
    return process, thread, start, duration, label, labels


def clocks(recording: Recording, tools: Sequence[str]) -> tuple[list[Process], str]:
    """The clock logs as counters, and why there are none; empty where there are, or no log is."""
    log = recording.clock_logs
    window = utc_window(recording.kernels)
    if not log.num_rows:
        return [], ""
    if window is None or log["time_ns"].null_count == log.num_rows:
        return [], "the clock log is left out: it and the profile have no common time"
    time = whole(log["time_ns"])
    near = (time != UNKNOWN) & (time >= window[0] - _AROUND_NS) & (time <= window[1] + _AROUND_NS)
    log = log.filter(pa.array(near))
    gpus = as_reals(log["gpu"])
    counters = []
    for gpu in np.unique(gpus).tolist():
        mine = np.isnan(gpus) if np.isnan(gpu) else gpus == gpu
        part = log.filter(pa.array(mine))
        part = part.take(pc.sort_indices(part["time_ns"]))
        prefix = "GPU" if np.isnan(gpu) else f"GPU {int(gpu)}"
        for column, name, unit, factor in _LOGGED:
            value = as_reals(part[column])
            known = np.flatnonzero(~np.isnan(value))
            if len(known):
                counters.append(
                    Counter(f"{prefix} {name}", unit, whole(part["time_ns"])[known],
                            value[known] * factor)
                )  # fmt: skip
    return [Process(f"clocks and power ({', '.join(tools)})", counters=counters)], ""
