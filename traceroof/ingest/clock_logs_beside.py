"""Clock logs beside the run that they were recorded with."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow.compute as pc

from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.hardware.device_lookup import find
from traceroof.ingest import log_times
from traceroof.ingest.roles import path_of


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
            f"{path_of(log)} logs {' and '.join(sorted(logged))}, and {path_of(recording)} ran on "
            f"{' and '.join(sorted(ran))}: it is a log of another machine",
            "give the log that was recorded beside this run",
        )
