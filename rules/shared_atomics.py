"""Atomics on shared memory queue behind each other."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import tunable
from traceroof.rules._least import KEPT, beyond_kept

_WAITS = ("stall_short_scoreboard", "stall_mio_throttle")


def _queues(k: Facts) -> Mask:
    waits = k.meets("stall_short_scoreboard") | k.meets("stall_mio_throttle")
    busy = k.meets("shared_memory_busy_pct") | k.meets("l1_throughput_pct")
    return np.asanyarray(k.meets("shared_atomic_wavefronts_per_request") & (waits | busy))


def _likely(k: Facts, peak: Attainable) -> Column:
    # One pass for each atomic is what stays, as long as the warps wait or the path is busy.
    spared = 1 - 1 / k.shared_atomic_wavefronts_per_request
    waits = np.fmax(k.stall_short_scoreboard, k.stall_mio_throttle)
    path = np.fmax(k.shared_memory_busy_pct, k.l1_throughput_pct) / 100
    return np.asanyarray(np.fmin(spared * np.fmax(waits, path), beyond_kept(k, peak)))


_QUEUE = {"shared_atomic_wavefronts_per_request": 12.0, "stall_short_scoreboard": 0.4}

RULES = (
    Rule(
        id="shared-atomics-contention",
        topic="atomics",
        title="Atomics on shared memory queue behind each other",
        scope="kernel",
        why=(
            "Threads of a warp that update one word of shared memory are served one after another, "
            "each in a pass of its own. A histogram whose values cluster in few bins makes a warp "
            "take up to 32 passes for one instruction."
        ),
        condition=(
            "an atomic on shared memory takes {shared_atomic_wavefronts_per_request} passes or more, "
            "and warps wait for shared memory for more than {stall_short_scoreboard:.0%} of their "
            "time (short scoreboard, or MIO throttle, {stall_mio_throttle:.0%}), or the path is busy: "
            "shared memory {shared_memory_busy_pct}, L1 {l1_throughput_pct}; device memory is used "
            "below {kernel_dram_pct}"
        ),
        needs=("shared_atomic_wavefronts_per_request",),
        uses=(
            "primary_class",
            "shared_atomic_requests",
            "shared_memory_busy_pct",
            "l1_throughput_pct",
            *_WAITS,
            *KEPT,
        ),
        applies=lambda k: np.asanyarray(tunable(k) & k.meets("kernel_dram_pct")),
        when=_queues,
        because=(
            "an atomic on shared memory takes {shared_atomic_wavefronts_per_request:.1f} passes[; "
            "warps wait for shared memory {stall_short_scoreboard:.0%} of the time]"
        ),
        fix=(
            "Keep several copies of the bins for each block, one per warp or interleaved by "
            "lane, and "
            "add them up at the end. Count runs of equal values in a register before the atomic, or "
            "let the lanes with one value elect a leader (__match_any_sync)."
        ),
        refute=(
            "Run it on evenly spread values. If the passes fall to one and the time stays, the "
            "atomics do not matter."
        ),
        saves=beyond_kept,
        likely=_likely,
        kind="conditional",
        grade="observed",
        layer="operator",
        suppresses=("smem-bank-conflict", "stall-short-scoreboard", "stall-mio-throttle"),
        thresholds={
            "shared_atomic_wavefronts_per_request": at_least(4),
            "stall_short_scoreboard": above(0.3),
            "stall_mio_throttle": above(0.3),
            "shared_memory_busy_pct": at_least(BUSY_PCT),
            "l1_throughput_pct": at_least(BUSY_PCT),
            "kernel_dram_pct": below(BUSY_PCT, or_unknown=True),
        },
        references=(
            "NVIDIA blog: GPU Pro Tip, Fast Histograms Using Shared Atomics on Maxwell",
            "Nsight Compute memory tables: shared memory, wavefronts of atomics",
        ),
        fires=(
            _QUEUE,
            {"shared_atomic_wavefronts_per_request": 4.0, "stall_mio_throttle": 0.31},
            {"shared_atomic_wavefronts_per_request": 8.0, "l1_throughput_pct": 60.0},
            {"shared_atomic_wavefronts_per_request": 8.0, "shared_memory_busy_pct": 60.0},
        ),
        silent=(
            {**_QUEUE, "shared_atomic_wavefronts_per_request": 3.9},
            {**_QUEUE, "stall_short_scoreboard": 0.3},
            {**_QUEUE, "kernel_dram_pct": 60.0},
            # One pass each: values are spread.
            {**_QUEUE, "shared_atomic_wavefronts_per_request": 1.0, "l1_throughput_pct": 90.0},
        ),
    ),
)
