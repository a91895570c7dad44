"""One instruction pipe of the compute units is at its wall: multiply-add, integer, load/store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.kernels.bound_class import BUSY_PCT, WALL_PCT
from traceroof.rule import Attainable, Kind, Rule, Severity, Threshold, at_least, below
from traceroof.rules._kernels import may_reach, pipe_may_reach


@dataclass(frozen=True)
class _Pipe:
    """What is particular to one pipe; the condition always needs the pipe at its wall."""

    pipe: str
    title: str
    why: str
    fix: str
    refute: str
    saves: Callable[[Facts, Attainable], Column] | None
    kind: Kind
    severity: Severity | None = None
    and_limits: Mapping[str, Threshold] = field(default_factory=dict)
    and_words: str = ""
    needs: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    suppresses: tuple[str, ...] = ()
    fires: tuple[Mapping[str, Any], ...] = ()
    silent: tuple[Mapping[str, Any], ...] = ()


def _to_next_unit(pipe: str, memory: Callable[[Facts], Column]) -> Callable[..., Column]:
    """Until the next busiest pipe or memory takes over."""

    def saves(k: Facts, peak: Attainable) -> Column:
        others = np.where(k.top_pipe == pipe, k.second_pipe_pct, k.top_pipe_pct)
        compute = others / (100 * np.asanyarray(peak.compute))
        return np.asanyarray(1 - np.fmax(compute, memory(k) / (100 * np.asanyarray(peak.memory))))

    return saves


_PIPES = (
    _Pipe(
        pipe="fma",
        title="The FP32 multiply-add pipe is at its wall",
        why=(
            "Single-precision arithmetic is issued as fast as its pipe accepts it. For matrix-like "
            "work the same chip has a faster pipe: the tensor cores."
        ),
        fix=(
            "Run matrix-like work on the tensor cores (TF32, BF16), use packed half precision where "
            "accuracy permits, or do fewer operations: simplify, hoist, precompute."
        ),
        refute="Remove a tenth of the arithmetic in a copy of the kernel. The time must fall.",
        # How many operations could go nobody knows, so nothing bounds what that saves.
        saves=None,
        kind="option",
        severity="info",
        uses=("tensor_pct", "fp32_nonfused_pct", "flop_fp32", "flops_per_s", "tf32_speedup"),
        suppresses=("stall-math-pipe", "slow-pipe-limiter"),
        fires=({"pipe_fma_pct": 80.0}, {"pipe_fma_pct": 96.0, "tensor_pct": 0.0}),
        silent=({"pipe_fma_pct": 79.9}, {"pipe_fma_pct": 20.0, "tensor_pct": 90.0}),
    ),
    _Pipe(
        pipe="alu",
        title="The integer and logic pipe is at its wall",
        why=(
            "Index arithmetic, comparisons, bit operations and conversions fill their pipe, while "
            "the floating-point pipes wait."
        ),
        fix=(
            "Use fewer integer instructions per result: hoist index arithmetic out of loops, use "
            "32-bit offsets instead of 64-bit addresses, avoid division and modulo by a variable, "
            "process several elements per thread, use vector conversions."
        ),
        refute="Halve the integer work in a copy of the kernel. The time must fall.",
        saves=_to_next_unit("alu", lambda k: k.memory_pct),
        kind="conditional",
        and_limits={"pipe_fma_pct": below(50), "tensor_pct": below(50, or_unknown=True)},
        and_words=", with the FP32 pipe below {pipe_fma_pct} and the tensor pipe below {tensor_pct}",
        needs=("pipe_fma_pct",),
        uses=("tensor_pct", "top_pipe", "top_pipe_pct", "second_pipe_pct", "memory_pct"),
        suppresses=("stall-math-pipe", "slow-pipe-limiter"),
        fires=(
            {"pipe_alu_pct": 80.0, "pipe_fma_pct": 49.9, "tensor_pct": 49.9},
            {
                "pipe_alu_pct": 92.0,
                "pipe_fma_pct": 30.0,
                "top_pipe": "alu",
                "top_pipe_pct": 92.0,
                "second_pipe_pct": 30.0,
                "memory_pct": 45.0,
            },
        ),
        silent=(
            {"pipe_alu_pct": 79.9, "pipe_fma_pct": 10.0},
            {"pipe_alu_pct": 85.0, "pipe_fma_pct": 50.0},
            {"pipe_alu_pct": 85.0, "pipe_fma_pct": 10.0, "tensor_pct": 50.0},
        ),
    ),
    _Pipe(
        pipe="lsu",
        title="The load/store pipe is at its wall",
        why=(
            "Memory instructions are issued as fast as their pipe accepts them, and each moves few "
            "bytes. The number of instructions limits the kernel, not the bytes."
        ),
        fix=(
            "Move more bytes per instruction: 8 or 16 bytes per thread instead of 1 to 4, bulk "
            "asynchronous copies (TMA) or cp.async instead of loads through registers. Keep values "
            "in registers."
        ),
        refute="Double the bytes of each access. The use of the pipe and the time must fall together.",
        # Memory throughput counts requests too, which the fix makes fewer: only bytes stay.
        saves=_to_next_unit("lsu", lambda k: np.fmax(k.dram_pct, k.l2_throughput_pct)),
        kind="conditional",
        uses=(
            "top_pipe",
            "top_pipe_pct",
            "second_pipe_pct",
            "dram_pct",
            "l2_throughput_pct",
            "load_sectors_per_request",
        ),
        suppresses=("slow-pipe-limiter",),
        fires=(
            {"pipe_lsu_pct": 80.0},
            {
                "pipe_lsu_pct": 88.0,
                "top_pipe": "lsu",
                "top_pipe_pct": 88.0,
                "second_pipe_pct": 25.0,
                "dram_pct": 40.0,
            },
        ),
        silent=({"pipe_lsu_pct": 79.9}, {"pipe_lsu_pct": 30.0, "dram_pct": 90.0}),
    ),
)


def _rule(one: _Pipe) -> Rule:
    column = f"pipe_{one.pipe}_pct"

    def when(k: Facts) -> Mask:
        return np.asanyarray(
            reduce(np.logical_and, [k.meets(name) for name in (column, *one.and_limits)])
        )

    return Rule(
        id=f"compute-{one.pipe}-bound",
        topic="l1-traffic" if one.pipe == "lsu" else "math-pipe",
        title=one.title,
        scope="kernel",
        why=one.why,
        condition=f"{column} is {{{column}}} or more{one.and_words}",
        needs=(column, *one.needs),
        uses=("primary_class", "compute_pct", *one.uses),
        applies=lambda k: pipe_may_reach(k),
        when=when,
        because=f"the pipe is busy {{{column}}} of its peak",
        fix=one.fix,
        refute=one.refute,
        saves=one.saves,
        kind=one.kind,
        role="class",
        grade="observed",
        layer="hardware",
        severity=one.severity,
        suppresses=one.suppresses,
        thresholds={**may_reach(BUSY_PCT), column: at_least(WALL_PCT), **one.and_limits},
        references=("Nsight Compute HighPipeUtilization rule: 80 % and more is the bottleneck",),
        fires=one.fires,
        silent=one.silent,
    )


RULES = tuple(_rule(one) for one in _PIPES)
