"""Several files, one program: which role each file has, decided once for every command.

Files that are given together are recordings of one program unless they show that they are not.
The role stands in ``Source.role``.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow.compute as pc

from traceroof.core.dictionary import coded
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.ingest.clock_logs_beside import with_logs
from traceroof.ingest.combine_counters import combine_counters
from traceroof.ingest.combine_timelines import combine_timelines
from traceroof.ingest.gpu_models import refuse_several_gpus
from traceroof.ingest.roles import SEPARATE, SHARED, Mode, path_of, with_role


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
            f"{path_of(logs[0])} is a log of clocks and power ({logs[0].format}) and holds no kernels",
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
        refuse_several_gpus(recordings)
    counted = [one for one in recordings if one.time_basis == "counter-tool"]
    timed = [one for one in recordings if one.time_basis != "counter-tool"]
    if counted and timed:
        return _joined(timed, counted, mode)
    return combine_counters(counted, mode) if counted else combine_timelines(timed, mode)


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


def _joined(timed: Sequence[Recording], counted: Sequence[Recording], mode: Mode) -> Recording:
    """The timeline with the counters beside it; which kernel is which is told at the diagnosis."""
    if mode not in ("auto", "join"):
        raise TraceroofError(
            f"--combine {mode}: {path_of(timed[0])} is a timeline and {path_of(counted[0])} holds "
            "counters, which are joined",
            "leave --combine out, or give files of one kind",
        )
    timeline = merge(timed) if len(timed) == 1 else combine_timelines(timed, "auto")
    counters = merge(counted) if len(counted) == 1 else combine_counters(counted, "auto")
    if mode == "auto":
        _same_names(timeline, counters)
    if len(timed) == 1:
        timeline = with_role(timeline, "timeline")
    return replace(timeline, counters=with_role(counters, "counters"))


def _same_names(timeline: Recording, counters: Recording) -> None:
    """Refuse counters of which most kernels are not in the timeline, whatever the spelling."""
    from traceroof.core.canonical_names import base, canonical

    there = {form(name) for name in _names(timeline) for form in (canonical, base)}
    wanted = _names(counters)
    known = sum(canonical(name) in there or base(name) in there for name in wanted)
    if known < SHARED * len(wanted):
        raise TraceroofError(
            f"{path_of(counters)} shares {known} of {len(wanted)} kernels with the timeline "
            f"{path_of(timeline)}: it is another program or another build",
            f"{SEPARATE}; `--combine join` joins them all the same",
        )


def _names(recording: Recording) -> list[str]:
    names, kinds = (coded(recording.kernels[name]) for name in ("kernel_name", "kind"))
    is_kernel = np.array([text == "kernel" for text in kinds.texts] + [False])[kinds.codes]
    return [names.texts[code] for code in np.unique(names.codes[is_kernel]).tolist() if code >= 0]
