"""What several rules ask about timelines; columns as in ``traceroof.timeline.figures``."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Threshold, at_least, below

#: Columns that ``trust`` reads.
QUALITY = ("linked_activities", "activities", "span_ns")

#: Columns that ``waited`` and ``spread`` read beside exposed_communication_ns.
WAITS = ("waiting_ns", "slow_link_ns", "collective_excess_ns", "start_skew_ns")

#: Columns that ``short_launches`` and ``graph_saving`` read beside those of ``late_host``.
LAUNCHES = (
    "idle_launch_ns",
    "idle_back_to_back_ns",
    "late_launch_ns",
    "kernels",
    "graph_kernels",
    "median_kernel_ns",
    "kernel_time_ns",
    "kernels_per_step",
    "launch_calls",
    "median_launch_ns",
)

# Idle time below this share of the span is not worth a finding on its causes (TensorBoard plug-in).
MATTERS = 0.05
# A kernel shorter than this is dominated by launching it (nsys-ai, perfxpert: 10 us).
_SHORT_NS = 10_000
# A kernel that only launching it decides (HTA: shorter than its launch call; 2-5 us).
TINY_NS = 5_000
_MANY = 100


def trust(k: Facts) -> Column:
    """How far the causes of idle time can be relied on: launches that are not in the file leave
    gaps unexplained. That the profiler itself makes gaps is ``run-profiler-overhead``'s to doubt."""
    linked = np.where(k.activities > 0, k.linked_activities / k.activities, 1.0)
    return np.asanyarray(np.where(np.isnan(linked), 1.0, np.clip(linked, 0.1, 1.0)))


def part(column: Column, k: Facts) -> Column:
    """A time as a share of the span; 0 where it is unknown."""
    return np.asanyarray(np.nan_to_num(column) / k.span_ns)


def per_step(k: Facts, count: Column) -> Column:
    """A count per step, warm-up included; the whole count where the trace has no steps."""
    steps = np.nan_to_num(k.steps) + np.nan_to_num(k.warm_up_steps)
    return np.asanyarray(count / np.maximum(steps, 1))


def late_host(k: Facts) -> Mask:
    """The GPU is idle for long, mostly because the host launches too late. Reads span_ns, idle_ns,
    idle_host_ns."""
    return k.meets("idle_ns") & k.meets("idle_host_ns")


#: Its thresholds.
LATE_HOST: Mapping[str, Threshold] = {
    "idle_ns": at_least(MATTERS, of="span_ns"),
    "idle_host_ns": at_least(0.5, of="idle_ns"),
}


def launching(k: Facts) -> Column:
    """Time in which nothing ran because the host launches one by one: waits under 1 ms and the
    launches themselves; where these are most of what the host takes, its longer waits too. ns."""
    return np.asanyarray(k.late_launch_ns + k.idle_launch_ns + np.nan_to_num(k.launch_pauses_ns))


def pausing(k: Facts) -> Column:
    """Time in which nothing ran because the host did something else for 1 ms or longer, where that
    is most of what it takes. ns."""
    return np.asanyarray(np.where(np.isnan(k.launch_pauses_ns), k.pause_time_ns, 0.0))


#: Columns that ``off_host`` reads.
HOST = ("host_part_ns", "idle_launch_ns")


def off_host(k: Facts, charged: Column, spent: Column) -> Column:
    """What is saved at most where the host no longer spends some time, as a share of the span: that
    time, as far as the GPU waits for the host at all.

    charged: the idle time that lies beside it. The host gets ahead by all of it, so that it shortens
    waits that come later, and other waits of the same gap.
    """
    waits = np.nan_to_num(k.host_part_ns) + np.nan_to_num(k.idle_launch_ns)
    return part(np.fmax(charged, np.minimum(np.nan_to_num(spent), waits)), k)


def waited(k: Facts) -> Column:
    """Exposed communication that has a cause of its own, as far as it shows: waiting for other ranks,
    known from their recordings, or from equal collectives that take different times; the first one
    of all; and what a slow link takes beyond links like it. ns."""
    waits = np.nan_to_num(k.waiting_ns) + np.nan_to_num(k.slow_link_ns)
    known = np.fmax(waits, np.nan_to_num(spread(k)))
    return np.asanyarray(
        np.minimum(known + np.nan_to_num(k.start_skew_ns), k.exposed_communication_ns)
    )


def spread(k: Facts) -> Column:
    """What equal collectives take beyond the fastest of them, where that is half of all exposed
    communication: then they wait. ns."""
    half = k.collective_excess_ns >= 0.5 * k.exposed_communication_ns
    return np.asanyarray(np.where(half, k.collective_excess_ns, 0.0))


def _gaps(k: Facts) -> Column:
    """Time in which nothing ran because launches come one by one; a pause of the host is no
    launch. ns."""
    return np.asanyarray(k.late_launch_ns + k.idle_launch_ns)


def _eager(k: Facts) -> Column:
    """Kernels of a step (of the trace where it has no steps) that are not in a graph."""
    number = np.where(np.isnan(k.kernels_per_step), k.kernels, k.kernels_per_step)
    of_graphs = np.nan_to_num(k.graph_kernels) / np.where(k.kernels > 0, k.kernels, np.nan)
    return np.asanyarray(number * (1 - of_graphs))


def short_launches(k: Facts) -> Mask:
    """Many short kernels that the host cannot launch as fast as they run: gaps of a fifth of the
    span, or launch calls (the median, so that one that hung does not count) longer than the
    kernels."""
    swarm = k.meets("median_kernel_ns") & k.meets("kernels_per_step")
    outlasts = k.meets("kernel_time_ns") & k.meets("launch_gaps")
    return swarm & (k.meets("late_launch_ns") | outlasts)


#: Its thresholds.
SHORT_LAUNCHES: Mapping[str, Threshold] = {
    "median_kernel_ns": below(_SHORT_NS),
    "kernels_per_step": at_least(_MANY, measure=_eager, words="{op} {value} not in a graph"),
    "late_launch_ns": at_least(
        0.2,
        measure=_gaps,
        of="span_ns",
        words="with other launch gaps {op} {value:.0%} of the span",
    ),
    "launch_gaps": at_least(
        MATTERS,
        column="late_launch_ns",
        measure=_gaps,
        of="span_ns",
        words="or {op} {value:.0%} with slow launch calls",
    ),
    "kernel_time_ns": below(
        1, of=lambda k: k.median_launch_ns * k.launch_calls, words="or less than the launch calls"
    ),
}


def untold(thresholds: Mapping[str, Threshold]) -> dict[str, Threshold]:
    """The thresholds of another rule's condition: they are not what this rule's evidence shows."""
    return {name: replace(one, told=False) for name, one in thresholds.items()}


def graph_saving(k: Facts) -> Column:
    """What a graph of all launches saves at most: the waits for launches, and their overhead."""
    return part(_gaps(k), k)
