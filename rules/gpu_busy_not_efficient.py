"""The GPU has work, but the kernels use little of it."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, above, at_least, below


def _saves(k: Facts, peak: Attainable) -> Column:
    # The measured mean of the busier sides against what is attainable of the better one.
    better = max(np.max(peak.memory), np.max(peak.compute))
    inside = np.where(np.isnan(k.kernel_time_ns), 1.0, k.kernel_time_ns / k.time_ns)
    # Kernels of unknown use, collectives above all, cannot be said to gain.
    inside = inside * np.where(np.isnan(k.measured_pct), 1.0, k.measured_pct / 100)
    return np.asanyarray((1 - k.busiest_pct / (100 * better)) * np.minimum(inside, 1.0))


RULES = (
    Rule(
        id="gpu-busy-not-efficient",
        topic="summary",
        title="The kernels use little of the GPU",
        scope="run",
        why=(
            "While kernels run, neither the compute units nor the memory are busy for most of the "
            "time. More launches do not help: the kernels themselves wait."
        ),
        condition=(
            "the GPU is busy for more than {gpu_busy_pct} of the time, and the time-weighted "
            "larger of compute and memory use is below {busiest_pct}, known for {measured_pct} of "
            "the kernel time or more"
        ),
        needs=("busiest_pct",),
        uses=("gpu_busy_pct", "measured_pct", "kernel_time_ns", "time_ns"),
        # A counter tool runs kernels one by one: it knows no busy and idle time.
        applies=lambda k: ~np.isnan(k.gpu_busy_pct),
        # What is known of a small part of the time says nothing about the whole.
        when=lambda k: k.meets("busiest_pct") & k.meets("gpu_busy_pct") & k.meets("measured_pct"),
        because=(
            "the GPU is busy for {gpu_busy_pct} of the time, but the busier of compute and memory "
            "runs at {busiest_pct} of peak, weighted by time"
        ),
        fix=(
            "Work on the kernels, longest first. Their findings say what they wait for. "
            "Scheduling, streams and graphs do not change this."
        ),
        refute="Improve the longest kernels. The time-weighted use must rise.",
        saves=_saves,
        kind="conditional",
        role="class",
        grade="derived",
        layer="operator",
        trust=lambda k: np.where(
            np.isnan(k.measured_pct), 1.0, np.clip(k.measured_pct, 1, 100) / 100
        ),
        thresholds={
            "busiest_pct": below(BUSY_PCT),
            "gpu_busy_pct": above(90),
            "measured_pct": at_least(50, or_unknown=True),
        },
        references=(
            "Nsight Compute SpeedOfLight rule: below 60 % on both sides",
            "nvidia-smi documentation: utilization.gpu is the time in which any kernel ran",
        ),
        fires=(
            {"busiest_pct": 59.9, "gpu_busy_pct": 90.1, "kernel_time_ns": 95e6, "time_ns": 100e6},
            {"busiest_pct": 30.0, "gpu_busy_pct": 100.0, "measured_pct": 80.0},
        ),
        silent=(
            {"busiest_pct": 60.0, "gpu_busy_pct": 99.0},
            {"busiest_pct": 30.0, "gpu_busy_pct": 90.0},
            {"busiest_pct": 30.0, "gpu_busy_pct": 99.0, "measured_pct": 49.9},
            {"busiest_pct": 30.0},
        ),
    ),
)
