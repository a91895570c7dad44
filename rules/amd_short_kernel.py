"""Occupancy figures of short kernels are too low on AMD."""

import numpy as np

from traceroof.rule import Rule

RULES = (
    Rule(
        id="amd-short-kernel",
        title="Occupancy figures of short kernels are too low",
        scope="run",
        why=(
            "AMD's occupancy and busy figures divide by all cycles in which the GPU had work, the "
            "launch and the cache flush behind it included. In a kernel of a few microseconds "
            "those are most of the cycles, so that it seems to leave the compute units empty."
        ),
        condition="over 20 % of the kernel time in kernels under 1 ms whose occupancy was counted",
        needs=("brief_pct",),
        uses=("kernel_time_ns",),
        # Without such counters there is nothing to be careful about.
        applies=lambda k: ~np.isnan(k.brief_pct),
        when=lambda k: k.brief_pct > 20,
        because=(
            "kernels shorter than 1 ms take {brief_pct} of the kernel time; their occupancy and "
            "busy percentages are too low, and no finding rests on them"
        ),
        fix=(
            "Read the wait fractions and bandwidths of such kernels, which do not suffer from it, "
            "or profile a problem large enough for kernels of a millisecond."
        ),
        refute="Profile twice the data: if occupancy stays as it is, the ramps did not matter.",
        kind="conditional",
        grade="observed",
        layer="hardware",
        severity="info",
        thresholds={"brief_pct": "> 20"},
        references=("rocprofiler-compute documentation: occupancy of kernels under 1 ms",),
        fires=({"brief_pct": 20.1}, {"brief_pct": 100.0, "kernel_time_ns": 5e4}),
        silent=({"brief_pct": 20.0}, {"brief_pct": 0.0}, {"kernel_time_ns": 5e6}),
    ),
)
