"""The stall reasons of warps: what each means, what to do, and where it is expected."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Threshold, at_most, below

# A copy reaches 75 to 92 % of the nominal peak, by device: above this, device memory is near its wall.
_NEAR_WALL_PCT = 70.0


@dataclass(frozen=True, kw_only=True)
class Stall:
    """One reason of the table ``table.STALL_REASONS``.

    waits: completes "warps spend 40 % of their cycles ...". unless: subjects in which this reason is expected. uses: what
    tells its causes apart. info: nothing to gain by itself. pardoned: examples of ``unless``.
    """

    id: str
    topic: str
    reason: str
    title: str
    waits: str
    why: str
    fix: str
    refute: str
    uses: tuple[str, ...] = ()
    unless: Callable[[Facts], Mask] | None = None
    exists: Callable[[Facts], Mask] | None = None
    limits: Mapping[str, Threshold] = field(default_factory=dict)
    condition: str = ""
    info: bool = False
    pardoned: tuple[Mapping[str, Any], ...] = ()


def _busy_math(k: Facts) -> Mask:
    return ~(k.meets("tensor_pct") & k.meets("pipe_fma_pct"))


def _pipe_in_its_own_right(k: Facts) -> Mask:
    # At 80 % the pipe itself is the finding. Fused attention does not get there: between its two
    # products stand the exponentials, and the best of it reaches 73 to 75 %.
    attention = one_of(k.category, "attention") & one_of(k.top_pipe, "tensor")
    return np.asanyarray(~k.meets("top_pipe_pct") | (attention & ~k.meets("attention_pipe")))


def _roles(k: Facts) -> Mask:
    # Consumer warps wait for producers at barriers by design; with busy tensor cores, or where
    # nobody measured them, that is no finding.
    return np.asanyarray((k.name_warp_specialised == 1) & ~k.meets("tensor_pct"))


def _newer_than_hopper(k: Facts) -> Mask:
    return np.asanyarray(k.compute_capability > 9.0)


def _not_hopper(k: Facts) -> Mask:
    return np.asanyarray((k.compute_capability < 9.0) | (k.compute_capability >= 10.0))


STALLS = (
    Stall(
        id="stall-long-scoreboard",
        topic="long-scoreboard-latency",
        reason="long_scoreboard",
        title="Warps wait for loads",
        waits="waiting for loads from global, local or texture memory",
        why=(
            "A warp stops at the first instruction that needs a value that has not arrived. L2 "
            "answers after a few hundred cycles, device memory after more. Other warps and "
            "independent loads must fill that time."
        ),
        fix=(
            "Keep more loads in flight: issue them earlier (double buffering[nvidia:  "
            "with cp.async or TMA][amd:  through LDS or registers]), unroll for several independent loads per thread, load 16 bytes "
            "at a time, raise occupancy if it is low. With DRAM above 50 %, fewer bytes help too. "
            "With a high L2 hit rate, keep reused data in shared memory or registers."
        ),
        refute=(
            "Double the loads in flight (unroll by two, or twice the blocks). If the time stays, "
            "the wait was hidden already."
        ),
        uses=("dram_pct", "l2_hit_pct", "l1_hit_pct", "achieved_occupancy_pct", "warps_active"),
        # Near the wall of device memory the wait is the symptom, and the fix the same: the rules on
        # device memory say so.
        unless=lambda k: ~k.meets("dram_pct"),
        limits={"dram_pct": at_most(_NEAR_WALL_PCT, or_unknown=True)},
        condition="; not with DRAM above {dram_pct}",
        pardoned=({"dram_pct": 70.1},),
    ),
    Stall(
        id="stall-short-scoreboard",
        topic="l1-traffic",
        reason="short_scoreboard",
        title="Warps wait for shared memory or special functions",
        waits="waiting for shared memory, special functions or warp shuffles",
        why=(
            "These results come[nvidia:  from the memory input/output unit (MIO)] without passing "
            "the L1 cache's global path: shared memory with or without bank conflicts, "
            "[nvidia: transcendental functions, shuffles, votes, indirect branches]"
            "[amd: scalar memory, messages (lgkmcnt)]."
        ),
        fix=(
            "With bank conflicts of 10 % or more: remove those first. With a busy special function "
            "unit (XU): fewer transcendental calls. Otherwise keep values in registers, use "
            "shuffles instead of round trips through shared memory, load from it earlier."
        ),
        refute=(
            "Replace the shared-memory reads by constants in a copy of the kernel. If the time "
            "stays, the wait is for special functions or hidden by other warps."
        ),
        uses=("shared_conflict_pct", "pipe_xu_pct"),
    ),
    Stall(
        id="stall-mio-throttle",
        topic="l1-traffic",
        reason="mio_throttle",
        title="Warps wait for room in the queue of shared memory and special functions",
        waits="waiting for a slot in the MIO queue (shared memory, special functions, shuffles)",
        why=(
            "Shared-memory accesses, shuffles and special functions share one instruction queue. "
            "Too many of them in a row fill it, whatever each one costs."
        ),
        fix=(
            "Use fewer and wider accesses: 8 or 16 bytes per thread, ldmatrix, a larger register tile "
            "so that each loaded value is used more often. Use fewer shuffles and transcendental "
            "calls, with arithmetic between them."
        ),
        refute=(
            "Halve the number of shared-memory instructions by widening them. If the time stays, "
            "the queue was not the limit."
        ),
        uses=("stall_short_scoreboard", "pipe_xu_pct", "pipe_lsu_pct", "shared_conflict_pct"),
    ),
    Stall(
        id="stall-lg-throttle",
        topic="l1-traffic",
        reason="lg_throttle",
        title="Warps wait for room in the queue of global and local memory",
        waits="waiting for a slot in the L1 queue of global and local accesses",
        why=(
            "The load/store unit takes only so many global and local accesses. Narrow or redundant "
            "ones, scattered addresses and register spills fill its queue."
        ),
        fix=(
            "Local loads and stores above zero mean spills or indexed local arrays. Remove those "
            "first. Then use fewer and wider accesses (16 bytes per thread), no repeated loads of the "
            "same address, coalesced addresses, arithmetic between the accesses."
        ),
        refute=(
            "Vectorise the loads of the hottest loop. Accesses fall to a half or a quarter. If the "
            "time stays, the queue was not the limit."
        ),
        uses=("local_requests", "global_sectors_excess_pct", "pipe_lsu_pct"),
    ),
    Stall(
        id="stall-tex-throttle",
        topic="l1-traffic",
        reason="tex_throttle",
        title="Warps wait for room in the texture queue",
        waits="waiting for a slot in the L1 queue of texture and surface accesses",
        why=(
            "The texture unit processes an access four threads at a time, the path of global loads "
            "all 32 of a warp. So its queue fills early."
        ),
        fix=(
            "Use plain global loads (also for read-only data) where filtering and addressing modes "
            "are not needed, and fewer and wider fetches with arithmetic between them."
        ),
        refute="Replace the fetches by global loads. If the time stays, the queue was not the limit.",
        uses=("pipe_tex_pct",),
    ),
    Stall(
        id="stall-math-pipe",
        topic="math-pipe",
        reason="math_pipe_throttle",
        title="Warps wait for an execution pipe",
        waits="waiting for a busy execution pipe",
        why=(
            "Ready instructions of several warps need the same pipe. With that pipe at 60 % or "
            "more, the compute wall is near. Below, the kernel uses it in bursts."
        ),
        fix=(
            "Move work to idle pipes (integer address arithmetic to the uniform path[nvidia: , "
            "conversions off the XU], products to tensor cores). Spread bursts by interleaving other "
            "instructions. With a well-used pipe, this is normal for a good kernel."
        ),
        refute="Remove part of that pipe's instructions in a copy. The time must fall.",
        uses=("top_pipe", "top_pipe_pct", "second_pipe_pct", "category"),
        unless=_pipe_in_its_own_right,
        limits={
            "top_pipe_pct": below(WALL_PCT, or_unknown=True),
            "attention_pipe": below(70, column="top_pipe_pct", or_unknown=True, told=False),
        },
        condition=(
            "; not with a pipe at {top_pipe_pct} or more, nor in attention with tensor cores at "
            "{attention_pipe} or more"
        ),
        pardoned=(
            {"top_pipe": "fma", "top_pipe_pct": 80.0},
            {"category": "attention", "top_pipe": "tensor", "top_pipe_pct": 70.0},
        ),
    ),
    Stall(
        id="stall-barrier",
        topic="barrier",
        reason="barrier",
        title="Warps wait for each other at barriers",
        waits="waiting for sibling warps at a block barrier",
        why=(
            "At a barrier the whole block waits for its slowest warp. Uneven work, many barriers "
            "and large blocks lengthen the wait. With one block per multiprocessor nothing else can "
            "run meanwhile."
        ),
        fix=(
            "Give each thread several elements before the first barrier, so that fewer blocks wait "
            "less often for the same data, and reduce the last warp by shuffles. "
            "Even out the work before the barrier. Use smaller blocks (if they have 512 threads or "
            "more), so that two or more are resident. Remove barriers that guard one warp's data[nvidia:  (__syncwarp), split "
            "arrive from wait (cuda::barrier)]. Double buffer to need one barrier per tile."
        ),
        refute=(
            "Compare blocks of half the size with the same total work. If the time stays, the wait "
            "was hidden by other blocks."
        ),
        uses=("threads_per_block", "tensor_pct", "name_warp_specialised"),
        unless=_roles,
        limits={"tensor_pct": below(50, told=False)},
        condition=(
            "; not in kernels with producer and consumer warps unless tensor-core use is below "
            "{tensor_pct}"
        ),
        pardoned=(
            {"name_warp_specialised": 1, "tensor_pct": 50.0},
            {"name_warp_specialised": 1},
        ),
    ),
    Stall(
        id="stall-membar",
        topic="memory-fence",
        reason="membar",
        title="Warps wait for memory fences",
        waits="waiting at memory fences",
        why=(
            "A fence holds the warp until its earlier writes are visible: in L2 for a device-wide "
            "fence, across the bus for a system-wide one."
        ),
        fix=(
            "Narrow the scope (__threadfence_block, or acquire/release at block scope), fence once "
            "after several writes, remove fences next to a barrier. A kernel that synchronises the "
            "whole grid waits here on purpose."
        ),
        refute="Remove the fences in a copy (results may be wrong). The time must fall.",
    ),
    Stall(
        id="stall-wait",
        topic="latency",
        reason="wait",
        title="Warps wait for the latency of their own arithmetic",
        waits="waiting for the fixed latency of the instruction before",
        why=(
            "Each instruction needs the result of the previous one, and too few other warps are "
            "ready to issue meanwhile."
        ),
        fix=(
            "Give each thread independent work: several accumulators, unrolling, two outputs per "
            "thread. Use more warps where occupancy allows."
        ),
        refute=(
            "Run two independent chains in one thread. If the time nearly doubles, the latency was "
            "hidden."
        ),
        uses=("tensor_pct", "pipe_fma_pct", "warps_active", "warps_eligible"),
        unless=_busy_math,
        limits={
            "tensor_pct": below(BUSY_PCT, or_unknown=True),
            "pipe_fma_pct": below(BUSY_PCT, or_unknown=True),
        },
        condition="; not with tensor use at {tensor_pct} or more or FMA use at {pipe_fma_pct} or more",
        pardoned=({"tensor_pct": 60.0}, {"pipe_fma_pct": 60.0, "tensor_pct": 0.0}),
    ),
    Stall(
        id="stall-not-selected",
        topic="nothing-to-gain",
        reason="not_selected",
        title="More warps are ready than can issue",
        waits="ready while another warp was chosen",
        why=(
            "These warps could issue, but the scheduler chose another one. This is not a problem: "
            "there is parallelism to spare."
        ),
        fix=(
            "Nothing to fix. Fewer warps with more registers each (larger tiles, more reuse) may be "
            "possible."
        ),
        refute="Lower the occupancy. If the time grows, the spare warps were needed.",
        uses=("warps_eligible", "achieved_occupancy_pct"),
        info=True,
    ),
    Stall(
        id="stall-no-instruction",
        topic="instruction-fetch",
        reason="no_instruction",
        title="Warps wait for instructions",
        waits="waiting for instructions to be fetched",
        why=(
            "The next instruction is not in the instruction cache: the code is larger than the "
            "cache or jumps far, or the kernel is so short that it always runs cold."
        ),
        fix=(
            "Below one wave of blocks the kernel is short and cold: batch it with others. "
            "Otherwise make the hot loop smaller: less unrolling and inlining, fewer fused stages, "
            "rare branches moved out of line."
        ),
        refute=(
            "Run the same kernel on ten times the data. If the share falls, it was the cold start."
        ),
        uses=("waves", "median_ns"),
    ),
    Stall(
        id="stall-imc-miss",
        topic="instruction-fetch",
        reason="imc_miss",
        title="Warps wait for constants",
        waits="waiting for the immediate constant cache",
        why=(
            "Kernel arguments and __constant__ data come through a small cache that serves one "
            "address per warp at a time."
        ),
        fix=(
            "Use fewer distinct constant addresses per warp: read tables indexed by thread from "
            "global or shared memory, and pass large argument structures by pointer. A short kernel "
            "pays this once at its start."
        ),
        refute="Move the table to shared memory. The time must fall.",
        uses=("waves", "median_ns", "compute_capability"),
        exists=lambda k: ~_newer_than_hopper(k),
        condition="; on Hopper and older GPUs",
    ),
    Stall(
        id="stall-dispatch",
        topic="math-pipe",
        reason="dispatch_stall",
        title="Warps are held back at dispatch",
        waits="held back by the dispatcher",
        why=(
            "The instruction was chosen but could not be dispatched, because register ports or "
            "another resource of the dispatcher were busy. This is rare."
        ),
        fix=(
            "Find the instructions on the source page. Other operand registers or another order of "
            "instructions may avoid it."
        ),
        refute="Reorder or rewrite the instructions named there. The time must fall.",
    ),
    Stall(
        id="stall-sleeping",
        topic="latency",
        reason="sleeping",
        title="Warps sleep",
        waits="sleeping (nanosleep) or yielding",
        why="Threads wait for a flag by polling with pauses, or a warp yields on purpose.",
        fix=(
            "Use shorter pauses and fewer polling threads (one per block), or do not wait in the "
            "kernel: split it there, or overlap the wait with work."
        ),
        refute="Halve the pause. If the time stays, the flag itself is set late.",
    ),
    Stall(
        id="stall-branch-resolving",
        topic="divergence",
        reason="branch_resolving",
        title="Warps wait for branch targets",
        waits="waiting for branch targets",
        why="Each branch stops its warp until the target is known. Short loop bodies pay this often.",
        fix=(
            "Unroll short loops, replace short branches by selects, hoist conditions out of loops, "
            "avoid indirect calls."
        ),
        refute="Unroll the hottest loop by four. The time must fall.",
        uses=("branch_efficiency_pct", "threads_per_instruction"),
    ),
    Stall(
        id="stall-drain",
        topic="write-drain",
        reason="drain",
        title="Finished warps wait for their stores",
        waits="waiting after EXIT for stores to leave",
        why=(
            "A warp keeps its slot until its last stores have left. Many stores at the end, "
            "especially scattered ones, hold the slots of whole blocks."
        ),
        fix=(
            "Coalesce the final stores, write wider, reduce in the block before writing, store "
            "results as soon as they are known."
        ),
        refute="Remove the final stores in a copy. The time must fall.",
        uses=("store_bytes_per_sector", "store_sectors_per_request"),
    ),
    Stall(
        id="stall-gmma",
        topic="math-pipe",
        reason="gmma",
        title="Warps wait for matrix instructions",
        waits="waiting for warpgroup matrix instructions (wgmma)",
        why=(
            "Consumer warps of a Hopper matrix kernel wait for the tensor cores. If these are used "
            "below 60 %, the pipeline in front of them is too shallow: data arrives late."
        ),
        fix=(
            "Use more pipeline stages, a larger tile or one more consumer warpgroup. Keep wgmma "
            "groups in flight (wait for the last but one)."
        ),
        refute="Add a stage. Tensor use must rise and the time must fall.",
        uses=("tensor_pct", "compute_capability"),
        unless=lambda k: ~k.meets("tensor_pct"),
        limits={"tensor_pct": below(WALL_PCT, or_unknown=True)},
        exists=lambda k: ~_not_hopper(k),
        condition="; not with tensor use at {tensor_pct} or more; on Hopper GPUs",
        pardoned=({"tensor_pct": 80.0},),
    ),
    Stall(
        id="stall-misc",
        topic="latency",
        reason="misc",
        title="Warps wait for a reason that the hardware does not name",
        waits="stalled for reasons that the hardware does not name",
        why="A collection of rare hardware conditions.",
        fix="Nothing follows from the share alone. The source page shows where it occurs.",
        refute="Remove the instructions where it occurs. The time must fall.",
        info=True,
    ),
)
