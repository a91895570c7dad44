"""The communication of one GPU, by collective and process group."""

import re
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from traceroof.core import regex
from traceroof.core.dictionary import together
from traceroof.timeline import intervals
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import Lane, Unions
from traceroof.timeline.metrics import launch_columns
from traceroof.timeline.process_groups import of_lane

if TYPE_CHECKING:
    import pandas as pd

SMALL_MESSAGE_BYTES = 1 << 20
# From this size on a collective runs at the speed of its link, not at its latency.
LARGE_MESSAGE_BYTES = 16 << 20


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


# What a ring sends over each link per byte of payload, for a group of n; other collectives send
# each byte once (NCCL tests, doc/PERFORMANCE.md).
_TWICE_BUT_OWN = regex.compile("all_?reduce", re.IGNORECASE)
_ALL_BUT_OWN = regex.compile("all_?gather|reduce_?scatter|all_?to_?all", re.IGNORECASE)


def _bandwidth(
    lane: Lane, at: npt.NDArray[np.int64], size: npt.NDArray[np.float64]
) -> dict[str, float]:
    """Bus bandwidth of the large collectives at the positions ``at``: of the fastest, which waited
    least for other ranks."""
    ranks = lane.rows.wholes("group_size", lane.at[at]).astype(np.float64)
    large = (size >= LARGE_MESSAGE_BYTES) & (ranks >= 2)
    time = (lane.end - lane.start)[at]
    large &= time > 0
    if not large.any():
        return {}
    number, names = lane.rows.text("collective", lane.at[at])
    factors = [
        2.0 if _TWICE_BUT_OWN.search(name) else 1.0 if _ALL_BUT_OWN.search(name) else np.nan
        for name in (*map(str, names), "")
    ]
    factor = np.array(factors)[number]
    others = (ranks - 1) / ranks
    sent = np.where(np.isnan(factor), size, factor * others * size)
    return {
        "large_collectives": int(large.sum()),
        "large_collective_time_ns": int(time[large].sum()),
        "large_collective_floor_ns": _floor(time[large], number[large], size[large]),
        "bus_bytes_per_s": float((sent[large] / time[large]).max()) * 1e9,
    }


def _floor(time: Times, operation: npt.NDArray[Any], size: npt.NDArray[np.float64]) -> int:
    """What collectives take where each is as fast as the fastest of its operation and size: what
    is left without waiting for other ranks. ns."""
    import pandas as pd

    frame = pd.DataFrame({"operation": operation, "size": size, "time": time})
    fastest = frame.groupby(["operation", "size"])["time"].transform("min")
    return int(fastest.sum())


# So many equal collectives show how fast they are without waiting.
_ENOUGH = 8
# The first collective waited for a rank that did not record yet, if it took so many times as long
# as it should, and for so long at least.
_SKEWED, _SKEW_NS = 10, 1_000_000


def _waits(lane: Lane, unions: Unions) -> dict[str, float]:
    """How much of the exposed communication is waiting, by equal collectives (operation, payload or
    shapes, group) that take different times, and by the first of all."""
    shapes, _ = lane.rows.text("input_shapes", lane.at[lane.is_communication])
    frame = of_lane(lane).assign(shapes=shapes)
    start, end = frame["start"].to_numpy(), frame["end"].to_numpy()
    time = end - start
    exposed = time - intervals.covered(unions.compute, start, end)
    skew = _skew(frame.assign(time=time))
    facts: dict[str, float] = {"start_skew_ns": int(min(skew, exposed[0]))}
    known = frame.assign(time=time, exposed=exposed).iloc[1 if skew else 0 :]
    # Without a payload the operator's shapes tell which are equal.
    known = known[(known["size"] >= 0) | (known["shapes"] >= 0)]
    if known.empty:
        return facts
    times = known.groupby(["operation", "size", "shapes", "group_name", "group_ranks"])["time"]
    beyond = np.minimum(known["time"] - times.transform("min"), known["exposed"])
    beyond = beyond[times.transform("size") >= _ENOUGH]
    if len(beyond):
        whole = intervals.length(unions.exposed_communication) - facts["start_skew_ns"]
        facts["collective_excess_ns"] = min(float(beyond.sum()), whole)
    return facts


def _skew(frame: "pd.DataFrame") -> int:
    """What the first collective took beyond its like, 0 where that is not much. ns."""
    if len(frame) < 2:
        return 0
    first, rest = frame.iloc[0], frame.iloc[1:]
    alike = (rest[name] == first[name] for name in ("operation", "size", "shapes"))
    like = rest[np.logical_and.reduce([*alike])]
    usual = float((like if len(like) else rest)["time"].median())
    beyond = int(first["time"] - usual)
    return beyond if first["time"] >= _SKEWED * usual and beyond >= _SKEW_NS else 0


_FEW = 3
# A comparison of less of the time beside communication says nothing about the rest.
_COVERED = 0.25


def communication_facts(lane: Lane, unions: Unions) -> dict[str, float]:
    """Communication kernels, and how they slow down what runs beside them."""
    import pandas as pd

    at = lane.is_communication
    size = lane.rows.reals("message_bytes", lane.at[at])
    facts: dict[str, float] = {"collectives": int(at.sum())}
    if not at.any():
        return facts
    if np.isfinite(size).any():
        facts["message_bytes"] = float(np.nansum(size))
        facts["small_collectives"] = int((size < SMALL_MESSAGE_BYTES).sum())
    facts |= _bandwidth(lane, np.flatnonzero(at), size) | _waits(lane, unions)
    rest, part = _beside_communication(lane, unions)
    frame = pd.DataFrame(
        {
            "kind": _work_codes(lane, rest),
            "time": (lane.end - lane.start)[rest],
            "part": part,
        }
    )
    under = frame[frame["part"] >= 0.5].groupby("kind")["time"].agg(["median", "size", "sum"])
    alone = frame[frame["part"] == 0].groupby("kind")["time"].agg(["median", "size"])
    both = under.join(alone.add_suffix("_alone"), how="inner")
    both = both[(both["size"] >= _FEW) & (both["size_alone"] >= _FEW) & (both["median_alone"] > 0)]
    if both["sum"].sum() >= _COVERED * under["sum"].sum() > 0:
        # The median of the ratios, by time: one kernel that hides two problem sizes (a persistent
        # grid) moves it less than a mean.
        ratios = (both["median"] / both["median_alone"]).sort_values()
        reached = both["sum"].loc[ratios.index].cumsum()
        facts["overlap_by_shapes"] = float(
            (lane.rows.text("input_shapes", lane.at[rest])[0] >= 0).any()
        )
        facts["overlap_slowdown"] = float(ratios[reached >= reached.iloc[-1] / 2].iloc[0])
    return facts


def _beside_communication(
    lane: Lane, unions: Unions
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """The kernels that ran wholly without communication or mostly under it, and how much of each
    did, 0-1."""
    rest = np.flatnonzero(lane.is_kernel & ~lane.is_communication & (lane.end > lane.start))
    start, end = lane.start[rest], lane.end[rest]
    under = intervals.covered(unions.communication, start, end)
    part = (under / (end - start)).astype(np.float32)
    clear = (under == 0) | (part >= 0.5)
    return rest[clear], part[clear]


def _work_codes(lane: Lane, at: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The same, and the shapes of the operator: kernels that do the same work."""
    shapes = (lane.rows.text("input_shapes", lane.at[at])[0],)
    return together(chain(launch_columns(lane, at), shapes))[0]
