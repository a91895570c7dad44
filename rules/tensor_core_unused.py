"""A low-precision product runs without tensor cores."""

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.tracing import each, one_of
from traceroof.rule import Attainable, Rule, above, below
from traceroof.rules._kernels import of_class
from traceroof.rules._matrix import PRODUCT, marked_only, name_trust, products

# From which compute capability tensor cores take the type: Volta, Ampere, Ada.
_SINCE = {"fp16": 7.0, "int8": 7.2, "bf16": 8.0, "fp8": 8.9}


def _since(k: Facts) -> Column:
    return each(
        k.operand_dtype,
        lambda dtype: _SINCE.get(str(dtype), np.nan),
        "compute capability that has it",
    )


def _applies(k: Facts) -> Mask:
    types = one_of(k.operand_dtype, *_SINCE) | unknown(k.operand_dtype)
    # Bound by bytes, vector units keep up: decode attention, products with a handful of rows.
    known_old = k.compute_capability < _since(k)
    return np.asanyarray(
        products(k, "gemm", "conv", "attention")
        & types
        & ~known_old
        & ~marked_only(k)
        & ~of_class(k, "dram-bound")
    )


def _saves(k: Facts, peak: Attainable) -> Column:
    faster = 1 - 1 / (k.tensor_speedup * np.asanyarray(peak.compute))
    return np.asanyarray(np.fmin(faster, 1 - k.dram_pct / (100 * np.asanyarray(peak.memory))))


_EXAMPLE = {
    "category": "gemm",
    "operand_dtype": "fp16",
    "pipe_tensor_use_pct": 0.0,
    "compute_capability": 8.0,
    "tensor_speedup": 16.0,
}

RULES = (
    Rule(
        id="tensor-core-unused",
        topic="tensor-cores-unused",
        title="A low-precision product runs without tensor cores",
        scope="kernel",
        why=(
            "The tensor cores support the type of the operands, but the kernel multiplies on the "
            "vector pipes at a fraction of the rate. Typical reasons are an unaligned shape, an "
            "unusual layout, an old library or a hand-written loop."
        ),
        condition=(
            "a GEMM, convolution or attention kernel on FP16, BF16, FP8 or INT8 with tensor-core "
            "use below {pipe_tensor_use_pct} (or a name that marks a vector kernel), on a device "
            "whose tensor cores support the type; no matrix-vector product, and device memory is "
            "not at its wall"
        ),
        needs=("pipe_tensor_use_pct", "operand_dtype", "tensor_speedup"),
        uses=(*PRODUCT, "compute_capability", "dram_pct", "name_alignment"),
        applies=_applies,
        when=lambda k: (
            k.meets("pipe_tensor_use_pct")
            & k.meets("tensor_speedup")
            & one_of(k.operand_dtype, *_SINCE)
        ),
        because=(
            "tensor cores are used {pipe_tensor_use_pct} in this {operand_dtype} product. Their "
            "peak for it is {tensor_speedup:.1f} times the FP32 peak"
        ),
        fix=(
            "Make sizes and leading dimensions multiples of 8 (16 for 8-bit types). Use contiguous "
            "or channels-last layouts, a current cuBLAS, cuDNN or hipBLASLt, and a fused attention "
            "backend. In your own kernels use matrix instructions (CUTLASS, CuTe, Triton dot, "
            "mma.sync, MFMA)."
        ),
        refute=(
            "Pad the product to multiples of 64 and time it. If name and time stay, the library "
            "had another reason. With 8 rows or fewer it is a matrix-vector product, and bytes are "
            "the limit."
        ),
        saves=_saves,
        kind="option",
        grade="observed",
        layer="framework",
        effort="refactor",
        risk="numerics",
        trust=name_trust,
        thresholds={"pipe_tensor_use_pct": below(1), "tensor_speedup": above(1)},
        references=("PyTorch TensorBoard plug-in: tensor-core eligible time without use",),
        fires=(
            _EXAMPLE,
            {**_EXAMPLE, "pipe_tensor_use_pct": 0.9, "tensor_pct": 0.9, "operand_dtype": "bf16"},
            {**_EXAMPLE, "category": "attention", "tensor_pct": 0.0},
            {**_EXAMPLE, "tensor_speedup": 1.01},
        ),
        silent=(
            {**_EXAMPLE, "pipe_tensor_use_pct": 1.0, "tensor_pct": 1.0},
            {**_EXAMPLE, "operand_dtype": "bf16", "compute_capability": 7.5},
            {**_EXAMPLE, "operand_dtype": "fp8", "compute_capability": 8.6},
            {**_EXAMPLE, "operand_dtype": "fp32"},
            {**_EXAMPLE, "name_no_matrix": 1},
            {**_EXAMPLE, "name_tensor_core": 1},
            {**_EXAMPLE, "primary_class": "dram-bound"},
            {**_EXAMPLE, "tensor_speedup": 1.0},
            {**_EXAMPLE, "category": "softmax"},
        ),
    ),
)
