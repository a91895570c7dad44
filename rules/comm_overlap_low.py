"""Communication and computation side by side: too rarely, or at each other's expense."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, above, at_least, below
from traceroof.rules._timelines import WAITS, part, per_step, waited

_WORTH_NS = 100_000


def _low(k: Facts) -> Mask:
    return k.meets("overlapped_communication_ns") & k.meets("communication_ns")


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
        why=(
            "Communication that runs beside computation costs no extra time. Here most "
            "communication runs alone."
        ),
        condition=(
            "communication takes {communication_ns} per step or more, and less than "
            "{overlapped_communication_ns:.0%} of it runs beside computation"
        ),
        needs=("communication_ns", "overlapped_communication_ns", "exposed_communication_ns"),
        uses=("span_ns", "steps", "warm_up_steps", "collectives", *WAITS),
        applies=lambda k: k.communication_ns > 0,
        when=_low,
        because=(
            "of {communication_ns} of communication, {overlapped_communication_ns} run beside "
            "computation"
        ),
        fix=(
            "Start the collectives as soon as their data is ready, on a stream of their own. "
            "Smaller first buckets let the exchange begin earlier in the backward pass."
        ),
        refute="Remove the collectives in a test run. The step must get shorter.",
        saves=lambda k, peak: _transfer(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        thresholds={
            "communication_ns": at_least(
                _WORTH_NS,
                measure=lambda k: per_step(k, k.communication_ns),
                unit="ns",
                words="{op} {value} per step",
            ),
            "overlapped_communication_ns": below(
                0.7, of="communication_ns", words="{op} {value:.0%} of the communication"
            ),
        },
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
            "the same kernels take more than {overlap_slowdown} times their usual time while "
            "communication runs"
        ),
        needs=("overlap_slowdown", "overlapped_communication_ns", "span_ns"),
        uses=("communication_ns", "overlap_by_shapes"),
        # Unknown where too few kernels ran often enough both alone and beside communication.
        applies=lambda k: ~np.isnan(k.overlap_slowdown),
        when=lambda k: k.meets("overlap_slowdown"),
        because=(
            "kernels beside communication take {overlap_slowdown:.2f} times as long as alone, "
            "over {overlapped_communication_ns} of overlap"
        ),
        fix=(
            "Let communication use fewer multiprocessors (NCCL_MAX_CTAS, NCCL_MAX_NCHANNELS, the "
            "SM count of the library) or copy engines. Run kernels beside it that need other "
            "resources: compute-bound kernels beside a transfer. If kernels are tuned for all "
            "multiprocessors, leave some free."
        ),
        refute=(
            "Halve the channels. If computation does not get faster by more than communication "
            "gets slower, the overlap was right before."
        ),
        saves=lambda k, peak: _slowed(k),
        kind="conditional",
        # Equal names, grids and shapes may still hide different work.
        grade="inferred",
        layer="framework",
        effort="config",
        thresholds={"overlap_slowdown": above(1.15)},
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
