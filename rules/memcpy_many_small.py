"""Many copies too small for the link."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Rule, above
from traceroof.rules._timelines import part, per_step

# What one copy costs beyond its bytes.
_EACH_NS = 5_000
_MANY = 10


def _saves(k: Facts) -> Column:
    # No more than they take alone and the GPU is idle beside them: a copy that runs under a kernel,
    # or is queued behind one, costs the run nothing.
    seen = k.small_copy_exposed_ns + k.small_copy_gap_ns
    return part(np.fmin(k.small_copies * _EACH_NS, seen), k)


RULES = (
    Rule(
        id="memcpy-many-small",
        topic="input-copy",
        title="Many small copies",
        scope="timeline",
        why=(
            "A copy of a kilobyte takes as long as one of fifty. The call, the start of the "
            "engine and the latency of the link decide. Each copy also costs the host a call."
        ),
        condition=(
            "more than {small_copies} small copies per step (in all if the trace has no steps)"
        ),
        needs=(
            "small_copies",
            "copies",
            "span_ns",
            "small_copy_exposed_ns",
            "small_copy_gap_ns",
        ),
        uses=(
            "steps",
            "warm_up_steps",
            "small_copy_time_ns",
            "h2d_copies",
            "d2h_copies",
            "d2d_copies",
            "copy_bytes",
        ),
        when=lambda k: k.meets("small_copies"),
        because=(
            "{small_copies:,.0f} of {copies:,.0f} copies are smaller than 64 KiB[ (of all copies "
            "{h2d_copies:,.0f} go to the GPU, {d2h_copies:,.0f} to the host, {d2d_copies:,.0f} "
            "stay within the GPU)][; the small ones take {small_copy_time_ns}], and beside them "
            "the GPU is idle for {small_copy_gap_ns}"
        ),
        fix=(
            "Put small tensors into one buffer and copy that. Create constants on the GPU once. "
            "Collate before the transfer. In PyTorch, "
            "DistributedDataParallel(gradient_as_bucket_view=True) removes the copies of "
            "gradients within the GPU."
        ),
        refute=(
            "Join the copies of one step into one. The step must get shorter by the time of the "
            "others and their gaps, 5 µs each at most."
        ),
        saves=lambda k, peak: _saves(k),
        kind="conditional",
        grade="derived",
        layer="framework",
        effort="refactor",
        thresholds={
            # Of less than 64 KiB.
            "small_copies": above(
                _MANY, measure=lambda k: per_step(k, k.small_copies), words="{op} {value} per step"
            )
        },
        references=("RRZE GPU benchmarks: 30 µs for a copy of 1 KB on V100",),
        fires=(
            {
                "small_copies": 33.0,
                "copies": 33.0,
                "steps": 3.0,
                "warm_up_steps": 0.0,
                "span_ns": 10e6,
                "small_copy_gap_ns": 1e6,
                "small_copy_exposed_ns": 0.0,
            },
            {
                "small_copies": 11.0,
                "copies": 20.0,
                "span_ns": 1e6,
                "small_copy_gap_ns": 1e6,
                "small_copy_exposed_ns": 0.0,
            },
        ),
        silent=(
            {
                "small_copies": 40.0,
                "copies": 40.0,
                "steps": 3.0,
                "warm_up_steps": 1.0,
                "span_ns": 10e6,
                "small_copy_gap_ns": 1e6,
                "small_copy_exposed_ns": 0.0,
            },
            {
                "small_copies": 10.0,
                "copies": 500.0,
                "span_ns": 10e6,
                "small_copy_gap_ns": 1e6,
                "small_copy_exposed_ns": 0.0,
            },
        ),
    ),
)
