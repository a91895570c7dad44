"""The driver is asked for memory while the program should only compute."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import HOST, QUALITY, off_host, part, trust


def _saves(k: Facts) -> Column:
    # Without steps the second half shows whether it goes on; then all of it counts.
    goes_on = (np.nan_to_num(k.steps) == 0) & (k.late_idle_allocate_ns >= 0.2 * k.idle_allocate_ns)
    charged = np.where(goes_on, k.idle_allocate_ns, k.late_idle_allocate_ns)
    spent = np.where(goes_on, k.allocate_time_ns, k.late_allocate_time_ns)
    return off_host(k, charged, spent)


def _idle(k: Facts) -> Column:
    return part(np.fmax(k.late_idle_allocate_ns, 0), k)


def _fires(k: Facts) -> Mask:
    return np.asanyarray(k.meets("late_allocate_calls") & k.meets("idle_for_memory"))


RULES = (
    Rule(
        id="alloc-in-steady-state",
        topic="allocation",
        title="The program allocates device memory after warm-up",
        scope="timeline",
        why=(
            "cudaMalloc and above all cudaFree may wait for all work on the GPU and block the "
            "host meanwhile. Frameworks cache freed memory to avoid them. Calls after warm-up "
            "mean that this cache overflows, is emptied, or is bypassed."
        ),
        condition=(
            "more than {late_allocate_calls} allocation calls after warm-up (in the second half "
            "if the trace has no steps), and the GPU is idle during such calls for "
            "{idle_for_memory:.1%} of the span or more"
        ),
        needs=(
            "late_allocate_calls",
            "late_allocate_time_ns",
            "idle_allocate_ns",
            "late_idle_allocate_ns",
            "span_ns",
        ),
        uses=(
            "allocate_calls",
            "allocate_time_ns",
            "steps",
            *HOST,
            *(name for name in QUALITY if name != "span_ns"),
        ),
        when=_fires,
        because=(
            "{late_allocate_calls:,.0f} calls that allocate or free device memory take "
            "{late_allocate_time_ns} after warm-up, and the GPU is idle for "
            "{late_idle_allocate_ns} during such calls"
        ),
        fix=(
            "Find what allocates: varying shapes, a memory cache at its limit, "
            "torch.cuda.empty_cache() in the loop, a library with its own workspaces. Pad shapes "
            "to a few sizes, lower the batch, set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, allocate workspaces once."
        ),
        refute=(
            "Record a later window. If it has no such calls, they were warm-up and cost nothing "
            "in the long run."
        ),
        saves=lambda k, peak: _saves(k),
        kind="hard",
        grade="observed",
        layer="framework",
        effort="config",
        risk="memory",
        trust=trust,
        suppresses=("gpu-idle-share",),
        thresholds={
            "late_allocate_calls": above(0),
            "idle_for_memory": at_least(
                0.005,
                measure=_idle,
                column="late_idle_allocate_ns",
                words="{op} {value:.1%} of the span",
            ),
        },
        references=(
            "CUDA Runtime API: cudaMalloc and cudaFree may synchronise",
            "PyTorch documentation, CUDA semantics: memory management, expandable segments",
        ),
        fires=(
            {
                "span_ns": 723e6,
                "late_allocate_calls": 40.0,
                "late_allocate_time_ns": 274e6,
                "allocate_time_ns": 274e6,
                "idle_allocate_ns": 193e6,
                "late_idle_allocate_ns": 193e6,
                "steps": 3.0,
            },
            {
                "span_ns": 100e6,
                "late_allocate_calls": 1.0,
                "late_allocate_time_ns": 0.5e6,
                "idle_allocate_ns": 0.5e6,
                "late_idle_allocate_ns": 0.5e6,
            },
        ),
        silent=(
            {
                "span_ns": 100e6,
                "late_allocate_calls": 0.0,
                "late_allocate_time_ns": 0.0,
                "idle_allocate_ns": 50e6,
                "late_idle_allocate_ns": 0.0,
            },
            {
                "span_ns": 100e6,
                "late_allocate_calls": 90.0,
                "late_allocate_time_ns": 9e6,
                "idle_allocate_ns": 0.49e6,
                "late_idle_allocate_ns": 0.49e6,
            },
        ),
    ),
)
