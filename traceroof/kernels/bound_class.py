"""The primary class of a kernel group: the one wall that it hit.

The order of the questions decides, and the first that holds wins. Thresholds: 60, 80 and 10
points are those of Nsight Compute's SpeedOfLight rule; 5 µs is two to three times the GPU-side
cost of an empty queued kernel (1.6-2.6 µs on L40, H200, A100; RRZE gpu-benches); 0.9 of the
attainable rate is the usual reading of "at the roof".
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts
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
    "dram_basis", "compute_basis", "l2_throughput_pct", "l1_pct",
)  # fmt: skip

#: What compute use is measured against where only operations were counted.
BY_RATE = "peak FLOP rate"
# What use is measured against where the operator's shapes alone tell it.
_MODEL = "model, nominal peak"

_LINK_CATEGORIES = {"communication": "communication", "memcpy": "copy", "memset": "copy"}


def primary_class(facts: Facts, attainable: Attainable = UNCALIBRATED) -> npt.NDArray[np.object_]:
    """The class of every group, exactly one each.

    facts: the columns COLUMNS of n groups. Compute and memory use are percent of peak; a rate
    held against a nominal peak counts as at the wall from 0.9 of what is attainable.
    """
    see = facts.only(COLUMNS)
    compute, memory, dram = see.compute_pct, see.memory_pct, see.dram_pct
    l2, l1 = see.l2_throughput_pct, see.l1_pct

    measured = see.dram_basis == "elapsed"
    dram_wall = np.where(measured, dram > WALL_PCT, dram >= AT_ROOF * 100 * attainable.memory)
    rate = (see.compute_basis == BY_RATE) | (see.compute_basis == _MODEL)
    compute_wall = np.where(
        rate, compute >= AT_ROOF * 100 * attainable.compute, compute >= WALL_PCT
    )
    both = dram_wall & compute_wall
    tie = both & (np.abs(dram - compute) <= TIE_POINTS)
    # NVIDIA measures L1 over its active cycles alone: a kernel that hardly runs can fill it while
    # the memory system idles, so memory as a whole must be busy too.
    l2_wall = l2 >= WALL_PCT
    l1_wall = (l1 >= WALL_PCT) & ~(memory < BUSY_PCT)
    cache_wall = (l2_wall | l1_wall) & ~(dram >= BUSY_PCT)
    # Of a rate the attainable share is all there is: memory is busy at 60 % of that.
    of_rate = (see.dram_basis == "nominal peak") | (see.dram_basis == "report peak")
    of_rate &= memory == dram
    memory_busy = np.where(of_rate, BUSY_PCT * np.fmin(attainable.memory, 1.0), BUSY_PCT)
    leaning = (compute >= BUSY_PCT) | (memory >= memory_busy)
    # Counted operations are a part of what a kernel executes: few of them prove no idle compute.
    part = (see.compute_basis == BY_RATE) & ~(compute >= BUSY_PCT) & ~(memory >= memory_busy)
    decidable = ~np.isnan(compute) & ~np.isnan(memory) & ~part
    short = (see.median_ns < LAUNCH_NS) & (see.rank_by_time > 1)
    known = decidable | dram_wall | compute_wall | cache_wall

    link = np.array([_LINK_CATEGORIES.get(name, "") for name in see.category], dtype=object)
    # A model tells how far a kernel is from its roofs, not whether it waits.
    modelled = (see.compute_basis == _MODEL) & (see.dram_basis == _MODEL)
    conditions = [
        link == "communication",
        link == "copy",
        ~known,
        short,
        tie,
        dram_wall & ~(both & (compute > dram)),
        compute_wall,
        cache_wall & l2_wall & ~(l1_wall & (l1 > l2)),
        cache_wall,
        (memory >= WALL_PCT) & np.isnan(dram),
        leaning & (np.abs(compute - memory) < APART_POINTS),
        leaning & (memory > compute),
        leaning,
        modelled,
    ]
    outcomes = [
        "communication", "copy", "not-evaluable", "launch-bound", "balanced", "dram-bound",
        "compute-bound", "l2-bound", "l1-bound", "memory-bound", "balanced", "memory-leaning", "compute-leaning",
        "below-roof",
    ]  # fmt: skip
    chosen = np.select(conditions, list(range(len(outcomes))), default=len(outcomes))
    names = [*outcomes, "latency-bound"]
    return np.array([names[index] for index in chosen.tolist()], dtype=object)
