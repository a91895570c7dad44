"""The host does something else."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import GRADES, Rule, at_least
from traceroof.rules._timelines import QUALITY, part, pausing, trust

# One pause that is most of the time, where no steps show that it comes again.
_SINGLE = 0.8


def _trust(k: Facts) -> Column:
    """Where one pause is nearly all, that it comes again is inferred from seeing it once."""
    single = (k.late_gap_ns >= _SINGLE * k.pause_time_ns) & ~(k.steps >= 2)
    return np.asanyarray(trust(k) * np.where(single, GRADES["inferred"] / GRADES["observed"], 1.0))


RULES = (
    Rule(
        id="host-bound",
        topic="host-bound-other",
        title="The GPU waits for the host",
        scope="timeline",
        why=(
            "The queue of the GPU was empty, and the host launched nothing for a millisecond or "
            "longer. It was busy with Python, post-processing or logging, or its thread did not "
            "run. An operator takes the host 10 to 100 µs, so launch overhead is not the cause."
        ),
        condition=(
            "idle for {paused:.0%} of the span or more in waits of a millisecond or longer for "
            "the next launch, for no cause that another rule names, and these are most of the "
            "host's waits"
        ),
        needs=("idle_ns", "idle_host_ns", "pause_time_ns", "late_launch_ns", "span_ns"),
        uses=(
            "idle_pct",
            "pauses",
            "launch_pauses_ns",
            "late_gap_ns",
            "late_gap_host",
            "steps",
            *(name for name in QUALITY if name != "span_ns"),
        ),
        when=lambda k: k.meets("paused"),
        because=(
            "the GPU is idle for {pause_time_ns} of {span_ns} in waits of 1 ms or longer for the host "
            "to launch[, {pauses:,.0f} in all][; the longest is {late_gap_ns} (host: {late_gap_host})]"
        ),
        fix=(
            "Check what the host does in the longest gaps. Move data preparation, "
            "post-processing, logging and checkpoints to another thread or process. If nothing "
            "was recorded, record Python stacks once (with_stack=True). Stalls at random calls "
            "mean a thread that does not run: pin it to cores, and look for other processes, "
            "locks and garbage collection. A single gap may be set-up that comes once: record more "
            "iterations to see."
        ),
        refute=(
            "Pin the process to idle cores and record again. If the gaps stay, they are its own "
            "work."
        ),
        saves=lambda k, peak: part(pausing(k), k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        trust=_trust,
        suppresses=("gpu-idle-share",),
        thresholds={
            "paused": at_least(0.05, measure=pausing, of="span_ns", column="pause_time_ns")
        },
        references=(
            "Holistic Trace Analysis, idle time breakdown: host wait",
            "PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
        ),
        fires=(
            {
                "span_ns": 595e6,
                "idle_ns": 222e6,
                "idle_host_ns": 220e6,
                "pause_time_ns": 214e6,
                "pauses": 34.0,
                "late_launch_ns": 6e6,
                "activities": 777.0,
                "linked_activities": 777.0,
            },
            {
                "span_ns": 100e6,
                "idle_ns": 5e6,
                "idle_host_ns": 5e6,
                "pause_time_ns": 5e6,
                "late_launch_ns": 0.0,
            },
        ),
        silent=(
            {
                "span_ns": 100e6,
                "idle_ns": 50e6,
                "idle_host_ns": 50e6,
                "pause_time_ns": 25e6,
                "launch_pauses_ns": 25e6,
                "late_launch_ns": 25e6,
            },
            {
                "span_ns": 100e6,
                "idle_ns": 40e6,
                "idle_host_ns": 4.9e6,
                "pause_time_ns": 4.9e6,
                "late_launch_ns": 0.0,
            },
        ),
    ),
)
