"""Products that load more than they compute: no tile in registers, or one word at a time."""

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.kernels.bound_class import BUSY_PCT
from traceroof.rule import Rule, at_least, at_most, below
from traceroof.rules._kernels import tunable
from traceroof.rules._least import LEAST, beyond_least


def _without_reuse(k: Facts) -> Mask:
    few_lanes = k.meets("compute_capability") & k.meets("few_lanes_pct")
    return np.asanyarray(k.meets("product_use_pct") | few_lanes)


def _loading(k: Facts) -> Mask:
    busy = k.meets("compute_pct") | k.meets("l1_pct")
    return np.asanyarray(busy | k.meets("flops_per_load"))


def _applies(k: Facts) -> Mask:
    plain = k.meets("tensor_pct") & ~(k.name_tensor_core == 1)
    products = tunable(k) & one_of(k.category, "gemm")
    return np.asanyarray(products & plain & k.meets("kernel_dram_pct"))


_PLAIN = {
    "tensor_pct": below(1, or_unknown=True),
    "kernel_dram_pct": below(BUSY_PCT, or_unknown=True),
}


_FIELDS = ("primary_class", "tensor_pct", "name_tensor_core", "kernel_dram_pct",
           "l1_pct", "compute_capability", "threads_per_block", *LEAST)  # fmt: skip
_NAIVE = {"category": "gemm", "compute_pct": 97.0, "product_use_pct": 5.8}
_SCALAR = {"category": "gemm", "compute_pct": 80.8, "load_sectors_per_request": 4.0,
           "product_use_pct": 18.7}  # fmt: skip
_COUNTED = {"category": "gemm", "product_use_pct": 5.0, "flops_per_load": 1.0}

