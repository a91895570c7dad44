"""Attention held against its shapes: reading the cache in decode, arithmetic in prefill."""

from functools import reduce

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.ceilings import UNCALIBRATED
from traceroof.rule import Attainable, Rule, Threshold, at_least, at_most, below
from traceroof.rules._kernels import tunable
from traceroof.rules._models import (
    CEILINGS,
    CREDIBLE,
    LONG_QUERIES,
    by_bytes,
    credible,
    missed,
    size,
)

# Share of the nominal FLOP rate that fused attention reaches at least, by query length (TraceLens,
# expected efficiency of attention: 5 to 15 % below 512 queries, 20 to 40 % at 1024, 40 to 60 % at
# 2048, 50 to 70 % from 4096 on). Longest first.
_LENGTHS = {
    "longest": (4096, 50.0),
    "long": (2048, 40.0),
    "medium": (1024, 20.0),
    "short": (LONG_QUERIES, 5.0),
}


def _queries(k: Facts) -> Column:
    return size(k, "Sq")


def _usual(k: Facts) -> Column:
    """1; less on a GPU whose products are known to reach less of the nominal rate than is usual."""
    return np.asanyarray(np.fmin(k.flop_attainable / UNCALIBRATED.compute, 1.0))


def _by_length() -> dict[str, Threshold]:
    found: dict[str, Threshold] = {}
    for name, (queries, pct) in reversed(_LENGTHS.items()):
        found[f"{name}_queries"] = at_least(
            queries, column="model_flop_pct", measure=_queries, words="from {value} queries"
        )
        found[f"{name}_pct"] = below(
            pct, column="model_flop_pct", of=_usual, unit="%", words="{op} {value}"
        )
    return found


def _slower_than_fused(k: Facts) -> Mask:
    slow = [k.meets(f"{name}_queries") & k.meets(f"{name}_pct") for name in _LENGTHS]
    return np.asanyarray(reduce(np.logical_or, slow))


def _attends(k: Facts) -> Mask:
    return np.asanyarray(tunable(k) & (k.model == "attention") & credible(k))


def _expected_pct(k: Facts) -> Column:
    """Of the nominal rate, at this length and on this GPU."""
    conditions = [k.meets(f"{name}_queries") for name in _LENGTHS]
    shares = [k.limit(f"{name}_pct") for name in _LENGTHS]
    return np.asanyarray(np.select(conditions, shares, default=np.nan) * _usual(k))


def _up_to_expected(k: Facts, peak: Attainable) -> Column:
    """What is likely to go is what fused kernels reach at this length, not the roof."""
    spared = missed(k, peak)
    expected = np.fmin(spared, np.fmax(1 - k.model_flop_pct / _expected_pct(k), 0.0))
    return np.asanyarray(np.where(np.asanyarray(peak.compute) < 1, expected, spared))


_CACHE = {"model": "attention", "model_shape": "B=8 H=32 KV=8 Sq=1 Skv=4096 D=128"}
_DECODE = {**_CACHE, "roof_pct": 40.0, "model_flop_pct": 0.5, "model_dram_pct": 40.0}
_PROMPT = {"model": "attention", "model_shape": "B=1 H=32 KV=8 Sq=4096 Skv=4096 D=128"}
_PREFILL = {**_PROMPT, "roof_pct": 49.9, "model_flop_pct": 49.9, "model_dram_pct": 3.0}

