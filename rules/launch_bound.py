"""Kernels run faster than the host launches them."""

from traceroof.rule import Rule
from traceroof.rules._timelines import QUALITY, TINY_NS, graph_saving, launch_bound, trust

RULES = (
    Rule(
        id="launch-bound",
        topic="host-bound-launch",
        title="Short kernels, launched one by one",
        scope="timeline",
        why=(
            "A launch costs the host a few microseconds in the driver and more in the framework "
            "above it. When the kernel is done sooner than that, the GPU waits for the next one, "
            "and the number of launches decides the time, not the work in them."
        ),
        condition=(
            "median kernel under 10 µs and at least 100 kernels per step that are not in a graph, and "
            "waits for launches, each under 1 ms, of 20 % of the span or more (5 % where the launch "
            "calls take longer than the kernels); kernels with a median under 5 µs are then not "
            "worth a finding of their own"
        ),
        needs=("kernels", "median_kernel_ns", "launch_calls", "late_launch_ns", "idle_launch_ns"),
        uses=(
            "idle_ns",
            "kernels_under_launch",
            "idle_back_to_back_ns",
            "graph_kernels",
            "kernel_time_ns",
            "kernels_per_step",
            "median_launch_ns",
            *QUALITY,
        ),
        when=launch_bound,
        because=(
            "{kernels:,.0f} kernels of {median_kernel_ns} (median) take {kernel_time_ns}[ of "
            "{span_ns}], and for {late_launch_ns} the GPU waits for the host to launch the next "
            "one, for less than 1 ms each time"
        ),
        fix=(
            "Launch less often: fuse chains of small operators (torch.compile), replay the step "
            "as a graph, use foreach or fused optimizers, batch small tensors. A larger batch "
            "gives each launch more work."
        ),
        refute=(
            "Double the batch: if the time per step grows in proportion, the kernels were not "
            "short enough for launches to matter."
        ),
        saves=lambda k, peak: graph_saving(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        trust=trust,
        suppresses=("gpu-idle-share", "small-kernel-swarm"),
        # Making a kernel faster that is over before the next one is launched gains nothing.
        hides={"kernel": lambda k: k.median_ns < TINY_NS},
        thresholds={
            "median_kernel_ns": "< 10 µs",
            "kernels_per_step": ">= 100",
            "late_launch_ns": "with other launch gaps >= 20 % of the span",
        },
        references=(
            "perfxpert and nsys-ai: kernels under 10 µs are launch overhead",
            "Holistic Trace Analysis: kernels shorter than their launch call",
            "NVIDIA blog, Getting Started with CUDA Graphs: launch overhead of short kernels",
        ),
        fires=(
            {
                "span_ns": 10e6,
                "late_launch_ns": 2e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 1000.0,
                "kernels_per_step": 100.0,
                "median_kernel_ns": 5_000.0,
                "launch_calls": 1000.0,
            },
            {
                "span_ns": 84e6,
                "idle_ns": 73e6,
                "late_launch_ns": 72e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 768.0,
                "median_kernel_ns": 6_300.0,
                "launch_calls": 929.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 2e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 100.0,
                "median_kernel_ns": 9_900.0,
                "launch_calls": 100.0,
            },
            {
                "span_ns": 10e6,
                "idle_ns": 2.1e6,
                "late_launch_ns": 1e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 500.0,
                "kernel_time_ns": 2.4e6,
                "median_kernel_ns": 4_800.0,
                "launch_calls": 500.0,
                "median_launch_ns": 5_000.0,
            },
        ),
        silent=(
            {
                "span_ns": 10e6,
                "late_launch_ns": 2e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 1000.0,
                "kernels_per_step": 99.0,
                "median_kernel_ns": 5_000.0,
                "launch_calls": 1000.0,
            },
            {
                "span_ns": 10e6,
                "idle_ns": 1.99e6,
                "late_launch_ns": 1.99e6,
                "idle_launch_ns": 0.0,
                "idle_back_to_back_ns": 0.0,
                "kernels": 100.0,
                "median_kernel_ns": 9_900.0,
                "launch_calls": 100.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 5e6,
                "idle_launch_ns": 0.0,
                "kernels": 99.0,
                "median_kernel_ns": 5_000.0,
                "launch_calls": 99.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 5e6,
                "idle_launch_ns": 0.0,
                "kernels": 200.0,
                "median_kernel_ns": 10_000.0,
                "launch_calls": 200.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 5e6,
                "idle_launch_ns": 0.0,
                "kernels": 393.0,
                "graph_kernels": 356.0,
                "median_kernel_ns": 4_000.0,
                "launch_calls": 42.0,
            },
            {
                "span_ns": 1e9,
                "late_launch_ns": 9e6,
                "idle_launch_ns": 0.0,
                "kernels": 168.0,
                "median_kernel_ns": 4_300.0,
                "launch_calls": 173.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 5e6,
                "idle_launch_ns": 0.0,
                "kernels": 1_000.0,
                "kernels_per_step": 50.0,
                "median_kernel_ns": 4_000.0,
                "launch_calls": 1_000.0,
            },
        ),
    ),
)
