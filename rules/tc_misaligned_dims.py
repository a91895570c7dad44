"""Sizes of a product that tensor cores take badly."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import each
from traceroof.rule import Attainable, Rule, above, below
from traceroof.rules._matrix import PRODUCT, products
from traceroof.rules._models import MODELLED, size

# Bytes of an element; TF32 operands are FP32 in memory.
_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}


def _element(k: Facts) -> Column:
    return each(
        k.operand_dtype, lambda dtype: _BYTES.get(str(dtype), np.nan), "bytes of an element"
    )


def _wanted(k: Facts) -> Column:
    """Elements of the widest access."""
    return np.asanyarray(k.limit("name_alignment") / _element(k))


def _applies(k: Facts) -> Mask:
    stated = ~np.isnan(k.name_alignment) & (k.name_tensor_core == 1)
    # FP32 is for tensor cores only where the name says so.
    sized = (k.model == "gemm") & ((k.operand_dtype != "fp32") | (k.name_tensor_core == 1))
    return np.asanyarray(products(k, "gemm", "conv", "attention") & (stated | sized))


def _features(k: Facts) -> tuple[Column, Column]:
    """N and K, the sizes that lie along memory. Rows (tokens) may be as odd as they like; in the
    gradient of a weight they are K, so there K is not judged."""
    inner = np.where(k.phase == "backward", np.nan, size(k, "K"))
    return size(k, "N"), inner


def _remainder(k: Facts) -> Column:
    """Elements of N or K beyond a multiple of the widest access."""
    across, inner = (feature % _wanted(k) for feature in _features(k))
    return np.asanyarray(np.fmax(across, inner))


def _odd(k: Facts) -> Mask:
    # A kernel for aligned operands was found all the same: the leading dimensions are padded.
    padded = ~np.isnan(k.name_alignment * _element(k)) & ~k.meets("name_alignment")
    return np.asanyarray(k.meets("remainder") & k.meets("rows") & ~padded)


def _saves(k: Facts, peak: Attainable) -> Column:
    """What padded sizes would still take, at the roof."""
    rows, columns, inner = size(k, "M"), size(k, "N"), size(k, "K")
    wanted = _wanted(k)
    wider, deeper = (np.ceil(one / wanted) * wanted for one in (columns, inner))
    flops = wider * deeper / (columns * inner)
    moved = rows * deeper + deeper * wider + rows * wider
    moved = moved / (rows * inner + inner * columns + rows * columns)
    return np.asanyarray(
        1
        - np.maximum(
            k.model_flop_pct * flops / (100 * np.asanyarray(peak.compute)),
            k.model_dram_pct * moved / (100 * np.asanyarray(peak.memory)),
        )
    )


_EXAMPLE = {"category": "gemm", "name_tensor_core": 1, "operand_dtype": "fp16"}
_SIZED = {"category": "gemm", "operand_dtype": "bf16", "model": "gemm"}
_USE = {"model_flop_pct": 30.0, "model_dram_pct": 10.0}

RULES = (
    Rule(
        id="tc-misaligned-dims",
        topic="gemm-shape",
        title="Sizes of a product do not fit the tensor cores",
        scope="kernel",
        why=(
            "Libraries have kernel variants by operand alignment. If a size or a leading dimension is "
            "not a multiple of 16 bytes, only the variant with narrow loads fits. It uses the same "
            "tensor cores but needs several times as many load instructions."
        ),
        condition=(
            "the name of a tensor-core kernel states an operand alignment below {name_alignment}, or "
            "M and N of its product are above {rows} and N or K is not a multiple of that; K is not "
            "judged in the backward pass, where it may be a number of rows"
        ),
        needs=("operand_dtype",),
        uses=(
            *PRODUCT,
            *MODELLED[1:],
            "name_alignment",
            "model",
            "model_shape",
            "phase",
            "load_sectors_per_request",
        ),
        applies=_applies,
        when=lambda k: k.meets("name_alignment") | _odd(k),
        because=(
            "{operand_dtype} operands with sizes {model_shape}; alignment in the kernel's name: "
            "{name_alignment}"
        ),
        fix=(
            "Pad the unaligned vocabulary, hidden, head or channel size, or the row length (leading "
            "dimension), to a multiple of 8 (FP8 and INT8: 16, TF32: 4). Multiples of 64 also fit "
            "the tiles."
        ),
        refute=(
            "Print the shapes. If all sizes are multiples already, an unaligned slice or offset is "
            "the cause. Pad once and time it."
        ),
        saves=_saves,
        kind="option",
        grade="inferred",
        layer="model",
        effort="one-line",
        risk="memory",
        thresholds={
            "name_alignment": below(
                16,
                measure=lambda k: k.name_alignment * _element(k),
                unit="byte",
                words="{op} {value} in elements of the type",
            ),
            "remainder": above(
                0, column="model_shape", measure=_remainder, words="N or K not aligned"
            ),
            # With so few rows or columns a product is a matrix-vector one.
            "rows": above(
                8,
                column="model_shape",
                measure=lambda k: np.minimum(size(k, "M"), size(k, "N")),
                words="M and N {op} {value}",
            ),
        },
        references=(
            "PyTorch profiler, MatMulDimInFP16Pattern",
            "NVIDIA, Matrix Multiplication Background User's Guide: tensor-core requirements",
        ),
        # 8 elements of 2 bytes are 16 bytes: 50257 and 4100 are no multiples of 8, 50264 is.
        fires=(
            {**_EXAMPLE, "name_alignment": 4},
            {**_EXAMPLE, "name_alignment": 2, "operand_dtype": "fp32"},
            {**_EXAMPLE, "name_alignment": 8, "operand_dtype": "int8"},
            {**_SIZED, **_USE, "model_shape": "M=4096 N=50257 K=768"},
            {**_SIZED, **_USE, "model_shape": "M=4096 N=768 K=4100"},
        ),
        silent=(
            {**_EXAMPLE, "name_alignment": 8},
            {**_EXAMPLE, "name_alignment": 4, "operand_dtype": "fp32"},
            {**_EXAMPLE, "name_alignment": 16, "operand_dtype": "int8"},
            {**_EXAMPLE, "name_alignment": 1, "name_tensor_core": 0},
            {**_SIZED, **_USE, "model_shape": "M=4097 N=50264 K=768"},
            {**_SIZED, **_USE, "model_shape": "M=768 N=768 K=4097", "phase": "backward"},
            {**_SIZED, **_USE, "model_shape": "M=1 N=50257 K=768"},
            {**_SIZED, **_USE, "model_shape": "M=4096 N=50257 K=768", "operand_dtype": "fp32"},
            {**_SIZED, "name_alignment": 8, "model_shape": "M=4096 N=50257 K=768",
             "name_tensor_core": 1},
        ),
    ),
)  # fmt: skip
