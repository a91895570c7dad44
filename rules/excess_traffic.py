"""More bytes move than the shapes need."""

from typing import Any

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import each, one_of
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import of_class, tunable
from traceroof.rules._models import size

_MEMORY = ("dram-bound", "l2-bound", "memory-bound", "memory-leaning", "balanced")
_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}


def _modelled(k: Facts) -> Mask:
    return tunable(k) & ~np.isnan(k.model_bytes)


def _excess(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(1 - 1 / k.traffic_ratio)


def _reused(k: Facts) -> Mask:
    # Only a class of memory gains from fewer bytes; a streaming kernel has a ratio of one.
    return _modelled(k) & of_class(k, *_MEMORY)


def _wave_bytes(k: Facts) -> Column:
    """Operands that all tiles in flight read along the whole of K."""
    element = each(
        k.operand_dtype, lambda dtype: _BYTES.get(str(dtype), np.nan), "bytes of an element"
    )
    return np.asanyarray(
        (k.tile_m + k.tile_n) * size(k, "K") * element * np.minimum(k.blocks, k.sm_count)
    )


_LEVELS = (
    (
        "l1",
        "L1",
        40,
        (
            "Keep what several threads of a block need in shared memory or registers. Use larger "
            "blocks on neighbouring data, and loads that share cache lines."
        ),
    ),
    (
        "l2",
        "L2",
        50,
        (
            "Order blocks so that those in flight read the same data (swizzle, rasterise). Make "
            "tiles larger, share loads between blocks of a cluster, or work in pieces that fit "
            "in L2."
        ),
    ),
)


def _low_reuse(level: str, name: str, limit: int, fix: str) -> Rule:
    hits = f"{level}_hit_pct"

    def example(ratio: float, hit: float, primary: str = "dram-bound") -> dict[str, Any]:
        return {
            "traffic_ratio": ratio, hits: hit, "model_bytes": 1e8, "primary_class": primary,
        }  # fmt: skip

    return Rule(
        id=f"{level}-reuse-low",
        topic="l2-traffic",
        title=f"Data that could be reused misses in {name}",
        scope="kernel",
        why=(
            "By the shapes each byte needs to move only once from device memory. By the counters it "
            "moves more than twice, and few accesses hit in the cache that should hold it."
        ),
        condition=(
            f"memory limits the kernel, the {name} hit rate is below {{{hits}}}, and measured bytes "
            "are more than {traffic_ratio} times the least traffic"
        ),
        needs=("traffic_ratio", hits),
        uses=("primary_class", "model_bytes", "dram_bytes", "model_shape"),
        applies=_reused,
        when=lambda k: k.meets("traffic_ratio") & k.meets(hits),
        because=f"the {name} hit rate is {{{hits}}}, and {{traffic_ratio}} times the least traffic moves",
        fix=fix,
        refute="Shrink the working set below the cache. The hit rate must rise and the time must fall.",
        saves=_excess,
        kind="conditional",
        grade="derived",
        layer="operator",
        thresholds={"traffic_ratio": above(2), hits: below(limit)},
        references=("docs/operators.md: least traffic of an operator",),
        fires=(example(2.1, limit - 0.1), example(5.0, 5.0, "memory-leaning")),
        silent=(example(2.0, 5.0), example(5.0, limit), example(5.0, 5.0, "compute-bound")),
    )


_PRODUCT = {
    "category": "gemm",
    "model_bytes": 1e8,
    "model_shape": "M=8192 N=8192 K=8192",
    "operand_dtype": "bf16",
    "tile_m": 128.0,
    "tile_n": 128.0,
    "blocks": 4096.0,
    "sm_count": 108.0,
    "l2_cache_bytes": 40e6,
    "primary_class": "memory-leaning",
}

RULES = (
    Rule(
        id="excess-traffic",
        topic="algorithm",
        title="Far more bytes move than the shapes need",
        scope="kernel",
        why=(
            "Each tensor must be read or written once. The counters show more: a column buffer, "
            "partial sums of a split product, tiles that are read again after they left the "
            "cache, spilled registers, or sectors written in parts."
        ),
        condition=(
            "measured DRAM bytes are more than {traffic_ratio} times the least traffic, and DRAM "
            "use is {dram_pct} or more"
        ),
        needs=("traffic_ratio", "dram_pct"),
        uses=("primary_class", "model_bytes", "dram_bytes", "model_shape", "l2_hit_pct"),
        applies=_modelled,
        when=lambda k: k.meets("traffic_ratio") & k.meets("dram_pct"),
        because=(
            "{dram_bytes} moved where the shapes need {model_bytes} ({traffic_ratio} times as "
            "much), with device memory at {dram_pct}"
        ),
        fix=(
            "Find which tensor moves twice. Use implicit instead of explicit im2col, no split "
            "along K where the grid is large enough, a tile order that keeps operands in L2, no "
            "spills, and whole sectors in writes."
        ),
        refute=(
            "Run the same call on tensors a quarter of the size. A ratio that falls to one points "
            "at the cache, one that stays points at the algorithm."
        ),
        saves=_excess,
        kind="hard",
        grade="derived",
        layer="operator",
        thresholds={"traffic_ratio": above(1.5), "dram_pct": at_least(50)},
        references=("docs/operators.md: least traffic of an operator",),
        fires=(
            {"traffic_ratio": 1.51, "dram_pct": 50.0, "model_bytes": 1e8, "dram_bytes": 1.51e8},
            {"traffic_ratio": 3.0, "dram_pct": 88.0, "model_bytes": 1e8, "dram_bytes": 3e8},
        ),
        silent=(
            {"traffic_ratio": 1.5, "dram_pct": 80.0, "model_bytes": 1e8},
            {"traffic_ratio": 3.0, "dram_pct": 49.9, "model_bytes": 1e8},
            {"traffic_ratio": 3.0, "dram_pct": 80.0},
        ),
    ),
    *(_low_reuse(*level) for level in _LEVELS),
    Rule(
        id="gemm-l2-reuse",
        topic="l2-traffic",
        title="The tiles in flight read more than L2 holds",
        scope="kernel",
        why=(
            "A product of large matrices moves few bytes only because neighbouring tiles find "
            "each other's operands in L2. Here the tiles in flight together read more than L2 "
            "holds, and the counters show that operands were fetched again."
        ),
        condition=(
            "a GEMM with measured bytes more than {traffic_ratio} times the least traffic, whose "
            "tiles in flight read (tile M + tile N) x K elements each, together more than the "
            "size of L2"
        ),
        needs=("traffic_ratio", "tile_m", "tile_n", "l2_cache_bytes"),
        uses=(
            "category", "primary_class", "model_bytes", "model_shape", "operand_dtype", "blocks",
            "sm_count", "dram_bytes",
        ),
        applies=lambda k: _reused(k) & one_of(k.category, "gemm"),
        when=lambda k: k.meets("traffic_ratio") & k.meets("l2_cache_bytes"),
        because=(
            "{traffic_ratio} times the least traffic moves; tiles of {tile_m:.0f} x {tile_n:.0f} "
            "along K of {model_shape} do not fit in {l2_cache_bytes} of L2"
        ),
        fix=(
            "Use a tile order that keeps a square of tiles in flight (the rasterisation or "
            "swizzle option of the library), larger tiles, or loads shared by the blocks of a "
            "cluster."
        ),
        refute="Change the tile order. Measured bytes and time must fall together.",
        saves=_excess,
        kind="conditional",
        grade="derived",
        layer="operator",
        thresholds={
            "traffic_ratio": above(1.5),
            "l2_cache_bytes": above(
                1, of="l2_cache_bytes", measure=_wave_bytes, words="less than tiles in flight read"
            ),
        },
        references=(
            "NVIDIA CUTLASS documentation: threadblock rasterisation",
            "NVIDIA, Matrix Multiplication Background User's Guide",
        ),
        # (128 + 128) x 8192 x 2 byte x 108 = 453 MB; with K = 256, 14.2 MB.
        fires=(
            {**_PRODUCT, "traffic_ratio": 1.51},
            {**_PRODUCT, "traffic_ratio": 4.0, "primary_class": "dram-bound"},
        ),
        silent=(
            {**_PRODUCT, "traffic_ratio": 1.5},
            {**_PRODUCT, "traffic_ratio": 4.0, "model_shape": "M=8192 N=8192 K=256"},
            {**_PRODUCT, "traffic_ratio": 4.0, "primary_class": "compute-bound"},
            {**_PRODUCT, "traffic_ratio": 4.0, "category": "conv"},
        ),
    ),
)  # fmt: skip
