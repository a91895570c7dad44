"""Several files, one program: which role each file has, decided once for every command.

Files that are given together are recordings of one program unless they show that they are not.
The role stands in ``Source.role``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
import pyarrow.compute as pc

from traceroof.core import kernel_names
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import as_reals, launches
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Note, Recording, Role, with_notes
from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import find
from traceroof.ingest import log_times
from traceroof.ingest.passes import is_view, launches_of, metrics_of, shaped, united

Mode = Literal["auto", "passes", "join", "repeats", "ranks", "separate"]
MODES: tuple[Mode, ...] = get_args(Mode)

#: Files of one program share at least this part of the smaller file's kernels (by name).
SHARED = 0.5

_SEPARATE = "`--combine separate` makes a run of each; give one program's files otherwise"


def combine(
    recordings: Sequence[Recording], mode: Mode = "auto", clock_offset: str | None = None
) -> Recording:
    """The recordings as one, each source with its role.

    mode: what the files are, where the user knows better than ``auto``. clock_offset: what the clock
    of a log of clocks is ahead of UTC (``log_times``). Raises TraceroofError where they are no
    recordings of one program.
    """
    recordings = [part for one in recordings for part in _apart(one)]
    logs = [one for one in recordings if one.clock_logs.num_rows]
    recordings = [one for one in recordings if not one.clock_logs.num_rows]
    if logs and not recordings:
        raise TraceroofError(
            f"{_path(logs[0])} is a log of clocks and power ({logs[0].format}) and holds no kernels",
            "give it together with the profile of the run that it was recorded beside",
        )
    if logs:
        return with_logs(combine(recordings, mode), logs, clock_offset)
    if clock_offset:
        raise TraceroofError(
            "--clock-offset is of a log of clocks and power, and none is given",
            "give the log together with the profile, or leave the option out",
        )
    if len(recordings) < 2:
        return merge(recordings)
    if mode == "separate":
        raise TraceroofError(
            f"--combine separate makes {len(recordings)} runs, and one is wanted here",
            "`traceroof ingest --combine separate` stores a run of each file",
        )
    if mode == "auto":
        _same_gpu(recordings)
    counted = [one for one in recordings if one.time_basis == "counter-tool"]
    timed = [one for one in recordings if one.time_basis != "counter-tool"]
    if counted and timed:
        return _joined(timed, counted, mode)
    return _counters(counted, mode) if counted else _timelines(timed, mode)


def _apart(recording: Recording) -> tuple[Recording, ...]:
    """What was put beside one another before, each on its own: timeline, counters, clock logs."""
    if recording.counters is not None:
        return (*_apart(replace(recording, counters=None)), recording.counters)
    if not recording.clock_logs.num_rows or not recording.kernels.num_rows:
        return (recording,)
    # The sources of logs are the last ones (``with_logs``).
    first = [one.role for one in recording.sources].index("clock-log")
    log = recording.clock_logs
    shifted = pc.subtract(log["source"], first)
    return (
        replace(recording, sources=recording.sources[:first], clock_logs=log.slice(0, 0)),
        Recording(
            format="+".join(dict.fromkeys(one.format for one in recording.sources[first:])),
            time_basis="timeline",
            kernels=recording.kernels.slice(0, 0),
            sources=recording.sources[first:],
            clock_logs=log.set_column(log.column_names.index("source"), "source", shifted),
        ),
    )


def _with_role(recording: Recording, role: Role) -> Recording:
    return replace(recording, sources=tuple(replace(one, role=role) for one in recording.sources))


def _path(recording: Recording) -> str:
    return recording.sources[0].path


def _same_gpu(recordings: Sequence[Recording]) -> None:
    """Refuse files of several GPU models, unless they are ranks of one program."""
    for told in (_models, _architectures):
        known = {gpus: one for one in reversed(recordings) if (gpus := told(one))}
        if len(known) < 2 or _are_ranks(recordings):
            continue
        (others, second), (gpus, first), *_ = known.items()
        raise TraceroofError(
            f"{_path(first)} was recorded on {' and '.join(sorted(gpus))}, {_path(second)} on "
            f"{' and '.join(sorted(others))}: they are not recordings of one run",
            _SEPARATE,
        )


# Clock logs beside a run


def with_logs(
    recording: Recording, logs: Sequence[Recording], clock_offset: str | None = None
) -> Recording:
    """The recording with clock logs beside it; nothing of theirs is in a sum."""
    for log in logs:
        _logged_here(recording, log)
    merged = merge([log_times.timed(log, recording, clock_offset) for log in logs])
    table = merged.clock_logs
    moved = pc.add(table["source"], len(recording.sources))
    return replace(
        recording,
        sources=(*recording.sources, *merged.sources),
        clock_logs=table.set_column(table.column_names.index("source"), "source", moved),
    )


def _logged_here(recording: Recording, log: Recording) -> None:
    """Refuse a log of another GPU model than the run's."""

    def model(name: str) -> str:
        # A program sees a partition or a MIG slice where the log counts the whole card.
        found = find(name.split(" MIG ")[0])
        return "" if found is None or found.is_several else found.name.split(" (")[0]

    ran = {model(one.name) for one in recording.devices if one.name} - {""}
    named = pc.unique(log.clock_logs["gpu_name"].cast("string")).drop_null().to_pylist()
    logged = {model(one) for one in named} - {""}
    if ran and logged and not ran & logged:
        raise TraceroofError(
            f"{_path(log)} logs {' and '.join(sorted(logged))}, and {_path(recording)} ran on "
            f"{' and '.join(sorted(ran))}: it is a log of another machine",
            "give the log that was recorded beside this run",
        )


