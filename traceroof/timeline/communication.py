"""The communication of one GPU, by collective and process group."""

from dataclasses import dataclass

import numpy as np

from traceroof.timeline import intervals
from traceroof.timeline.lanes import Lane, Unions
from traceroof.timeline.process_groups import of_lane


@dataclass(frozen=True)
class Exchange:
    """All launches of one collective in one process group. Times in ns, added up over launches.

    collective: as the profiler calls it, else the kernel's name. process_group, ranks: the group's
    name and its ranks as written, '' where unknown. size: its ranks, None where unknown.
    exposed_ns: while nothing computes. message_bytes: payload, None where no launch says it.
    """

    collective: str
    process_group: str
    ranks: str
    size: int | None
    launches: int
    time_ns: int
    exposed_ns: int
    message_bytes: int | None


def exchanges(lane: Lane, unions: Unions) -> tuple[Exchange, ...]:
    """What the communication kernels of a timeline do, most time first."""
    if not lane.is_communication.any():
        return ()
    frame = of_lane(lane)
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    frame["time"] = end - start
    frame["exposed"] = frame["time"] - intervals.covered(unions.compute, start, end)
    frame["payload"] = frame["size"].where(frame["size"] >= 0)
    key = ["operation", "group_name", "group_ranks", "group_size"]
    sums = frame.groupby(key).agg(
        launches=("time", "size"),
        time=("time", "sum"),
        exposed=("exposed", "sum"),
        payload=("payload", lambda sizes: sizes.sum(min_count=1)),
    )
    sums = sums.sort_values("time", ascending=False, kind="stable").reset_index()
    return tuple(
        Exchange(
            collective=one["operation"],
            process_group=one["group_name"],
            ranks=one["group_ranks"],
            size=int(one["group_size"]) if one["group_size"] >= 0 else None,
            launches=int(one["launches"]),
            time_ns=int(one["time"]),
            exposed_ns=int(one["exposed"]),
            message_bytes=None if np.isnan(one["payload"]) else int(one["payload"]),
        )
        for one in sums.to_dict("records")
    )
