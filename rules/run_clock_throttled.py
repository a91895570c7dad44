"""Clocks that fall, or that lie below those the peaks are rated at."""

import numpy as np

from traceroof.facts import Column, Facts, Mask
from traceroof.rule import Doubt, Rule


def _fires(k: Facts) -> Mask:
    core = (k.clock_fall_pct > 10) | (k.boost_share_pct < 90)
    # Far below the rating a part of the memory is meant (run-partitioned-device).
    memory = (k.dram_clock_fall_pct > 2) | ((k.dram_rated_pct < 98) & (k.dram_rated_pct >= 80))
    return np.asanyarray(core | memory)


def _factor(k: Facts, run: Facts) -> Column:
    own = np.where(np.isnan(k.sm_clock_hz), 1.0, k.sm_clock_hz / run.fast_clock_hz)
    below = np.where(run.boost_share_pct < 90, run.boost_share_pct / 100, 1.0)
    # Time at the wall of DRAM does not follow the core clock.
    follows = k.primary_class != "dram-bound"
    return np.asanyarray(np.where(follows, np.minimum(own, 1.0) * below, 1.0))


RULES = (
    Rule(
        id="run-clock-throttled",
        title="The clocks fell, or lie below their rating",
        scope="run",
        why=(
            "Peaks are rated at the boost clock. A GPU that reaches its power or heat limit lowers "
            "its clock, and everything that does not wait for memory takes longer in proportion. "
            "Times of launches at different clocks do not compare."
        ),
        condition=(
            "core clock of launches of 100 µs or more falls by more than 10 %, or lies below 90 % "
            "of the boost clock where no tool locks it (Nsight Compute does, at the base clock); "
            "memory clock falls by more than 2 %, or DRAM's peak lies below 98 % of nominal"
        ),
        needs=("fast_clock_hz",),
        uses=(
            "slow_clock_hz", "clock_fall_pct", "boost_clock_hz", "boost_share_pct",
            "dram_clock_fall_pct", "dram_rated_pct",
        ),
        when=_fires,
        because=(
            "the core clock runs from {slow_clock_hz} to {fast_clock_hz}, a fall of "
            "{clock_fall_pct}[; it reaches {boost_share_pct} of its boost of {boost_clock_hz}]"
            "[; the memory clock falls by {dram_clock_fall_pct}][; DRAM's peak is {dram_rated_pct} "
            "of nominal]"
        ),
        fix=(
            "Lock the clocks for measuring[nvidia:  (nvidia-smi --lock-gpu-clocks)], and look at "
            "the reasons for throttling[nvidia:  (nvidia-smi -q -d PERFORMANCE)][amd:  (amd-smi "
            "metric)]: power limit, heat, another job on the same GPU."
        ),
        refute="Log the clocks while the program runs: at a steady clock times must not change.",
        kind="hard",
        grade="observed",
        layer="hardware",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="it ran at a lower clock than others, or than the peaks are rated at",
                reads=("sm_clock_hz", "primary_class"),
                factor=_factor,
            ),
        ),
        thresholds={
            "clock_fall_pct": "> 10",
            "boost_share_pct": "< 90",
            "dram_clock_fall_pct": "> 2",
            "dram_rated_pct": "< 98",
        },
        references=(
            "Nsight Compute documentation, clock control: locked to base by default",
            "RRZE gpu-benches: an L40 at 1740 to 2205 MHz of 2490, a MI300X at 1401 of 2100",
            "vendor analysis scripts: 10 % on the core clock, 2 % on the memory clock",
        ),
        fires=(
            {"fast_clock_hz": 1.7e9, "slow_clock_hz": 1.52e9, "clock_fall_pct": 10.1},
            {"fast_clock_hz": 1.2e9, "slow_clock_hz": 1.2e9, "clock_fall_pct": 0.0,
             "boost_share_pct": 89.9, "boost_clock_hz": 1.41e9},
            {"fast_clock_hz": 1.4e9, "clock_fall_pct": 0.0, "dram_clock_fall_pct": 2.1},
            {"fast_clock_hz": 1.4e9, "clock_fall_pct": 0.0, "dram_rated_pct": 97.9},
        ),
        silent=(
            {"fast_clock_hz": 1.7e9, "slow_clock_hz": 1.53e9, "clock_fall_pct": 10.0,
             "boost_share_pct": 90.0, "dram_clock_fall_pct": 2.0, "dram_rated_pct": 98.0},
            {"fast_clock_hz": 0.585e9, "slow_clock_hz": 0.585e9, "clock_fall_pct": 0.0,
             "boost_clock_hz": 1.59e9},
            {"fast_clock_hz": 1.4e9, "clock_fall_pct": 0.0, "dram_rated_pct": 50.0},
        ),
    ),
)  # fmt: skip
