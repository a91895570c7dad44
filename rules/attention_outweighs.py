"""A program's own attention kernel takes longer than all matrix products."""

import numpy as np

from traceroof.core.facts import Column, Facts
from traceroof.rule import Attainable, Rule, at_least


def _saves(k: Facts, peak: Attainable) -> Column:
    return np.asanyarray(k.own_attention_pct / k.share_pct)


def _likely(k: Facts, peak: Attainable) -> Column:
    # How long the same attention must take nobody knows without shapes: rarely as long as the products.
    return np.asanyarray((k.own_attention_pct - k.matrix_products_pct) / k.share_pct)


_LONG = {"category": "attention", "own_attention_pct": 50.0, "share_pct": 50.0,
         "matrix_products_pct": 24.0, "own_attention_launches": 32.0, "matrix_products": 224.0,
         "own_attention_from": "attention_prefill"}  # fmt: skip

RULES = (
    Rule(
        id="attention-outweighs-products",
        topic="attention-kernel",
        title="Attention takes longer than all matrix products",
        scope="category",
        why=(
            "A decoder layer does 24 h² operations per token in its products and 4 s h in attention "
            "over s keys, half of that where it is causal. At a hidden size h of 4,096 both are "
            "equal at 24,576 keys. Where attention takes longer over fewer keys, its kernel is slow."
        ),
        condition=(
            "attention kernels whose names are of no known library take {own_attention_pct} of the GPU "
            "time or more and at least as long as the products of two matrices; of these at least "
            "{matrix_products:.0f} are launched for each attention, as in a layer, which projects its input "
            "and its output"
        ),
        needs=(
            "own_attention_pct",
            "matrix_products_pct",
            "own_attention_launches",
            "matrix_products",
        ),
        uses=("own_attention_from", "share_pct", "category"),
        applies=lambda k: k.category == "attention",
        when=lambda k: k.meets("own_attention_pct") & k.meets("least") & k.meets("matrix_products"),
        because=(
            "{own_attention_launches:,.0f} launches of the program's own attention take "
            "{own_attention_pct} of the GPU time, most of it {own_attention_from}; all products of "
            "matrices take {matrix_products_pct}"
        ),
        fix=(
            "Time a library's attention on the same shapes: [nvidia: FlashAttention, cuDNN or FlashInfer]"
            "[amd: AITER, Composable Kernel or AOTriton]. In an own kernel, multiply on tensor cores, keep "
            "scores in registers, and load keys and values asynchronously in large tiles."
        ),
        refute=(
            "Count the keys. If they are more than six times the hidden size, attention may take this long."
        ),
        saves=_saves,
        likely=_likely,
        kind="hard",
        grade="inferred",
        layer="operator",
        effort="kernel",
        thresholds={
            "own_attention_pct": at_least(20),
            "least": at_least(
                1,
                column="own_attention_pct",
                of="matrix_products_pct",
                words="{op} all products of matrices",
            ),
            "matrix_products": at_least(
                2, of="own_attention_launches", words="{op} {value:.0f} per attention launch"
            ),
        },
        references=(
            "Kaplan et al., Scaling Laws for Neural Language Models, 2020: operations per token",
            "Vaswani et al., Attention Is All You Need, 2017: projections around attention",
        ),
        fires=(
            _LONG,
            {**_LONG, "own_attention_pct": 20.0, "share_pct": 25.0, "matrix_products_pct": 20.0},
            {**_LONG, "own_attention_pct": 90.0, "share_pct": 90.0, "matrix_products_pct": 2.0},
            {**_LONG, "matrix_products": 64.0},
        ),
        silent=(
            {**_LONG, "own_attention_pct": 19.9, "matrix_products_pct": 10.0},
            {**_LONG, "matrix_products_pct": 50.1},
            {**_LONG, "matrix_products": 63.0},
            {**_LONG, "category": "gemm"},
        ),
    ),
)
