"""A kernel works in another element type, or no longer on tensor cores."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule, at_least, below
from traceroof.rules._changes import on_both_sides

# Below 1 % the tensor pipe is as good as unused; from 10 % on it does the work.
_UNUSED_PCT, _USED_PCT = 1.0, 10.0

_WHY = (
    "The element type and the tensor cores decide over half the bytes and a multiple of the peak. "
    "A lost cast, or a flag, changes both, and the results too."
)
_FIX = (
    "If this was not intended, check autocast, allow_tf32, the type of the weights, and the "
    "alignment that the library's tensor-core kernels need."
)
_REFUTE = "Print the operator's input types and the kernel names on both sides. They must differ."
_REFERENCES = ("PyTorch documentation: automatic mixed precision; TF32 on Ampere and later",)
_KERNEL = {"level": "kernel", "verdict": "regressed"}


def _other_units(k: Facts) -> Mask:
    dropped = k.meets("used_base") & k.meets("unused_head")
    taken_up = k.meets("unused_base") & k.meets("used_head")
    return dropped | taken_up


def _examples(column: str, *pairs: tuple[object, object]) -> tuple[dict[str, object], ...]:
    return tuple({**_KERNEL, f"{column}_base": a, f"{column}_head": b} for a, b in pairs)


RULES = (
    Rule(
        id="cmp-precision-changed",
        topic="gemm-precision",
        title="The element type changed",
        scope="compare",
        why=_WHY,
        condition="the narrowest operand type of a kernel differs between base and head",
        needs=("operand_dtype_base", "operand_dtype_head"),
        uses=("level", "verdict"),
        applies=on_both_sides,
        when=lambda k: np.asanyarray(k.operand_dtype_base != k.operand_dtype_head),
        because="operands {operand_dtype_base} → {operand_dtype_head}",
        fix=_FIX,
        refute=_REFUTE,
        kind="option",
        grade="derived",
        layer="framework",
        severity="low",
        risk="numerics",
        thresholds={"operand_dtype_head": "not operand_dtype_base"},
        references=_REFERENCES,
        fires=_examples("operand_dtype", ("bf16", "fp32"), ("fp32", "fp16")),
        silent=_examples("operand_dtype", ("bf16", "bf16"), ("fp32", "fp32")),
    ),
    Rule(
        id="cmp-tensor-cores-changed",
        topic="tensor-cores-unused",
        title="Only one side uses tensor cores",
        scope="compare",
        why=_WHY,
        condition=(
            "tensor-core use goes from {used_base} or more to less than {unused_head}, or from "
            "less than {unused_base} to {used_head} or more"
        ),
        needs=("pipe_tensor_use_pct_base", "pipe_tensor_use_pct_head"),
        uses=("level", "verdict"),
        applies=on_both_sides,
        when=_other_units,
        because="tensor-core use {pipe_tensor_use_pct_base} → {pipe_tensor_use_pct_head}",
        fix=_FIX,
        refute=_REFUTE,
        kind="option",
        grade="observed",
        layer="framework",
        severity="low",
        risk="numerics",
        thresholds={
            "used_base": at_least(_USED_PCT, column="pipe_tensor_use_pct_base"),
            "unused_head": below(_UNUSED_PCT, column="pipe_tensor_use_pct_head"),
            "unused_base": below(
                _UNUSED_PCT, column="pipe_tensor_use_pct_base", words="or {op} {value}"
            ),
            "used_head": at_least(
                _USED_PCT, column="pipe_tensor_use_pct_head", words="or {op} {value}"
            ),
        },
        references=_REFERENCES,
        fires=_examples("pipe_tensor_use_pct", (10.0, 0.99), (0.0, 40.0)),
        silent=_examples("pipe_tensor_use_pct", (9.9, 0.0), (40.0, 1.0)),
    ),
)
