"""What warps wait for between two instructions: one rule a stall reason."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.tracing import each, one_of
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, spare
from traceroof.rules._least import KEPT, beyond_kept

_LONG = 0.3
_ISSUING = 0.8

# How good the shares are: all reasons counted, sampled, or only those that a sentence mentions.
_TRUST: Mapping[str, float] = {"pc-samples": 0.9, "rule text (partial)": 0.8}


# The profiler's rule prints each reason above 30 %, so one that it does not print is below. AMD's
# wait fractions know no reasons; rules of their own judge them.
_NAMES_NO_OTHERS = ("rule text", "wait fractions")


@dataclass(frozen=True, kw_only=True)
class _Stall:
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
    condition: str = ""
    info: bool = False
    pardoned: tuple[Mapping[str, Any], ...] = ()


def _busy_math(k: Facts) -> Mask:
    return np.asanyarray(np.fmax(k.tensor_pct, k.pipe_fma_pct) >= 60)


def _pipe_in_its_own_right(k: Facts) -> Mask:
    # At 80 % the pipe itself is the finding. Fused attention does not get there: between its two
    # products stand the exponentials, and the best of it reaches 73 to 75 %.
    attention = one_of(k.category, "attention") & one_of(k.top_pipe, "tensor")
    return np.asanyarray((k.top_pipe_pct >= 80) | (attention & (k.top_pipe_pct >= 70)))


def _roles(k: Facts) -> Mask:
    # Consumer warps wait for producers at barriers by design; with busy tensor cores, or where
    # nobody measured them, that is no finding.
    return np.asanyarray((k.name_warp_specialised == 1) & ~(k.tensor_pct < 50))


def _newer_than_hopper(k: Facts) -> Mask:
    return np.asanyarray(k.compute_capability > 9.0)


def _not_hopper(k: Facts) -> Mask:
    return np.asanyarray((k.compute_capability < 9.0) | (k.compute_capability >= 10.0))


_STALLS = (
    _Stall(
        id="stall-long-scoreboard",
        topic="long-scoreboard-latency",
        reason="long_scoreboard",
        title="Warps wait for loads",
        waits="waiting for loads from global, local or texture memory",
        why=(
            "A warp stops at the first instruction that needs a value still on its way. L2 "
            "answers after a few hundred cycles, device memory after more; other warps and "
            "independent loads must fill that time."
        ),
        fix=(
            "With DRAM below 50 % latency is not covered: issue loads earlier (double buffering[nvidia:  "
            "with cp.async or TMA][amd:  through LDS or registers]), unroll for several independent loads per thread, load 16 bytes "
            "at a time, raise occupancy if it is low. Between 50 and 80 % fewer bytes help too. "
            "With a high L2 hit rate keep reused data in shared memory or registers."
        ),
        refute=(
            "Double the loads in flight (unroll by two, or twice the blocks): if the time stays, "
            "the wait was covered already."
        ),
        uses=("dram_pct", "l2_hit_pct", "l1_hit_pct", "achieved_occupancy_pct", "warps_active"),
        # At the wall of device memory the wait is the symptom: dram-at-wall says so.
        unless=lambda k: k.dram_pct > 80,
        condition="; not with DRAM above 80 %",
        pardoned=({"dram_pct": 80.1},),
    ),
    _Stall(
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
            "Replace the shared-memory reads by constants in a copy of the kernel: if the time "
            "stays, the wait is for special functions or hidden by other warps."
        ),
        uses=("shared_conflict_pct", "pipe_xu_pct"),
    ),
    _Stall(
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
            "Fewer and wider accesses: 8 or 16 bytes per thread, ldmatrix, a larger register tile "
            "so that each value loaded is used more often; fewer shuffles and transcendental "
            "calls; arithmetic between them."
        ),
        refute=(
            "Halve the number of shared-memory instructions by widening them: if the time stays, "
            "the queue was not the limit."
        ),
        uses=("stall_short_scoreboard", "pipe_xu_pct", "pipe_lsu_pct", "shared_conflict_pct"),
    ),
    _Stall(
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
            "Local loads and stores above zero mean spills or indexed local arrays: remove those "
            "first. Then fewer and wider accesses (16 bytes per thread), no repeated loads of the "
            "same address, coalesced addresses, arithmetic between the accesses."
        ),
        refute=(
            "Vectorise the loads of the hottest loop: accesses fall to a half or a quarter; if the "
            "time stays, the queue was not the limit."
        ),
        uses=("local_requests", "global_sectors_excess_pct", "pipe_lsu_pct"),
    ),
    _Stall(
        id="stall-tex-throttle",
        topic="l1-traffic",
        reason="tex_throttle",
        title="Warps wait for room in the texture queue",
        waits="waiting for a slot in the L1 queue of texture and surface accesses",
        why=(
            "The texture unit takes an access four threads at a time, the path of global loads all "
            "32 of a warp, so its queue fills early."
        ),
        fix=(
            "Plain global loads (also for read-only data) where filtering and addressing modes are "
            "not needed; fewer and wider fetches; arithmetic between them."
        ),
        refute="Replace the fetches by global loads: if the time stays, the queue was not the limit.",
        uses=("pipe_tex_pct",),
    ),
    _Stall(
        id="stall-math-pipe",
        topic="math-pipe",
        reason="math_pipe_throttle",
        title="Warps wait for an execution pipe",
        waits="waiting for a busy execution pipe",
        why=(
            "Ready instructions of several warps want the same pipe. With that pipe at 60 % or "
            "more the compute wall is near; below, the kernel uses it in bursts."
        ),
        fix=(
            "Move work to idle pipes (integer address arithmetic to the uniform path[nvidia: , "
            "conversions off the XU], products to tensor cores), spread bursts by interleaving other "
            "instructions. With a well-used pipe this is what a good kernel looks like."
        ),
        refute="Remove part of that pipe's instructions in a copy: the time must fall.",
        uses=("top_pipe", "top_pipe_pct", "second_pipe_pct", "category"),
        unless=_pipe_in_its_own_right,
        condition="; not with a pipe at 80 % or more, nor in attention with tensor cores at 70 %",
        pardoned=(
            {"top_pipe": "fma", "top_pipe_pct": 80.0},
            {"category": "attention", "top_pipe": "tensor", "top_pipe_pct": 70.0},
        ),
    ),
    _Stall(
        id="stall-barrier",
        topic="barrier",
        reason="barrier",
        title="Warps wait for each other at barriers",
        waits="waiting for sibling warps at a block barrier",
        why=(
            "At a barrier the whole block waits for its slowest warp. Uneven work, many barriers "
            "and large blocks lengthen the wait; one block per multiprocessor leaves nothing else "
            "to run meanwhile."
        ),
        fix=(
            "Give each thread several elements before the first barrier, so that fewer blocks wait "
            "fewer times for the same data, and reduce the last warp by shuffles. Even out the work "
            "before the barrier, use smaller blocks (from 512 threads on), so "
            "that two or more reside, drop barriers that guard one warp's data[nvidia:  (__syncwarp), split "
            "arrive from wait (cuda::barrier)], double buffer to need one barrier per tile."
        ),
        refute=(
            "Compare blocks of half the size with the same total work: if the time stays, the wait "
            "was covered by other blocks."
        ),
        uses=("threads_per_block", "tensor_pct", "name_warp_specialised"),
        unless=_roles,
        condition="; not in kernels with producer and consumer warps unless tensor use is below 50 %",
        pardoned=(
            {"name_warp_specialised": 1, "tensor_pct": 50.0},
            {"name_warp_specialised": 1},
        ),
    ),
    _Stall(
        id="stall-membar",
        topic="memory-fence",
        reason="membar",
        title="Warps wait for memory fences",
        waits="waiting at memory fences",
        why=(
            "A fence holds the warp until its earlier writes are visible, for a device- or "
            "system-wide fence as far as L2 or the bus."
        ),
        fix=(
            "Narrow the scope (__threadfence_block, or acquire/release at block scope), fence once "
            "after several writes, drop fences next to a barrier. A kernel that synchronises the "
            "whole grid waits here on purpose."
        ),
        refute="Remove the fences in a copy (results may be wrong): the time must fall.",
    ),
    _Stall(
        id="stall-wait",
        topic="latency",
        reason="wait",
        title="Warps wait for the latency of their own arithmetic",
        waits="waiting for the fixed latency of the instruction before",
        why=(
            "Each instruction needs the result of the last, and too few other warps are ready to "
            "issue meanwhile."
        ),
        fix=(
            "Independent work in each thread: several accumulators, unrolling, two outputs a "
            "thread; more warps where occupancy allows."
        ),
        refute=(
            "Run two independent chains in one thread: if the time nearly doubles, the latency was "
            "covered."
        ),
        uses=("tensor_pct", "pipe_fma_pct", "warps_active", "warps_eligible"),
        unless=_busy_math,
        condition="; not with tensor or FMA use at 60 % or more",
        pardoned=({"tensor_pct": 60.0}, {"pipe_fma_pct": 60.0, "tensor_pct": 0.0}),
    ),
    _Stall(
        id="stall-not-selected",
        topic="nothing-to-gain",
        reason="not_selected",
        title="More warps are ready than can issue",
        waits="ready while another warp was chosen",
        why=(
            "These warps could issue but the scheduler took another one. It is no fault: there is "
            "parallelism to spare."
        ),
        fix=(
            "Nothing to repair. Fewer warps with more registers each (larger tiles, more reuse) "
            "may be affordable."
        ),
        refute="Lower the occupancy: if the time grows, the spare warps were needed.",
        uses=("warps_eligible", "achieved_occupancy_pct"),
        info=True,
    ),
    _Stall(
        id="stall-no-instruction",
        topic="instruction-fetch",
        reason="no_instruction",
        title="Warps wait for instructions",
        waits="waiting for instructions to be fetched",
        why=(
            "The next instruction is not in the instruction cache: the code is larger than the "
            "cache or jumps far, or the kernel is so short that it only ever runs cold."
        ),
        fix=(
            "Below one wave of blocks the kernel is short and cold: batch it with others. "
            "Otherwise shrink the hot loop: less unrolling and inlining, fewer fused stages, rare "
            "branches out of line."
        ),
        refute=(
            "Run the same kernel on ten times the data: if the share falls, it was the cold start."
        ),
        uses=("waves", "median_ns"),
    ),
    _Stall(
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
            "Fewer distinct constant addresses in a warp: read tables indexed by thread from "
            "global or shared memory, pass large argument structures by pointer. A short kernel "
            "pays this once at its start."
        ),
        refute="Move the table to shared memory: the time must fall.",
        uses=("waves", "median_ns", "compute_capability"),
        exists=lambda k: ~_newer_than_hopper(k),
        condition="; compute capability up to 9.0",
    ),
    _Stall(
        id="stall-dispatch",
        topic="math-pipe",
        reason="dispatch_stall",
        title="Warps are held back at dispatch",
        waits="held back by the dispatcher",
        why=(
            "The instruction was chosen but could not be sent: register ports or another resource "
            "of the dispatcher were taken. It is rare."
        ),
        fix=(
            "See which instructions it is on the source page; other operand registers or another "
            "order of instructions may avoid it."
        ),
        refute="Reorder or rewrite the instructions named there: the time must fall.",
    ),
    _Stall(
        id="stall-sleeping",
        topic="latency",
        reason="sleeping",
        title="Warps sleep",
        waits="sleeping (nanosleep) or yielding",
        why="Threads wait for a flag by polling with pauses, or a warp yields on purpose.",
        fix=(
            "Shorter pauses, fewer pollers (one thread per block), or no waiting in the kernel: split "
            "it there or overlap the wait with work."
        ),
        refute="Halve the pause: if the time stays, the flag itself comes late.",
    ),
    _Stall(
        id="stall-branch-resolving",
        topic="divergence",
        reason="branch_resolving",
        title="Warps wait for branch targets",
        waits="waiting for branch targets",
        why="Each branch stops its warp until the target is known; short loop bodies pay it often.",
        fix=(
            "Unroll short loops, replace short branches by selects, hoist conditions out of loops, "
            "avoid indirect calls."
        ),
        refute="Unroll the hottest loop by four: the time must fall.",
        uses=("branch_efficiency_pct", "threads_per_instruction"),
    ),
    _Stall(
        id="stall-drain",
        topic="write-drain",
        reason="drain",
        title="Finished warps wait for their stores",
        waits="waiting after EXIT for stores to leave",
        why=(
            "A warp keeps its slot until its last stores are out. Many stores at the very end, "
            "scattered ones above all, hold the slots of whole blocks."
        ),
        fix=(
            "Coalesce the final stores, write wider, reduce in the block before writing, store "
            "results as soon as they are known."
        ),
        refute="Leave out the final stores in a copy: the time must fall.",
        uses=("store_bytes_per_sector", "store_sectors_per_request"),
    ),
    _Stall(
        id="stall-gmma",
        topic="math-pipe",
        reason="gmma",
        title="Warps wait for matrix instructions",
        waits="waiting for warpgroup matrix instructions (wgmma)",
        why=(
            "Consumer warps of a Hopper matrix kernel wait for the tensor cores. With those below "
            "60 % the pipeline in front of them is too shallow: data arrives late."
        ),
        fix=(
            "More pipeline stages, a larger tile, one more consumer warpgroup, wgmma groups kept "
            "in flight (wait for the last but one)."
        ),
        refute="Add a stage: tensor use must rise and the time fall.",
        uses=("tensor_pct", "compute_capability"),
        unless=lambda k: k.tensor_pct >= 80,
        exists=lambda k: ~_not_hopper(k),
        condition="; not with tensor use at 80 % or more; compute capability 9.0",
        pardoned=({"tensor_pct": 80.0},),
    ),
    _Stall(
        id="stall-misc",
        topic="latency",
        reason="misc",
        title="Warps wait for a reason the hardware does not name",
        waits="stalled for reasons that the hardware does not name",
        why="A collection of rare hardware conditions.",
        fix="Nothing can be said from the share alone; the source page shows where it occurs.",
        refute="Remove the instructions where it occurs: the time must fall.",
        info=True,
    ),
)


def _trust(k: Facts) -> Column:
    return each(
        k.stalls_from, lambda source: _TRUST.get(str(source), 1.0), "trust in the source of stalls"
    )


def _rule(one: _Stall) -> Rule:
    own = f"stall_{one.reason}"

    def share(k: Facts) -> Column:
        return np.asanyarray(getattr(k, own))

    def applies(k: Facts) -> Mask:
        silent = unknown(share(k))
        # A reason that the source of the shares cannot name, or the architecture lacks, is not
        # missing.
        spoken = each(
            k.stalls_from,
            lambda source: str(source).startswith(_NAMES_NO_OTHERS),
            "a source that names few reasons",
            kind=bool,
        )
        absent = ~one.exists(k) if one.exists else np.zeros(len(k), dtype=bool)
        busy = k.issue_active_ceiling >= _ISSUING
        return np.asanyarray(has_headroom(k) & ~busy & ~(silent & (spoken | absent)))

    def when(k: Facts) -> Mask:
        fires = (share(k) > _LONG) & ~(k.issue_active_ceiling >= _ISSUING)
        fires &= ~(k.kernel_dram_pct >= 80)
        return np.asanyarray(fires & ~one.unless(k) if one.unless else fires)

    def saves(k: Facts, peak: Attainable) -> Column:
        # A share of the warps' time bounds nothing once they do less: bytes and busy units do.
        room = np.fmin(spare(k, peak), beyond_kept(k, peak))
        return np.asanyarray(np.where(np.isnan(room), waiting(k), room))

    def likely(k: Facts, peak: Attainable) -> Column:
        return np.asanyarray(np.fmin(waiting(k), saves(k, peak)))

    def waiting(k: Facts) -> Column:
        return np.asanyarray(np.fmin(share(k), 1 - k.issue_active_ceiling))

    typical = {own: 0.5, "issue_active_ceiling": 0.4, "compute_pct": 40.0, "memory_pct": 40.0}
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="kernel",
        why=one.why,
        condition=(
            "over 30 % of a warp's time between two instructions, while schedulers issue in under "
            "80 % of their cycles, where that was measured, and nothing is at its wall"
            f"{one.condition}"
        ),
        needs=(own,),
        uses=(
            *STATE,
            "issue_active_ceiling",
            "stalls_from",
            "warp_cycles_per_issue",
            *KEPT,
            *one.uses,
        ),
        applies=applies,
        when=when,
        because=f"warps spend {{{own}:.0%}} of their cycles {one.waits}",
        fix=one.fix,
        refute=(
            f"{one.refute} Judge by the time and by the cycles of this reason: its share also "
            "falls when another reason grows."
        ),
        saves=None if one.info else saves,
        likely=None if one.info else likely,
        # A reason without a gain of its own is a choice between warps and registers, if anything.
        kind="option" if one.info else "conditional",
        grade="observed",
        layer="operator",
        severity="info" if one.info else None,
        trust=_trust,
        thresholds={**HEADROOM, own: "> 0.3", "issue_active_ceiling": "< 0.8"},
        references=(
            "Nsight Compute CPIStall rule: reason above 30 %, issue slots below 80 %",
            "Nsight Compute Profiling Guide: warp stall reasons",
        ),
        fires=(
            typical,
            {own: 0.301, "issue_active_ceiling": 0.799},
            {own: 0.45, "issue_active_ceiling": 0.3, "stalls_from": "rule text (partial)"},
        ),
        silent=(
            {**typical, own: 0.3},
            {**typical, "issue_active_ceiling": 0.8},
            {**typical, "memory_pct": 80.0},
            {**typical, "primary_class": "l1-bound"},
            {"stalls_from": "rule text (partial)", "issue_active_ceiling": 0.3},
            *({**typical, **pardoned} for pardoned in one.pardoned),
        ),
    )


RULES = tuple(_rule(one) for one in _STALLS)
