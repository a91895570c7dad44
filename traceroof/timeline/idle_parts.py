"""When a GPU was idle, and why: every gap of a timeline, part by part, as stretches of time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceroof.core.dictionary import Coded
from traceroof.timeline.host import Host
from traceroof.timeline.idle import CAUSES, Idle
from traceroof.timeline.intervals import Times
from traceroof.timeline.lanes import Lane, Rows, lanes, unions_of

if TYPE_CHECKING:
    from traceroof.core.recording import Recording


@dataclass(frozen=True)
class IdleParts:
    """n stretches of one GPU: start and duration in ns, cause by its place in ``CAUSES``.

    A gap of several causes is several stretches, in the order of ``CAUSES``; their durations are
    exact, their places within the gap are not. What is back to back is left out.
    """

    start: Times
    duration: Times
    cause: Times


def laned(recording: "Recording", categories: Coded) -> list[tuple[Lane, IdleParts]]:
    """The rows of each GPU, in the order of ``timelines``, and when it was idle.

    categories: the category of every row of the kernel table.
    """
    host = Host(recording)
    return [(lane, _parts(lane, host)) for lane in lanes(Rows(recording.kernels, categories))]


def _parts(lane: Lane, host: Host) -> IdleParts:
    start, end = int(lane.start.min()), int(lane.end.max())
    view = host.of(lane, int(min([start, *lane.launches[:1]])), end)
    idle = Idle(lane, unions_of(lane), view, start, end)
    at = idle.start.copy()
    found: list[tuple[Times, Times, Times]] = []
    for number, cause in enumerate(CAUSES):
        length = idle.of(cause)
        some = np.flatnonzero(length > 0)
        if cause != "back_to_back":
            found.append((at[some], length[some], np.full(len(some), number, dtype=np.int64)))
        at = at + length
    begin, length, cause_of = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.argsort(begin, kind="stable")
    return IdleParts(begin[order], length[order], cause_of[order])