RULES = (
    Rule(
        id="attn-decode-kv",
        topic="attention-kernel",
        title="Decode attention reads its cache slowly",
        scope="kernel",
        why=(
            "With a few queries per sequence, attention reads all keys and values for almost no "
            "arithmetic: 2 FLOP per byte and query head of a group. A larger batch does not change "
            "that, because each sequence has its own cache. The read rate decides the time."
        ),
        condition=(
            "attention with at most {queries} queries and at least {keys} keys, which moves its "
            "modelled bytes at less than {model_dram_pct:.0%} of the attainable bandwidth"
        ),
        needs=("model_dram_pct",),
        uses=(
            "primary_class", "model", "model_shape", "roof_pct", "model_flop_pct", *CEILINGS, "model_bytes",
            "model_intensity", "duration_ns",
        ),
        applies=_attends,
        when=lambda k: k.meets("queries") & k.meets("keys") & k.meets("model_dram_pct"),
        because=(
            "{model_shape} reads {model_bytes} at {model_dram_pct} of the nominal bandwidth"
        ),
        fix=(
            "Use a kernel that splits the keys over blocks (flash-decoding), with enough splits for "
            "all multiprocessors, and larger cache pages. At the wall only fewer bytes help: an FP8 "
            "or INT8 cache (half), grouped or latent attention, a window, shared prefixes."
        ),
        refute="Halve the cached length. If reading the cache takes the time, the time must halve.",
        saves=lambda k, peak: 1 - by_bytes(k, peak),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("roofline-headroom*", "latency-bound", "dram-leaning-headroom"),
        thresholds={
            **CREDIBLE,
            "queries": at_most(
                4, column="model_shape", measure=_queries, words="Sq {op} {value}"
            ),
            "keys": at_least(
                256,
                column="model_shape",
                measure=lambda k: size(k, "Skv"),
                words="Skv {op} {value}",
            ),
            "model_dram_pct": below(0.7, measure=by_bytes, words="{op} {value:.0%} of attainable"),
        },
        references=("Dao et al.: Flash-Decoding for long-context inference, 2023",),
        # 59.4 / 85 = 0.699.
        fires=(
            _DECODE,
            {**_DECODE, "model_shape": "B=8 H=32 KV=8 Sq=4 Skv=256 D=128", "roof_pct": 59.4,
             "model_dram_pct": 59.4},
        ),
        silent=(
            {**_DECODE, "roof_pct": 59.5, "model_dram_pct": 59.5},
            {**_DECODE, "model_shape": "B=8 H=32 KV=8 Sq=5 Skv=4096 D=128"},
            {**_DECODE, "model_shape": "B=8 H=32 KV=8 Sq=1 Skv=255 D=128"},
        ),
    ),
    Rule(
        id="attn-prefill-compute",
        topic="attention-kernel",
        title="Attention over long inputs is slower than fused kernels are",
        scope="kernel",
        why=(
            "From a few hundred queries on, attention is compute-bound. Good fused kernels reach "
            "20 % of the dense peak at 1,024 queries and half of it from 4,096 on. This one stays "
            "below."
        ),
        condition=(
            "attention with {short_queries} queries or more, below {short_pct} of the nominal FLOP "
            "rate ({medium_pct} from {medium_queries} queries, {long_pct} from {long_queries}, "
            "{longest_pct} from {longest_queries}; less in proportion where the products of this GPU "
            "are known to reach less of the nominal rate than is usual)"
        ),
        needs=("model_flop_pct",),
        uses=(
            "primary_class", "model", "model_shape", "roof_pct", "model_dram_pct", *CEILINGS, "model_dtype",
            "model_flops", "duration_ns",
        ),
        applies=_attends,
        when=_slower_than_fused,
        because=(
            "{model_shape} in {model_dtype} runs at {model_flop_pct} of the nominal FLOP rate"
        ),
        fix=(
            "Use a newer fused kernel for this device ([nvidia: FlashAttention 3, cuDNN][amd: AITER, "
            "Composable Kernel]), a head size that it supports (64, 128), contiguous layouts, causal "
            "masking by flag instead of a mask tensor, and packed instead of padded sequences."
        ),
        refute=(
            "Time another backend of scaled_dot_product_attention on the same shapes. If none is "
            "faster, the shape does not allow more."
        ),
        saves=missed,
        likely=_up_to_expected,
        kind="hard",
        grade="derived",
        layer="operator",
        effort="config",
        suppresses=("roofline-headroom*", "latency-bound"),
        thresholds={**CREDIBLE, **_by_length()},
        references=(
            "AMD TraceLens: expected efficiency of attention by sequence length",
            "Shah et al.: FlashAttention-3, 2024",
        ),
        fires=(
            _PREFILL,
            {**_PREFILL, "model_shape": "B=16 H=16 KV=16 Sq=559 Skv=559 D=64", "roof_pct": 8.0,
             "model_flop_pct": 4.9, "model_dram_pct": 8.0},
        ),
        silent=(
            {**_PREFILL, "roof_pct": 50.0, "model_flop_pct": 50.0},
            {**_PREFILL, "model_shape": "B=1 H=32 KV=8 Sq=2048 Skv=2048 D=128"},
            {**_PREFILL, "model_shape": "B=16 H=16 KV=16 Sq=559 Skv=559 D=64", "roof_pct": 8.0,
             "model_flop_pct": 5.0, "model_dram_pct": 8.0},
            {**_PREFILL, "model_shape": "B=1 H=32 KV=8 Sq=511 Skv=4096 D=128",
             "model_flop_pct": 1.0},
            {**_PREFILL, "model_shape": "B=1 H=32 KV=8 Sq=1024 Skv=1024 D=128",
             "model_flop_pct": 20.0},
        ),
    ),
)  # fmt: skip
