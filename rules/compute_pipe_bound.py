"""One instruction pipe of the compute units is at its wall: multiply-add, integer, load/store."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Kind, Rule, Severity
from traceroof.rules._kernels import pipe_may_reach


@dataclass(frozen=True)
class _Pipe:
    """What is particular to one pipe; the condition always holds the pipe at 80 % or more."""

    pipe: str
    title: str
    why: str
    fix: str
    refute: str
    saves: Callable[[Facts, Attainable], Column]
    kind: Kind
    severity: Severity | None = None
    and_when: Callable[[Facts], Mask] | None = None
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
            "Single-precision arithmetic is issued as fast as its pipe takes it. For matrix-like "
            "work there is a faster pipe on the same chip: the tensor cores."
        ),
        fix=(
            "Let matrix-like work run on the tensor cores (TF32, BF16), use packed half precision "
            "where accuracy permits, or do fewer operations: simplify, hoist, precompute."
        ),
        refute="Take out a tenth of the arithmetic in a copy of the kernel: the time must fall.",
        # Below 60 % a pipe no longer counts as busy: what is left is not its fault.
        saves=lambda k, peak: 1 - 60 / k.pipe_fma_pct,
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
            "the pipes that do the floating-point work wait."
        ),
        fix=(
            "Spend fewer integer instructions on a result: hoist index arithmetic out of loops, "
            "32-bit offsets instead of 64-bit addresses, no division or modulo by a variable, "
            "several elements a thread, vector conversions."
        ),
        refute="Halve the integer work in a copy of the kernel: the time must fall.",
        saves=_to_next_unit("alu", lambda k: k.memory_pct),
        kind="conditional",
        and_when=lambda k: (k.pipe_fma_pct < 50) & ~(k.tensor_pct >= 50),
        and_words=" while the FP32 and tensor pipes are below 50 %",
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
            "Memory instructions are issued as fast as their pipe takes them, each moving few "
            "bytes: the number of instructions limits the kernel, not the bytes."
        ),
        fix=(
            "Move more with each instruction: 8 or 16 bytes a thread instead of 1 to 4, bulk "
            "asynchronous copies (TMA) or cp.async instead of loads through registers, values kept "
            "in registers."
        ),
        refute="Double the bytes of each access: the pipe's use and the time must fall together.",
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
        full = getattr(k, column) >= 80
        return np.asanyarray(full & one.and_when(k) if one.and_when else full)

    return Rule(
        id=f"compute-{one.pipe}-bound",
        topic="l1-traffic" if one.pipe == "lsu" else "math-pipe",
        title=one.title,
        scope="kernel",
        why=one.why,
        condition=f"{column} at 80 % or more{one.and_words}",
        needs=(column, *one.needs),
        uses=("primary_class", "compute_pct", *one.uses),
        applies=lambda k: pipe_may_reach(k, 60),
        when=when,
        because=f"its pipe is busy {{{column}}} of the time it can be",
        fix=one.fix,
        refute=one.refute,
        saves=one.saves,
        kind=one.kind,
        role="class",
        grade="observed",
        layer="hardware",
        severity=one.severity,
        suppresses=one.suppresses,
        thresholds={column: ">= 80", **dict.fromkeys(one.needs, "< 50")},
        references=("Nsight Compute HighPipeUtilization rule: 80 % and more is the bottleneck",),
        fires=one.fires,
        silent=one.silent,
    )


RULES = tuple(_rule(one) for one in _PIPES)
