"""Occupancy and busy figures of short kernels are too low on AMD."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.core.tracing import one_of
from traceroof.rule import Doubt, Rule, above
from traceroof.rules._kernels import on_amd

_BRIEF_NS = 1e6
# Below this, a launch and the flush of the caches are most of the cycles: a fill of some 6 µs that
# moves 56 % of the bandwidth has its compute units busy for 17 % of them.
_MOSTLY_NS = 50e3


def _factor(k: Facts, run: Facts) -> Column:
    counted = on_amd(k) & (one_of(k.compute_basis, "pipe") | ~np.isnan(k.achieved_occupancy_pct))
    less = np.where(k.median_ns < _MOSTLY_NS, 0.6, np.where(k.median_ns < _BRIEF_NS, 0.9, 1.0))
    return np.asanyarray(np.where(counted, less, 1.0))


RULES = (
    Rule(
        id="amd-short-kernel",
        topic="too-short-to-judge",
        title="Occupancy and busy figures of short kernels are too low",
        scope="run",
        why=(
            "AMD's occupancy and busy figures divide by all cycles in which the GPU had work, "
            "including the launch and the cache flush after it. In a kernel of a few microseconds "
            "these are most of the cycles, so the compute units seem empty. Bytes and operations "
            "over the kernel's time, and what wavefronts wait for, are not affected."
        ),
        condition=(
            "more than {brief_pct} of the kernel time is in short kernels (less than a millisecond) "
            "with counted occupancy"
        ),
        needs=("brief_pct",),
        uses=("kernel_time_ns",),
        # Without such counters there is nothing to be careful about.
        applies=lambda k: ~np.isnan(k.brief_pct),
        when=lambda k: k.meets("brief_pct"),
        because=(
            "kernels shorter than 1 ms take {brief_pct} of the kernel time; their occupancy and "
            "the use of their compute units, pipes and LDS read too low, far too low below 50 "
            "µs, and findings that use them have less confidence"
        ),
        fix=(
            "Use the wait fractions and bandwidths of such kernels, which are not affected, or "
            "profile a problem that is large enough for kernels of a millisecond."
        ),
        refute=("Profile twice the data. If occupancy stays the same, the ramps did not matter."),
        kind="conditional",
        grade="observed",
        layer="hardware",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="occupancy and busy figures of short kernels are too low",
                reads=("vendor", "median_ns", "compute_basis", "achieved_occupancy_pct"),
                columns=(
                    "compute_pct",
                    "busiest_pct",
                    "achieved_occupancy_pct",
                    "sm_busy_pct",
                    "tensor_pct",
                    "top_pipe_pct",
                    "pipe_*",
                    "l1_pct",
                    "vector_l1_pct",
                    "shared_memory_busy_pct",
                    "memory_pipes_busy_pct",
                ),
                factor=_factor,
            ),
        ),
        thresholds={"brief_pct": above(20)},
        references=(
            "rocprofiler-compute documentation: occupancy of kernels under 1 ms",
            "the 50 µs and what remains of the confidence are a judgement",
        ),
        fires=({"brief_pct": 20.1}, {"brief_pct": 100.0, "kernel_time_ns": 5e4}),
        silent=({"brief_pct": 20.0}, {"brief_pct": 0.0}, {"kernel_time_ns": 5e6}),
    ),
)