def _models(recording: Recording) -> frozenset[str]:
    """The GPU models of a recording that the device table knows."""
    return frozenset(
        found.name
        for device in recording.devices
        if device.name and (found := find(device.name, sm_count=device.sm_count))
    )


def _architectures(recording: Recording) -> frozenset[str]:
    """The architectures of its GPUs: a file may name no more than that."""
    found = set()
    for device in recording.devices:
        row = find(device.name, sm_count=device.sm_count) if device.name else None
        gfx = (row and row.gfx_target) or (device.gfx_target or "").partition(":")[0]
        capability = (row and row.compute_capability) or device.compute_capability
        if gfx:
            found.add(gfx)
        # HIP prints such a pair too, of which several GPUs have the same.
        elif capability and device.wavefront != 64:
            found.add(f"compute capability {capability}")
    return frozenset(found)


def of_one_gpu(recordings: Sequence[Recording]) -> tuple[list[Recording], list[Recording]]:
    """The recordings of the GPU model with the most launches (the first of equals) and of unknown ones,
    and those of other models: in a folder they are foreign, not a reason to refuse it."""
    rows: dict[frozenset[str], int] = {}
    for one in recordings:
        if known := _models(one):
            rows[known] = rows.get(known, 0) + launches(one.kernels, None)
    if len(rows) < 2 or _are_ranks(recordings):
        return list(recordings), []
    most = max(rows, key=rows.__getitem__)
    # A file may name no model and still the architecture.
    built = frozenset().union(*(_architectures(one) for one in recordings if _models(one) == most))
    meant = [
        _models(one) == most or (not _models(one) and _architectures(one) <= built)
        for one in recordings
    ]
    kept = [one for one, is_meant in zip(recordings, meant, strict=True) if is_meant]
    return kept, [one for one, is_meant in zip(recordings, meant, strict=True) if not is_meant]


# Counters beside a timeline


def _joined(timed: Sequence[Recording], counted: Sequence[Recording], mode: Mode) -> Recording:
    """The timeline with the counters beside it; which kernel is which is told at the diagnosis."""
    if mode not in ("auto", "join"):
        raise TraceroofError(
            f"--combine {mode}: {_path(timed[0])} is a timeline and {_path(counted[0])} holds "
            "counters, which are joined",
            "leave --combine out, or give files of one kind",
        )
    timeline = merge(timed) if len(timed) == 1 else _timelines(timed, "auto")
    counters = merge(counted) if len(counted) == 1 else _counters(counted, "auto")
    if mode == "auto":
        _same_names(timeline, counters)
    if len(timed) == 1:
        timeline = _with_role(timeline, "timeline")
    return replace(timeline, counters=_with_role(counters, "counters"))


def _same_names(timeline: Recording, counters: Recording) -> None:
    """Refuse counters of which most kernels are not in the timeline, whatever the spelling."""
    from traceroof.core.canonical_names import base, canonical

    there = {form(name) for name in _names(timeline) for form in (canonical, base)}
    wanted = _names(counters)
    known = sum(canonical(name) in there or base(name) in there for name in wanted)
    if known < SHARED * len(wanted):
        raise TraceroofError(
            f"{_path(counters)} shares {known} of {len(wanted)} kernels with the timeline "
            f"{_path(timeline)}: it is another program or another build",
            f"{_SEPARATE}; `--combine join` joins them all the same",
        )


def _names(recording: Recording) -> list[str]:
    names, kinds = (coded(recording.kernels[name]) for name in ("kernel_name", "kind"))
    is_kernel = np.array([text == "kernel" for text in kinds.texts] + [False])[kinds.codes]
    return [names.texts[code] for code in np.unique(names.codes[is_kernel]).tolist() if code >= 0]


# Counters


