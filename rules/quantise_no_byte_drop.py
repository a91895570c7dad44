"""Operands got narrower and the bytes did not fall: quantisation that saves no traffic."""

from collections.abc import Mapping

import numpy as np

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    is_unknown_value,
)
from traceroof.core.tracing import each, one_of
from traceroof.operators.operands import BYTES
from traceroof.rule import Rule
from traceroof.rules._changes import on_both_sides

# Two values of four bits share a byte.
_WIDTHS: Mapping[str, float] = {**BYTES, "fp4": 0.5}

_FELL = 0.8
_SAME_WORK = 1.01


def _width(dtype: Column) -> Column:
    def bytes_of(name: object) -> float:
        return float("nan") if is_unknown_value(name) else _WIDTHS.get(str(name), float("nan"))

    return each(dtype, bytes_of, "bytes of an element")


def _narrower(k: Facts) -> Mask:
    return np.asanyarray(_width(k.operand_dtype_head) < _width(k.operand_dtype_base))


def _memory_limited_before(k: Facts) -> Mask:
    limited = one_of(k.class_base, "dram-bound", "memory-leaning", "balanced")
    return np.asanyarray(on_both_sides(k) & limited)


_EXAMPLE = {
    "level": "kernel",
    "verdict": "unchanged",
    "class_base": "dram-bound",
    "operand_dtype_base": "bf16",
    "operand_dtype_head": "int8",
    "dram_bytes_base": 1e8,
}

RULES = (
    Rule(
        id="quantise-no-byte-drop",
        topic="quantisation",
        title="Narrower operands, and as many bytes as before",
        scope="compare",
        why=(
            "Quantised weights help a kernel that memory limits by the bytes that are no longer "
            "read. Where the wide values are still in memory (quantised and widened again, or "
            "widened by a kernel before), the bytes stay, and so does the time."
        ),
        condition=(
            "a kernel that memory limited in the base has a narrower operand type in the head, does "
            "no more operations, and its DRAM bytes fell by less than 20 %"
        ),
        needs=("operand_dtype_base", "operand_dtype_head", "dram_bytes_base", "dram_bytes_head"),
        uses=("level", "verdict", "class_base", "flops_base", "flops_head"),
        applies=_memory_limited_before,
        when=lambda k: (
            _narrower(k)
            & (k.dram_bytes_base > 0)
            & (k.dram_bytes_head > _FELL * k.dram_bytes_base)
            # More work is another shape, where bytes do not compare.
            & ~(k.flops_head > _SAME_WORK * k.flops_base)
        ),
        because=(
            "operands {operand_dtype_base} → {operand_dtype_head}, and DRAM bytes of a launch "
            "{dram_bytes_base} → {dram_bytes_head}"
        ),
        fix=(
            "Store what is quantised in its narrow type and read it so: a product that widens in "
            "registers, and no dequantised copy kept beside it."
        ),
        refute=(
            "Add up the operands' bytes from the shapes: if those that got narrower are less than a "
            "third of all (small weights, many rows), 20 % could not be reached."
        ),
        kind="option",
        grade="observed",
        layer="operator",
        severity="medium",
        risk="numerics",
        thresholds={
            "dram_bytes_head": "> 80 % of dram_bytes_base",
            "operand_dtype_head": "narrower than operand_dtype_base",
        },
        references=(
            "16 bit stored in 8 halves an operand: where it is most of the traffic, over 20 % must go",
        ),
        fires=(
            {**_EXAMPLE, "dram_bytes_head": 0.801e8},
            {**_EXAMPLE, "dram_bytes_head": 1e8, "operand_dtype_base": "fp8",
             "operand_dtype_head": "fp4", "flops_base": 1e9, "flops_head": 1e9},
        ),
        silent=(
            {**_EXAMPLE, "dram_bytes_head": 0.8e8},
            {**_EXAMPLE, "dram_bytes_head": 1e8, "operand_dtype_head": "fp16"},
            {**_EXAMPLE, "dram_bytes_head": 1e8, "class_base": "compute-bound"},
            # Twice the work.
            {**_EXAMPLE, "dram_bytes_head": 1e8, "flops_base": 1e9, "flops_head": 2e9},
        ),
    ),
)  # fmt: skip
