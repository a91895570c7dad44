"""Threads do so little that starting, indexing and synchronising them is most of the work."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import HEADROOM, has_headroom
from traceroof.rules._least import LEAST, beyond_least


def _overhead(k: Facts) -> Mask:
    few = (k.loads_per_warp <= 2) & (k.instructions_per_access >= 30)
    # A tree that reads its own results from global memory: barriers between its steps.
    again = k.used_load_bytes >= 2 * k.dram_read_bytes
    tree = again & (k.stall_barrier >= 0.1) & (k.loads_per_warp <= 8)
    return np.asanyarray(few | tree)


def _applies(k: Facts) -> Mask:
    return np.asanyarray(has_headroom(k) & ~(k.kernel_dram_pct >= 80))


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
            "Index arithmetic, bounds checks, the steps of a tree and their barriers are paid by "
            "every thread. With one element a thread they outnumber the useful instructions, and "
            "too few loads are under way to cover the waiting."
        ),
        condition=(
            "at most 2 global loads a warp with 30 or more instructions to each global access; or "
            "at most 8 loads a warp with 10 % of the time at barriers, and twice the bytes loaded "
            "that device memory read: a tree in global memory. Nothing at its wall"
        ),
        needs=("loads_per_warp", "instructions_per_access"),
        uses=(
            "primary_class", "compute_pct", "memory_pct", "kernel_dram_pct", "stall_barrier",
            "threads_per_block", "used_load_bytes", "dram_read_bytes", *LEAST,
        ),
        applies=_applies,
        when=_overhead,
        because=(
            "a warp executes {instructions_per_access:.0f} instructions for each access to global "
            "memory and makes {loads_per_warp:.1f} loads[; {stall_barrier:.0%} of its time goes "
            "to barriers]"
        ),
        fix=(
            "Let each thread take 4 to 8 elements, a grid apart so that neighbours stay together: "
            "add them up in registers before the first barrier, and reduce a warp by shuffles. "
            "Fewer blocks then do the same work."
        ),
        refute=(
            "Give each thread two elements and launch half the blocks: instructions in all must "
            "fall; if the time stays, something else limits the kernel."
        ),
        saves=beyond_least,
        likely=_likely,
        kind="hard",
        grade="derived",
        layer="operator",
        # The steps of a tree leave lanes idle, however many elements each thread adds first.
        suppresses=("thread-divergence",),
        thresholds={
            **HEADROOM,"loads_per_warp": "<= 2, or <= 8 with barriers", "instructions_per_access": ">= 30"},
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
