"""Ranks that begin to record at different times."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Doubt, Rule, at_least


def _remains(k: Facts, own: Facts) -> Column:
    return np.asanyarray(1 - np.nan_to_num(k.start_skew_ns / k.whole_span_ns))


RULES = (
    Rule(
        id="recording-skew",
        topic="recording-skew",
        title="The first collective waits for a rank that does not record yet",
        scope="timeline",
        why=(
            "Profilers do not start on all ranks at once. The rank that starts first enters its "
            "first collective and waits there until the last one has started. That time is part of "
            "the recording, not of the program."
        ),
        condition=(
            "the first collective of a recording takes at least ten times as long as its equals "
            "and at least a millisecond, and the excess is {skew:.0%} of the recording or more; "
            "it is "
            "left out of exposed communication, and where it is most of the recording, what follows "
            "is judged alone"
        ),
        needs=("start_skew_ns", "whole_span_ns"),
        uses=("collectives", "communication_ns"),
        when=lambda k: k.meets("skew"),
        because=(
            "the first of {collectives:,.0f} collectives takes {start_skew_ns} longer than equal "
            "ones, in a recording of {whole_span_ns}"
        ),
        fix=(
            "Put a barrier in front of the profiler's start, or let it skip a step "
            "(torch.profiler.schedule with wait and warm-up). There is nothing to gain in the program."
        ),
        refute="Record later steps on all ranks: if the first collective is as long, a rank is late.",
        kind="hard",
        grade="derived",
        layer="framework",
        effort="config",
        severity="info",
        # Most of the recording is no work of the program: nothing else is worth reading first.
        urgent=lambda k: k.start_skew_ns >= 0.5 * k.whole_span_ns,
        doubts=(
            Doubt(
                scope="timeline",
                what="ranks began to record at different times",
                reads=("start_skew_ns", "whole_span_ns"),
                columns=("exposed_communication_ns",),
                factor=_remains,
            ),
        ),
        thresholds={"skew": at_least(0.05, column="start_skew_ns", of="whole_span_ns")},
        references=("Holistic Trace Analysis: early ranks wait inside collectives",),
        fires=(
            {"start_skew_ns": 17e9, "whole_span_ns": 18e9, "collectives": 601.0},
            {"start_skew_ns": 5e6, "whole_span_ns": 100e6, "collectives": 9.0},
        ),
        silent=(
            {"start_skew_ns": 4.9e6, "whole_span_ns": 100e6, "collectives": 9.0},
            {"start_skew_ns": 0.0, "whole_span_ns": 100e6, "collectives": 9.0},
        ),
    ),
)
