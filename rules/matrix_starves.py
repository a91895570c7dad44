"""A kernel made for tensor cores that keeps them idle."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import COUNTED, counted, spare, tunable


def _applies(k: Facts) -> Mask:
    products = one_of(k.category, "gemm", "conv", "attention")
    # A card that may accumulate at half rate may be twice as busy as its counter says; of attention
    # other units are as busy.
    told = ~np.isnan(k.tensor_ceiling_pct) | one_of(k.category, "attention")
    return np.asanyarray(counted(k) & tunable(k) & products & (k.name_tensor_core == 1) & told)


_STARVES = {"by_counters": 1.0, "category": "gemm", "name_tensor_core": 1.0, "median_ns": 4e5,
            "compute_pct": 24.0, "memory_pct": 22.0, "tensor_ceiling_pct": 100.0}  # fmt: skip

RULES = (
    Rule(
        id="matrix-kernel-starves",
        topic="algorithm",
        title="A tensor-core kernel leaves its tensor cores idle",
        scope="kernel",
        why=(
            "Kernels for tensor cores run few warps on purpose and hide latency with stages of "
            "tiles in shared memory. Where neither compute nor memory is busy, this kernel does "
            "not suit the shape: alignment too small for bulk copies, a tile that pads most of its "
            "work, too few stages, too short an inner dimension."
        ),
        condition=(
            "a tensor-core kernel by its name, of {median_ns} or more, with compute use below "
            "{compute_pct} and memory use below {memory_pct}"
        ),
        needs=("compute_pct", "memory_pct", "median_ns"),
        uses=("primary_class", "category", "name_tensor_core", "name_alignment", "tile_m", "tile_n",
              "tensor_ceiling_pct", "waves", "theoretical_occupancy_pct", *COUNTED),
        applies=_applies,
        when=lambda k: k.meets("median_ns") & k.meets("compute_pct") & k.meets("memory_pct"),
        because=(
            "by its name it runs on tensor cores, and compute is busy {compute_pct}, memory "
            "{memory_pct}[; its name says alignment {name_alignment:.0f}]"
            "[; tiles of {tile_m:.0f} x {tile_n:.0f}]"
        ),
        fix=(
            "Try the library's other algorithms (cublasLtMatmulAlgoGetHeuristic, autotuning): "
            "another tile, more stages, split-K. Pad rows to 16 bytes, so that the library may take "
            "a kernel with bulk copies. Few resident warps are the design here, no fault."
        ),
        refute=(
            "Time the same call with its sizes rounded up to multiples of 128: if the time stays, "
            "the shape was not the reason."
        ),
        saves=spare,
        likely=lambda k, peak: np.asanyarray(0.3 * spare(k, peak)),
        kind="conditional",
        grade="derived",
        layer="operator",
        effort="config",
        thresholds={
            "median_ns": at_least(20_000),
            "compute_pct": below(50),
            "memory_pct": below(60),
        },
        references=(
            "NVIDIA, Matrix Multiplication Background User's Guide",
            "NVIDIA cuBLAS documentation: cublasLtMatmulAlgoGetHeuristic, alignment of operands",
        ),
        fires=(
            _STARVES,
            {**_STARVES, "median_ns": 20_000.0, "compute_pct": 49.9, "memory_pct": 59.9},
        ),
        silent=(
            {**_STARVES, "median_ns": 19_900.0},
            {**_STARVES, "compute_pct": 50.0},
            {**_STARVES, "memory_pct": 60.0},
            {**_STARVES, "name_tensor_core": 0.0},
            {**_STARVES, "tensor_ceiling_pct": None},
            {**_STARVES, "category": "elementwise"},
        ),
    ),
)  # fmt: skip
