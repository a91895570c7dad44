"""Reads an Nsight Systems export: activities, host calls, NVTX ranges, samples; into a recording."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from traceroof.core.kernel_table import launches as count_launches
from traceroof.core.recording import Note, Recording, Source
from traceroof.ingest.sqlite import UNKNOWN, Whole, open_database
from traceroof.parser import Options, Progress
from traceroof.parsers.nsight import nsys_host
from traceroof.parsers.nsight.nsys_devices import gpus_of
from traceroof.parsers.nsight.nsys_kernels import (
    Activities,
    activities_of,
    kernels_of,
    notes_of,
)
from traceroof.parsers.nsight.nsys_ranges import link, operator_calls, ranges_of, spans_of
from traceroof.parsers.nsight.nsys_refusal import BY_NODE, diagnostic_notes, refuse
from traceroof.parsers.nsight.nsys_samples import samples_of
from traceroof.parsers.nsight.nsys_tables import Export, process_of

FORMAT: Final = "nsight-systems"

_STAGES: Final = 4


def read_export(source: Path, progress: Progress, options: Options) -> Recording:
    """Read an export. Raises TraceroofError where it holds no kernels, saying why."""
    with open_database(source, options) as database:
        found = _read(source, Export(database), progress)
        notes = (*found.notes, *database.notes)
    return replace(found, sources=(replace(found.sources[0], notes=notes),))


def _read(path: Path, export: Export, progress: Progress) -> Recording:
    done = activities_of(export)
    progress(1, _STAGES)
    host = nsys_host.host_of(export)
    runtime = host.runtime
    progress(2, _STAGES)
    if not done.of_kind("kernel").any():
        raise refuse(path, export, done, runtime)
    process = process_of(done.columns["globalPid"])
    call = nsys_host.calls_of(runtime, done.columns["globalPid"], done.columns["correlationId"])
    ranges = ranges_of(export)
    links = link(ranges, runtime)
    progress(3, _STAGES)
    is_launching = np.zeros(len(runtime), dtype=bool)
    is_launching[call[call >= 0]] = True
    launching = runtime.at(np.flatnonzero(is_launching))
    gpus = gpus_of(export, process, done.columns["deviceId"])
    rank, rank_notes = _rank(path, export, process)
    notes = [*notes_of(done, call, runtime), *_lost(done, call, runtime), *rank_notes]
    if ranges.unclosed:
        notes.append(
            Note("NVTX ranges still open when the recording ended", ranges.unclosed, False)
        )
    notes += diagnostic_notes(export)
    sampled, more = samples_of(export, done, gpus)
    notes += more
    kernels = kernels_of(done, call, runtime, links, gpus, export.process_names, rank)
    progress(_STAGES, _STAGES)
    return Recording(
        format=FORMAT,
        time_basis="timeline",
        kernels=kernels,
        sources=(Source(str(path), FORMAT, count_launches(kernels), tuple(notes)),),
        devices=gpus.devices,
        raw_metrics=sampled,
        host_calls=host.table([operator_calls(ranges, launching)]),
        spans=spans_of(ranges, links.steps),
    )


def _lost(done: Activities, call: Whole, runtime: nsys_host.Calls) -> list[Note]:
    """What the profiler did not record: launches without their kernel, replays without theirs."""
    found = []
    launched = nsys_host.launches(runtime)
    launched[call[call >= 0]] = False
    if launched.any():
        found.append(Note("kernel launches without a record of the kernel", int(launched.sum())))
    replays = done.of_kind("graph")
    if replays.any():
        spent = done.duration[replays & (done.duration != UNKNOWN)].sum()
        text = (
            f"replays of CUDA graphs, {spent / 1e6:,.3f} ms of GPU time, were recorded as a whole: "
            f"their kernels are not in the file; record them with {BY_NODE}"
        )
        found.append(Note(text, int(replays.sum())))
    return found


# What file names say: report.3.sqlite of --output report.%q{RANK} cannot be told from a number.
_RANK_IN_NAME: Final = re.compile(r"(?<![a-z])rank[-_.]?(\d{1,8})(?!\d)", re.IGNORECASE)


def _rank(path: Path, export: Export, process: Whole) -> tuple[Whole, list[Note]]:
    """The rank of each row: by MPI where it was traced, else by the file's name."""
    table = export.database.wholes("MPI_RANKS", ("globalTid", "rank"))
    rank = np.full(len(process), UNKNOWN, dtype=np.int64)
    for one, number in zip(process_of(table["globalTid"]), table["rank"], strict=True):
        rank[process == one] = number
    named = _RANK_IN_NAME.search(path.name)
    if named and np.all(rank == UNKNOWN):
        rank[:] = int(named[1])
        return rank, [Note(f"rank {named[1]} is a guess from the file's name", severe=False)]
    return rank, []
