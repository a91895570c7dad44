"""Communication that no computation hides."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import MATTERS, part, waited


def _transfer(k: Facts) -> Column:
    """Exposed communication less the waiting for other ranks, which is their time (late-rank), and
    less what a slow link takes beyond its like (slow-link)."""
    return part(np.maximum(k.exposed_communication_ns - waited(k), 0), k)


RULES = (
    Rule(
        id="exposed-comm",
        topic="exposed-communication",
        title="Communication runs while nothing computes",
        scope="timeline",
        why=(
            "The kernels after a collective need its result, or no other work was queued beside "
            "it. Whatever the speed of the links, this time is saved once something computes "
            "meanwhile."
        ),
        condition=(
            "communication (more than {communication_ns}) runs alone for "
            "{exposed_communication_pct:.0%} of the span or more, without the time spent waiting "
            "for other ranks where that is known"
        ),
        needs=("exposed_communication_ns", "exposed_communication_pct", "communication_ns"),
        uses=(
            "span_ns",
            "waiting_ns",
            "slow_link_ns",
            "collective_excess_ns",
            "start_skew_ns",
            "collectives",
            "collectives_per_step",
            "message_bytes",
        ),
        applies=lambda k: k.meets("communication_ns"),
        when=lambda k: k.meets("exposed_communication_pct"),
        because=(
            "communication takes {communication_ns}, {exposed_communication_ns} of it "
            "({exposed_communication_pct} of the time) with nothing else running[; waiting for "
            "other ranks: {waiting_ns}][; lost to a slow link: {slow_link_ns}]"
        ),
        fix=(
            "Start collectives earlier and beside computation: gradient buckets during backward, "
            "prefetched parameter shards, asynchronous tensor parallelism. Send less: lower "
            "precision, no_sync with gradient accumulation. If only one rank was recorded, record "
            "all of them first: waiting for a slow rank looks like communication."
        ),
        refute=(
            "Remove the collectives in a test run. The step must get shorter by about this time."
        ),
        saves=lambda k, peak: _transfer(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        suppresses=("comm-overlap-low",),
        thresholds={
            "communication_ns": above(0, told=False),
            "exposed_communication_pct": at_least(
                MATTERS, measure=_transfer, words="{op} {value:.0%} without waiting"
            ),
        },
        references=(
            "TraceLens: exposed communication above 5 %",
            "Holistic Trace Analysis: communication computation overlap",
            "PyTorch documentation, DistributedDataParallel: buckets and overlap",
        ),
        fires=(
            {
                "span_ns": 100e6,
                "communication_ns": 30e6,
                "exposed_communication_ns": 5e6,
                "exposed_communication_pct": 5.0,
            },
            {
                "span_ns": 620e6,
                "communication_ns": 481e6,
                "exposed_communication_ns": 481e6,
                "exposed_communication_pct": 77.5,
                "waiting_ns": 243e6,
            },
        ),
        silent=(
            {
                "span_ns": 100e6,
                "communication_ns": 30e6,
                "exposed_communication_ns": 4.9e6,
                "exposed_communication_pct": 4.9,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 30e6,
                "exposed_communication_ns": 30e6,
                "exposed_communication_pct": 30.0,
                "waiting_ns": 25.1e6,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 30e6,
                "exposed_communication_ns": 30e6,
                "exposed_communication_pct": 30.0,
                "waiting_ns": 5e6,
                "slow_link_ns": 20.1e6,
            },
            {
                "span_ns": 100e6,
                "communication_ns": 0.0,
                "exposed_communication_ns": 0.0,
                "exposed_communication_pct": 0.0,
            },
        ),
    ),
)
