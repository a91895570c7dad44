"""A product of few rows reads its weight slowly."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Rule, at_most, below
from traceroof.rules._kernels import tunable
from traceroof.rules._models import CEILINGS, CREDIBLE, MODELLED, by_bytes, credible, size


def _rows(k: Facts) -> Column:
    return np.asanyarray(np.minimum(size(k, "M"), size(k, "N")))


def _skinny(k: Facts) -> Mask:
    return np.asanyarray(tunable(k) & (k.model == "gemm") & k.meets("rows") & credible(k))


_EXAMPLE = {
    "model": "gemm",
    "model_shape": "M=1 N=4096 K=4096",
    "model_intensity": 1.0,
    "model_ridge": 295.0,
    "roof_pct": 40.0,
    "model_flop_pct": 0.2,
    "model_dram_pct": 40.0,
}

RULES = (
    Rule(
        id="gemv-decode-gemm",
        topic="memory-bandwidth-decode",
        title="A product of few rows reads its weight slowly",
        scope="kernel",
        why=(
            "A product of few rows does little more than read its weight once. The read rate decides "
            "the time. Kernels made for square products reach only a fraction of the bandwidth here."
        ),
        condition=(
            "a GEMM with M or N at most {rows} and an intensity below {model_intensity:.0%} of the "
            "ridge, which moves its modelled bytes at less than {model_dram_pct:.0%} of the "
            "attainable bandwidth"
        ),
        needs=("model_intensity", "model_ridge"),
        uses=(
            "primary_class",
            "model",
            "model_shape",
            *MODELLED,
            *CEILINGS,
            "model_weight_bytes",
            "t_min_ns",
            "duration_ns",
        ),
        applies=_skinny,
        when=lambda k: k.meets("model_intensity") & k.meets("model_dram_pct"),
        because=(
            "{model_shape} reads {model_weight_bytes} of weights at {model_dram_pct} of the nominal "
            "bandwidth"
        ),
        fix=(
            "Use a matrix-vector or skinny kernel instead of a square one, split along K, try "
            "another library for these shapes (cuBLASLt, hipBLASLt and Triton differ much), and lay "
            "out the weights for 16-byte reads. More sequences per step cost next to nothing up to "
            "the ridge."
        ),
        refute=(
            "Time a plain copy of as many bytes. If it takes as long, the size is too small for full "
            "bandwidth. A second row should cost less than 5 % of the time."
        ),
        saves=lambda k, peak: 1 - by_bytes(k, peak),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("roofline-headroom*", "latency-bound", "dram-leaning-headroom"),
        thresholds={
            **CREDIBLE,
            "rows": at_most(
                16, column="model_shape", measure=_rows, words="M or N {op} {value}"
            ),
            "model_intensity": below(0.25, of="model_ridge"),
            "model_dram_pct": below(0.7, measure=by_bytes, words="{op} {value:.0%} of attainable"),
        },
        references=("Williams, Waterman, Patterson: Roofline, CACM 2009",),
        # 59.4 / 85 = 0.699.
        fires=(
            _EXAMPLE,
            {**_EXAMPLE, "model_shape": "M=16 N=4096 K=4096", "model_intensity": 15.9,
             "roof_pct": 59.4, "model_dram_pct": 59.4},
            {**_EXAMPLE, "model_shape": "M=4096 N=1 K=4096"},
            {**_EXAMPLE, "model_intensity": 73.7},
        ),
        # 59.5 / 85 = 0.7; 73.75 is a quarter of the ridge.
        silent=(
            {**_EXAMPLE, "roof_pct": 59.5, "model_dram_pct": 59.5},
            {**_EXAMPLE, "model_shape": "M=17 N=4096 K=4096"},
            {**_EXAMPLE, "model_intensity": 73.75},
            {**_EXAMPLE, "roof_pct": 120.0, "model_dram_pct": 120.0},
            {**_EXAMPLE, "primary_class": "launch-bound"},
        ),
    ),
)  # fmt: skip