RULES = (
    Rule(
        id="no-register-reuse",
        topic="algorithm",
        title="The product loads two values per multiply-add",
        scope="kernel",
        why=(
            "A thread that computes one element of the result loads a value of each operand for "
            "every multiply-add, from L1 or from shared memory. The loads keep the multiprocessor "
            "busy while its arithmetic idles: 32 words per cycle feed 16 of its 128 FP32 lanes. The "
            "busy load path is the symptom, not the limit."
        ),
        condition=(
            "an FP32 product without tensor cores (used below {tensor_pct}), with compute use at "
            "{compute_pct} or L1 use at {l1_pct} or more, or at most {flops_per_load} operations per "
            "word that threads load; device memory is used below {kernel_dram_pct}; it runs at "
            "{product_use_pct} of the FP32 peak or less ({few_lanes_pct} up to compute capability "
            "{compute_capability:.1f}), by counted operations, otherwise by what it loads"
        ),
        needs=("category", "product_use_pct"),
        uses=("compute_pct", "flops_per_load", *_FIELDS),
        applies=_applies,
        when=lambda k: _loading(k) & _without_reuse(k),
        because=(
            "[its compute units are busy {compute_pct} of the time, mostly with loads; ][it does "
            "{flops_per_load:.1f} operations per word loaded; ]it runs at [{product_flop_pct} (by "
            "what it loads)][{flop_pct}] of the FP32 peak"
        ),
        fix=(
            "Compute a tile of results per thread (4 x 4, then 8 x 8) from registers, so that each "
            "loaded value is used 4 or 8 times. Shared memory alone does not help where L1 already "
            "serves the loads. Or call the library's product."
        ),
        refute=(
            "Let each thread compute two results from one loaded row. Loads per result fall by a "
            "quarter. If the time stays, loads were not the limit."
        ),
        # Only bytes and operations bound what tiling gains; the busy load path does not.
        saves=beyond_least,
        likely=lambda k, peak: np.asanyarray(0.8 * beyond_least(k, peak)),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("fallback-kernel", "l1-smem-bound", "stall-*", "balanced-high", "compute-lsu-bound"),
        thresholds={
            **_PLAIN,
            "compute_pct": at_least(BUSY_PCT),
            "l1_pct": at_least(BUSY_PCT),
            # A multiprocessor loads 32 words a cycle from L1 or shared memory. Two words for each
            # multiply-add feed 16 of its 128 FP32 lanes; up to compute capability 8.0 it has 64.
            "product_use_pct": at_most(12.5),
            "few_lanes_pct": at_most(
                25, column="product_use_pct", words="or {op} {value} on older GPUs"
            ),
            # A tile of 2 x 2 results does two operations per word.
            "flops_per_load": at_most(1.75),
            "compute_capability": at_most(8.0, told=False),
        },
        references=(
            "NVIDIA CUDA C++ Programming Guide: throughput of arithmetic and of shared memory",
            "Volkov: Better Performance at Lower Occupancy, GTC 2010",
        ),
        fires=(
            _NAIVE,
            {**_NAIVE, "compute_pct": 60.0, "product_use_pct": 12.4},
            {"category": "gemm", "compute_pct": 90.0, "product_use_pct": 6.0},
            {**_NAIVE, "product_use_pct": 20.0, "compute_capability": 7.5},
            {**_NAIVE, "compute_pct": 40.0, "l1_pct": 90.0},
            _COUNTED,
            {**_COUNTED, "flops_per_load": 1.7},
        ),
        silent=(
            {**_NAIVE, "product_use_pct": 12.7},
            {**_NAIVE, "product_use_pct": 20.0, "compute_capability": 9.0},
            # Tiles of 4 x 4 results in registers.
            {**_COUNTED, "flops_per_load": 4.0},
            {**_NAIVE, "compute_pct": 59.0},
            {**_NAIVE, "category": "elementwise"},
            {**_NAIVE, "tensor_pct": 40.0},
            # Nobody knows whether it loads or computes.
            {"category": "gemm", "product_use_pct": 5.8},
        ),
    ),
    Rule(
        id="scalar-accesses",
        topic="math-pipe",
        title="Loads of one word each crowd out the arithmetic",
        scope="kernel",
        why=(
            "Every load takes an issue slot and a pass through the load path, whether it brings 4 or "
            "16 bytes per thread. In a tiled product, four times as many loads as needed take the "
            "place of multiply-adds."
        ),
        condition=(
            "an FP32 product without tensor cores (used below {tensor_pct}), with compute use at "
            "{compute_pct} or more and device memory below {kernel_dram_pct}, at {product_use_pct} "
            "of the FP32 peak or less, whose loads bring one word per thread (up to "
            "{load_sectors_per_request:g} sectors per request)"
        ),
        needs=("category", "compute_pct", "load_sectors_per_request", "product_use_pct"),
        uses=(*_FIELDS, "shared_conflicts"),
        applies=_applies,
        when=lambda k: (
            k.meets("compute_pct")
            & k.meets("product_use_pct")
            & k.meets("load_sectors_per_request")
        ),
        because=(
            "loads bring {load_sectors_per_request:.1f} sectors per request, 4 bytes per thread, "
            "while compute units are busy {compute_pct} of the time and the product runs at "
            "[{product_flop_pct} (by what it loads)][{flop_pct}] of the FP32 peak"
        ),
        fix=(
            "Load 16 bytes per thread (float4) from global and shared memory, with rows aligned to "
            "16 bytes. Store tiles transposed where that makes reads of neighbouring threads "
            "contiguous."
        ),
        refute=(
            "Count the load instructions after the change. They must fall to a quarter, and the "
            "time must fall with them."
        ),
        saves=beyond_least,
        likely=lambda k, peak: np.asanyarray(0.35 * beyond_least(k, peak)),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("fallback-kernel",),
        thresholds={
            **_PLAIN,
            "compute_pct": at_least(BUSY_PCT),
            "load_sectors_per_request": at_most(4.5),
            "product_use_pct": at_most(40),
        },
        references=(
            "NVIDIA blog: CUDA Pro Tip, Increase Performance with Vectorized Memory Access",
        ),
        fires=(
            _SCALAR,
            {**_SCALAR, "compute_pct": 60.0, "product_use_pct": 39.5},
            {**_SCALAR, "load_sectors_per_request": 4.4},
        ),
        silent=(
            {**_SCALAR, "load_sectors_per_request": 4.6},
            {**_SCALAR, "compute_pct": 59.0},
            {**_SCALAR, "product_use_pct": 40.5},
            {**_SCALAR, "load_sectors_per_request": 16.0},
        ),
    ),
)  # fmt: skip
