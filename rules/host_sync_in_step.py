"""The host waits for the GPU, and then the GPU for the host."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, above, at_least
from traceroof.rules._timelines import QUALITY, part, trust


def _fires(k: Facts) -> Mask:
    return k.meets("sync_calls") & k.meets("idle_sync_ns") & k.meets("gaps_after_sync")


def _waits(k: Facts) -> Column:
    waits = np.nan_to_num(k.sync_calls) + np.nan_to_num(k.copy_calls)
    return np.asanyarray(waits + np.nan_to_num(k.pageable_copies))


RULES = (
    Rule(
        id="host-sync-in-step",
        topic="sync",
        title="The host waits for the GPU, which then goes idle",
        scope="timeline",
        why=(
            "While the host waits for a result it launches nothing, so the queue empties. When it "
            "continues, the GPU has nothing to do until the next launch arrives. A wait that ends "
            "while work is still queued costs nothing and is not counted."
        ),
        condition=(
            "{gaps_after_sync} gaps or more after the host waited for the GPU (more than {sync_calls} "
            "waits) take {idle_sync_ns:.0%} of the span or more; each counts up to the length of "
            "the host's wait"
        ),
        needs=("idle_sync_ns", "sync_calls"),
        uses=(
            "gaps_after_sync",
            "sync_time_ns",
            "syncs_per_step",
            "copy_calls",
            "scalar_copies",
            "pageable_copies",
            "sync_operator",
            *QUALITY,
        ),
        when=_fires,
        because=(
            "the GPU goes idle[ {gaps_after_sync:,.0f} times] after the host has waited for it, "
            "for {idle_sync_ns} in all (calls that wait: synchronisations {sync_calls:,.0f}[, blocking "
            "copies {copy_calls:,.0f}][, copies of pageable memory {pageable_copies:,.0f}]"
            "[; copies of 4 KiB or less to the host {scalar_copies:,.0f}])"
            "[; most of it after {sync_operator}]"
        ),
        fix=(
            "Keep values on the GPU: read results back rarely and not in each step, copy "
            "asynchronously from and to pinned memory, let streams wait for events instead of the "
            "host, and synchronise the device only to measure. In PyTorch: avoid `.item()`, "
            "`.cpu()`, `print` and `if` on a tensor, and boolean masks and `nonzero`, whose size "
            "is read back; use non_blocking=True. torch.cuda.set_sync_debug_mode('warn') names "
            "the places."
        ),
        refute=("Remove one of the waits. If its gap stays, the host was late for another reason."),
        saves=lambda k, peak: part(k.idle_sync_ns, k),
        kind="hard",
        grade="observed",
        layer="model",
        effort="one-line",
        trust=trust,
        thresholds={
            "sync_calls": above(0, measure=_waits, words="with other waits {op} {value}"),
            "idle_sync_ns": at_least(0.01, of="span_ns"),
            # Once or twice is no habit of a step.
            "gaps_after_sync": at_least(3, or_unknown=True),
        },
        references=(
            "Nsight Systems expert rule cuda_api_sync",
            "PyTorch performance tuning guide: avoid unnecessary CPU-GPU synchronization",
        ),
        fires=(
            {"span_ns": 100e6, "idle_sync_ns": 1e6, "sync_calls": 1.0, "gaps_after_sync": 3.0},
            {
                "span_ns": 1.94e9,
                "idle_sync_ns": 383e6,
                "sync_calls": 6_866.0,
                "scalar_copies": 3_176.0,
                "gaps_after_sync": 6_000.0,
            },
            {"span_ns": 100e6, "idle_sync_ns": 5e6, "sync_calls": 0.0, "pageable_copies": 9.0},
        ),
        silent=(
            {"span_ns": 100e6, "idle_sync_ns": 0.99e6, "sync_calls": 1_000.0},
            {"span_ns": 100e6, "idle_sync_ns": 5e6, "sync_calls": 0.0, "copy_calls": 0.0},
            {"span_ns": 9e6, "idle_sync_ns": 0.4e6, "sync_calls": 2.0, "gaps_after_sync": 2.0},
        ),
    ),
)
