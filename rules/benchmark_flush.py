"""A kernel that empties the caches between the runs of a benchmark."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, at_least, at_most
from traceroof.rules._kernels import COUNTED, counted


def _flushes(k: Facts) -> Mask:
    # A fill of as much as the cache holds, which reads nothing.
    fills = k.meets("dram_write_bytes") & k.meets("dram_read_bytes")
    return np.asanyarray((k.name_flush == 1) | ((k.name_flush == 0) & fills))


_FILL = {"by_counters": 1.0, "name_flush": 0.0, "l2_cache_bytes": 4e7, "dram_write_bytes": 2.6e8,
         "dram_read_bytes": 1e6}  # fmt: skip

RULES = (
    Rule(
        id="benchmark-flush",
        topic="nothing-to-gain",
        title="A fill larger than the caches, as benchmarks use to flush them",
        scope="kernel",
        why=(
            "Benchmarks write a buffer larger than the second-level cache between two runs, so that "
            "each run starts cold. That is part of the measurement and not of the work, however long "
            "it takes."
        ),
        condition=(
            "a kernel with counters whose name marks a flush of the caches, or a fill that writes "
            "as much as L2 holds or more and reads at most {dram_read_bytes:.0%} of that"
        ),
        needs=("name_flush",),
        uses=("dram_write_bytes", "dram_read_bytes", "l2_cache_bytes", "duration_ns", *COUNTED),
        applies=lambda k: np.asanyarray(counted(k) & ~np.isnan(k.name_flush)),
        when=_flushes,
        because=(
            "its name marks a fill or a flush[; it writes {dram_write_bytes}][, where L2 holds "
            "{l2_cache_bytes}]"
        ),
        fix=(
            "Leave it alone, and read the kernels that run after it ([nvidia: --kernel-name][amd: -k] "
            "leaves it out). If it is not a benchmark, fill once or not at all: the kernel that "
            "writes "
            "the buffer first makes it needless."
        ),
        refute="Leave the launch out. If the program computes something else, the fill is part of the work.",
        kind="hard",
        grade="inferred",
        layer="framework",
        severity="info",
        suppresses=("*",),
        thresholds={
            "dram_write_bytes": at_least(1, of="l2_cache_bytes"),
            "dram_read_bytes": at_most(0.05, of="dram_write_bytes"),
        },
        references=("Triton source: testing.do_bench zeroes 256 MB between two runs",),
        fires=(
            _FILL,
            {"by_counters": 1.0, "name_flush": 1.0},
            {**_FILL, "dram_write_bytes": 4.1e7},
        ),
        silent=(
            {**_FILL, "dram_write_bytes": 3.9e7},
            {**_FILL, "dram_read_bytes": 2e7},
            {**_FILL, "by_counters": 0.0},
            {"by_counters": 1.0, "dram_write_bytes": 2.6e8},
        ),
    ),
)
