"""Atomic operations contend."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._kernels import tunable


def _contends(k: Facts) -> Mask:
    waits = np.fmax(np.fmax(k.stall_lg_throttle, k.stall_long_scoreboard), k.wait_dependency) > 0.3
    return np.asanyarray((k.atomic_requests_pct > 10) & (waits | (k.imbalance_l2_pct >= 5)))


RULES = (
    Rule(
        id="atomics-contention",
        topic="atomics",
        title="Atomic operations contend",
        scope="kernel",
        why=(
            "Atomics and reductions on global memory are executed by the L2 slice that owns the "
            "address, one after another for one address. Many on few addresses queue there while "
            "other slices idle."
        ),
        condition=(
            "atomic and reduction requests above 10 % of the L2 sectors, with L2 slices unevenly "
            "busy (5 % of the time lost) or warps waiting over 30 % for memory"
        ),
        needs=("atomic_requests_pct",),
        uses=(
            "primary_class",
            "atomic_requests",
            "imbalance_l2_pct",
            "stall_lg_throttle",
            "stall_long_scoreboard",
            "wait_dependency",
            "l2_throughput_pct",
        ),
        applies=tunable,
        when=_contends,
        because="atomic and reduction requests are {atomic_requests_pct} of the L2 sectors",
        fix=(
            "Add up in registers, then in the warp ([nvidia: __reduce_add_sync, ]shuffles[amd: , DPP]), then in shared "
            "memory, and let one thread a block do the atomic; private copies of hot counters; "
            "sort by address first where addresses repeat (scatter, embedding gradients)."
        ),
        refute=(
            "Replace the atomics by plain stores in a copy (results wrong): if the time stays, "
            "they do not matter."
        ),
        saves=lambda k, peak: k.atomic_requests_pct / 100,
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={
            "atomic_requests_pct": "> 10",
            "imbalance_l2_pct": ">= 5",
            "stall_lg_throttle": "> 0.3",
            "stall_long_scoreboard": "> 0.3",
            "wait_dependency": "> 0.3",
        },
        references=("NVIDIA CUDA C++ Best Practices Guide: atomics; Nsight Compute memory tables",),
        fires=(
            {"atomic_requests_pct": 10.1, "stall_lg_throttle": 0.31},
            {"atomic_requests_pct": 40.0, "imbalance_l2_pct": 5.0, "stall_lg_throttle": 0.0},
            {"atomic_requests_pct": 20.0, "stall_long_scoreboard": 0.31},
            {"atomic_requests_pct": 20.0, "wait_dependency": 0.31},
        ),
        silent=(
            {"atomic_requests_pct": 10.0, "stall_long_scoreboard": 0.6},
            {"atomic_requests_pct": 40.0, "imbalance_l2_pct": 4.9, "stall_long_scoreboard": 0.3},
            {"atomic_requests_pct": 20.0, "stall_lg_throttle": 0.3},
            {"atomic_requests_pct": 20.0, "wait_dependency": 0.3},
            {"atomic_requests_pct": 40.0},
        ),
    ),
)
