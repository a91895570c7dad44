"""The time that a recording spends in each kernel, for telling whether files are of one program."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from traceroof.core import kernel_names
from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import as_reals
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Role
from traceroof.ingest.roles import with_role


def time_by_kernel(recording: Recording) -> Mapping[Any, float]:
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


def shared_time(first: Recording, other: Recording) -> float:
    """Part of the time of two recordings that lies in kernels which both have, 0-1."""
    mine, theirs = time_by_kernel(first), time_by_kernel(other)
    both = mine.keys() & theirs.keys()
    whole = sum(mine.values()) + sum(theirs.values())
    if not whole:
        return 1.0 if both else 0.0
    return sum(mine[one] + theirs[one] for one in both) / whole


def median_of(times: Sequence[float]) -> int:
    """Which has the median, the lower of two."""
    order = sorted(range(len(times)), key=times.__getitem__)
    return order[(len(order) - 1) // 2]


def runs_beside(recordings: Sequence[Recording], role: Role) -> Recording:
    """Runs of the same thing: the one of median kernel time counts, the others stand beside."""
    times = [sum(time_by_kernel(one).values()) for one in recordings]
    chosen = median_of(times)
    return merge(
        [with_role(one, role if at == chosen else "repeat") for at, one in enumerate(recordings)]
    )
