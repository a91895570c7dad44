"""Launches that wait for their kernels."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Doubt, Rule, above, at_least

_FEW = 20


def _fires(k: Facts) -> Mask:
    return np.asanyarray(k.meets("blocking_pct") & k.meets("kernels"))


RULES = (
    Rule(
        id="blocking-launches",
        topic="blocking-launches",
        title="Every launch waits for its kernel",
        scope="timeline",
        why=(
            "With CUDA_LAUNCH_BLOCKING, HIP_LAUNCH_BLOCKING or AMD_SERIALIZE_KERNEL set, a launch "
            "call returns only after its kernel. The host never runs ahead, nothing overlaps, and "
            "every kernel is followed by a gap: the recording shows a debugging mode, not the "
            "program."
        ),
        condition=(
            "launch calls that return after their kernel has ended hold over {blocking_pct} of the "
            "time of all but the shortest kernels that are not in graphs, of at least {kernels:.0f} "
            "kernels; findings on idle time, copies and communication then say little"
        ),
        needs=("blocking_pct", "kernels", "launch_calls"),
        uses=("launch_time_ns", "idle_ns", "span_ns"),
        when=_fires,
        because=(
            "launch calls return after their kernel for {blocking_pct} of the kernel time[; "
            "{launch_calls:,.0f} launch calls take {launch_time_ns}]"
        ),
        fix=(
            "Unset [nvidia: CUDA_LAUNCH_BLOCKING][amd: HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL and "
            "AMD_SERIALIZE_COPY] and record again before reading anything else."
        ),
        refute=(
            "Print the variables of the job (`env | grep -e BLOCKING -e SERIALIZE`): if none is set, "
            "something else makes launches as long as their kernels."
        ),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        severity="high",
        urgent=_fires,
        doubts=(
            Doubt(
                scope="timeline",
                what="every launch waits for its kernel",
                reads=(),
                columns=("idle_*", "late_*", "pause_time_ns", "exposed_*", "launch_*"),
                factor=lambda k, own: np.full(len(k), 0.2),
            ),
        ),
        thresholds={"blocking_pct": above(90), "kernels": at_least(_FEW)},
        references=(
            "CUDA Programming Guide, CUDA_LAUNCH_BLOCKING: disables asynchronous launches",
            "HIP documentation, debugging: HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL",
        ),
        fires=(
            {"blocking_pct": 100.0, "kernels": 900.0, "launch_calls": 900.0},
            {"blocking_pct": 90.5, "kernels": 20.0, "launch_calls": 20.0},
        ),
        silent=(
            {"blocking_pct": 90.0, "kernels": 900.0, "launch_calls": 900.0},
            {"blocking_pct": 100.0, "kernels": 19.0, "launch_calls": 19.0},
        ),
    ),
)
