"""Data that fits in a cache: a toy, whose figures do not carry over to real sizes."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Doubt, Rule, at_least, below
from traceroof.scopes.measurement_quality import CACHED, cached


def _seen(k: Facts) -> Mask:
    return np.asanyarray(~np.isnan(k.cached_pct) | ~np.isnan(k.working_set_pct))


def _factor(k: Facts, run: Facts) -> Column:
    small = run.working_set_pct < 80
    return np.asanyarray(np.where(small | cached(k), 0.5, 1.0))


def _nothing_left(k: Facts, run: Facts) -> Column:
    return np.asanyarray(np.where(cached(k), 0.0, 1.0))


_DRAM = ("dram_*", "model_dram_pct", "model_bytes", "roof_pct", "t_min_ns", "traffic_ratio")

RULES = (
    Rule(
        id="run-l2-resident",
        topic="measurement",
        title="The data came from a cache",
        scope="run",
        why=(
            "When all data of a step fits in the second-level cache, DRAM is hardly used and "
            "kernels look several times faster than at real sizes. A DRAM roofline says nothing "
            "about them, and their times say nothing about the real problem."
        ),
        condition=(
            "{cached_pct} of the kernel time or more is in kernels that move more bytes by their "
            "shapes than DRAM can in their time, or less than half of them as measured; or all "
            "bytes that the launches of a step (or of a run without steps) move by their shapes "
            "are below {working_set_pct} of L2"
        ),
        needs=("kernel_time_ns",),
        uses=("cached_pct", "working_set_pct", "working_set_of"),
        applies=_seen,
        when=lambda k: k.meets("cached_pct") | k.meets("working_set_pct"),
        because=(
            "[kernels whose bytes cannot all have come from DRAM take {cached_pct:some} of the "
            "kernel time; ][what {working_set_of} moves at least is {working_set_pct} of the size "
            "of L2; ]results do not carry over to larger data"
        ),
        fix=(
            "Measure at real sizes, flush L2 between iterations, or rotate through several "
            "buffers that are larger than L2 together."
        ),
        refute=(
            "Double the size. If the time doubles and does not jump, no cache boundary was "
            "crossed."
        ),
        kind="conditional",
        grade="derived",
        layer="hardware",
        effort="config",
        severity="info",
        doubts=(
            Doubt(
                scope="kernel",
                what="its bytes came from a cache, not from DRAM",
                reads=CACHED,
                columns=_DRAM,
                factor=_factor,
            ),
            Doubt(
                scope="kernel",
                what="its bytes came from a cache, not from DRAM",
                reads=CACHED,
                columns=_DRAM,
                factor=_nothing_left,
                silences=True,
            ),
        ),
        thresholds={"cached_pct": at_least(5), "working_set_pct": below(80)},
        references=(
            "RRZE gpu-benches: an A100-80 reads 5376 GB/s at 25 MB and 1879 at 76 MB",
            "the shares of time and of L2 are a judgement",
        ),
        fires=(
            {"kernel_time_ns": 1e8, "cached_pct": 5.0},
            {"kernel_time_ns": 1e5, "cached_pct": 0.0, "working_set_pct": 79.9,
             "working_set_of": "a step"},
        ),
        silent=(
            {"kernel_time_ns": 1e8, "cached_pct": 4.9, "working_set_pct": 80.0},
            {"kernel_time_ns": 1e8, "cached_pct": 0.0},
            {"kernel_time_ns": 1e8},
        ),
    ),
)  # fmt: skip
