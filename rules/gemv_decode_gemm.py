"""A product of few rows reads its weight slowly."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.rule import Rule
from traceroof.rules._kernels import tunable
from traceroof.rules._models import CEILINGS, MODELLED, by_bytes, credible, size


def _skinny(k: Facts) -> Mask:
    narrow = np.minimum(size(k, "M"), size(k, "N")) <= 16
    return np.asanyarray(tunable(k) & (k.model == "gemm") & narrow & credible(k))


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
            "With up to 16 rows a product does little more than read its weight once; how fast that "
            "goes is all that counts. Kernels made for square products use a fraction of the "
            "bandwidth here."
        ),
        condition=(
            "M or N at most 16, intensity below a quarter of the ridge, and modelled bytes over "
            "time below 0.7 of the attainable bandwidth"
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
        when=lambda k: (k.model_intensity < k.model_ridge / 4) & (by_bytes(k) < 0.7),
        because=(
            "{model_shape} reads {model_weight_bytes} of weights at {model_dram_pct} of the nominal "
            "bandwidth"
        ),
        fix=(
            "A matrix-vector or skinny kernel instead of a square one, split along K, another "
            "library for these shapes (cuBLASLt, hipBLASLt and Triton differ much), weights laid out "
            "for 16-byte reads. More sequences in a step cost next to nothing until the "
            "ridge."
        ),
        refute=(
            "Copy as many bytes with a plain copy kernel: if it takes as long, the size is too "
            "small for full bandwidth. A second row should cost less than 5 %."
        ),
        saves=lambda k, peak: 1 - by_bytes(k, peak),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("roofline-headroom*", "latency-bound", "dram-leaning-headroom"),
        thresholds={"model_dram_pct": "< 0.7 of attainable", "model_intensity": "< ridge / 4"},
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
