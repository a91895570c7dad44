"""What several rules ask about timelines; columns as in ``traceroof.timeline.figures``."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask

#: Columns that ``trust`` reads.
QUALITY = ("linked_activities", "activities", "span_ns")

#: Columns that ``launch_bound`` and ``graph_saving`` read beside those of ``late_host``.
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
# What remains between two kernels of one graph: 1-2 us on A100 and H200.
GRAPH_GAP_NS = 1_500
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
    idle = k.idle_ns >= MATTERS * k.span_ns
    return np.asanyarray(idle & (k.idle_host_ns >= 0.5 * k.idle_ns))


def _gaps(k: Facts) -> Column:
    """Time in which nothing ran because launches come one by one; a pause of the host is no
    launch. ns."""
    return np.asanyarray(
        k.late_launch_ns + k.idle_launch_ns + np.nan_to_num(k.idle_back_to_back_ns)
    )


def _swarm(k: Facts) -> Mask:
    """Many short kernels, not in a graph: the median under 10 us and a hundred of them per step."""
    number = np.where(np.isnan(k.kernels_per_step), k.kernels, k.kernels_per_step)
    of_graphs = np.nan_to_num(k.graph_kernels) / np.where(k.kernels > 0, k.kernels, np.nan)
    eager = number * (1 - of_graphs)
    return np.asanyarray((k.median_kernel_ns < _SHORT_NS) & (eager >= _MANY))


def launch_bound(k: Facts) -> Mask:
    """Short kernels that the host cannot launch as fast as they run: gaps of a fifth of the span,
    or launch calls (the median, so that one that hung does not count) longer than the kernels."""
    gaps = _gaps(k)
    calls = k.median_launch_ns * k.launch_calls
    outlasts = (calls > k.kernel_time_ns) & (gaps >= MATTERS * k.span_ns)
    return np.asanyarray(_swarm(k) & ((gaps >= 0.2 * k.span_ns) | outlasts))


def graph_saving(k: Facts) -> Column:
    """What a graph of all launches saves at most: the gaps, less what stays between its nodes."""
    return part(np.maximum(_gaps(k) - k.kernels * GRAPH_GAP_NS, 0), k)
