"""Training steps and serving passes: which one a call belongs to."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """Training steps or serving passes by process and start. ``names`` are unique in a process."""

    process: Whole
    start: Whole
    end: Whole
    names: Sequence[str]
    rows: Whole


def containing_step(steps: Steps, process: Whole, start: Whole) -> Whole:
    """The step that was under way in a process (on whatever thread) at each time, or -1."""
    found = np.full(len(start), -1, dtype=np.int64)
    for one in np.unique(steps.process):
        mine = np.flatnonzero(steps.process == one)
        at = np.flatnonzero(process == one)
        last = np.searchsorted(steps.start[mine], start[at], side="right") - 1
        inside = (last >= 0) & (start[at] < steps.end[mine][np.maximum(last, 0)])
        found[at[inside]] = mine[last[inside]]
    return found


def told_apart(process: Whole, names: Sequence[str]) -> list[str]:
    """Names of steps, in order of their start, each once in its process: the same pass once more
    gets a number, as steps are compared with one another."""
    found = list(names)
    seen: dict[tuple[int, str], int] = {}
    for at, key in enumerate(zip(process.tolist(), names, strict=True)):
        seen[key] = number = seen.get(key, 0) + 1
        if number > 1:
            found[at] = f"{names[at]} ({number})"
    return found
