"""The tiles of a product fit neither its sizes nor the multiprocessors."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, at_least, below
from traceroof.rules._kernels import of_class
from traceroof.rules._matrix import PRODUCT, products
from traceroof.rules._models import MODELLED, missed, size
from traceroof.rules._tiles import (
    TILED,
    WHOLE_TILES,
    divided,
    exact,
    tile_efficiency,
    tiles,
    wave_efficiency,
)

_TRUST_IN_BLOCKS = 0.7


def _applies(k: Facts) -> Mask:
    # With known waves, tail-wave and small-grid say it better. Split products share one tile
    # among several blocks. At the wall of memory the last round costs nothing.
    whole = ~(k.name_split_k == 1) & ~divided(k) & ~of_class(k, "dram-bound")
    return np.asanyarray(products(k, "gemm") & np.isnan(k.waves) & whole)


def _filled(k: Facts) -> Column:
    """Tile efficiency where arithmetic limits: reading a skinny operand costs the same however
    wide the tile is."""
    limited = k.model_flop_pct > k.model_dram_pct
    return np.asanyarray(np.where(limited & ~np.isnan(tile_efficiency(k)), tile_efficiency(k), 1.0))


def _shared(k: Facts) -> Column:
    """Wave efficiency from one whole round on; below, the grid is small."""
    return np.asanyarray(np.where(tiles(k) >= k.sm_count, wave_efficiency(k), 1.0))


def _saves(k: Facts, peak: Attainable) -> Column:
    lost = 1 - _filled(k) * _shared(k)
    spare = missed(k, peak)
    return np.asanyarray(np.where(np.isnan(spare), lost, np.minimum(lost, spare)))


def _narrow(k: Facts) -> Mask:
    whole = ~(k.name_split_k == 1) & ~divided(k)
    return np.asanyarray(k.meets("inner_size") & k.meets("blocks") & whole)


def _larger_side(k: Facts) -> Column:
    return np.asanyarray(np.maximum(size(k, "M"), size(k, "N")))


def _unused(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(np.minimum(1 - tiles(k) / k.sm_count, missed(k, peak)))


_A100 = {"category": "gemm", "sm_count": 108.0, "model": "gemm"}
_TILE = {"tile_m": 128.0, "tile_n": 256.0}
_USE = {"roof_pct": 40.0, "model_flop_pct": 40.0, "model_dram_pct": 10.0}

RULES = (
    Rule(
        id="gemm-tile-quantisation",
        topic="gemm-shape",
        title="The tiles of a product do not fit its sizes or the multiprocessors",
        scope="kernel",
        why=(
            "The multiprocessor with the most tiles decides the time. With few tiles per "
            "multiprocessor, one more is a large share: 109 tiles on 108 multiprocessors take as "
            "long as 216. The part of a tile beyond the edge of the result is computed for nothing."
        ),
        condition=(
            "a GEMM of which less than {tile_efficiency:.0%} of the area of its tiles is output "
            "(where arithmetic limits it), or which has at least as many tiles as multiprocessors "
            "but less than {wave_efficiency:.0%} of what the same number of rounds could hold; the "
            "report does not give the waves. Tiles are counted from the sizes and the tile in the "
            "kernel's name, otherwise blocks stand for them"
        ),
        needs=("sm_count", "blocks"),
        uses=(*PRODUCT, *TILED[2:], *MODELLED, "model", "waves", "name_split_k"),
        applies=_applies,
        when=lambda k: k.meets("tile_efficiency") | k.meets("wave_efficiency"),
        because=(
            "{blocks:.0f} blocks on {sm_count:.0f} multiprocessors; sizes {model_shape}, tile "
            "{tile_m} x {tile_n}"
        ),
        fix=(
            "Use another tile size, split-K or stream-K (let the library search: cuBLASLt "
            "heuristics, torch.compile max-autotune), or a batch or hidden size at which the number "
            "of tiles is just below a multiple of the multiprocessors."
        ),
        refute=(
            "Time neighbouring sizes, one tile more and one less. A step in the time confirms it, a "
            "smooth line refutes it."
        ),
        saves=_saves,
        kind="conditional",
        grade="inferred",
        layer="model",
        effort="refactor",
        trust=lambda k: np.where(exact(k), 1.0, _TRUST_IN_BLOCKS),
        thresholds={
            **WHOLE_TILES,
            "tile_efficiency": below(
                0.85,
                column="model_shape",
                measure=_filled,
                words="{op} {value:.0%} of the tiles' area",
            ),
            "wave_efficiency": below(
                0.85, column="blocks", measure=_shared, words="{op} {value:.0%} of whole rounds"
            ),
        },
        references=(
            "NVIDIA, Matrix Multiplication Background User's Guide: tile and wave quantisation",
        ),
        # 109 of 2 x 108 = 50.5 %; 183 of 216 = 84.7 %. M=2048 N=1792 makes 16 x 7 = 112 tiles:
        # 112 of 216 = 51.9 %. M=150 fills 150 of 256 rows: 58.6 %.
        fires=(
            {"category": "gemm", "blocks": 109.0, "sm_count": 108.0},
            {"category": "gemm", "blocks": 183.0, "sm_count": 108.0},
            {**_A100, **_TILE, **_USE, "blocks": 112.0, "model_shape": "M=2048 N=1792 K=4096"},
            {**_A100, **_TILE, **_USE, "blocks": 224.0, "model_shape": "M=150 N=28672 K=4096"},
            # HIP counts threads here: 112 tiles of 256 threads.
            {**_A100, **_TILE, **_USE, "blocks": 28672.0, "warp_size": 64.0,
             "model_shape": "M=2048 N=1792 K=4096"},
        ),
        # 8 x 13 = 104 tiles are less than a round; 32 x 27 = 864 are eight whole rounds; a skinny
        # product that bytes limit fills 1 of 128 rows; 224 blocks for 112 tiles: two share each.
        silent=(
            {"category": "gemm", "blocks": 184.0, "sm_count": 108.0},
            {"category": "gemm", "blocks": 107.0, "sm_count": 108.0},
            {"category": "gemm", "blocks": 109.0, "sm_count": 108.0, "waves": 0.5},
            {"category": "gemm", "blocks": 109.0, "sm_count": 108.0, "name_split_k": 1},
            {"category": "elementwise", "blocks": 109.0, "sm_count": 108.0},
            {**_A100, **_TILE, **_USE, "blocks": 104.0, "model_shape": "M=1024 N=3328 K=4096"},
            {**_A100, **_TILE, **_USE, "blocks": 864.0, "model_shape": "M=4096 N=6912 K=4096"},
            {**_A100, **_TILE, "roof_pct": 60.0, "model_flop_pct": 0.5, "model_dram_pct": 60.0,
             "blocks": 108.0, "model_shape": "M=1 N=27648 K=4096"},
            {**_A100, **_TILE, **_USE, "blocks": 224.0, "model_shape": "M=1024 N=3456 K=4096"},
        ),
    ),
    Rule(
        id="gemm-splitk-missing",
        topic="gemm-shape",
        title="A product with a long K keeps few multiprocessors busy",
        scope="kernel",
        why=(
            "Each output tile is one block, and this product has fewer tiles than the device has "
            "multiprocessors, while K is long. The idle multiprocessors could each sum a part of K."
        ),
        condition=(
            "a GEMM with fewer tiles than multiprocessors and K at least {inner_size} times the "
            "larger of M and N, whose name marks neither split-K nor stream-K"
        ),
        needs=("blocks", "sm_count", "model_shape"),
        uses=(*PRODUCT, "tile_m", "tile_n", "warp_size", *MODELLED, "model", "name_split_k"),
        applies=lambda k: products(k, "gemm") & (k.model == "gemm"),
        when=_narrow,
        because=(
            "{model_shape} makes {blocks:.0f} blocks for {sm_count:.0f} multiprocessors"
        ),
        fix=(
            "Use split-K or stream-K: let the library search (cuBLASLt heuristics, max-autotune with "
            "its split-K candidates), or batch the product with others of its kind."
        ),
        refute="Time the same product with K halved. If the time stays, K does not limit it.",
        saves=_unused,
        kind="conditional",
        grade="inferred",
        layer="operator",
        effort="refactor",
        thresholds={
            **WHOLE_TILES,
            "blocks": below(1, measure=tiles, of="sm_count"),
            "inner_size": at_least(
                4,
                column="model_shape",
                measure=lambda k: size(k, "K"),
                of=_larger_side,
                words="K {op} {value} × the larger of M and N",
            ),
        },
        references=(
            "NVIDIA CUTLASS documentation: efficient GEMM, parallelised reductions",
            "Osama et al.: Stream-K, PPoPP 2023",
        ),
        fires=(
            {**_A100, "blocks": 16.0, "model_shape": "M=512 N=512 K=2048", **_USE},
            {**_A100, **_TILE, **_USE, "blocks": 8.0, "model_shape": "M=512 N=512 K=65536"},
        ),
        silent=(
            {**_A100, "blocks": 16.0, "model_shape": "M=512 N=512 K=2047", **_USE},
            {**_A100, "blocks": 108.0, "model_shape": "M=512 N=512 K=65536", **_USE},
            {**_A100, "blocks": 16.0, "model_shape": "M=512 N=512 K=65536", "name_split_k": 1},
            # 84 blocks share 2 tiles.
            {**_A100, **_TILE, "blocks": 84.0, "model_shape": "M=256 N=256 K=65536"},
            {**_A100, "blocks": 16.0, "model_shape": "M=512 N=512 K=65536",
             "primary_class": "launch-bound"},
        ),
    ),
)  # fmt: skip