def _counters(recordings: Sequence[Recording], mode: Mode) -> Recording:
    """Passes become one row per launch, parts stand below one another, repeats stand beside."""
    clusters: list[list[Recording]] = []
    recordings = shaped(recordings)
    for one in recordings:
        for cluster in clusters:
            if _related(cluster[0], one, mode):
                cluster.append(one)
                break
        else:
            clusters.append([one])
    parts = [_cluster(cluster, mode) for cluster in clusters]
    if len(parts) == 1:
        return parts[0]
    _same_program(parts)
    return merge([_with_role(one, "part") if _role(one) == "" else one for one in parts])


def _role(recording: Recording) -> str:
    return recording.sources[0].role


def _related(first: Recording, other: Recording, mode: Mode) -> bool:
    """Whether two counter files hold the same kernels: all of the smaller one's, or most."""
    if mode in ("passes", "repeats"):
        return True
    mine, theirs = (set(launches_of(one).counts()) for one in (first, other))
    shared = len(mine & theirs)
    if not shared:
        return False
    if shared < SHARED * min(len(mine), len(theirs)):
        raise TraceroofError(
            f"{_path(other)} shares {shared} of {len(theirs)} kernels with {_path(first)}: it is "
            "another program or another build",
            _SEPARATE,
        )
    return True


def _cluster(cluster: Sequence[Recording], mode: Mode) -> Recording:
    if len(cluster) == 1:
        return cluster[0]
    metrics = [metrics_of(one) for one in cluster]
    sequences = [launches_of(one).keys for one in cluster]
    same = all(one == metrics[0] for one in metrics) and all(
        one == sequences[0] for one in sequences
    )
    if mode == "repeats" or (mode == "auto" and same and not all(map(is_view, cluster))):
        return _beside(cluster, "counters")
    return _with_role(united(cluster), "pass")


def _same_program(parts: Sequence[Recording]) -> None:
    """Refuse parts whose files name different programs."""
    named: dict[str, Recording] = {}
    for one in parts:
        for name in coded(one.kernels["process_name"]).texts:
            named.setdefault(name.rpartition("/")[2], one)
    if len(named) > 1 and all(len(coded(one.kernels["process_name"]).texts) for one in parts):
        by_part = [set(coded(one.kernels["process_name"]).texts) for one in parts]
        if not set.intersection(*by_part):
            (first, one), (second, other), *_ = named.items()
            raise TraceroofError(
                f"{_path(one)} profiles {first} and {_path(other)} {second}: two programs",
                _SEPARATE,
            )


# Timelines


def _timelines(recordings: Sequence[Recording], mode: Mode) -> Recording:
    if mode in ("auto", "ranks") and _are_ranks(recordings):
        # Whatever the order in which they were given.
        recordings = sorted(recordings, key=lambda one: min(_ranks(one)))
    runs = _runs_of_ranks(recordings) if mode in ("auto", "repeats") else []
    if len(runs) > 1:
        return _runs_beside(recordings, runs)
    if mode == "repeats" or (mode == "auto" and _are_repeats(recordings)):
        unclear = mode == "auto" and _nothing_tells_apart(recordings)
        return _beside(_noted(recordings, _UNCLEAR) if unclear else recordings, "timeline")
    if mode == "passes":
        raise TraceroofError(
            f"{_path(recordings[0])} and the others are timelines, which have no counter passes",
            "--combine repeats takes them as runs of the same program, ranks as its processes",
        )
    if mode == "auto" and not _are_ranks(recordings):
        _share_kernels(recordings)
    return merge([_with_role(one, "rank") for one in recordings])


def _ranks(recording: Recording) -> frozenset[int]:
    return frozenset(pc.unique(recording.kernels["rank"]).drop_null().to_pylist())


def _are_ranks(recordings: Sequence[Recording]) -> bool:
    """Whether every file is of other ranks than all the rest."""
    ranks = [_ranks(one) for one in recordings]
    return all(ranks) and sum(map(len, ranks)) == len(frozenset().union(*ranks))


def _runs_of_ranks(recordings: Sequence[Recording]) -> list[list[Recording]]:
    """Files of the same ranks again and again, by run in the order given; empty where they are not."""
    ranks = [_ranks(one) for one in recordings]
    files: dict[frozenset[int], list[Recording]] = {}
    for rank, one in zip(ranks, recordings, strict=True):
        files.setdefault(rank, []).append(one)
    apart = all(files) and sum(map(len, files)) == len(frozenset().union(*files))
    if len(files) < 2 or not apart or len({len(one) for one in files.values()}) != 1:
        return []
    return [list(run) for run in zip(*files.values(), strict=True)]


