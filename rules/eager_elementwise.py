"""Element-wise kernels of eager PyTorch: each reads and writes its tensors for one operation."""

from dataclasses import dataclass

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Role, Rule, at_least, below


@dataclass(frozen=True, kw_only=True)
class _Kind:
    """Kernels on one kind of operands. columns: their prefix. likely: part of the time that goes in
    practice."""

    id: str
    columns: str
    title: str
    role: Role
    operands: str
    least_pct: float
    likely: float
    why: str
    fix: str


_KINDS = (
    _Kind(
        id="strided-elementwise",
        columns="strided",
        title="Element-wise kernels work on strided operands",
        role="cause",
        operands="strided or broadcast operands (elementwise_kernel, not vectorized_elementwise_kernel)",
        least_pct=5,
        # Offsets per element and single loads, beside vectorised ones on the same bytes; a judgement.
        likely=1 / 3,
        why=(
            "PyTorch has a vectorised kernel for contiguous operands. Where an operand is transposed, "
            "sliced or broadcast, it takes one that works out an offset per element and loads one "
            "element at a time, and neighbouring threads may touch distant addresses."
        ),
        fix=(
            "Keep one layout up to this operation: transpose or slice after it, call contiguous() once "
            "where several operations follow, keep channels_last throughout. torch.compile fuses it "
            "with its neighbours, broadcasting included."
        ),
    ),
    _Kind(
        id="eager-elementwise",
        columns="eager",
        title="Element-wise operations run as kernels of their own",
        # What the chains of known operators say is more specific.
        role="class",
        operands="contiguous operands (vectorized_ or unrolled_elementwise_kernel)",
        least_pct=10,
        # Two operations in one kernel move the tensor between them no more.
        likely=1 / 2,
        why=(
            "Each element-wise operation of eager PyTorch reads its operands from memory and writes "
            "its result back. A compiler, or a fused kernel, does several on the way, or does them in "
            "the product or the norm beside them."
        ),
        fix=(
            "Use torch.compile around the module, or the fused operations of a library (SwiGLU, "
            "rotary embedding, bias and activation, dropout and add)."
        ),
    ),
)


def _rule(one: _Kind) -> Rule:
    pct, time, launches = (f"{one.columns}_{name}" for name in ("pct", "ns", "launches"))

    def saves(k: Facts, peak: Attainable) -> Column:
        # All of it at most, where a neighbour does the operation on the way.
        part = one.likely if bool(np.any(np.asanyarray(peak.compute) < 1)) else 1.0
        return np.asanyarray(part * getattr(k, time) / k.time_ns)

    def example(share: float) -> dict[str, float]:
        return {pct: share, time: share * 1e6, launches: 432.0, "time_ns": 100e6}

    return Rule(
        id=one.id,
        topic="unfused-elementwise",
        title=one.title,
        scope="run",
        why=one.why,
        condition=(
            f"element-wise kernels of eager PyTorch, by their names on {one.operands}, take "
            f"{{{pct}}} of the GPU time or more, but less than {{others}} (other work ran too)"
        ),
        needs=(pct, time, launches, "time_ns"),
        applies=lambda k: ~np.isnan(getattr(k, pct)),
        when=lambda k: k.meets(pct) & k.meets("others"),
        because=(
            f"{{{launches}:,.0f}} launches on {one.operands} take {{{time}}}, {{{pct}}} of the GPU time"
        ),
        fix=one.fix,
        refute=(
            "Compile the module that launches most of them. The time of these kernels must fall; if "
            "each result is needed in memory, it does not."
        ),
        saves=saves,
        kind="conditional",
        role=one.role,
        grade="inferred",
        layer="framework",
        effort="config",
        thresholds={pct: at_least(one.least_pct), "others": below(80, column=pct, told=False)},
        references=(
            "PyTorch, ATen/native/cuda/CUDALoops.cuh: kernels by the layout of the operands",
            "PyTorch 2: torch.compile, ASPLOS 2024 (TorchInductor's fusion)",
        ),
        fires=(example(one.least_pct), example(40.0)),
        silent=(example(one.least_pct - 0.1), example(80.0)),
    )


RULES = tuple(_rule(one) for one in _KINDS)
