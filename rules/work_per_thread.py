"""Threads do so little that starting, indexing and synchronising them is most of the work."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Rule, at_least, at_most, below
from traceroof.rules._kernels import HEADROOM, has_headroom
from traceroof.rules._least import LEAST, beyond_least


def _overhead(k: Facts) -> Mask:
    few = k.meets("loads_per_warp") & k.meets("instructions_per_access")
    # A tree that reads its own results from global memory: barriers between its steps.
    tree = k.meets("used_load_bytes") & k.meets("stall_barrier") & k.meets("tree_loads")
    return np.asanyarray(few | tree)


def _applies(k: Facts) -> Mask:
    return np.asanyarray(has_headroom(k) & k.meets("kernel_dram_pct"))


def _likely(k: Facts, peak: Attainable) -> Column:
    # What all threads pay once: half of the instructions are gone with twice the elements each.
    return np.asanyarray(0.5 * beyond_least(k, peak))


_ONE = {"loads_per_warp": 1.0, "instructions_per_access": 45.0}
_TREE = {
    "loads_per_warp": 4.3,
    "instructions_per_access": 9.8,
    "stall_barrier": 0.27,
    "used_load_bytes": 2.7e8,
    "dram_read_bytes": 6.7e7,
}

RULES = (
    Rule(
        id="work-per-thread",
        topic="algorithm",
        title="Each thread does too little for what it costs",
        scope="kernel",
        why=(
            "Every thread pays for index arithmetic, bounds checks, the steps of a tree and their "
            "barriers. With one element per thread these outnumber the useful instructions, and "
            "too few loads are in flight to hide their latency."
        ),
        condition=(
            "at most {loads_per_warp} global loads per warp, with {instructions_per_access} or more "
            "instructions per global access; or a tree in global memory: at most {tree_loads} loads "
            "per warp, {stall_barrier:.0%} of the time or more at barriers, and at least "
            "{used_load_bytes} times as many bytes loaded as read from device memory. Device memory "
            "is used below {kernel_dram_pct}, and nothing is at its wall"
        ),
        needs=("loads_per_warp", "instructions_per_access"),
        uses=(
            "primary_class", "compute_pct", "memory_pct", "kernel_dram_pct", "stall_barrier",
            "threads_per_block", "used_load_bytes", "dram_read_bytes", *LEAST,
        ),
        applies=_applies,
        when=_overhead,
        because=(
            "a warp executes {instructions_per_access:.0f} instructions per access to global memory "
            "and makes {loads_per_warp:.1f} loads[; it spends {stall_barrier:.0%} of its time at "
            "barriers]"
        ),
        fix=(
            "Let each thread process 4 to 8 elements, one grid apart, so that neighbouring threads "
            "read neighbouring elements. Add them up in registers before the first barrier, and "
            "reduce a warp by shuffles. Fewer blocks then do the same work."
        ),
        refute=(
            "Give each thread two elements and launch half the blocks. The total number of "
            "instructions must fall. If the time stays, something else limits the kernel."
        ),
        saves=beyond_least,
        likely=_likely,
        kind="hard",
        grade="derived",
        layer="operator",
        # The steps of a tree leave lanes idle, however many elements each thread adds first.
        suppresses=("thread-divergence",),
        thresholds={
            **HEADROOM,
            "loads_per_warp": at_most(2),
            "instructions_per_access": at_least(30),
            "tree_loads": at_most(8, column="loads_per_warp", words="or {op} {value} with barriers"),
            "stall_barrier": at_least(0.1),
            "used_load_bytes": at_least(2, of="dram_read_bytes"),
            "kernel_dram_pct": below(WALL_PCT, or_unknown=True),
        },
        references=(
            "Harris: Optimizing Parallel Reduction in CUDA, NVIDIA",
            "NVIDIA CUDA C++ Best Practices Guide: instruction optimisation",
        ),
        fires=(
            _ONE,
            {"loads_per_warp": 2.0, "instructions_per_access": 30.5},
            _TREE,
            {**_TREE, "loads_per_warp": 8.0, "stall_barrier": 0.1},
        ),
        silent=(
            {"loads_per_warp": 2.05, "instructions_per_access": 45.0},
            {"loads_per_warp": 1.0, "instructions_per_access": 29.5},
            {**_TREE, "stall_barrier": 0.09},
            {**_TREE, "loads_per_warp": 8.1},
            {**_TREE, "used_load_bytes": 6.7e7},
            {**_ONE, "kernel_dram_pct": 85.0},
            {**_ONE, "memory_pct": 85.0},
        ),
    ),
)  # fmt: skip
