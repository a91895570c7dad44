"""The clock moved by as much as the time of a kernel."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Rule, at_least, at_most
from traceroof.rules._changes import on_both_sides

_COMPUTE = ("compute-bound", "compute-leaning", "l1-bound", "latency-bound", "launch-bound")


def _on_the_clock(k: Facts) -> Mask:
    """Kernels whose time goes with the core clock; those of DRAM have a clock of their own."""
    return on_both_sides(k) & one_of(k.class_head, *_COMPUTE)


def _explains(k: Facts) -> Mask:
    with np.errstate(divide="ignore", invalid="ignore"):
        return k.meets("sm_clock_hz_head") & k.meets("call_head_ns")


def _clock(k: Facts) -> Column:
    """The factor by which the clock would lengthen a launch."""
    return k.sm_clock_hz_base / k.sm_clock_hz_head


def _apart(k: Facts) -> Column:
    """How far the factor of the time is from that of the clock."""
    return np.asanyarray(np.abs(k.call_head_ns / k.call_base_ns - _clock(k)))


_KERNEL = {"level": "kernel", "verdict": "regressed", "class_head": "compute-bound"}

RULES = (
    Rule(
        id="cmp-clock-explains",
        topic="clock",
        title="The clock explains the change",
        scope="compare",
        why=(
            "A kernel that computes takes a fixed number of cycles. At another clock it takes "
            "another time, without any change of the code."
        ),
        condition=(
            "the core clock moved by {sm_clock_hz_head:.0%} or more, and the time of a launch "
            "moved by the same factor to within {call_head_ns:.0%}, in a kernel that compute, L1 "
            "or latency limits"
        ),
        needs=("sm_clock_hz_base", "sm_clock_hz_head", "call_base_ns", "call_head_ns"),
        uses=("level", "verdict", "class_head"),
        applies=_on_the_clock,
        when=_explains,
        because=(
            "the core clock went from {sm_clock_hz_base} to {sm_clock_hz_head}, the time of a "
            "launch from {call_base_ns} to {call_head_ns}: the same factor"
        ),
        fix="Lock the clocks on both sides (nvidia-smi --lock-gpu-clocks), then measure again.",
        refute="Lock the clocks and measure again. The difference must be gone.",
        kind="hard",
        grade="observed",
        layer="hardware",
        severity="info",
        effort="config",
        suppresses=("cmp-kernel-regressed", "cmp-improved"),
        thresholds={
            "sm_clock_hz_head": at_least(
                0.01,
                measure=lambda k: np.abs(_clock(k) - 1),
                words="{op} {value:.0%} from sm_clock_hz_base",
            ),
            "call_head_ns": at_most(
                0.01, measure=_apart, words="within {value:.0%} of the factor of the clock"
            ),
        },
        references=("Time is cycles over clock: NVIDIA Nsight Compute, clock control",),
        # 1.40 / 1.30 = 1.077.
        fires=(
            {**_KERNEL, "sm_clock_hz_base": 1.40e9, "sm_clock_hz_head": 1.30e9,
             "call_base_ns": 1e5, "call_head_ns": 1.077e5},
            {**_KERNEL, "sm_clock_hz_base": 1.30e9, "sm_clock_hz_head": 1.40e9,
             "call_base_ns": 1e5, "call_head_ns": 0.929e5},
        ),
        silent=(
            {**_KERNEL, "sm_clock_hz_base": 1.40e9, "sm_clock_hz_head": 1.30e9,
             "call_base_ns": 1e5, "call_head_ns": 1.2e5},
            {**_KERNEL, "sm_clock_hz_base": 1.400e9, "sm_clock_hz_head": 1.395e9,
             "call_base_ns": 1e5, "call_head_ns": 1.004e5},
            # A launch that takes 1.053 times as long at the same clock.
            {**_KERNEL, "sm_clock_hz_base": 1.40e9, "sm_clock_hz_head": 1.40e9,
             "call_base_ns": 1e5, "call_head_ns": 1.053e5},
            {**_KERNEL, "class_head": "dram-bound", "sm_clock_hz_base": 1.40e9,
             "sm_clock_hz_head": 1.30e9, "call_base_ns": 1e5, "call_head_ns": 1.077e5},
        ),
    ),
)  # fmt: skip
