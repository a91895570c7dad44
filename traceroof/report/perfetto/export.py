"""A run as a trace for ui.perfetto.dev, chrome://tracing and speedscope: one file, whole or gzip."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from traceroof.core.kernel_table import UNKNOWN, as_reals, whole
from traceroof.core.recording import Recording
from traceroof.core.units import count
from traceroof.diagnosis.diagnose import Rows as Belonging
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.common.output import compressed, write_pieces
from traceroof.report.html.timeline_figures import gpu_labels
from traceroof.report.perfetto import gpu_tracks, side_tracks
from traceroof.report.perfetto.events import Process, pieces
from traceroof.report.perfetto.gpu_tracks import Kernels, Placed
from traceroof.timeline.idle_parts import laned
from traceroof.timeline.lanes import Lane

GZIP = (".gz", ".gzip")

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trace:
    """What is exported. notes: what a reader of the trace must know, a sentence each."""

    processes: tuple[Process, ...]
    notes: tuple[str, ...]

    def write(self, path: str, diagnosis: Diagnosis) -> str | None:
        """Write it; a name that ends in .gz is compressed, - is stdout. Returns the file's name."""
        about = {
            "run": diagnosis.run_name,
            "format": diagnosis.format,
            "times": diagnosis.time_basis,
            "notes": list(self.notes),
        }
        made = pieces(self.processes, about)
        if path.endswith(GZIP):
            made = compressed(made)
        return write_pieces(made, path)


def trace_of(recording: Recording, diagnosis: Diagnosis, rows: Belonging) -> Trace:
    """The trace of a diagnosed run. rows: what each row of its kernel table belongs to.

    Each GPU is a process with its streams, steps, idle time and advice; rows without a start stand
    one after another in a process of their own.
    """
    recording = recording.judged()
    kernels = Kernels.of(recording.kernels, diagnosis, rows)
    found = laned(recording, rows.category) if recording.kernels.num_rows else []
    # A lane of copies alone, in a file of its own, has no timeline.
    told = {(one.rank, one.process, one.device, one.start_ns): number
            for number, one in enumerate(diagnosis.timelines)}  # fmt: skip
    names = gpu_labels(diagnosis) if told else []
    gpu = _device(diagnosis)
    processes = []
    placed_rows = np.zeros(recording.kernels.num_rows, dtype=bool)
    for lane, parts in found:
        number = told.get((lane.rank, lane.process, lane.device, int(lane.start.min())))
        placed = Placed.of(lane)
        placed_rows[placed.rows] = True
        line = None if number is None else diagnosis.timelines[number]
        processes.append(
            Process(
                f"{_name(lane) if number is None else names[number]}{gpu}",
                (
                    *(gpu_tracks.steps(line) if line else ()),
                    *(gpu_tracks.idle(parts) if line else ()),
                    *gpu_tracks.streams(kernels, placed),
                    *gpu_tracks.advice(diagnosis, kernels, placed, number),
                ),
                tuple(gpu_tracks.rates(kernels, placed)),
            )
        )
    untimed, notes = _untimed(recording, kernels, diagnosis, ~placed_rows, gpu)
    clocks, unaligned = side_tracks.clocks(
        recording, diagnosis.clocks.tools if diagnosis.clocks else ()
    )
    notes += [unaligned] if unaligned else []
    whole_ = (*processes, *clocks, *untimed, *side_tracks.host(recording))
    return Trace(whole_, tuple(notes))


def _device(diagnosis: Diagnosis) -> str:
    named = list(dict.fromkeys(one.name for one in diagnosis.devices if one.name))
    return f" · {named[0]}" if len(named) == 1 else ""


def _name(lane: Lane) -> str:
    known = {"rank": lane.rank, "process": lane.process, "GPU": lane.device}
    return ", ".join(f"{key} {value}" for key, value in known.items() if value is not None) or "GPU"


def _untimed(
    recording: Recording, kernels: Kernels, diagnosis: Diagnosis, left: Mask, gpu: str
) -> tuple[list[Process], list[str]]:
    """The rows of which no start is known, one after another; and what to say of them."""
    spent = as_reals(recording.kernels["duration_ns"])
    launches = np.maximum(as_reals(recording.kernels["launch_count"]), 1)
    unknown = left & np.isnan(spent)
    at = np.flatnonzero(left & ~np.isnan(spent))
    notes = []
    if unknown.any():
        notes.append(f"{count(int(unknown.sum()), 'row')} of unknown duration left out")
    if not len(at):
        return [], notes
    some = f"{count(len(at), 'row')} without a start time"
    what = "The file holds no start times" if left.all() and not unknown.any() else some
    notes.append(
        f"{what}: kernels stand one after another in the order of the file, "
        "without the gaps between them"
        + (", rows of several launches as one" if (launches[at] > 1).any() else "")
    )
    return list(_in_a_row(recording, kernels, diagnosis, at, gpu)), notes


def _in_a_row(
    recording: Recording, kernels: Kernels, diagnosis: Diagnosis, at: Rows, gpu: str
) -> Iterator[Process]:
    start = whole(recording.kernels["start_ns"])
    base = int(start[start != UNKNOWN].min()) if (start != UNKNOWN).any() else 0
    total = whole(recording.kernels["duration_ns"])[at] * np.maximum(
        whole(recording.kernels["launch_count"])[at], 1
    )
    device = whole(recording.kernels["device"])[at]
    for one in np.unique(device).tolist():
        mine = np.flatnonzero(device == one)
        length = total[mine]
        # 1 ns apart: slices that touch would go to threads of their own.
        begin = base + np.concatenate(([0], np.cumsum(length + 1)[:-1]))
        nowhere = np.full(len(mine), UNKNOWN)
        placed = Placed(at[mine], begin, length, nowhere)
        name = "GPU" if one == UNKNOWN else f"GPU {one}"
        yield Process(
            f"{name}{gpu}, in the order of the file",
            (
                kernels.track("kernels (no start times)", placed.rows, begin, length),
                *gpu_tracks.advice(diagnosis, kernels, placed, None),
            ),
            tuple(gpu_tracks.rates(kernels, _per_launch(recording, placed))),
        )


def _per_launch(recording: Recording, placed: Placed) -> Placed:
    """For rates: bytes are those of one launch, so that only rows of one launch have some."""
    single = whole(recording.kernels["launch_count"])[placed.rows] == 1
    return Placed(*(part[single] for part in
                    (placed.rows, placed.start, placed.duration, placed.streams)))  # fmt: skip


def export_trace(
    recording: Recording, diagnosis: Diagnosis, rows: Belonging, path: Path | str
) -> Sequence[str]:
    """Write the trace of a run. Returns what a reader must know, a sentence each. Raises
    TraceroofError where the file cannot be written."""
    trace = trace_of(recording, diagnosis, rows)
    trace.write(str(path), diagnosis)
    return trace.notes
