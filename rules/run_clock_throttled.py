"""Clocks that fall, or that lie below those the peaks are rated at."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Doubt, Rule, above, at_least, below


def _fires(k: Facts) -> Mask:
    core = k.meets("clock_fall_pct") | k.meets("boost_share_pct")
    # Far below the rating a part of the memory is meant (run-partitioned-device).
    memory = k.meets("dram_clock_fall_pct") | (
        k.meets("dram_rated_pct") & k.meets("dram_rated_least")
    )
    return np.asanyarray(core | memory | k.meets("throttled_pct"))


def _seen(k: Facts) -> Mask:
    core = np.isnan(k.clock_fall_pct) & np.isnan(k.boost_share_pct)
    memory = np.isnan(k.dram_clock_fall_pct) & np.isnan(k.dram_rated_pct)
    return np.asanyarray(~(core & memory) | ~np.isnan(k.throttled_pct))


def _factor(k: Facts, run: Facts) -> Column:
    # Time at the wall of DRAM follows the memory clock, and not the core clock.
    share = np.where(k.primary_class == "dram-bound", _memory(k, run), _core(k, run))
    return np.asanyarray(np.minimum(share, 1.0))


def _core(k: Facts, run: Facts) -> Column:
    """The clock of a kernel over that it could have had: the boost clock, or the run's highest."""
    low = run.boost_share_pct < 90
    own = k.sm_clock_hz / np.where(
        low & ~np.isnan(run.boost_clock_hz), run.boost_clock_hz, run.fast_clock_hz
    )
    typical = np.where(low, run.boost_share_pct / 100, 1.0)
    return np.where(_elsewhere(k, run, run.clock_gpu), 1.0, np.where(np.isnan(own), typical, own))


def _memory(k: Facts, run: Facts) -> Column:
    own = k.dram_clock_hz / run.fast_dram_clock_hz
    own = np.where(np.isnan(own), 1 - np.nan_to_num(run.dram_clock_fall_pct) / 100, own)
    rated = (run.dram_rated_pct < 98) & (run.dram_rated_pct >= 80)
    share = np.minimum(own, np.where(rated, run.dram_rated_pct / 100, 1.0))
    return np.where(_elsewhere(k, run, run.dram_clock_gpu), 1.0, share)


def _elsewhere(k: Facts, run: Facts, gpu: Column) -> Mask:
    """Kernels on another kind of GPU than the one that the clocks are of."""
    return np.asanyarray((run.gpu_kinds >= 2) & (k.device != gpu))


RULES = (
    Rule(
        id="run-clock-throttled",
        topic="clock",
        title="The clocks fell, or are below their rating",
        scope="run",
        why=(
            "Peaks are rated at the boost clock. A GPU that reaches its power or thermal limit "
            "lowers its clock, and everything that does not wait for memory takes longer in "
            "proportion. Times of launches at different clocks do not compare. The core "
            "clock is told by launches of 100 µs or more, or by a clock log under load."
        ),
        condition=(
            "the core clock falls by more than {clock_fall_pct}, or is below {boost_share_pct} of "
            "the boost clock where no tool locks it (Nsight Compute does, at the base clock, which "
            "is never below a quarter of the boost clock); or "
            "the memory clock falls by more than {dram_clock_fall_pct}, or DRAM's peak is below "
            "{dram_rated_pct} of nominal (but not below {dram_rated_least}, which means a "
            "partition); or in a clock log a limit of power or temperature holds the clock in "
            "{throttled_pct} of the samples under load"
        ),
        needs=("kernel_time_ns",),
        uses=(
            "clock_fall_pct", "boost_share_pct", "dram_clock_fall_pct", "dram_rated_pct",
            "slow_clock_hz", "fast_clock_hz", "boost_clock_hz", "fast_dram_clock_hz", "gpu_kinds",
            "clock_gpu", "dram_clock_gpu", "throttled_pct", "throttled_by",
        ),
        applies=_seen,
        when=_fires,
        because=(
            "[the core clock runs from {slow_clock_hz} to {fast_clock_hz}, a fall of "
            "{clock_fall_pct}; ][it reaches {boost_share_pct} of its boost of {boost_clock_hz}; "
            "][the memory clock falls by {dram_clock_fall_pct}; ][DRAM's peak is {dram_rated_pct} "
            "of nominal; ][{throttled_by} held the clock in {throttled_pct} of the log's samples "
            "under load; ]times at other clocks do not compare"
        ),
        fix=(
            "Lock the clocks for measuring[nvidia:  (nvidia-smi --lock-gpu-clocks)], and check "
            "the reasons for throttling[nvidia:  (nvidia-smi -q -d PERFORMANCE)][amd:  (amd-smi "
            "metric)]: power limit, temperature, another job on the same GPU."
        ),
        refute=(
            "Log the clocks while the program runs. At a steady clock the times must not change."
        ),
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="it ran at a lower clock than others, or than the peaks are rated at",
                reads=("sm_clock_hz", "dram_clock_hz", "primary_class", "device"),
                factor=_factor,
            ),
        ),
        thresholds={
            "clock_fall_pct": above(10),
            "boost_share_pct": below(90),
            "dram_clock_fall_pct": above(2),
            "dram_rated_pct": below(98),
            "throttled_pct": above(10),
            "dram_rated_least": at_least(80, column="dram_rated_pct"),
        },
        references=(
            "Nsight Compute documentation, clock control: locked to base by default",
            "RRZE gpu-benches: an L40 at 1740 to 2205 MHz of 2490, a MI300X at 1401 of 2100",
            "vendor analysis scripts: 10 % on the core clock, 2 % on the memory clock",
        ),
        fires=(
            {"kernel_time_ns": 1e8, "fast_clock_hz": 1.7e9, "slow_clock_hz": 1.52e9, "clock_fall_pct": 10.1},
            {"kernel_time_ns": 1e8, "fast_clock_hz": 1.2e9, "slow_clock_hz": 1.2e9, "clock_fall_pct": 0.0,
             "boost_share_pct": 89.9, "boost_clock_hz": 1.41e9},
            {"kernel_time_ns": 1e8, "fast_clock_hz": 1.4e9, "clock_fall_pct": 0.0, "dram_clock_fall_pct": 2.1},
            {"kernel_time_ns": 1e8, "dram_rated_pct": 97.9},
            {"kernel_time_ns": 1e8, "throttled_pct": 10.1, "throttled_by": "sw_power_cap"},
        ),
        silent=(
            {"kernel_time_ns": 1e8, "fast_clock_hz": 1.7e9, "slow_clock_hz": 1.53e9, "clock_fall_pct": 10.0,
             "boost_share_pct": 90.0, "dram_clock_fall_pct": 2.0, "dram_rated_pct": 98.0},
            {"kernel_time_ns": 1e8, "fast_clock_hz": 0.585e9, "slow_clock_hz": 0.585e9, "clock_fall_pct": 0.0,
             "boost_clock_hz": 1.59e9},
            {"kernel_time_ns": 1e8, "dram_rated_pct": 50.0},
            {"kernel_time_ns": 1e8, "throttled_pct": 10.0, "throttled_by": "sw_power_cap"},
            {"kernel_time_ns": 1e8},
        ),
    ),
)  # fmt: skip
