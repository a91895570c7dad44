"""Products in FP32 that 16 bits would speed up: one rule a 16-bit type, since GPUs differ in it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts, unknown
from traceroof.core.tracing import one_of
from traceroof.rule import GRADES, Attainable, Rule, at_least


@dataclass(frozen=True, kw_only=True)
class _Type:
    """One 16-bit type. dtype: as in ``precision_to``. wide: what products
    run in on such a GPU without it. which: the GPUs. fix: how to get there."""

    dtype: str
    name: str
    wide: str
    which: str
    fix: str
    references: tuple[str, ...]


_TYPES = (
    _Type(
        dtype="bf16",
        name="BF16",
        wide="FP32 or TF32",
        which="which has BF16",
        fix=(
            'Run the model under autocast in BF16 (torch.autocast("cuda", torch.bfloat16)), or in '
            "BF16 throughout; no loss scaling is needed. Where FP32 inputs must stay: "
            '[nvidia: TF32 (torch.set_float32_matmul_precision("high"), '
            "torch.backends.cudnn.allow_tf32 = True), for what does not use it yet]"
            "[amd: hipBLASLt's lower-precision compute types, where the device has them]. Kernels for "
            "operands aligned to one element: pad the odd size to a multiple of 8."
        ),
        references=("NVIDIA, Train With Mixed Precision", "PyTorch documentation: torch.autocast"),
    ),
    _Type(
        dtype="fp16",
        name="FP16",
        wide="FP32",
        which="whose tensor cores take FP16 only",
        fix=(
            'Run the model under autocast in FP16 (torch.autocast("cuda", torch.float16)), with '
            "torch.amp.GradScaler in training; convolutions in channels_last, sizes in multiples of "
            "8. What needs the range of FP32 (norms, softmax, losses) stays in FP32."
        ),
        references=(
            "NVIDIA, Train With Mixed Precision",
            "Micikevicius et al.: Mixed Precision Training, 2018",
        ),
    ),
)

_EXAMPLE = {
    "precision_pct": 40.0,
    "precision_time_ns": 40e6,
    "precision_least_ns": 5e6,
    "precision_likely_ns": 13.3e6,
    "precision_launches": 120.0,
    "precision_example": "volta_sgemm_128x64_nn 40.0 ms",
    "time_ns": 100e6,
}


def _saves(k: Facts, peak: Attainable) -> Column:
    # By the ratio of the peaks at most; in practice by less.
    practice = np.asanyarray(peak.compute) < 1
    left = np.where(practice, k.precision_likely_ns, k.precision_least_ns)
    return np.asanyarray((k.precision_time_ns - left) / k.time_ns)


def _trust(k: Facts) -> Column:
    """Where the GPU is not named, what it gains is inferred."""
    named = unknown(k.precision_of)
    return np.where(named, 1.0, GRADES["inferred"] / GRADES["derived"])


def _rule(one: _Type) -> Rule:
    def found(pct: float, **more: Any) -> dict[str, Any]:
        return {**_EXAMPLE, "precision_to": one.dtype, "precision_pct": pct, **more}

    other = next(name.dtype for name in _TYPES if name is not one)
    return Rule(
        id=f"gemm-precision-{one.dtype}",
        title=f"Matrix products run in {one.wide} where {one.name} would do",
        scope="run",
        topic="gemm-precision",
        why=(
            "Matrix products, convolutions and attention in FP32 use the vector units, or the tensor "
            "cores at their rate for FP32 operands. In 16 bits, accumulated in FP32, the tensor cores "
            f"are several times as fast and half the bytes move. This is a GPU {one.which}."
        ),
        condition=(
            "GEMMs, convolutions and attention on FP32 operands, by recorded types or kernel names, "
            "take {precision_pct} of the GPU time or more, on a GPU whose 16-bit peak is higher than "
            "that of the units they use (where no GPU is named, one that the kernels are compiled for)"
        ),
        needs=("precision_pct", "precision_to", "precision_least_ns", "precision_likely_ns"),
        uses=(
            "precision_time_ns", "precision_launches", "precision_tf32_pct", "precision_narrow_pct",
            "precision_example", "precision_of", "time_ns",
        ),
        applies=lambda k: one_of(k.precision_to, one.dtype),
        when=lambda k: k.meets("precision_pct"),
        because=(
            "{precision_launches} products on FP32 operands take {precision_time_ns}, {precision_pct} of the GPU "
            "time ({precision_example}); by the peaks[ ({precision_of})] they would take "
            "{precision_least_ns} in "
            f"{one.name}"
            "[; {precision_tf32_pct:some} of it runs in TF32 already]"
            "[; {precision_narrow_pct:some} in kernels for operands aligned to one element]"
        ),
        fix=f"{one.fix} This changes numerics: compare the results with FP32 before keeping it.",
        refute=(
            f"Run one step under autocast. The kernels' names must change to {one.name} ones and "
            "their time must fall. If it hardly does, the products are too small, or bytes limit them."
        ),
        saves=_saves,
        trust=_trust,
        kind="option",
        grade="derived",
        layer="framework",
        effort="one-line",
        risk="numerics",
        thresholds={"precision_pct": at_least(5)},
        references=one.references,
        fires=(
            found(5.0),
            found(90.0, precision_tf32_pct=100.0),
            found(60.0, precision_of="of the GPU that would gain most: the file names none"),
        ),
        silent=(found(4.9), found(90.0, precision_to=other)),
    )  # fmt: skip


RULES = tuple(_rule(one) for one in _TYPES)