def _runs_beside(recordings: Sequence[Recording], runs: Sequence[Sequence[Recording]]) -> Recording:
    """Runs of several ranks each: the one of median kernel time counts, the others stand beside."""
    times = [sum(sum(_time_by_kernel(one).values()) for one in run) for run in runs]
    chosen = runs[_median_of(times)]
    return merge(
        [
            _with_role(one, "rank" if any(one is each for each in chosen) else "repeat")
            for one in recordings
        ]
    )


def _median_of(times: Sequence[float]) -> int:
    """Which has the median, the lower of two."""
    order = sorted(range(len(times)), key=times.__getitem__)
    return order[(len(order) - 1) // 2]


def _time_by_kernel(recording: Recording) -> Mapping[Any, float]:
    kernels = recording.kernels
    names = coded(kernels["kernel_name"])
    keys = [kernel_names.key(text) for text in names.texts]
    weights = np.nan_to_num(as_reals(kernels["duration_ns"]) * as_reals(kernels["launch_count"]))
    known = names.codes >= 0
    summed = np.bincount(names.codes[known], weights=weights[known], minlength=len(keys))
    found: dict[str, float] = {}
    for key, time in zip(keys, summed.tolist(), strict=True):
        found[key] = found.get(key, 0.0) + time
    return found


def _shared_time(first: Recording, other: Recording) -> float:
    """Part of the time of two recordings that lies in kernels which both have, 0-1."""
    mine, theirs = _time_by_kernel(first), _time_by_kernel(other)
    both = mine.keys() & theirs.keys()
    whole = sum(mine.values()) + sum(theirs.values())
    if not whole:
        return 1.0 if both else 0.0
    return sum(mine[one] + theirs[one] for one in both) / whole


def _share_kernels(recordings: Sequence[Recording]) -> None:
    for other in recordings[1:]:
        shared = _shared_time(recordings[0], other)
        if shared < SHARED / 2:
            raise TraceroofError(
                f"{_path(other)} and {_path(recordings[0])} have {shared:.0%} of their time in "
                "common kernels: they are not recordings of one program",
                f"{_SEPARATE}; `--combine ranks` takes them as its processes all the same",
            )


def _are_repeats(recordings: Sequence[Recording]) -> bool:
    """Whether the files are runs of the same thing, one after another.

    Same or no rank, no overlap in time where all share a clock, and mostly the same kernels.
    """
    ranks = [_ranks(one) for one in recordings]
    if len(set(ranks)) > 1 or any(len(one) > 1 for one in ranks):
        return False
    if not ranks[0] and not _in_turn(recordings) and not _nothing_tells_apart(recordings):
        return False
    return all(
        _shared_time(recordings[0], other) >= SHARED and _as_many(recordings[0], other)
        for other in recordings[1:]
    )


_UNCLEAR = (
    "taken as runs of the same program: the files begin at zero, each on its own clock, and name no "
    "process, so nothing tells runs from ranks (--combine ranks takes them as ranks)"
)
# A clock that begins with the recording; that of a machine or of the world is far beyond.
_OWN_CLOCK_NS = 3_600_000_000_000


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


# Repeats launch about as often; a file of half the launches is another thing.
_LAUNCHES_ALIKE = 0.8


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


def _beside(recordings: Sequence[Recording], role: Role) -> Recording:
    """Runs of the same thing: the one of median kernel time counts, the others stand beside."""
    times = [sum(_time_by_kernel(one).values()) for one in recordings]
    chosen = _median_of(times)
    return merge(
        [_with_role(one, role if at == chosen else "repeat") for at, one in enumerate(recordings)]
    )


_SAID: Mapping[Role, Callable[[int], str]] = {
    "pass": lambda n: f"{n} files are passes of one program: one row per launch",
    "part": lambda n: f"{n} files are parts of one program, put together",
    "rank": lambda n: f"{n} files are ranks or processes of one program, side by side",
    "repeat": lambda n: (
        f"{n + 1} files are runs of the same program: the one of median time is judged"
    ),
}


def said(roles: Sequence[Role]) -> str:
    """What was decided, in one line; empty for a single file."""
    logs = sum(one == "clock-log" for one in roles)
    if logs:
        rest = said([one for one in roles if one != "clock-log"])
        return "; ".join(filter(None, (rest, "a clock log stands beside")))
    if "timeline" in roles and "counters" in roles:
        return "counters of the same program are joined to the timeline"
    if "rank" in roles and "repeat" in roles:
        ranks = sum(one == "rank" for one in roles)
        return (
            f"{len(roles)} files are {len(roles) // ranks} runs of the same {ranks} ranks: the run "
            "of median time is judged"
        )
    for role in ("repeat", "pass", "part", "rank"):
        count = sum(one == role for one in roles)
        if count and len(roles) > 1:
            return _SAID[role](count)
    return ""
