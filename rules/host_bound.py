"""The host launches too late."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._timelines import LAUNCHES, QUALITY, late_host, launch_bound, part, trust


def _fires(k: Facts) -> Mask:
    # Launches that cannot keep up are launch-bound's; pauses of the host are this rule's.
    told = launch_bound(k) & (k.late_launch_ns > 0.5 * k.idle_host_ns)
    return np.asanyarray(late_host(k) & ~told)


RULES = (
    Rule(
        id="host-bound",
        topic="host-bound-other",
        title="The GPU waits for the host",
        scope="timeline",
        why=(
            "The queue of the GPU was empty and the host had not launched the next work yet: it "
            "was busy with Python, the framework, or something else. The GPU can only be as fast "
            "as the host feeds it."
        ),
        condition=(
            "idle for at least 5 % of the span, at least half of it because the next work was "
            "launched late for no cause that another rule names; not where launch-bound fires, "
            "unless pauses of 1 ms or longer make up half of that"
        ),
        needs=("idle_ns", "idle_host_ns", "launch_calls"),
        uses=(
            "idle_pct",
            "pauses",
            "pause_time_ns",
            "late_gap_ns",
            "late_gap_host",
            "median_launch_delay_ns",
            "median_queue_depth",
            *QUALITY,
            *(name for name in LAUNCHES if name != "launch_calls"),
        ),
        when=_fires,
        because=(
            "the GPU is idle for {idle_ns}[ ({idle_pct})], {idle_host_ns} of it because the host "
            "had not launched the next work[, {pause_time_ns} in pauses of 1 ms or longer][; the "
            "longest such wait is {late_gap_ns} (host: {late_gap_host})]"
        ),
        fix=(
            "See what the host does in the longest gaps: if it launches, torch.compile, graphs, "
            "fewer operators or a larger batch help; if not, move that work out of the loop. Data "
            "preparation, post-processing, logging and garbage collection can go to another "
            "thread or process. If the profiler recorded Python stacks, record once without: they "
            "slow the host down."
        ),
        refute=(
            "Run on a faster core, or record without stacks and shapes: if the idle time does not "
            "fall, the host was not the reason."
        ),
        saves=lambda k, peak: part(k.idle_host_ns, k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        trust=trust,
        suppresses=("gpu-idle-share",),
        thresholds={"idle_ns": ">= 5 % of the span", "idle_host_ns": ">= half of the idle time"},
        references=(
            "Holistic Trace Analysis, idle time breakdown: host wait",
            "PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
        ),
        fires=(
            {
                "span_ns": 10e6,
                "idle_ns": 5e6,
                "idle_host_ns": 5e6,
                "idle_launch_ns": 0.0,
                "pauses": 1.0,
                "pause_time_ns": 2.5e6,
                "late_launch_ns": 2.5e6,
                "launch_calls": 300.0,
                "kernels": 300.0,
                "median_kernel_ns": 5_000.0,
            },
            {"span_ns": 100e6, "idle_ns": 5e6, "idle_host_ns": 2.5e6, "launch_calls": 200.0},
            {
                "span_ns": 595e6,
                "idle_ns": 222e6,
                "idle_host_ns": 221e6,
                "launch_calls": 777.0,
                "activities": 777.0,
                "linked_activities": 777.0,
            },
        ),
        silent=(
            {
                "span_ns": 10e6,
                "idle_ns": 5e6,
                "idle_host_ns": 5e6,
                "idle_launch_ns": 0.0,
                "late_launch_ns": 2.6e6,
                "launch_calls": 300.0,
                "kernels": 300.0,
                "median_kernel_ns": 5_000.0,
            },
            {"span_ns": 100e6, "idle_ns": 4.9e6, "idle_host_ns": 4.9e6, "launch_calls": 200.0},
            {"span_ns": 100e6, "idle_ns": 40e6, "idle_host_ns": 19.9e6, "launch_calls": 200.0},
        ),
    ),
)
