"""Work that was launched in time and could not start."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import MATTERS, QUALITY, part, trust


def _held(k: Facts) -> Column:
    """Queued and held, without the wait at the start where that is judged too. ns."""
    start = np.where(k.span_ns < k.whole_span_ns, 0.0, np.nan_to_num(k.start_wait_ns))
    return np.asanyarray(np.maximum(k.idle_dependency_ns - start, 0.0))


_WAITS = {"span_ns": 100e6, "whole_span_ns": 100e6}

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
            "than by a copy or a collective, and other than at the very start of the recording"
        ),
        needs=("idle_dependency_ns", "start_wait_ns", "whole_span_ns", "span_ns"),
        uses=("idle_ns", *(name for name in QUALITY if name != "span_ns")),
        when=lambda k: k.meets("held"),
        because=(
            "the GPU is idle for {idle_dependency_ns} of {span_ns} while the next work is queued and "
            "held by an event, another stream or another device"
        ),
        fix=(
            "See which event the next kernel of the longest gaps waits for (cudaStreamWaitEvent, "
            "hipStreamWaitEvent before its launch), and what records that event. Record it earlier, "
            "wait for less, or give the stream other work."
        ),
        refute="Remove the wait in a test: if the kernel starts as late, it waited for something else.",
        saves=lambda k, peak: part(_held(k), k),
        kind="hard",
        grade="derived",
        layer="framework",
        effort="refactor",
        trust=trust,
        suppresses=("gpu-idle-share",),
        thresholds={
            "held": at_least(
                MATTERS,
                measure=_held,
                column="idle_dependency_ns",
                of="span_ns",
                words="{op} {value:.0%} of the span without the start",
            )
        },
        references=("CUDA Runtime API: cudaStreamWaitEvent",),
        fires=(
            {**_WAITS, "idle_dependency_ns": 5e6, "start_wait_ns": 0.0},
            {**_WAITS, "idle_dependency_ns": 60e6, "start_wait_ns": 20e6},
            {**_WAITS, "whole_span_ns": 300e6, "idle_dependency_ns": 5e6, "start_wait_ns": 200e6},
        ),
        silent=(
            {**_WAITS, "idle_dependency_ns": 4.9e6, "start_wait_ns": 0.0},
            {**_WAITS, "idle_dependency_ns": 24e6, "start_wait_ns": 20e6},
        ),
    ),
    Rule(
        id="wait-at-start",
        topic="dependency-wait",
        title="The recording begins with a wait for work from before it",
        scope="timeline",
        why=(
            "The first kernels were launched early and started late, while nothing that was recorded "
            "ran: they were queued behind an event of work that the recording does not hold. The "
            "program itself does not lose that time."
        ),
        condition=(
            "the longest gap in which the next work was queued and held lies before nearly all of the "
            "work, is most of such waiting, and takes {start:.0%} of the recording or more; from a quarter on, what follows is "
            "judged alone"
        ),
        needs=("start_wait_ns", "whole_span_ns"),
        when=lambda k: k.meets("start"),
        because=(
            "for {start_wait_ns} of the recording's {whole_span_ns} the first work is queued behind "
            "work from before the recording; the host is not late"
        ),
        fix=(
            "Nothing in the program: leave the start out, and record a few more steps. If it comes "
            "in each of them, see which event the stream waits for (cudaStreamWaitEvent, "
            "hipStreamWaitEvent) and what records it."
        ),
        refute="Record several steps: if each begins with such a wait, it belongs to the program.",
        kind="hard",
        grade="derived",
        layer="framework",
        effort="config",
        suppresses=("gpu-idle-share",),
        thresholds={"start": at_least(MATTERS, column="start_wait_ns", of="whole_span_ns")},
        references=("CUDA Runtime API: cudaStreamWaitEvent",),
        fires=(
            {"start_wait_ns": 463e6, "whole_span_ns": 474e6},
            {"start_wait_ns": 5e6, "whole_span_ns": 100e6},
        ),
        silent=(
            {"start_wait_ns": 4.9e6, "whole_span_ns": 100e6},
            {"start_wait_ns": 0.0, "whole_span_ns": 100e6},
        ),
    ),
)
