"""What is known of a sequence that could be one kernel: launches, time, bytes, an example."""

import numpy as np

from traceroof.core.dictionary import factorized
from traceroof.patterns.launch_order import Launches, numbers
from traceroof.patterns.regions import (
    Found,
    Reals,
)

REPEATS = 10


LONGEST_PERIOD = 4


def sequence_facts(pattern: str, rows: Launches, found: Found) -> dict[str, float | str]:
    if not len(found.first):
        return {}
    time = rows.summed(rows.time, found.first, found.last)
    total = float(time.sum())
    # Faster than memory at its peak: the bytes came from a cache, and there is nothing to save.
    least = np.minimum(found.least, time)
    values: dict[str, float | str] = {
        "regions": float(len(found.first)),
        "launches": float((found.last - found.first + 1).sum()),
        "time_ns": total,
        "pct": total / float(rows.time.sum()) * 100,
        "least_ns": float(least.sum()),
        "kept_ns": float(found.kept.sum()),
        "gap_ns": float(found.gap.sum()),
        "known_pct": float(time[found.known].sum()) / total * 100,
        "example": sequence_example(rows, found, time),
    }
    return {f"{pattern}_{name}": value for name, value in values.items()}


_SHOWN = 8


def sequence_example(rows: Launches, found: Found, time: Reals) -> str:
    """The sequence with the most time in all, in words: ``mul > add > gelu (96 times)``."""
    operation = numbers(rows.groups.operation)[rows.group]
    # A number for each sequence of operations: collisions would only misname an example.
    weight = np.cumsum(operation.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))
    length = (found.last - found.first + 1).astype(np.uint64)
    rest = np.where(found.first > 0, weight[found.first - 1], np.uint64(0))
    key = (weight[found.last] - rest) * np.uint64(1_000_003) + length
    key = key * np.uint64(1_000_003) + operation[found.first].astype(np.uint64)
    codes = factorized(key)[0]
    best = int(np.argmax(np.bincount(codes, weights=time)))
    mine = np.flatnonzero(codes == best)
    first, last = int(found.first[mine[0]]), int(found.last[mine[0]])
    words = [str(rows.groups.operation[group]) for group in rows.group[first : last + 1]]
    period = next((p for p in range(1, len(words)) if words[p:] == words[:-p]), len(words))
    if period <= LONGEST_PERIOD and len(words) >= REPEATS:
        text = f"{' > '.join(words[:period])} ({len(words) // period:,} times in a row)"
    else:
        shown = words if len(words) <= _SHOWN else [*words[: _SHOWN - 1], "…", words[-1]]
        text = " > ".join(shown)
    return f"{text}, {len(mine):,} times" if len(mine) > 1 else text
