"""Instructions run for too few threads of a warp."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Rule, below
from traceroof.rules._kernels import of_class, tunable
from traceroof.rules._least import LEAST, beyond_least


def _active(k: Facts) -> Column:
    return np.asanyarray(np.fmin(k.threads_per_instruction, k.threads_per_instruction_predicated))


def _saves(k: Facts, peak: Attainable) -> Column:
    # Full warps need as many fewer instructions, and wait as much less often.
    needed = k.compute_pct / (100 * np.asanyarray(peak.compute)) * _active(k) / k.warp_size
    return np.asanyarray(np.fmin(1 - needed, beyond_least(k, peak)))


def _likely(k: Facts, peak: Attainable) -> Column:
    busy = np.where(np.isnan(k.compute_pct), 100 * k.issue_active, k.compute_pct)
    # A kernel that waits does so once per instruction: fewer instructions wait less often.
    busy = np.where(of_class(k, "latency-bound"), np.fmax(busy, 50.0), busy)
    idle = (1 - _active(k) / k.warp_size) * busy / 100
    return np.asanyarray(np.minimum(_saves(k, peak), idle))


RULES = (
    Rule(
        id="thread-divergence",
        topic="divergence",
        title="Instructions run for too few threads of a warp",
        scope="kernel",
        why=(
            "Threads of a warp that take different branches, or whose instructions are predicated "
            "off, still take the issue slot. The warp pays for all paths."
        ),
        condition=(
            "on average, instructions run with fewer than {threads_per_instruction:.0%} of the "
            "threads of the warp (wavefront) active, or fewer than "
            "{threads_per_instruction_predicated:.0%} active and not predicated off"
        ),
        needs=("threads_per_instruction", "warp_size"),
        uses=(
            "primary_class",
            "threads_per_instruction_predicated",
            "branch_efficiency_pct",
            "compute_pct",
            "issue_active",
            *LEAST,
        ),
        # At the wall of device memory, idle lanes cost nothing.
        applies=lambda k: tunable(k) & ~of_class(k, "dram-bound"),
        when=lambda k: (
            k.meets("threads_per_instruction") | k.meets("threads_per_instruction_predicated")
        ),
        because=(
            "{threads_per_instruction:.1f} of {warp_size:.0f} threads are active in an average "
            "instruction"
        ),
        fix=(
            "Let neighbouring threads take the same path: sort or bin the work by its branch, "
            "give each path its own warps, turn short branches into selects, compact active items "
            "first."
        ),
        refute=(
            "Sort the input by branch. Threads per instruction must rise and the time must fall."
        ),
        saves=_saves,
        likely=_likely,
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={
            "threads_per_instruction": below(0.75, of="warp_size"),
            "threads_per_instruction_predicated": below(0.75, of="warp_size"),
        },
        references=("Nsight Compute ThreadDivergence rule: 24 of 32 threads",),
        fires=(
            {"threads_per_instruction": 23.9, "warp_size": 32.0, "compute_pct": 50.0},
            {
                "threads_per_instruction": 31.0,
                "threads_per_instruction_predicated": 23.9,
                "warp_size": 32.0,
            },
            {"threads_per_instruction": 47.9, "warp_size": 64.0},
        ),
        silent=(
            {"threads_per_instruction": 24.0, "warp_size": 32.0},
            {
                "threads_per_instruction": 31.0,
                "threads_per_instruction_predicated": 24.0,
                "warp_size": 32.0,
            },
            {"threads_per_instruction": 48.0, "warp_size": 64.0},
            {"threads_per_instruction": 12.0, "warp_size": 32.0, "primary_class": "dram-bound"},
        ),
    ),
    Rule(
        id="divergent-branches",
        topic="divergence",
        title="Branches split warps",
        scope="kernel",
        why=(
            "Where the threads of a warp take different sides of a branch, the warp executes both. "
            "Tests on the thread index (every second, every fourth thread works) split every warp "
            "and keep most of them active until the end."
        ),
        condition=(
            "in fewer than {branch_efficiency_pct} of the branches all threads of the warp take the "
            "same side, device memory is used below {kernel_dram_pct}, and the threads per "
            "instruction were not counted"
        ),
        needs=("branch_efficiency_pct",),
        uses=("primary_class", "threads_per_instruction", "compute_pct", "kernel_dram_pct", *LEAST),
        applies=lambda k: (
            tunable(k)
            & ~of_class(k, "dram-bound")
            & np.isnan(k.threads_per_instruction)
            & k.meets("kernel_dram_pct")
        ),
        when=lambda k: k.meets("branch_efficiency_pct"),
        because="only {branch_efficiency_pct} of the branches keep a warp together",
        fix=(
            "Let the first threads of a block work and the others end. Compute the element from the "
            "thread index instead of testing the index, so that whole warps finish early. Give "
            "each path its own warps."
        ),
        refute=(
            "Count the instructions after the change. They must fall, and the time with them. "
            "Uniform branches alone say little, because a warp that takes both sides counts as one."
        ),
        saves=beyond_least,
        # Each split branch costs its other side at least.
        likely=lambda k, peak: np.asanyarray(
            np.minimum(beyond_least(k, peak), 2 * (1 - k.branch_efficiency_pct / 100))
        ),
        kind="hard",
        grade="observed",
        layer="operator",
        thresholds={
            "branch_efficiency_pct": below(95),
            "kernel_dram_pct": below(WALL_PCT, or_unknown=True),
        },
        references=(
            "NVIDIA CUDA C++ Programming Guide: SIMT architecture",
            "Harris: Optimizing Parallel Reduction in CUDA, NVIDIA",
        ),
        fires=({"branch_efficiency_pct": 94.9}, {"branch_efficiency_pct": 63.0}),
        silent=(
            {"branch_efficiency_pct": 95.0},
            {"branch_efficiency_pct": 60.0, "threads_per_instruction": 31.0},
            {"branch_efficiency_pct": 60.0, "primary_class": "dram-bound"},
        ),
    ),
)
