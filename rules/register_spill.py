"""Registers spill to local memory."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above, at_least
from traceroof.rules._kernels import tunable

# A local access of a warp moves one word of each of its 32 threads, 128 bytes, at least.
_REQUEST_BYTES = 128
_REGISTERS_PER_SM = 65_536
_MOST_REGISTERS = 255
_REGISTER_STEP = 8


def _cap(k: Facts) -> Column:
    """All registers that the instruction set or its block's size allow a thread."""
    fit = np.floor(_REGISTERS_PER_SM / k.threads_per_block / _REGISTER_STEP) * _REGISTER_STEP
    return np.asanyarray(np.fmin(fit, _MOST_REGISTERS))


def _l1_share(k: Facts) -> Column:
    by_bytes = np.where(k.l1_bytes > 0, k.local_requests * _REQUEST_BYTES / k.l1_bytes, np.nan)
    # The profiler's own share is of requests, where it tells spills from local arrays.
    return np.asanyarray(np.where(np.isnan(by_bytes), k.spill_overhead_pct / 100, by_bytes))


def _spills(k: Facts) -> Mask:
    with np.errstate(divide="ignore", invalid="ignore"):
        many = k.meets("l1_bytes") | k.meets("registers_per_thread")
        return k.meets("local_requests") & many


def _saves(k: Facts, peak: Attainable) -> Column:
    # Memory is busy all of the time at most. Without the L1 traffic: the share of the instructions.
    by_bytes = _l1_share(k) * np.where(np.isnan(k.memory_pct), 100.0, k.memory_pct) / 100
    by_instructions = k.local_requests / k.instructions
    share = np.where(np.isnan(by_bytes), by_instructions, by_bytes)
    return np.asanyarray(np.where(np.isnan(share), np.nan, np.fmin(share, 1 - k.issue_active)))


RULES = (
    Rule(
        id="register-spill",
        topic="spills",
        title="Registers spill to local memory",
        scope="kernel",
        why=(
            "Local memory holds what does not fit in a thread's registers, and arrays indexed at "
            "run time. Each access takes a slot in the L1 queue and, on a miss, goes to L2 and "
            "device memory."
        ),
        condition=(
            "local-memory requests by spilling (or, where those are not counted, all local loads "
            "and stores) that are {l1_bytes:.0%} or more of the L1 traffic (by its bytes, else by "
            "the share of requests that the profiler gives), or that occur in a "
            "thread with as many registers as its block size and the instruction set allow"
        ),
        needs=("local_requests",),
        uses=(
            "primary_class",
            "spill_requests",
            "spill_overhead_pct",
            "registers_per_thread",
            "threads_per_block",
            "l1_bytes",
            "memory_pct",
            "instructions",
            "issue_active",
        ),
        applies=tunable,
        when=_spills,
        because=(
            "{local_requests:,.0f} local-memory requests per launch[, {spill_overhead_pct} of those "
            "to L1 due to spilling], with {registers_per_thread:.0f} registers per thread"
        ),
        fix=(
            "Relax __launch_bounds__ or the register cap, use smaller tiles, keep fewer values "
            "live, unroll less. Index local arrays by constants so that they stay in registers. "
            "This is the opposite of capping registers for more occupancy: measure both."
        ),
        refute=(
            "Compile with -Xptxas -v. It must report spill stores or a stack frame. Build without "
            "the cap: local requests fall to zero. If the time stays, L1 absorbed them."
        ),
        saves=_saves,
        kind="conditional",
        grade="observed",
        layer="operator",
        suppresses=("stall-lg-throttle", "occ-limited-registers"),
        thresholds={
            "local_requests": above(0),
            "l1_bytes": at_least(0.05, measure=_l1_share, words="local requests {op} {value:.0%}"),
            "registers_per_thread": at_least(1, of=_cap, words="at the cap"),
        },
        references=(
            "Nsight Compute: local memory spilling requests; CPIStall text on LG throttle",
            "NVIDIA CUDA C++ Programming Guide: 255 registers per thread, 65,536 per multiprocessor",
        ),
        # 1,000 x 128 B = 5 % of 2.56 MB; 65,536 / 1,024 = 64 registers.
        fires=(
            {"local_requests": 1000.0, "l1_bytes": 2.56e6, "memory_pct": 50.0},
            {"local_requests": 1.0, "registers_per_thread": 255.0, "threads_per_block": 128.0},
            {"local_requests": 1.0, "registers_per_thread": 64.0, "threads_per_block": 1024.0},
            # 64 registers by __launch_bounds__ of the kernel, far from the cap of its block.
            {
                "local_requests": 5.0e7,
                "spill_overhead_pct": 45.0,
                "registers_per_thread": 64.0,
                "threads_per_block": 256.0,
                "memory_pct": 66.0,
            },
        ),
        silent=(
            {"local_requests": 999.0, "l1_bytes": 2.56e6, "registers_per_thread": 254.0},
            {"local_requests": 0.0, "registers_per_thread": 255.0},
            {"local_requests": 1000.0, "spill_overhead_pct": 4.9, "registers_per_thread": 64.0},
            {"local_requests": 1.0, "registers_per_thread": 63.0, "threads_per_block": 1024.0},
        ),
    ),
)
