"""A tensor-core kernel was chosen for unaligned operands."""

import numpy as np

from traceroof.facts import Column, Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._matrix import PRODUCT, products

# Elements of 16 bytes, the widest access; TF32 operands are FP32 in memory.
_ALIGNED = {"fp32": 4, "fp16": 8, "bf16": 8, "fp8": 16, "int8": 16}


def _wanted(k: Facts) -> Column:
    return np.array([_ALIGNED.get(str(value), np.nan) for value in k.operand_dtype])


def _applies(k: Facts) -> Mask:
    # Only names that state an alignment can be judged.
    stated = ~np.isnan(k.name_alignment) & (k.name_tensor_core == 1)
    return np.asarray(products(k, "gemm", "conv", "attention") & stated)


_EXAMPLE = {"category": "gemm", "name_tensor_core": 1, "operand_dtype": "fp16"}

RULES = (
    Rule(
        id="tc-misaligned-dims",
        title="A tensor-core kernel was chosen for unaligned operands",
        scope="kernel",
        why=(
            "Libraries have variants by operand alignment. Where a size or a leading dimension is "
            "no multiple of 16 bytes, only the variant with narrow loads fits: same tensor cores, "
            "several times the load instructions in front of them."
        ),
        condition=(
            "the name of a tensor-core kernel states an alignment below 16 bytes: 8 elements of "
            "FP16 and BF16, 16 of FP8 and INT8, 4 of TF32"
        ),
        needs=("name_alignment", "operand_dtype"),
        uses=(*PRODUCT, "load_sectors_per_request"),
        applies=_applies,
        when=lambda k: k.name_alignment < _wanted(k),
        because=(
            "the kernel's name says align{name_alignment:.0f} for {operand_dtype} operands: less than "
            "16 bytes"
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
        kind="option",
        grade="inferred",
        layer="model",
        effort="one-line",
        risk="memory",
        thresholds={"name_alignment": "< 16 bytes"},
        references=(
            "PyTorch profiler, MatMulDimInFP16Pattern",
            "NVIDIA, Matrix Multiplication Background User's Guide: tensor-core requirements",
        ),
        fires=(
            {**_EXAMPLE, "name_alignment": 4},
            {**_EXAMPLE, "name_alignment": 2, "operand_dtype": "fp32"},
            {**_EXAMPLE, "name_alignment": 8, "operand_dtype": "int8"},
        ),
        silent=(
            {**_EXAMPLE, "name_alignment": 8},
            {**_EXAMPLE, "name_alignment": 4, "operand_dtype": "fp32"},
            {**_EXAMPLE, "name_alignment": 16, "operand_dtype": "int8"},
            {**_EXAMPLE, "name_alignment": 1, "name_tensor_core": 0},
        ),
    ),
)
