"""A product whose tiles are so small that operands come again and again from L2."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Rule, above, below
from traceroof.rules._kernels import tunable
from traceroof.rules._least import beyond_kept

# L2 delivers about four times the bytes of device memory (RRZE-HPC/gpu-benches, gpu-l2-cache).
_L2_OVER_DRAM = 4


def _applies(k: Facts) -> Mask:
    return np.asanyarray(tunable(k) & one_of(k.category, "gemm") & k.meets("tensor_idle"))


def _rereads(k: Facts) -> Column:
    return np.asanyarray(k.l2_bytes / k.dram_bytes)


def _of_need(k: Facts) -> Column:
    """Operations per byte from L2, as a share of what its peak rate would need."""
    needed = k.flop_peak_per_s / (_L2_OVER_DRAM * k.dram_peak_at_most)
    return np.asanyarray(k.flops / k.l2_bytes / needed)


_TILE = {"category": "gemm", "flops": 2.15e9, "l2_bytes": 2.67e8, "dram_bytes": 6.94e7,
         "flop_peak_per_s": 1.3e15, "dram_peak_at_most": 5.3e12}  # fmt: skip

RULES = (
    Rule(
        id="tile-rereads",
        topic="l2-traffic",
        title="Small tiles read the same operands from L2 many times",
        scope="kernel",
        why=(
            "A tile of M x N results reads (M + N) values per step of the inner dimension and does "
            "M x N multiply-adds with them. Small tiles do few operations per byte, so that L2 has "
            "to deliver the operands many times over, and the matrix units wait."
        ),
        condition=(
            "a product with tensor cores below {tensor_idle} that moves more than {rereads:.0f} times as many bytes from L2 as from "
            "device memory, with less than {of_need:.0%} of the operations per L2 byte that its "
            "peak rate needs at a usual L2 bandwidth"
        ),
        needs=("category", "l2_bytes", "dram_bytes", "flops"),
        uses=(
            "primary_class", "tensor_pct", "flop_peak_per_s", "dram_peak_at_most", "l2_hit_pct",
            "tile_m", "tile_n", "duration_ns", "kernel_dram_pct", "flop_pct",
        ),
        applies=_applies,
        when=lambda k: k.meets("rereads") & k.meets("of_need"),
        because=(
            "{l2_bytes} come from L2 for {dram_bytes} of device memory[, by tiles of {tile_m:.0f} "
            "x {tile_n:.0f}], and the product runs at [{flop_pct}] of its peak"
        ),
        fix=(
            "Use larger output tiles per block (128 x 128 or more), with more registers per "
            "thread; operands staged once in shared memory (LDS) for all waves of a block; or the "
            "library's product."
        ),
        refute=(
            "Double one side of the tile: bytes from L2 must fall by a quarter, and the time with "
            "them."
        ),
        saves=beyond_kept,
        likely=lambda k, peak: np.asanyarray(0.8 * beyond_kept(k, peak)),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("amd-dependency-wait", "amd-issue-wait"),
        thresholds={
            "tensor_idle": below(50, column="tensor_pct", or_unknown=True),
            "rereads": above(2, measure=_rereads, column="l2_bytes", words="{op} {value} x dram_bytes"),
            "of_need": below(0.5, measure=_of_need, column="flops", words="per L2 byte {op} {value} of what the peak needs"),
        },
        references=(
            "NVIDIA, Matrix Multiplication Background User's Guide: tiles and arithmetic intensity",
            "RRZE-HPC/gpu-benches, gpu-l2-cache: measured L2 bandwidths",
        ),
        # 2.15e9 / 2.67e8 = 8 operations a byte; 1.3e15 / (4 x 5.3e12) = 61 needed: 13 %.
        fires=(_TILE, {**_TILE, "dram_bytes": 1.3e8}, {**_TILE, "flops": 8.1e9}),
        silent=(
            {**_TILE, "dram_bytes": 1.36e8},
            {**_TILE, "flops": 8.3e9},
            {**_TILE, "category": "elementwise"},
            {**_TILE, "tensor_pct": 60.0},
        ),
    ),
)  # fmt: skip
