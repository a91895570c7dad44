"""Products that load more than they compute: no tile in registers, or one word at a time."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Rule
from traceroof.rules._kernels import tunable
from traceroof.rules._least import LEAST, beyond_least

# A multiprocessor loads 32 words a cycle from L1 or shared memory. Two words for each multiply-add
# feed 16 of its 128 FP32 lanes; up to compute capability 8.0 it has 64.
_WITHOUT_REUSE_PCT = 12.5


def _use(k: Facts) -> Column:
    # The multiply-add pipe also does index arithmetic, so counted operations come first.
    counted = np.where(np.isnan(k.flop_pct), k.product_flop_pct, k.flop_pct)
    return np.asanyarray(np.where(np.isnan(counted), k.pipe_fma_pct, counted))


def _without_reuse(k: Facts) -> Mask:
    fewer_lanes = np.where(k.compute_capability <= 8.0, 2, 1)
    return np.asanyarray(_use(k) <= _WITHOUT_REUSE_PCT * fewer_lanes)


def _loading(k: Facts) -> Mask:
    return np.asanyarray((k.compute_pct >= 60) | (k.l1_pct >= 60))


def _applies(k: Facts) -> Mask:
    matrix = (k.tensor_pct >= 5) | (k.name_tensor_core == 1)
    return np.asanyarray(
        tunable(k) & one_of(k.category, "gemm") & ~matrix & ~(k.kernel_dram_pct >= 60)
    )


_FIELDS = ("primary_class", "tensor_pct", "name_tensor_core", "kernel_dram_pct",
           "pipe_fma_pct", "l1_pct", "compute_capability", "threads_per_block", *LEAST)  # fmt: skip
_NAIVE = {"category": "gemm", "compute_pct": 97.0, "product_flop_pct": 5.8}
_SCALAR = {"category": "gemm", "compute_pct": 80.8, "load_sectors_per_request": 4.0,
           "product_flop_pct": 18.7}  # fmt: skip

RULES = (
    Rule(
        id="no-register-reuse",
        topic="algorithm",
        title="The product loads two values for each multiply-add",
        scope="kernel",
        why=(
            "A thread that computes one element of the result loads a value of each operand for "
            "every multiply-add, from L1 or from shared memory. Loads then fill the "
            "multiprocessor while its arithmetic idles: at 32 words a cycle they feed 16 of its "
            "128 FP32 lanes. A busy load path is no limit here, it is the fault."
        ),
        condition=(
            "an FP32 product without tensor cores whose compute units or first-level cache are busy "
            "to 60 % or more, at 12.5 % of the FP32 peak or less (25 % up to compute capability "
            "8.0), by counted operations, else by what it loads"
        ),
        needs=("category", "compute_pct"),
        uses=_FIELDS,
        applies=lambda k: _applies(k) & ~np.isnan(_use(k)),
        when=lambda k: _loading(k) & _without_reuse(k),
        because=(
            "its compute units are busy {compute_pct} of the time, with loads: the product runs at "
            "[{product_flop_pct} (by what it loads)][{flop_pct}] of the FP32 peak"
        ),
        fix=(
            "Compute a tile of results in each thread (4 x 4, then 8 x 8) from registers: each "
            "value loaded is used 4 or 8 times. Shared memory alone does not help where L1 already "
            "serves the loads. Or call the library's product."
        ),
        refute=(
            "Let each thread compute two results from one loaded row: loads per result fall by a "
            "quarter; if the time stays, loads were not the limit."
        ),
        # Only bytes and operations bound what tiling gains; the busy load path does not.
        saves=beyond_least,
        likely=lambda k, peak: np.asanyarray(0.8 * beyond_least(k, peak)),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("fallback-kernel", "l1-smem-bound", "stall-*", "balanced-high", "compute-lsu-bound"),
        thresholds={"compute_pct": ">= 60", "product_flop_pct": "<= 12.5"},
        references=(
            "NVIDIA CUDA C++ Programming Guide: throughput of arithmetic and of shared memory",
            "Volkov: Better Performance at Lower Occupancy, GTC 2010",
        ),
        fires=(
            _NAIVE,
            {**_NAIVE, "compute_pct": 60.0, "product_flop_pct": 12.4},
            {"category": "gemm", "compute_pct": 90.0, "pipe_fma_pct": 30.0, "flop_pct": 6.0},
            {**_NAIVE, "product_flop_pct": 20.0, "compute_capability": 7.5},
            {**_NAIVE, "compute_pct": 40.0, "l1_pct": 90.0},
        ),
        silent=(
            {**_NAIVE, "product_flop_pct": 12.7},
            {**_NAIVE, "compute_pct": 59.0},
            {**_NAIVE, "category": "elementwise"},
            {**_NAIVE, "tensor_pct": 40.0},
            # What it does nobody knows.
            {"category": "gemm", "compute_pct": 97.0},
        ),
    ),
    Rule(
        id="scalar-accesses",
        topic="math-pipe",
        title="Load instructions crowd out the arithmetic: one word at a time",
        scope="kernel",
        why=(
            "Every load takes an issue slot and a pass through the load path, whether it brings 4 "
            "bytes a thread or 16. In a product with tiles, four times as many loads as needed "
            "take the place of multiply-adds."
        ),
        condition=(
            "an FP32 product without tensor cores with compute units busy to 60 % or more but at "
            "40 % of the FP32 peak or less, whose loads bring 4 bytes a thread (up to 4.5 sectors "
            "a request)"
        ),
        needs=("category", "compute_pct", "load_sectors_per_request"),
        uses=(*_FIELDS, "shared_conflicts"),
        applies=lambda k: _applies(k) & ~np.isnan(_use(k)),
        when=lambda k: (
            (k.compute_pct >= 60) & (_use(k) <= 40) & (k.load_sectors_per_request <= 4.5)
        ),
        because=(
            "loads bring {load_sectors_per_request:.1f} sectors a request, 4 bytes a thread, while "
            "compute units are busy {compute_pct} and the product runs at "
            "[{product_flop_pct} (by what it loads)][{flop_pct}] of the FP32 peak"
        ),
        fix=(
            "Load 16 bytes a thread (float4) from global and from shared memory, with rows "
            "aligned to 16 bytes; store tiles transposed where that keeps reads of neighbours "
            "together."
        ),
        refute=(
            "Count the load instructions after the change: they must fall to a quarter, and the "
            "time with them."
        ),
        saves=beyond_least,
        likely=lambda k, peak: np.asanyarray(0.35 * beyond_least(k, peak)),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("fallback-kernel",),
        thresholds={"compute_pct": ">= 60", "load_sectors_per_request": "<= 4.5", "product_flop_pct": "<= 40"},
        references=(
            "NVIDIA blog: CUDA Pro Tip, Increase Performance with Vectorized Memory Access",
        ),
        fires=(
            _SCALAR,
            {**_SCALAR, "compute_pct": 60.0, "product_flop_pct": 39.5},
            {**_SCALAR, "load_sectors_per_request": 4.4},
        ),
        silent=(
            {**_SCALAR, "load_sectors_per_request": 4.6},
            {**_SCALAR, "compute_pct": 59.0},
            {**_SCALAR, "product_flop_pct": 40.5},
            {**_SCALAR, "load_sectors_per_request": 16.0},
        ),
    ),
)  # fmt: skip
