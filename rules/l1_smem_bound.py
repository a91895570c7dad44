"""The first-level cache or shared memory is at its wall."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Attainable, Rule, at_least, at_most
from traceroof.rules._kernels import (
    HEADROOM,
    has_headroom,
    of_class,
    on_amd,
    spare_beside_caches,
    tunable,
)


def _cycles(k: Facts) -> Column:
    """Cycles of all multiprocessors: the L1 data stage of each serves one wavefront per cycle."""
    cycles = k.sm_count * k.sm_clock_hz * k.duration_ns / 1e9
    return np.asanyarray(np.where(cycles > 0, cycles, np.nan))


def _on_l1(k: Facts) -> Mask:
    return k.meets("l1_pct") | k.meets("shared_wavefronts") | k.meets("load_path_pct")


def _applies(k: Facts) -> Mask:
    # Loads and stores count as compute too: only another pipe at its wall acquits L1.
    other_pipe = (k.top_pipe_pct >= 0) & (k.top_pipe != "lsu")
    acquitted = of_class(k, "compute-bound") & other_pipe
    return np.asanyarray(tunable(k) & ~of_class(k, "dram-bound") & ~acquitted)


def _mixed(k: Facts) -> Mask:
    """Groups whose compute use may be that of arithmetic or of loads: no pipe was measured."""
    return np.asanyarray(np.isnan(k.sm_busy_pct) & ~(k.top_pipe_pct >= 0) & ~on_amd(k))


def _saves(k: Facts, peak: Attainable) -> Column:
    # Compute use counts the queue of loads and stores too, which the fix shrinks: no other pipe is
    # busier than the busiest one, nor than the second where loads and stores are that one. Where no
    # pipe was measured, compute use on NVIDIA may be that queue and bounds nothing.
    pipes = np.where(_mixed(k), np.nan, np.fmin(k.compute_pct, k.sm_busy_pct))
    compute = np.where(k.top_pipe == "lsu", k.second_pipe_pct, pipes)
    compute = np.where(k.load_path_pct - compute <= 1, np.nan, compute)
    compute = np.fmax(compute, k.flop_pct)
    # Better use of L1 also asks less of L2; only device memory keeps its bytes.
    memory = k.kernel_dram_pct / (100 * np.asanyarray(peak.memory))
    return np.asanyarray(1 - np.fmax(compute / (100 * np.asanyarray(peak.compute)), memory))


def _likely(k: Facts, peak: Attainable) -> Column:
    # Where nothing but device memory bounds it, arithmetic takes over before that.
    room = _saves(k, peak)
    by_loads = np.where((k.load_path_pct >= 0) & np.isnan(k.flop_pct), 0.7, 1.0) * room
    # Compute use may be that of loads alone, or not at all.
    compute = 1 - k.compute_pct / (100 * np.asanyarray(peak.compute))
    mixed = _mixed(k) & np.isnan(k.load_path_pct) & (compute < room)
    product = one_of(k.category, "gemm")
    return np.asanyarray(
        np.where(mixed, np.where(product, np.fmax(compute, room / 2), compute), by_loads)
    )


def _others(k: Facts) -> Column:
    """Use of the busiest unit but L1."""
    return np.asanyarray(np.fmax(np.fmax(k.dram_pct, k.l2_throughput_pct), k.compute_pct))


_LEANS = {"memory_pct": 78.6, "l1_pct": 79.9, "compute_pct": 66.5, "l2_throughput_pct": 15.5,
          "dram_pct": 10.7, "kernel_dram_pct": 10.7}  # fmt: skip

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
            "of the cycles or more, or compute use is that of loads and stores alone (memory use "
            "shows the same figure and is L1's), at {load_path_pct} or more"
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
            "load_path_pct",
            "flop_pct",
            "category",
            "vendor",
        ),
        applies=_applies,
        when=_on_l1,
        because=(
            "the first-level cache (or shared memory) runs at {l1_pct} of its peak[; loads, "
            "stores and shuffles fill {load_path_pct} of their path, arithmetic less]"
        ),
        fix=(
            "Move fewer bytes through L1 and shared memory: register blocking, neighbouring "
            "addresses for neighbouring threads, 8 or 16 bytes per thread[nvidia: , ldmatrix (or "
            "the matrix unit's own loads)], fewer round trips through shared memory, no bank "
            "conflicts[nvidia: , fewer shuffles]."
        ),
        refute=(
            "Widen the accesses. Wavefronts and time must fall together. If only the wavefronts "
            "fall, another unit limits the kernel."
        ),
        saves=_saves,
        likely=_likely,
        kind="conditional",
        role="class",
        grade="observed",
        layer="hardware",
        # The data stage is full: how many instructions fill it comes second.
        suppresses=("compute-lsu-bound", "balanced-high", "l1-leaning-headroom", "stall-*"),
        thresholds={
            "l1_pct": at_least(WALL_PCT),
            "load_path_pct": at_least(BUSY_PCT),
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
            # A product from global memory on an H20: tiles in registers saved 85 % of its time.
            {"l1_pct": 73.9, "kernel_dram_pct": 4.4, "compute_pct": 73.5, "load_path_pct": 73.5},
            {"l1_pct": 60.5, "compute_pct": 60.0, "load_path_pct": 60.0, "sm_busy_pct": 20.0},
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
            {"l1_pct": 60.5, "compute_pct": 59.9, "load_path_pct": 59.9},
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
    Rule(
        id="l1-leaning-headroom",
        topic="l1-traffic",
        title="The first-level cache or shared memory is the busiest unit",
        scope="kernel",
        why=(
            "More of the time goes into passing data through L1 or shared memory than into any "
            "other unit, short of its peak. More warps or faster arithmetic only bring it to its "
            "wall; fewer bytes per result help at once."
        ),
        condition=(
            "memory use is {memory_pct:.0f} or more, is that of L1 (at most {l1_is_memory} points "
            "below it), and is at least {above_others} points above the use of L2, of device "
            "memory, and of compute"
        ),
        needs=("l1_pct", "memory_pct", "compute_pct"),
        uses=("primary_class", "l2_throughput_pct", "kernel_dram_pct", "dram_pct"),
        applies=has_headroom,
        when=lambda k: k.meets("memory_pct") & k.meets("l1_is_memory") & k.meets("above_others"),
        because=(
            "the first-level cache (or shared memory) is the busiest unit at {l1_pct} of its peak; "
            "compute runs at {compute_pct}"
        ),
        fix=(
            "Use each loaded value more often: compute several results per thread from registers "
            "(register blocking), load 8 or 16 bytes per thread, and keep neighbouring threads on "
            "neighbouring addresses, without bank conflicts."
        ),
        refute=(
            "Let each thread compute two results from one loaded value. If the time per result "
            "stays, L1 was not the limit."
        ),
        saves=spare_beside_caches,
        kind="conditional",
        role="class",
        yields=True,
        grade="observed",
        layer="hardware",
        thresholds={
            **HEADROOM,
            "memory_pct": at_least(BUSY_PCT),
            "l1_is_memory": at_most(
                5,
                column="l1_pct",
                measure=lambda k: np.abs(k.l1_pct - k.memory_pct),
                words="{op} {value} points from memory_pct",
            ),
            "above_others": at_least(
                1,
                column="memory_pct",
                measure=lambda k: k.memory_pct - _others(k),
                words="{op} {value} points above all others",
            ),
        },
        references=("Nsight Compute SpeedOfLight rule: breakdown of memory throughput by unit",),
        fires=(
            _LEANS,
            {**_LEANS, "memory_pct": 60.0, "l1_pct": 65.0, "compute_pct": 55.0},
            {**_LEANS, "l2_throughput_pct": 77.5},
        ),
        silent=(
            {**_LEANS, "memory_pct": 59.9, "l1_pct": 61.0, "compute_pct": 20.0},
            {**_LEANS, "l1_pct": 83.8},
            {**_LEANS, "l2_throughput_pct": 77.7},
            {**_LEANS, "compute_pct": 77.7},
            {**_LEANS, "dram_pct": 78.6},
            {**_LEANS, "primary_class": "l1-bound"},
        ),
    ),
)
