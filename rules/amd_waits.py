"""Where the time of AMD wavefronts goes: coarse shares, for want of stall reasons."""

from collections.abc import Callable

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above
from traceroof.rules._kernels import HEADROOM, STATE, has_headroom, on_amd, spare

# The shares of a counter that several causes feed are trusted less than a stall reason.
_COARSE = 0.8


def _applies(k: Facts) -> Mask:
    # Samples name the reason: the stall rules say it better.
    sampled = k.stalls_from == "pc-samples"
    return np.asanyarray(on_amd(k) & has_headroom(k) & ~sampled)


def _saves(column: str) -> Callable[[Facts, Attainable], Column]:
    def saves(k: Facts, peak: Attainable) -> Column:
        return np.asanyarray(np.fmin(getattr(k, column), spare(k, peak)))

    return saves


_REFERENCES = (
    "rocprofiler-compute, wavefront runtime statistics: dependency and issue wait cycles",
    "rocprofiler-sdk counter definitions: SQ_WAIT_ANY, SQ_WAIT_INST_ANY, SQ_WAVE_CYCLES",
)

RULES = (
    Rule(
        id="amd-dependency-wait",
        topic="long-scoreboard-latency",
        title="Wavefronts wait for data",
        scope="kernel",
        why=(
            "A wavefront stops at s_waitcnt until loads, LDS or scalar memory answer, or at a "
            "barrier. With too few wavefronts, or too few loads in flight in each, the compute "
            "unit has nothing else to do."
        ),
        condition=(
            "wavefronts spend more than {wait_dependency:.0%} of their time in dependency waits, "
            "and nothing is at its wall"
        ),
        needs=("wait_dependency",),
        uses=(
            "vendor",
            *STATE,
            "stalls_from",
            "wait_issue",
            "wave_issuing",
            "achieved_occupancy_pct",
            "dram_pct",
            "l2_hit_pct",
            "lines_per_request",
        ),
        applies=_applies,
        when=lambda k: k.meets("wait_dependency"),
        because=(
            "wavefronts spend {wait_dependency:.0%} of their time waiting for data or barriers "
            "(coarse: the counter does not tell which)"
        ),
        fix=(
            "Keep more loads in flight: issue them well before their first use (double buffering "
            "through LDS or registers), load 16 bytes per lane (dwordx4), process several "
            "elements per thread. Raise occupancy where it is low. PC sampling (rocprofv3, "
            "stochastic, from MI300 on) separates loads from LDS and barriers."
        ),
        refute=(
            "Double the loads in flight (unroll by two). If the time stays, the wait was hidden "
            "or is not for memory."
        ),
        saves=_saves("wait_dependency"),
        kind="conditional",
        grade="observed",
        layer="operator",
        trust=lambda k: np.full(len(k), _COARSE),
        thresholds={**HEADROOM, "wait_dependency": above(0.4)},
        references=_REFERENCES,
        fires=(
            {"vendor": "amd", "wait_dependency": 0.41},
            {
                "vendor": "amd",
                "wait_dependency": 0.59,
                "compute_pct": 9.8,
                "memory_pct": 44.9,
                "stalls_from": "wait fractions (coarse)",
            },
        ),
        silent=(
            {"vendor": "amd", "wait_dependency": 0.4},
            {"vendor": "amd", "wait_dependency": 0.9, "primary_class": "dram-bound"},
            {"vendor": "amd", "wait_dependency": 0.9, "stalls_from": "pc-samples"},
            {"vendor": "nvidia", "wait_dependency": 0.9},
        ),
    ),
    Rule(
        id="amd-issue-wait",
        topic="math-pipe",
        title="Wavefronts are ready but do not issue",
        scope="kernel",
        why=(
            "In each cycle a compute unit issues from one SIMD, at most one instruction to each "
            "unit. Ready wavefronts wait where many need the same unit, or where that unit is "
            "blocked: LDS by bank conflicts, the memory path by full queues."
        ),
        condition=(
            "wavefronts spend more than {wait_issue:.0%} of their time in issue waits, and "
            "nothing is at its wall"
        ),
        needs=("wait_issue",),
        uses=(
            "vendor",
            *STATE,
            "stalls_from",
            "wait_dependency",
            "shared_conflict_pct",
            "shared_memory_busy_pct",
            "memory_pipes_busy_pct",
            "top_pipe",
            "top_pipe_pct",
        ),
        applies=_applies,
        when=lambda k: k.meets("wait_issue"),
        because=(
            "wavefronts are ready but not issued for {wait_issue:.0%} of their time[; the busiest "
            "pipe runs at {top_pipe_pct}]"
        ),
        fix=(
            "Remove LDS bank conflicts first, if there are any. Then spread the work over the "
            "units: wider and fewer memory and LDS instructions, address arithmetic in scalar "
            "registers, loads interleaved with arithmetic. If one unit is the queue, fewer "
            "wavefronts may be as fast."
        ),
        refute=(
            "Remove half of the instructions of the unit in question in a copy of the kernel. The "
            "time must fall."
        ),
        saves=_saves("wait_issue"),
        kind="conditional",
        grade="observed",
        layer="operator",
        trust=lambda k: np.full(len(k), _COARSE),
        thresholds={**HEADROOM, "wait_issue": above(0.3)},
        references=_REFERENCES,
        fires=(
            {"vendor": "amd", "wait_issue": 0.31},
            {"vendor": "amd", "wait_issue": 0.6, "compute_pct": 40.0, "memory_pct": 20.0},
        ),
        silent=(
            {"vendor": "amd", "wait_issue": 0.3},
            {"vendor": "amd", "wait_issue": 0.5, "compute_pct": 85.0},
            {"vendor": "nvidia", "wait_issue": 0.5},
        ),
    ),
)
