"""The tiles of a product do not divide among the multiprocessors."""

import numpy as np

from traceroof.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule
from traceroof.rules._matrix import PRODUCT, products

# Blocks stand for tiles here; how many tiles the shape needs is not looked at.
_TRUST_IN_BLOCKS = 0.7


def _rounds(k: Facts) -> Column:
    return np.asarray(np.ceil(k.blocks / k.sm_count))


def _applies(k: Facts) -> Mask:
    # With known waves, tail-wave and small-grid say it better. Split products share one tile
    # among several blocks.
    divided = k.name_split_k == 1
    return np.asarray(products(k, "gemm") & np.isnan(k.waves) & ~divided)


def _uneven(k: Facts) -> Mask:
    more = k.blocks >= k.sm_count
    return np.asarray(more & (k.blocks < 0.85 * _rounds(k) * k.sm_count))


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asarray(1 - k.blocks / (_rounds(k) * k.sm_count))


RULES = (
    Rule(
        id="gemm-tile-quantisation",
        title="The tiles of a product do not divide among the multiprocessors",
        scope="kernel",
        why=(
            "A multiprocessor that works on one tile more than the others decides the time. With "
            "a few tiles each, that one is a large share: 109 tiles on 108 multiprocessors take as "
            "long as 216. Blocks are counted as tiles."
        ),
        condition=(
            "a GEMM with at least as many blocks as multiprocessors, blocks below 85 % of what the "
            "same number of rounds could hold, where the report does not give the waves"
        ),
        needs=("blocks", "sm_count"),
        uses=(*PRODUCT, "waves", "name_split_k"),
        applies=_applies,
        when=_uneven,
        because="{blocks:.0f} blocks on {sm_count:.0f} multiprocessors do not divide evenly",
        fix=(
            "Another tile size, split-K or stream-K (let the library search: cuBLASLt heuristics, "
            "torch.compile max-autotune), or a batch or hidden size at which the number of tiles "
            "is just below a multiple of the multiprocessors."
        ),
        refute=(
            "Time neighbouring sizes, one tile more and less: a step in the time confirms it, a "
            "smooth line refutes it."
        ),
        saves=_saves,
        kind="conditional",
        grade="inferred",
        layer="model",
        effort="refactor",
        trust=lambda k: np.full(len(k), _TRUST_IN_BLOCKS),
        thresholds={"blocks": "< 85 % of whole rounds"},
        references=(
            "NVIDIA, Matrix Multiplication Background User's Guide: tile and wave quantisation",
        ),
        # 109 of 2 x 108 = 50.5 %; 183 of 216 = 84.7 %.
        fires=(
            {"category": "gemm", "blocks": 109.0, "sm_count": 108.0},
            {"category": "gemm", "blocks": 183.0, "sm_count": 108.0},
        ),
        silent=(
            {"category": "gemm", "blocks": 184.0, "sm_count": 108.0},
            {"category": "gemm", "blocks": 107.0, "sm_count": 108.0},
            {"category": "gemm", "blocks": 109.0, "sm_count": 108.0, "waves": 0.5},
            {"category": "gemm", "blocks": 109.0, "sm_count": 108.0, "name_split_k": 1},
            {"category": "elementwise", "blocks": 109.0, "sm_count": 108.0},
        ),
    ),
)
