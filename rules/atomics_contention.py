"""Atomic operations contend."""

from functools import reduce

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, above, at_least, below
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, tunable
from traceroof.rules._least import KEPT, beyond_kept

# Warps that wait for memory; AMD counts dependency waits instead of stall reasons.
_WAITS = ("stall_lg_throttle", "stall_long_scoreboard", "wait_dependency")


def _wait(k: Facts) -> Mask:
    return np.asanyarray(reduce(np.logical_or, [k.meets(name) for name in _WAITS]))


def _contends(k: Facts) -> Mask:
    return k.meets("atomic_requests_pct") & (_wait(k) | k.meets("imbalance_l2_pct"))


def _waits(k: Facts) -> Column:
    memory = np.fmax(k.stall_long_scoreboard, k.stall_lg_throttle)
    return np.asanyarray(np.fmax(memory, k.wait_dependency))


_SCATTERS = {
    "name_scatter": 1.0,
    "achieved_occupancy_pct": 86.0,
    "busiest_pct": 20.0,
    "stall_long_scoreboard": 0.7,
}

RULES = (
    Rule(
        id="atomics-contention",
        topic="atomics",
        title="Atomic operations contend",
        scope="kernel",
        why=(
            "The L2 slice that owns an address executes atomics and reductions on it one after "
            "another. Many atomics on few addresses queue there while other slices are idle."
        ),
        condition=(
            "atomic and reduction requests are more than {atomic_requests_pct} of the L2 sectors, "
            "and either the L2 slices are unevenly busy ({imbalance_l2_pct} of the time lost) or "
            "warps wait for memory for more than {stall_long_scoreboard:.0%} of their time (long "
            "scoreboard or LG throttle; {stall_lg_throttle:.0%}; on AMD dependency waits, "
            "{wait_dependency:.0%})"
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
            *KEPT,
        ),
        applies=tunable,
        when=_contends,
        because="atomic and reduction requests are {atomic_requests_pct} of the L2 sectors",
        fix=(
            "Add up in registers, then in the warp ([nvidia: __reduce_add_sync, ]shuffles[amd: , "
            "DPP]), then in shared memory, and let one thread per block do the atomic. Use "
            "private copies of hot counters. Sort by address first where addresses repeat "
            "(scatter, embedding gradients)."
        ),
        refute=(
            "Replace the atomics by plain stores in a copy (the results are then wrong). If the "
            "time stays, the atomics do not matter."
        ),
        # Their share of the requests is no share of the time: each may queue for long.
        saves=beyond_kept,
        likely=lambda k, peak: np.asanyarray(
            np.minimum(beyond_kept(k, peak), k.atomic_requests_pct / 100)
        ),
        kind="conditional",
        grade="observed",
        layer="operator",
        thresholds={
            "atomic_requests_pct": above(10),
            "imbalance_l2_pct": at_least(5),
            **dict.fromkeys(_WAITS, above(0.3)),
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
    Rule(
        id="atomics-per-element",
        topic="atomics",
        title="Nearly every load is followed by a global atomic",
        scope="kernel",
        why=(
            "An atomic on global memory travels to the L2 slice that owns its address and waits its "
            "turn there. One for every element makes the slowest path of the memory system the "
            "path of all data, however few bytes it moves."
        ),
        condition=(
            "at least {atomic_requests:.0%} as many atomic or reduction requests as global loads; "
            "nothing at its wall"
        ),
        needs=("atomic_requests", "global_load_requests"),
        uses=(*STATE, "stall_long_scoreboard", "stall_lg_throttle", "l2_hit_pct", *KEPT),
        applies=has_headroom,
        when=lambda k: k.meets("atomic_requests") & k.meets("any"),
        because=(
            "{atomic_requests:,.0f} atomic requests for {global_load_requests:,.0f} loads[; warps "
            "wait for memory {stall_long_scoreboard:.0%} of the time]"
        ),
        fix=(
            "Combine before the atomic: several elements per thread in registers, a warp by "
            "shuffles, a block in shared memory; then one atomic per block. Bins: a private copy "
            "for each block in shared memory."
        ),
        refute=(
            "Replace the atomic by a plain store in a copy (the results are then wrong). If the "
            "time stays, the atomics do not matter."
        ),
        saves=beyond_kept,
        likely=lambda k, peak: np.asanyarray(0.6 * beyond_kept(k, peak)),
        kind="hard",
        grade="observed",
        layer="operator",
        suppresses=("atomics-contention", "stall-long-scoreboard", "stall-lg-throttle"),
        thresholds={
            **HEADROOM,
            "atomic_requests": at_least(0.5, of="global_load_requests"),
            "any": above(0, column="atomic_requests"),
        },
        references=(
            "NVIDIA blog: Faster Parallel Reductions on Kepler",
            "NVIDIA CUDA C++ Best Practices Guide: atomics",
        ),
        fires=(
            {"atomic_requests": 1e6, "global_load_requests": 1e6},
            {"atomic_requests": 5.1e5, "global_load_requests": 1e6},
        ),
        silent=(
            {"atomic_requests": 4.9e5, "global_load_requests": 1e6},
            {"atomic_requests": 0.0, "global_load_requests": 0.0},
            {"atomic_requests": 1e6, "global_load_requests": 1e6, "memory_pct": 85.0},
        ),
    ),
    Rule(
        id="atomics-by-name",
        topic="atomics",
        title="Scattered atomics are the likely reason for the waiting",
        scope="kernel",
        why=(
            "Kernels that count, scatter or add up by key do an atomic for every element. Each "
            "atomic travels to the L2 slice that owns its address, and atomics on equal addresses "
            "queue there. Resident warps then wait for their answers while no unit is busy."
        ),
        condition=(
            "the name marks counting or scattering, atomics were not counted, warps fill "
            "{achieved_occupancy_pct} of their slots or more, compute and memory are both below "
            "{busiest_pct}, and warps wait for memory for more than {stall_long_scoreboard:.0%} "
            "of the time (long scoreboard or LG throttle; {stall_lg_throttle:.0%}; on AMD "
            "dependency waits, {wait_dependency:.0%})"
        ),
        needs=("name_scatter", "achieved_occupancy_pct", "busiest_pct"),
        uses=(
            "primary_class", "stall_long_scoreboard", "stall_lg_throttle", "wait_dependency",
            "atomic_requests", "l2_hit_pct", *KEPT,
        ),
        # Without such a name nothing points at atomics.
        applies=lambda k: tunable(k) & (k.name_scatter == 1) & ~(k.atomic_requests >= 0),
        when=lambda k: k.meets("achieved_occupancy_pct") & k.meets("busiest_pct") & _wait(k),
        because=(
            "by its name it counts or scatters; {achieved_occupancy_pct} of the warp slots are "
            "full and warps wait for memory[ {stall_long_scoreboard:.0%} of the time], yet neither "
            "compute nor memory is busier than {busiest_pct}[; L2 hits {l2_hit_pct}]"
        ),
        fix=(
            "Add up where addresses are private: in registers, then in shared memory (a copy of "
            "the bins for each block), and let one thread per block add to global memory. With "
            "few bins, use a copy for each warp. With many bins, sort by key first, then reduce "
            "runs of equal keys."
        ),
        refute=(
            "Count them: [nvidia: --metrics "
            "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum,l1tex__t_requests_pipe_lsu_mem_global_op_red.sum][amd: "
            "TCC_ATOMIC_sum]. Or replace the atomic by a plain store in a copy. If the time "
            "stays, the atomics do not matter."
        ),
        saves=beyond_kept,
        likely=lambda k, peak: np.asanyarray(np.minimum(beyond_kept(k, peak), _waits(k))),
        kind="hard",
        grade="inferred",
        layer="operator",
        suppresses=("stall-long-scoreboard", "stall-lg-throttle", "amd-dependency-wait"),
        thresholds={
            "achieved_occupancy_pct": at_least(50),
            "busiest_pct": below(40),
            **dict.fromkeys(_WAITS, above(0.4)),
        },
        references=(
            "NVIDIA blog: GPU Pro Tip, Fast Histograms Using Shared Atomics on Maxwell",
            "NVIDIA CUDA C++ Best Practices Guide: atomics",
        ),
        fires=(
            _SCATTERS,
            {**_SCATTERS, "achieved_occupancy_pct": 50.0, "busiest_pct": 39.0},
            {**_SCATTERS, "stall_long_scoreboard": 0.41},
            {**_SCATTERS, "stall_long_scoreboard": 0.0, "stall_lg_throttle": 0.41},
            {**_SCATTERS, "stall_long_scoreboard": 0.0, "wait_dependency": 0.41},
        ),
        silent=(
            {**_SCATTERS, "achieved_occupancy_pct": 49.0},
            {**_SCATTERS, "busiest_pct": 41.0},
            {**_SCATTERS, "stall_long_scoreboard": 0.4},
            {**_SCATTERS, "name_scatter": 0.0},
            # They were counted: the other rule judges.
            {**_SCATTERS, "atomic_requests": 1e6},
        ),
    ),
)  # fmt: skip
