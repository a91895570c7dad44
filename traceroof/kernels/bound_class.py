"""The primary class of a kernel group: the one wall that it hit.

The order of the questions decides, and the first that holds wins. Thresholds: 60, 80 and 10
points are those of Nsight Compute's SpeedOfLight rule; 5 µs is two to three times the GPU-side
cost of an empty queued kernel (1.6-2.6 µs on L40, H200, A100; RRZE gpu-benches); 0.9 of the
attainable rate is the usual reading of "at the roof".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts, Mask
from traceroof.hardware.ceilings import UNCALIBRATED, Attainable

#: Each class with what it says about the kernel.
CLASSES: Mapping[str, str] = {
    "dram-bound": "device memory is at its wall: only fewer bytes help",
    "l2-bound": "the second-level cache is at its wall while device memory is not",
    "l1-bound": "the first-level cache or shared memory is at its wall",
    "memory-bound": "memory is at its wall, the file does not tell which level of it",
    "compute-bound": "an execution or load/store pipe is at its wall: fewer instructions help",
    "memory-leaning": "memory is the busier side, short of its wall",
    "compute-leaning": "compute is the busier side, short of its wall",
    "balanced": "compute and memory are about equally busy: both must shrink",
    "latency-bound": "neither side is busy: the kernel waits",
    "below-roof": "far from both roofs by its shapes; the cause is unknown without counters",
    "launch-bound": "so short that starting it costs about as much as running it",
    "communication": "moves data between GPUs: judged by its link, not by DRAM",
    "copy": "moves or fills memory without computing: judged by its link",
    "not-evaluable": "the file lacks what a verdict needs",
}

WALL_PCT = 80.0
BUSY_PCT = 60.0
APART_POINTS = 10.0
TIE_POINTS = 5.0
AT_ROOF = 0.9
LAUNCH_NS = 5_000.0

COLUMNS = (
    "category", "median_ns", "rank_by_time", "compute_pct", "memory_pct", "dram_pct",
    "dram_basis", "compute_basis", "l2_throughput_pct", "l1_pct", "load_path_pct",
)  # fmt: skip

#: What compute use is measured against where only operations were counted.
BY_RATE = "peak FLOP rate"
# What use is measured against where the operator's shapes alone tell it.
_MODEL = "model, nominal peak"


@dataclass(frozen=True)
class _Walls:
    """Which walls each of n groups is at: DRAM, compute, a cache; l2, l1: which cache."""

    dram: Mask
    compute: Mask
    cache: Mask
    l2: Mask
    l1: Mask


def _walls(see: Facts, attainable: Attainable) -> _Walls:
    """What is held against a nominal peak is at its wall from a part of what is attainable on."""
    measured = see.dram_basis == "elapsed"
    rate = (see.compute_basis == BY_RATE) | (see.compute_basis == _MODEL)
    l2 = see.l2_throughput_pct >= WALL_PCT
    # NVIDIA measures L1 over its active cycles alone: a kernel that hardly runs can fill it while
    # the memory system idles, so memory as a whole must be busy too.
    l1 = (see.l1_pct >= WALL_PCT) & ~(see.memory_pct < BUSY_PCT)
    # Compute use that counts loads and stores alone is the wall of L1 once more.
    arithmetic = ~(l1 & (see.load_path_pct >= 0))
    return _Walls(
        dram=np.where(
            measured, see.dram_pct > WALL_PCT, see.dram_pct >= AT_ROOF * 100 * attainable.memory
        ),
        compute=arithmetic
        & np.where(
            rate,
            see.compute_pct >= AT_ROOF * 100 * attainable.compute,
            see.compute_pct >= WALL_PCT,
        ),
        cache=(l2 | l1) & ~(see.dram_pct >= BUSY_PCT),
        l2=l2,
        l1=l1,
    )


def _busy_from(see: Facts, attainable: Attainable) -> npt.NDArray[np.float64]:
    """From which use on memory is busy. Of a rate the attainable share is all there is: 60 % of that."""
    of_rate = (see.dram_basis == "nominal peak") | (see.dram_basis == "report peak")
    of_rate &= see.memory_pct == see.dram_pct
    return np.where(of_rate, BUSY_PCT * np.fmin(attainable.memory, 1.0), BUSY_PCT)


def primary_class(facts: Facts, attainable: Attainable = UNCALIBRATED) -> npt.NDArray[np.object_]:
    """The class of every group, exactly one each.

    facts: the columns COLUMNS of n groups. Compute and memory use are percent of peak; a rate
    held against a nominal peak counts as at the wall from 0.9 of what is attainable.
    """
    see = facts.only(COLUMNS)
    compute, memory, dram = see.compute_pct, see.memory_pct, see.dram_pct
    wall, busy_from = _walls(see, attainable), _busy_from(see, attainable)

    both = wall.dram & wall.compute
    tie = both & (np.abs(dram - compute) <= TIE_POINTS)
    leaning = (compute >= BUSY_PCT) | (memory >= busy_from)
    loads = see.load_path_pct >= 0
    # Counted operations are a part of what a kernel executes: few of them prove no idle compute.
    part = (see.compute_basis == BY_RATE) & ~leaning
    decidable = ~np.isnan(compute) & ~np.isnan(memory) & ~part
    known = decidable | wall.dram | wall.compute | wall.cache
    short = (see.median_ns < LAUNCH_NS) & (see.rank_by_time > 1)
    # A model tells how far a kernel is from its roofs, not whether it waits.
    modelled = (see.compute_basis == _MODEL) & (see.dram_basis == _MODEL)

    category = np.asarray(see.category)
    outcomes = (
        (category == "communication", "communication"),
        ((category == "memcpy") | (category == "memset"), "copy"),
        (~known, "not-evaluable"),
        (short, "launch-bound"),
        (tie, "balanced"),
        (wall.dram & ~(both & (compute > dram)), "dram-bound"),
        (wall.compute, "compute-bound"),
        (wall.cache & wall.l2 & ~(wall.l1 & (see.l1_pct > see.l2_throughput_pct)), "l2-bound"),
        (wall.cache, "l1-bound"),
        ((memory >= WALL_PCT) & np.isnan(dram), "memory-bound"),
        (leaning & loads, "memory-leaning"),
        (leaning & (np.abs(compute - memory) < APART_POINTS), "balanced"),
        (leaning & (memory > compute), "memory-leaning"),
        (leaning, "compute-leaning"),
        (modelled, "below-roof"),
    )
    holds = [one for one, _ in outcomes]
    names = [*(name for _, name in outcomes), "latency-bound"]
    chosen = np.select(holds, list(range(len(holds))), default=len(holds))
    return np.asarray(np.array(names, dtype=object)[chosen])
