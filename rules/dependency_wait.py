"""Work that was launched in time and could not start."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import QUALITY, part, trust


def _waits(k: Facts) -> Column:
    """Queued and held, as a share of what is recorded. Before the part that is judged, too."""
    return np.asanyarray(
        np.fmax(k.idle_dependency_ns / k.span_ns, k.start_wait_ns / k.whole_span_ns)
    )


RULES = (
    Rule(
        id="dependency-wait",
        topic="dependency-wait",
        title="Work is queued behind an event or another stream",
        scope="timeline",
        why=(
            "The host launched the next kernel in time, but the GPU did not start it: its stream "
            "waited for an event that another stream, another device, or the host had not reached. "
            "Nothing else was queued meanwhile. The host is not late, and a faster host or a graph "
            "does not shorten this."
        ),
        condition=(
            "idle for {held:.0%} of the span or more while the next work was queued and held, other "
            "than by a copy or a collective; a wait at the very start of the recording, for work "
            "from before it, is told but is no saving"
        ),
        needs=("idle_dependency_ns", "span_ns"),
        uses=(
            "idle_ns",
            "start_wait_ns",
            "whole_span_ns",
            *(name for name in QUALITY if name != "span_ns"),
        ),
        when=lambda k: k.meets("held"),
        because=(
            "the GPU is idle for {idle_dependency_ns} while the next work is queued and held by an "
            "event, another stream or another device[; at the very start it waits {start_wait_ns} "
            "of the recording's {whole_span_ns} for work from before the recording]"
        ),
        fix=(
            "See which event the next kernel of the longest gaps waits for (cudaStreamWaitEvent, "
            "hipStreamWaitEvent before its launch), and what records that event. Record it earlier, "
            "wait for less, or give the stream other work. A wait at the start of the recording "
            "needs nothing: record a few more steps."
        ),
        refute="Remove the wait in a test: if the kernel starts as late, it waited for something else.",
        saves=lambda k, peak: part(k.idle_dependency_ns - np.nan_to_num(k.start_wait_ns), k),
        kind="hard",
        grade="derived",
        layer="framework",
        effort="refactor",
        trust=trust,
        suppresses=("gpu-idle-share",),
        thresholds={
            "held": at_least(
                0.05,
                measure=_waits,
                column="idle_dependency_ns",
                words="{op} {value:.0%} of the span",
            )
        },
        references=("CUDA Runtime API: cudaStreamWaitEvent",),
        fires=(
            {
                "span_ns": 980e6,
                "whole_span_ns": 980e6,
                "idle_dependency_ns": 490e6,
                "start_wait_ns": 490e6,
            },
            {
                "span_ns": 100e6,
                "whole_span_ns": 100e6,
                "idle_dependency_ns": 5e6,
                "start_wait_ns": 0.0,
            },
            {
                "span_ns": 10e6,
                "whole_span_ns": 474e6,
                "idle_dependency_ns": 0.1e6,
                "start_wait_ns": 463e6,
            },
        ),
        silent=(
            {
                "span_ns": 100e6,
                "whole_span_ns": 100e6,
                "idle_dependency_ns": 4.9e6,
                "start_wait_ns": 0.0,
            },
            {
                "span_ns": 100e6,
                "whole_span_ns": 100e6,
                "idle_dependency_ns": 0.0,
                "start_wait_ns": 0.0,
            },
        ),
    ),
)
