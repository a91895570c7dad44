"""Communication and computation side by side: too rarely, or at each other's expense."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._timelines import WAITS, part, per_step, waited

_WORTH_NS = 100_000
_CONTENTION = 1.15


def _low(k: Facts) -> Mask:
    overlap = k.overlapped_communication_ns < 0.7 * k.communication_ns
    return np.asanyarray(overlap & (per_step(k, k.communication_ns) >= _WORTH_NS))


def _transfer(k: Facts) -> Column:
    return part(np.maximum(k.exposed_communication_ns - waited(k), 0), k)


def _slowed(k: Facts) -> Column:
    """Equal kernels only where shapes say so: a persistent kernel has one grid for every size."""
    slowed = k.overlapped_communication_ns * (1 - 1 / k.overlap_slowdown)
    return part(np.where(k.overlap_by_shapes > 0, slowed, 0.0), k)


RULES = (
    Rule(
        id="comm-overlap-low",
        topic="exposed-communication",
        title="Little of the communication overlaps with computation",
        scope="timeline",
        why="Time in which both run costs nothing extra; here most communication runs alone.",
        condition="communication of 100 µs per step or more, under 70 % of it beside computation",
        needs=("communication_ns", "overlapped_communication_ns", "exposed_communication_ns"),
        uses=("span_ns", "steps", "warm_up_steps", "collectives", *WAITS),
        applies=lambda k: k.communication_ns > 0,
        when=_low,
        because=(
            "of {communication_ns} of communication {overlapped_communication_ns} run beside "
            "computation"
        ),
        fix=(
            "Start the collectives as soon as their data is ready and on a stream of their own; "
            "smaller first buckets let the exchange begin earlier in the backward pass."
        ),
        refute="Leave the collectives out in a test run: the step must get shorter.",
        saves=lambda k, peak: _transfer(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        thresholds={"overlapped_communication_ns": "< 70 % of the communication"},
        references=("TraceLens: communication overlap under 70 %",),
        fires=(
            {
                "span_ns": 100e6,
                "communication_ns": 4e6,
                "overlapped_communication_ns": 2.7e6,
                "exposed_communication_ns": 1.3e6,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 0.3e6,
                "overlapped_communication_ns": 0.0,
                "exposed_communication_ns": 0.3e6,
                "steps": 3.0,
                "warm_up_steps": 0.0,
            },
        ),
        silent=(
            {
                "span_ns": 100e6,
                "communication_ns": 4e6,
                "overlapped_communication_ns": 2.8e6,
                "exposed_communication_ns": 1.2e6,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 0.29e6,
                "overlapped_communication_ns": 0.0,
                "exposed_communication_ns": 0.29e6,
                "steps": 2.0,
                "warm_up_steps": 1.0,
            },
        ),
    ),
    Rule(
        id="overlap-contention",
        topic="kernel-efficiency",
        title="Computation is slower beside communication",
        scope="timeline",
        why=(
            "Communication kernels take multiprocessors, memory bandwidth and cache from the "
            "computation beside them, so overlap is not free."
        ),
        condition=(
            "the same kernels take over 1.15 times their usual time while communication runs"
        ),
        needs=("overlap_slowdown", "overlapped_communication_ns", "span_ns"),
        uses=("communication_ns", "overlap_by_shapes"),
        # Unknown where too few kernels ran often enough both alone and beside communication.
        applies=lambda k: ~np.isnan(k.overlap_slowdown),
        when=lambda k: k.overlap_slowdown > _CONTENTION,
        because=(
            "kernels beside communication take {overlap_slowdown:.2f} times as long as alone, "
            "over {overlapped_communication_ns} of overlap"
        ),
        fix=(
            "Let communication use fewer multiprocessors (NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS, the "
            "SM count of the library) or copy engines. Put kernels beside it that do not need "
            "what it takes: compute-bound ones beside a transfer. If kernels are tuned for all "
            "multiprocessors, leave some free."
        ),
        refute=(
            "Halve the channels: if computation does not get faster by more than communication "
            "gets slower, the overlap was right as it was."
        ),
        saves=lambda k, peak: _slowed(k),
        kind="conditional",
        # Equal names, grids and shapes may still hide different work.
        grade="inferred",
        layer="framework",
        effort="config",
        thresholds={"overlap_slowdown": "> 1.15"},
        references=(
            "TraceLens: compute kernels under overlap 1.15 times slower",
            "NVIDIA NCCL documentation, environment variables: NCCL_MAX_CTAS",
        ),
        fires=(
            {"overlap_slowdown": 1.16, "overlapped_communication_ns": 20e6, "span_ns": 100e6},
            {
                "overlap_slowdown": 2.17,
                "overlap_by_shapes": 1.0,
                "overlapped_communication_ns": 109e6,
                "span_ns": 129e6,
            },
        ),
        silent=(
            {"overlap_slowdown": 1.15, "overlapped_communication_ns": 20e6, "span_ns": 100e6},
            {"overlap_slowdown": 0.97, "overlapped_communication_ns": 20e6, "span_ns": 100e6},
            {"overlapped_communication_ns": 0.0, "span_ns": 100e6},
        ),
    ),
)
