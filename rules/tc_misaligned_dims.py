"""Sizes of a product that tensor cores take badly."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import each
from traceroof.rule import Attainable, Rule
from traceroof.rules._matrix import PRODUCT, products
from traceroof.rules._models import MODELLED, size

# Elements of 16 bytes, the widest access; TF32 operands are FP32 in memory.
_ALIGNED = {"fp32": 4, "fp16": 8, "bf16": 8, "fp8": 16, "int8": 16}
_SKINNY = 8  # rows or columns up to which a product is a matrix-vector one


def _wanted(k: Facts) -> Column:
    return each(
        k.operand_dtype, lambda dtype: _ALIGNED.get(str(dtype), np.nan), "alignment that it wants"
    )


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


def _odd(k: Facts) -> Mask:
    wanted = _wanted(k)
    odd = np.zeros(len(k), dtype=bool)
    for feature in _features(k):
        odd |= feature % wanted > 0
    wide = np.minimum(size(k, "M"), size(k, "N")) > _SKINNY
    # A kernel for aligned operands was found all the same: the leading dimensions are padded.
    return np.asanyarray(odd & wide & ~(k.name_alignment >= wanted))


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
        title="Sizes of a product that tensor cores take badly",
        scope="kernel",
        why=(
            "Libraries have variants by operand alignment. Where a size or a leading dimension is "
            "no multiple of 16 bytes, only the variant with narrow loads fits: same tensor cores, "
            "several times the load instructions in front of them."
        ),
        condition=(
            "the name of a tensor-core kernel states an alignment below 16 bytes (8 elements of "
            "FP16 and BF16, 16 of FP8 and INT8, 4 of TF32), or N or K of its product is no multiple "
            "of that; K not in the backward pass, where it may be a number of rows"
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
        when=lambda k: (k.name_alignment < _wanted(k)) | _odd(k),
        because=(
            "{operand_dtype} operands with sizes {model_shape}; alignment in the kernel's name: "
            "{name_alignment}"
        ),
        fix=(
            "Pad the vocabulary, hidden, head or channel size that is odd, or the row length "
            "(leading dimension), to a multiple of 8 (FP8 and INT8: 16, TF32: 4); multiples of 64 "
            "fit the tiles better still."
        ),
        refute=(
            "Print the shapes: if all sizes are multiples already, an odd slice or offset is the "
            "cause. Pad once and time it."
        ),
        saves=_saves,
        kind="option",
        grade="inferred",
        layer="model",
        effort="one-line",
        risk="memory",
        thresholds={"name_alignment": "< 16 bytes", "model_shape": "N, K multiples of 16 bytes"},
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
