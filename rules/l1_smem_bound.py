"""The first-level cache or shared memory is at its wall."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import WALL_PCT
from traceroof.rule import Attainable, Rule, at_least
from traceroof.rules._kernels import of_class, tunable


def _cycles(k: Facts) -> Column:
    """Cycles of all multiprocessors: the L1 data stage of each serves one wavefront per cycle."""
    cycles = k.sm_count * k.sm_clock_hz * k.duration_ns / 1e9
    return np.asanyarray(np.where(cycles > 0, cycles, np.nan))


def _on_l1(k: Facts) -> Mask:
    return k.meets("l1_pct") | k.meets("shared_wavefronts")


def _applies(k: Facts) -> Mask:
    # Loads and stores count as compute too: only another pipe at its wall acquits L1.
    other_pipe = (k.top_pipe_pct >= 0) & (k.top_pipe != "lsu")
    acquitted = of_class(k, "compute-bound") & other_pipe
    return np.asanyarray(tunable(k) & ~of_class(k, "dram-bound") & ~acquitted)


def _saves(k: Facts, peak: Attainable) -> Column:
    # Compute use counts the queue of loads and stores too, which the fix shrinks: no other pipe is
    # busier than the busiest one, nor than the second where loads and stores are that one.
    pipes = np.fmin(k.compute_pct, k.sm_busy_pct)
    compute = np.where(k.top_pipe == "lsu", k.second_pipe_pct, pipes)
    # Better use of L1 also asks less of L2; only device memory keeps its bytes.
    memory = k.kernel_dram_pct / (100 * np.asanyarray(peak.memory))
    return np.asanyarray(1 - np.fmax(compute / (100 * np.asanyarray(peak.compute)), memory))


RULES = (
    Rule(
        id="l1-smem-bound",
        topic="l1-traffic",
        title="The first-level cache or shared memory is at its wall",
        scope="kernel",
        why=(
            "Every load and store of a multiprocessor passes through one data stage, shared "
            "memory (LDS) included. It is full, so arithmetic waits for it although device memory "
            "and the second-level cache have room."
        ),
        condition=(
            "L1 is at {l1_pct} of the peak of its active cycles or more (on AMD the vector cache "
            "or LDS, of all cycles), or shared-memory wavefronts pass in {shared_wavefronts:.0%} "
            "of the cycles or more"
        ),
        needs=("l1_pct",),
        uses=(
            "primary_class",
            "shared_wavefronts",
            "shared_conflicts",
            "sm_count",
            "sm_clock_hz",
            "duration_ns",
            "l2_throughput_pct",
            "kernel_dram_pct",
            "compute_pct",
            "sm_busy_pct",
            "top_pipe",
            "top_pipe_pct",
            "second_pipe_pct",
        ),
        applies=_applies,
        when=_on_l1,
        because="the first-level cache (or shared memory) runs at {l1_pct} of its peak",
        fix=(
            "Move fewer bytes through L1 and shared memory: register blocking, 8 or 16 bytes per "
            "thread[nvidia: , ldmatrix (or the matrix unit's own loads)], fewer round trips "
            "through shared memory, no bank conflicts."
        ),
        refute=(
            "Widen the accesses. Wavefronts and time must fall together. If only the wavefronts "
            "fall, another unit limits the kernel."
        ),
        saves=_saves,
        kind="conditional",
        role="class",
        grade="observed",
        layer="hardware",
        # The data stage is full: how many instructions fill it comes second.
        suppresses=("compute-lsu-bound",),
        thresholds={
            "l1_pct": at_least(WALL_PCT),
            "shared_wavefronts": at_least(0.8, of=_cycles, words="{op} {value} per cycle"),
        },
        references=(
            "Nsight Compute SpeedOfLight rule: breakdown of memory throughput by unit",
            "Nsight Compute documentation, hardware model: L1TEX data stage",
        ),
        fires=(
            {"l1_pct": 80.0, "kernel_dram_pct": 20.0, "compute_pct": 50.0},
            {
                "l1_pct": 91.0,
                "primary_class": "compute-bound",
                "top_pipe": "lsu",
                "top_pipe_pct": 88.0,
                "second_pipe_pct": 30.0,
            },
            # A product from global memory: its queue of loads is busier than any pipe (T4).
            {"l1_pct": 92.2, "kernel_dram_pct": 18.8, "compute_pct": 61.5, "sm_busy_pct": 20.5},
            # 108 SMs x 1.41 GHz x 1 ms = 152,280,000 cycles; 80 % are 121,824,000.
            {
                "l1_pct": 70.0,
                "shared_wavefronts": 121_824_000.0,
                "sm_count": 108.0,
                "sm_clock_hz": 1.41e9,
                "duration_ns": 1e6,
            },
        ),
        silent=(
            {"l1_pct": 79.9, "kernel_dram_pct": 20.0, "compute_pct": 50.0},
            {
                "l1_pct": 70.0,
                "shared_wavefronts": 121_800_000.0,
                "sm_count": 108.0,
                "sm_clock_hz": 1.41e9,
                "duration_ns": 1e6,
            },
            {"l1_pct": 90.0, "kernel_dram_pct": 85.0, "primary_class": "dram-bound"},
            {
                "l1_pct": 90.0,
                "primary_class": "compute-bound",
                "top_pipe": "tensor",
                "top_pipe_pct": 92.0,
            },
        ),
    ),
)
