"""Many collectives too small for their latency."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above
from traceroof.rules._timelines import part, per_step

# What a collective costs before its first byte, across one node.
_LATENCY_NS = 20_000
_MANY = 50


def _saves(k: Facts) -> Column:
    return part(np.fmin(k.small_collectives * _LATENCY_NS, k.communication_ns), k)


RULES = (
    Rule(
        id="comm-small-messages",
        topic="small-messages",
        title="Many small collectives",
        scope="timeline",
        why=(
            "A collective of a few kilobytes takes as long as one of hundreds of kilobytes. "
            "Latency and the synchronisation of the ranks decide, once per collective."
        ),
        condition=(
            "more than {small_collectives} small collectives (under a MiB) per step (in all if "
            "there are no steps), with communication recorded (more than {communication_ns})"
        ),
        needs=("small_collectives", "communication_ns", "span_ns"),
        uses=("collectives", "message_bytes", "steps", "warm_up_steps"),
        applies=lambda k: k.meets("communication_ns"),
        when=lambda k: k.meets("small_collectives"),
        because=(
            "{small_collectives:,.0f}[ of {collectives:,.0f}] collectives carry less than 1 MiB; "
            "all take {communication_ns}"
        ),
        fix=(
            "Merge them: larger gradient buckets (bucket_cap_mb), coalesced collectives, one "
            "collective for the metrics of a step, every few steps. In tensor parallelism, "
            "decoding has small messages by nature: use the low-latency all-reduce of the engine."
        ),
        refute="Merge two of them. The step must get shorter by about 20 µs.",
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="derived",
        layer="framework",
        effort="config",
        thresholds={
            "small_collectives": above(
                _MANY,
                measure=lambda k: per_step(k, k.small_collectives),
                words="{op} {value} per step",
            ),
            "communication_ns": above(0, told=False),
        },
        references=("NCCL tests, doc/PERFORMANCE.md: latency of small messages",),
        fires=(
            {
                "small_collectives": 153.0,
                "collectives": 160.0,
                "communication_ns": 9e6,
                "span_ns": 100e6,
                "steps": 3.0,
                "warm_up_steps": 0.0,
            },
            {"small_collectives": 51.0, "communication_ns": 2e6, "span_ns": 10e6},
        ),
        silent=(
            {
                "small_collectives": 150.0,
                "communication_ns": 9e6,
                "span_ns": 100e6,
                "steps": 2.0,
                "warm_up_steps": 1.0,
            },
            {"small_collectives": 50.0, "communication_ns": 2e6, "span_ns": 10e6},
        ),
    ),
)
