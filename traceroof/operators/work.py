"""The work of one operator call: what a model makes, and what models share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from traceroof.operators.closed_forms import Cost
from traceroof.operators.operands import (
    Argument,
    Call,
    Shape,
)

Unit = Literal["tensor", "vector"]


@dataclass(frozen=True)
class Work:
    """What one call of an operator is at least.

    model: which model counted it.
    unit: the part of the GPU that the arithmetic may use: matrix units (where the device has
        them for this type) or vector units.
    dtype: type of the arithmetic, in the device table's names: what picks the peak. FP32 matrix
        work may run as TF32; only the kernel's name tells.
    flops: FLOP, a multiply-accumulate counting 2; None where an argument that decides it is
        unknown.
    bytes_min: compulsory memory traffic in bytes; None where an element type is unknown.
    dims: the sizes that the model used, for the operator card and for rules.
    weight_bytes: the part of ``bytes_min`` that is a weight, where there is one.
    """

    model: str
    unit: Unit
    dtype: str | None
    flops: float | None
    bytes_min: float | None
    dims: Mapping[str, int] = field(default_factory=dict)
    weight_bytes: float | None = None

    @property
    def shape(self) -> str:
        """The sizes in words: ``M=128 N=4096 K=4096``."""
        return " ".join(f"{name}={size}" for name, size in self.dims.items())

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where either is unknown or no byte moves."""
        if self.flops is None or not self.bytes_min:
            return None
        return self.flops / self.bytes_min


# What a model returns: the work, and the output's shape where out= forms must be told apart.
Result = tuple[Work, Shape | None]


def made(
    model: str,
    cost: Cost,
    dims: Mapping[str, int],
    *,
    dtype: str | None,
    unit: Unit = "vector",
    weight_bytes: float | None = None,
) -> Work:
    return Work(
        model=model,
        unit=unit,
        dtype=dtype if unit == "tensor" else _vector_dtype(dtype),
        flops=float(cost.flops) if isfinite(cost.flops) else None,
        bytes_min=float(cost.bytes) if isfinite(cost.bytes) else None,
        dims=dims,
        weight_bytes=weight_bytes if weight_bytes is not None and isfinite(weight_bytes) else None,
    )


def _vector_dtype(dtype: str | None) -> str | None:
    """What element-wise code computes in: half types in FP32 (ATen's opmath type)."""
    return {"fp16": "fp32", "bf16": "fp32", "fp8": "fp32", "fp4": "fp32"}.get(dtype or "", dtype)


def rows(call: Call, x: Argument) -> Mapping[str, int]:
    shape = x.shape
    dim = call["dim"].integer()
    if not shape or dim is None or not -len(shape) <= dim < len(shape):
        return {"elements": x.elements}
    return {"R": x.elements // max(shape[dim], 1), "C": shape[dim]}
