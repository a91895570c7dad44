"""Several timelines: ranks side by side, or runs of the same program, one of which counts."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow.compute as pc

from traceroof.core.kernel_table import as_reals, launches
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Note, Recording, with_notes
from traceroof.errors import TraceroofError
from traceroof.ingest.kernel_time import median_of, runs_beside, shared_time, time_by_kernel
from traceroof.ingest.ranks import are_ranks, ranks_of
from traceroof.ingest.roles import SEPARATE, SHARED, Mode, path_of, with_role

_UNCLEAR = (
    "taken as runs of the same program: the files begin at zero, each on its own clock, and name no "
    "process, so nothing tells runs from ranks (--combine ranks takes them as ranks)"
)
# A clock that begins with the recording; that of a machine or of the world is far beyond.
_OWN_CLOCK_NS = 3_600_000_000_000
# Repeats launch about as often; a file of half the launches is another thing.
_LAUNCHES_ALIKE = 0.8


def combine_timelines(recordings: Sequence[Recording], mode: Mode) -> Recording:
    if mode in ("auto", "ranks") and are_ranks(recordings):
        # Whatever the order in which they were given.
        recordings = sorted(recordings, key=lambda one: min(ranks_of(one)))
    runs = _runs_of_ranks(recordings) if mode in ("auto", "repeats") else []
    if len(runs) > 1:
        return _ranks_beside(recordings, runs)
    if mode == "repeats" or (mode == "auto" and _are_repeats(recordings)):
        unclear = mode == "auto" and _nothing_tells_apart(recordings)
        return runs_beside(_noted(recordings, _UNCLEAR) if unclear else recordings, "timeline")
    if mode == "passes":
        raise TraceroofError(
            f"{path_of(recordings[0])} and the others are timelines, which have no counter passes",
            "--combine repeats takes them as runs of the same program, ranks as its processes",
        )
    if mode == "auto" and not are_ranks(recordings):
        _share_kernels(recordings)
    return merge([with_role(one, "rank") for one in recordings])


def of_one_program(
    recordings: Sequence[Recording],
) -> tuple[list[Recording], list[Recording]]:
    """The recordings of a folder without, and with only, the timelines of another tool that have no
    kernel in common with the one of most launches."""
    timed = [one for one in recordings if one.time_basis != "counter-tool"]
    if len(timed) < 2 or are_ranks(timed):
        return list(recordings), []
    main = max(timed, key=lambda one: launches(one.kernels, None))
    foreign = [one for one in timed if one.format != main.format and not shared_time(main, one)]
    return [one for one in recordings if not any(one is other for other in foreign)], foreign


def _runs_of_ranks(recordings: Sequence[Recording]) -> list[list[Recording]]:
    """Files of the same ranks again and again, by run in the order given; empty where they are not."""
    ranks = [ranks_of(one) for one in recordings]
    files: dict[frozenset[int], list[Recording]] = {}
    for rank, one in zip(ranks, recordings, strict=True):
        files.setdefault(rank, []).append(one)
    apart = all(files) and sum(map(len, files)) == len(frozenset().union(*files))
    if len(files) < 2 or not apart or len({len(one) for one in files.values()}) != 1:
        return []
    return [list(run) for run in zip(*files.values(), strict=True)]


def _ranks_beside(
    recordings: Sequence[Recording], runs: Sequence[Sequence[Recording]]
) -> Recording:
    """Runs of several ranks each: the one of median kernel time counts, the others stand beside."""
    times = [sum(sum(time_by_kernel(one).values()) for one in run) for run in runs]
    chosen = runs[median_of(times)]
    return merge(
        [
            with_role(one, "rank" if any(one is each for each in chosen) else "repeat")
            for one in recordings
        ]
    )


def _share_kernels(recordings: Sequence[Recording]) -> None:
    for other in recordings[1:]:
        shared = shared_time(recordings[0], other)
        if shared < SHARED / 2:
            raise TraceroofError(
                f"{path_of(other)} and {path_of(recordings[0])} have {shared:.0%} of their time in "
                "common kernels: they are not recordings of one program",
                f"{SEPARATE}; `--combine ranks` takes them as its processes all the same",
            )


def _are_repeats(recordings: Sequence[Recording]) -> bool:
    """Whether the files are runs of the same thing, one after another.

    Same or no rank, no overlap in time where all share a clock, and mostly the same kernels.
    """
    ranks = [ranks_of(one) for one in recordings]
    if len(set(ranks)) > 1 or any(len(one) > 1 for one in ranks):
        return False
    if not ranks[0] and not _in_turn(recordings) and not _nothing_tells_apart(recordings):
        return False
    return all(
        shared_time(recordings[0], other) >= SHARED and _as_many(recordings[0], other)
        for other in recordings[1:]
    )


def _nothing_tells_apart(recordings: Sequence[Recording]) -> bool:
    """Whether the files share no clock (all begin about at zero), name no process, and used the same
    GPUs of their machine."""
    devices = {frozenset(pc.unique(one.kernels["device"]).to_pylist()) for one in recordings}
    if len(devices) > 1:
        return False
    for one in recordings:
        start = as_reals(one.kernels["start_ns"])
        known = start[~np.isnan(start)]
        has_process = one.kernels["process_id"].null_count < one.kernels.num_rows
        if has_process or not len(known) or known.min() >= _OWN_CLOCK_NS:
            return False
    return True


def _noted(recordings: Sequence[Recording], text: str) -> list[Recording]:
    return [with_notes(recordings[0], [Note(text, severe=False)]), *recordings[1:]]


def _as_many(first: Recording, other: Recording) -> bool:
    counts = [launches(one.kernels, None) for one in (first, other)]
    return bool(min(counts) >= _LAUNCHES_ALIKE * max(counts))


def _in_turn(recordings: Sequence[Recording]) -> bool:
    """Whether the windows of the files do not overlap; True where they have no clock."""
    windows = []
    for one in recordings:
        start = as_reals(one.kernels["start_ns"])
        known = start[~np.isnan(start)]
        if not len(known):
            return True
        windows.append((float(known.min()), float(known.max())))
    windows.sort()
    return all(before[1] < after[0] for before, after in pairwise(windows))
