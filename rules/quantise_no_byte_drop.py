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
from traceroof.rule import Rule, above, at_most
from traceroof.rules._changes import on_both_sides

# Two values of four bits share a byte.
_WIDTHS: Mapping[str, float] = {**BYTES, "fp4": 0.5}


def _width(dtype: Column) -> Column:
    def bytes_of(name: object) -> float:
        return float("nan") if is_unknown_value(name) else _WIDTHS.get(str(name), float("nan"))

    return each(dtype, bytes_of, "bytes of an element")


def _narrower(k: Facts) -> Mask:
    return np.asanyarray(_width(k.operand_dtype_head) < _width(k.operand_dtype_base))


def _memory_limited_before(k: Facts) -> Mask:
    limited = one_of(k.class_base, "dram-bound", "memory-bound", "memory-leaning", "balanced")
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
        title="Narrower operands move as many bytes as before",
        scope="compare",
        why=(
            "Quantised weights help a memory-bound kernel because it reads fewer bytes. If the wide "
            "values are still in memory (quantised and widened again, or widened by an earlier "
            "kernel), the bytes stay, and so does the time."
        ),
        condition=(
            "a kernel that memory limited in the base has a narrower operand type in the head, does "
            "at most {flops_head:g} times the operations, and moves more than {dram_bytes_head:.0%} of "
            "the DRAM bytes"
        ),
        needs=("operand_dtype_base", "operand_dtype_head", "dram_bytes_base", "dram_bytes_head"),
        uses=("level", "verdict", "class_base", "flops_base", "flops_head"),
        applies=_memory_limited_before,
        when=lambda k: (
            _narrower(k)
            & k.meets("dram_bytes_base")
            & k.meets("dram_bytes_head")
            & k.meets("flops_head")
        ),
        because=(
            "operands {operand_dtype_base} → {operand_dtype_head}, and DRAM bytes per launch "
            "{dram_bytes_base} → {dram_bytes_head}"
        ),
        fix=(
            "Store the quantised tensor in its narrow type, and use a product that reads it in that "
            "type and widens it in registers. Keep no dequantised copy."
        ),
        refute=(
            "Add up the bytes of the operands from the shapes. If those that got narrower are less "
            "than a third of all (small weights, many rows), the bytes could not fall enough."
        ),
        kind="option",
        grade="observed",
        layer="operator",
        severity="medium",
        risk="numerics",
        thresholds={
            "dram_bytes_head": above(0.8, of="dram_bytes_base"),
            "dram_bytes_base": above(0, told=False),
            # More work is another shape, where bytes do not compare.
            "flops_head": at_most(1.01, of="flops_base", or_unknown=True),
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
