"""The host launches more slowly than the GPU runs."""

from traceroof.rule import Rule, at_least
from traceroof.rules._timelines import LAUNCHES, QUALITY, TINY_NS, launching, part, trust

RULES = (
    Rule(
        id="launch-bound",
        topic="host-bound-launch",
        title="The GPU waits for launches",
        scope="timeline",
        why=(
            "A launch costs the host a few microseconds in the driver and more in the framework "
            "above it. When a kernel ends sooner than that, the GPU waits for the next one. The "
            "number of launches decides the time, not the work in them."
        ),
        condition=(
            "idle for {waits:.0%} of the span or more until the host launched the next work and "
            "the launch took effect, less than a millisecond each time (longer waits count if the "
            "short ones are most of the host's waits); very short kernels are then not worth a "
            "finding of their own"
        ),
        needs=("late_launch_ns", "idle_launch_ns", "launch_calls", "span_ns"),
        uses=(
            "launch_pauses_ns",
            "idle_ns",
            "idle_host_ns",
            *(
                name
                for name in LAUNCHES
                if name not in ("late_launch_ns", "idle_launch_ns", "launch_calls")
            ),
            *(name for name in QUALITY if name != "span_ns"),
        ),
        when=lambda k: k.meets("waits"),
        because=(
            "the GPU waits {late_launch_ns} for the host to launch the next kernel, less than 1 ms "
            "each time[, {launch_pauses_ns} in longer waits between them], and {idle_launch_ns} for "
            "launches under way, of {span_ns}[; {kernels:,.0f} kernels of {median_kernel_ns} (median)]"
        ),
        fix=(
            "Launch less often: replay the step as a graph, fuse chains of small operators "
            "(torch.compile), use foreach or fused optimizers, batch small tensors."
        ),
        refute=(
            "Double the batch. If the time per step grows in proportion, launches were not the "
            "limit. Record without Python stacks, which slow every launch."
        ),
        saves=lambda k, peak: part(launching(k), k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="refactor",
        trust=trust,
        suppresses=("gpu-idle-share", "small-kernel-swarm"),
        # Making a kernel faster that is over before the next one is launched gains nothing.
        hides={"kernel": lambda k: k.median_ns < TINY_NS},
        thresholds={
            "waits": at_least(0.05, measure=launching, of="span_ns", column="late_launch_ns")
        },
        references=(
            "perfxpert and nsys-ai: kernels under 10 µs are launch overhead",
            "Holistic Trace Analysis, idle time breakdown: host wait",
            "NVIDIA blog, Getting Started with CUDA Graphs: launch overhead of short kernels",
        ),
        fires=(
            {
                "span_ns": 84e6,
                "idle_ns": 73e6,
                "late_launch_ns": 54e6,
                "launch_pauses_ns": 9e6,
                "idle_launch_ns": 8.9e6,
                "kernels": 768.0,
                "median_kernel_ns": 6_300.0,
                "launch_calls": 929.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 0.4e6,
                "idle_launch_ns": 0.1e6,
                "launch_calls": 100.0,
            },
        ),
        silent=(
            {
                "span_ns": 10e6,
                "late_launch_ns": 0.4e6,
                "idle_launch_ns": 0.09e6,
                "launch_calls": 100.0,
            },
            {
                "span_ns": 10e6,
                "late_launch_ns": 0.0,
                "idle_launch_ns": 0.49e6,
                "launch_calls": 1_000.0,
            },
        ),
    ),
)
