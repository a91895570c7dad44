"""Collectives that take much of the kernel time, in a summary without a timeline."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(k.summary_collective_ns / k.time_ns)


# How sure the saving is where computation could hide all of the communication.
_HIDDEN = 0.4


def _trust(k: Facts) -> Column:
    """The surer, the more of the communication is longer than all that could hide it."""
    exposed = np.fmax(1 - k.summary_compute_ns / k.summary_collective_ns, 0)
    return np.asanyarray(_HIDDEN + (1 - _HIDDEN) * exposed)


_MOST = {
    "summary_collectives": 142.0,
    "summary_collective_ns": 917e6,
    "summary_compute_ns": 74e6,
    "summary_longest_collective_ns": 382e6,
    "time_ns": 991e6,
}

RULES = (
    Rule(
        id="collectives-take-much",
        topic="exposed-communication",
        title="Collectives take much of the kernel time",
        scope="run",
        why=(
            "A collective ends when the last rank has entered it and the data have crossed the "
            "links. A summary does not show what ran beside it: at most as much as the other "
            "kernels take is hidden, and what is longer than the others by far is waiting."
        ),
        condition=(
            "a summary without a timeline, in which collectives take {summary_collective_ns:.0%} of "
            "the kernel time or more"
        ),
        needs=("summary_collectives", "summary_collective_ns", "summary_compute_ns", "time_ns"),
        uses=("summary_longest_collective_ns",),
        # A timeline tells what computation hides.
        applies=lambda k: ~np.isnan(k.summary_collectives),
        when=lambda k: k.meets("summary_collective_ns"),
        because=(
            "{summary_collectives:,.0f} collectives take {summary_collective_ns}, all other kernels "
            "{summary_compute_ns}, which is the most that can hide them"
            "[; the longest takes {summary_longest_collective_ns}]"
        ),
        fix=(
            "Record a timeline of all ranks ([nvidia: nsys profile][amd: rocprofv3 --sys-trace] on "
            "each): it shows what is hidden and what is waiting for a late rank. Then start "
            "collectives earlier, beside computation, and send less."
        ),
        refute=(
            "Leave out the collectives in a test run. The run must get shorter by what they take "
            "beyond the other kernels, or more."
        ),
        saves=_saves,
        trust=_trust,
        kind="conditional",
        grade="inferred",
        layer="framework",
        effort="refactor",
        thresholds={"summary_collective_ns": at_least(0.2, of="time_ns")},
        references=("Holistic Trace Analysis: early ranks wait inside collectives",),
        fires=(
            _MOST,
            {
                "summary_collectives": 64.0,
                "summary_collective_ns": 20e6,
                "summary_compute_ns": 80e6,
                "time_ns": 100e6,
            },
        ),
        silent=({**_MOST, "summary_collective_ns": 190e6}, {"time_ns": 991e6}),
    ),
)
