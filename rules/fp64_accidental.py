"""A kernel on narrower data computes in FP64."""

import numpy as np

from traceroof.core.facts import Facts, Mask, unknown
from traceroof.core.tracing import one_of
from traceroof.rule import Rule, above
from traceroof.rules._kernels import tunable

_NARROWER = ("fp32", "fp16", "bf16", "fp8", "fp4", "int8")


def _applies(k: Facts) -> Mask:
    narrow = one_of(k.declared_dtype, *_NARROWER) | unknown(k.declared_dtype)
    settled = (k.flop_fp64 == 0) | (k.pipe_fp64_use_pct == 0)
    return np.asanyarray(tunable(k) & narrow & ~settled)


_EXAMPLE = {"flop_fp64": 1e6, "declared_dtype": "fp32", "pipe_fp64_use_pct": 30.0}

RULES = (
    Rule(
        id="fp64-accidental",
        topic="fp64",
        title="A kernel on narrower data computes in FP64",
        scope="kernel",
        why=(
            "One double literal or one double overload turns a whole expression into FP64. FP64 "
            "runs at 1/32 to 1/64 of the FP32 rate on most GPUs, and at half of it on data-center "
            "GPUs."
        ),
        condition="FP64 operations were counted although the declared element types are FP32 or narrower",
        needs=("flop_fp64", "declared_dtype", "pipe_fp64_use_pct"),
        uses=("primary_class", "name_dtype", "fp64_ratio", "flop_fp32"),
        applies=_applies,
        when=lambda k: k.meets("flop_fp64") & k.meets("pipe_fp64_use_pct"),
        because=(
            "{flop_fp64} of FP64 work per launch on {declared_dtype} data: the FP64 pipe is busy "
            "{pipe_fp64_use_pct}"
        ),
        fix=(
            "Suffix literals (0.5f), call the float overloads (sqrtf, expf, std::pow with float "
            "arguments), and compute constants on the host. Keep FP64 where an accumulator needs it."
        ),
        refute=(
            "Search the SASS for D* opcodes and F2F.F64. After the change none must be left, and "
            "the use of the FP64 pipe must be zero."
        ),
        saves=lambda k, peak: k.pipe_fp64_use_pct / 100,
        # The fix changes results in the last digits, and the operations that are counted.
        kind="option",
        grade="observed",
        layer="operator",
        effort="one-line",
        risk="numerics",
        thresholds={"flop_fp64": above(0), "pipe_fp64_use_pct": above(0)},
        references=("Nsight Compute SOLFPRoofline rule: FP64 beside FP32 work",),
        fires=(_EXAMPLE, {**_EXAMPLE, "declared_dtype": "bf16", "flop_fp64": 1.0}),
        silent=(
            {**_EXAMPLE, "flop_fp64": 0.0, "pipe_fp64_use_pct": 0.0},
            {**_EXAMPLE, "declared_dtype": "fp64"},
        ),
    ),
)
