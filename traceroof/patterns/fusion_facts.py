"""What is known of sequences that could be one kernel: launches, time, bytes, an example."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.kernels.groups import Groups
from traceroof.kernels.variants import summed
from traceroof.patterns.launch_order import Costs, Ints, Mask, Reals, operations
from traceroof.patterns.regions import THIRDS, Regions

REPEATS = 10
LONGEST_PERIOD = 4


@dataclass(frozen=True)
class Worth:
    """What the sequences of regions cost at least. group: of each stored launch of all sequences;
    first, last: of each sequence. words: what its launches do, as stored."""

    found: Regions
    costs: Costs
    operation: npt.NDArray[np.object_]
    group: Ints
    first: Ints
    last: Ints

    @staticmethod
    def of(found: Regions, grouped: Groups) -> "Worth":
        group = grouped.of_row[found.launches]
        begin, stored = found.begin, found.sequences["stored"]
        return Worth(
            found=found,
            costs=Costs.of(grouped),
            operation=operations(grouped.facts.only(("operator",)).operator, grouped.names),
            group=group,
            first=group[begin],
            last=group[begin + (found.sequences["length"] - 1) % stored],
        )

    def __len__(self) -> int:
        return len(self.first)

    def summed(self, values: Reals, at: Ints) -> Reals:
        """Sums over the launches of some sequences that are stored in full."""
        total = np.add.reduceat(values[self.group], self.found.begin)
        return np.asarray(total[at], dtype=np.float64)

    def words(self, sequence: int) -> list[str]:
        """What the launches of a sequence do, as many as are stored."""
        begin = int(self.found.begin[sequence])
        end = begin + int(self.found.sequences["stored"][sequence])
        return [str(self.operation[group]) for group in self.group[begin:end]]


@dataclass(frozen=True)
class Valued:
    """Of each sequence its least time, ns; whether what its regions keep counts; whether its sizes
    are known."""

    least: Reals
    keeps: Mask
    known: Mask


def sequence_facts(
    pattern: str, found: Regions, kinds: Sequence[int], worth: Worth, valued: Valued
) -> dict[str, float | str]:
    """What regions of these kinds come to, by the names of ``fusion.SEQUENCE_COLUMNS``."""
    sequence = found.regions["sequence"]
    at = np.flatnonzero(np.isin(found.sequences["kind"][sequence], kinds))
    if not len(at):
        return {}
    sequence = sequence[at]
    each, count, kept, gap = (
        found.regions[name][at] for name in ("time_ns", "count", "kept", "gap")
    )
    time = each * count
    total = float(time.sum())
    # Faster than memory at its peak: the bytes came from a cache, and there is nothing to save.
    least = np.minimum(valued.least[sequence], each) * count
    values: dict[str, float | str] = {
        "regions": float(count.sum()),
        "launches": float((found.sequences["length"][sequence] * count).sum()),
        "time_ns": total,
        "pct": total / found.time_ns * 100,
        "least_ns": float(least.sum()),
        "kept_ns": float(kept[valued.keeps[sequence]].sum()) / THIRDS,
        "gap_ns": float(gap.sum()),
        "known_pct": float(time[valued.known[sequence]].sum()) / total * 100,
        "example": _example(worth, sequence, time, count),
    }
    return {f"{pattern}_{name}": value for name, value in values.items()}


_SHOWN = 8


def _example(worth: Worth, sequence: Ints, time: Ints, count: Ints) -> str:
    """The sequence with the most time in all, in words: ``mul > add > gelu (96 times)``."""
    length = worth.found.sequences["length"]
    time_of, times_of = summed(sequence, time, len(worth)), summed(sequence, count, len(worth))
    spent: dict[tuple[int, tuple[str, ...]], tuple[int, int]] = {}
    for one in np.unique(sequence).tolist():
        key = int(length[one]), tuple(worth.words(one))
        before = spent.get(key, (0, 0))
        spent[key] = before[0] + int(time_of[one]), before[1] + int(times_of[one])
    (size, stored), (_, times) = min(spent.items(), key=lambda one: (-one[1][0], one[0]))
    words = [stored[at % len(stored)] for at in range(size)]
    period = next((p for p in range(1, len(words)) if words[p:] == words[:-p]), len(words))
    if period <= LONGEST_PERIOD and len(words) >= REPEATS:
        text = f"{' > '.join(words[:period])} ({len(words) // period:,} times in a row)"
    else:
        shown = words if len(words) <= _SHOWN else [*words[: _SHOWN - 1], "…", words[-1]]
        text = " > ".join(shown)
    return f"{text}, {times:,} times" if times > 1 else text
