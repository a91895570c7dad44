"""Attention held against its shapes: reading the cache in decode, arithmetic in prefill."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.hardware.ceilings import UNCALIBRATED
from traceroof.rule import Attainable, Rule
from traceroof.rules._kernels import tunable
from traceroof.rules._models import CEILINGS, by_bytes, credible, missed, size

# Share of the nominal FLOP rate that fused attention reaches at least, by query length (TraceLens,
# expected efficiency of attention: 5 to 15 % below 512 queries, 20 to 40 % at 1024, 40 to 60 % at
# 2048, 50 to 70 % from 4096 on).
_LEAST_PCT = ((4096, 50.0), (2048, 40.0), (1024, 20.0), (512, 5.0))


def _attends(k: Facts) -> Mask:
    return np.asanyarray(tunable(k) & (k.model == "attention") & credible(k))


def _expected_pct(k: Facts) -> Column:
    """Of the nominal rate; less on a GPU whose products reach less of it than is usual."""
    queries = size(k, "Sq")
    conditions = [queries >= least for least, _ in _LEAST_PCT]
    usual = np.select(conditions, [pct for _, pct in _LEAST_PCT], default=np.nan)
    return np.asanyarray(usual * np.fmin(k.flop_attainable / UNCALIBRATED.compute, 1.0))


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
        title="Decoding attention reads its cache slowly",
        scope="kernel",
        why=(
            "With a few queries per sequence, attention reads all keys and values for almost no "
            "arithmetic: 2 FLOP a byte and query head of a group. A larger batch does not "
            "change that, each sequence has a cache of its own. What counts is how fast it is read."
        ),
        condition=(
            "attention with at most 4 queries and at least 256 keys, modelled bytes over time below "
            "0.7 of the attainable bandwidth"
        ),
        needs=("model_dram_pct",),
        uses=(
            "primary_class", "model", "model_shape", "roof_pct", "model_flop_pct", *CEILINGS, "model_bytes",
            "model_intensity", "duration_ns",
        ),
        applies=_attends,
        when=lambda k: (size(k, "Sq") <= 4) & (size(k, "Skv") >= 256) & (by_bytes(k) < 0.7),
        because=(
            "{model_shape} reads {model_bytes} at {model_dram_pct} of the nominal bandwidth"
        ),
        fix=(
            "A kernel that splits the keys over blocks (flash-decoding), with enough splits for all "
            "multiprocessors; larger pages of the cache. At the wall only fewer bytes help: an FP8 "
            "or INT8 cache (half), grouped or latent attention, a window, shared prefixes."
        ),
        refute="Halve the cached length: the time must halve if reading the cache takes it.",
        saves=lambda k, peak: 1 - by_bytes(k, peak),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("roofline-headroom*", "latency-bound", "dram-leaning-headroom"),
        thresholds={"model_dram_pct": "< 0.7 of attainable"},
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
            "From some hundred queries on, attention is limited by arithmetic. Good fused kernels "
            "reach 20 % of the dense peak at 1,024 queries and half of it from 4,096 on; this one "
            "stays below."
        ),
        condition=(
            "attention with 512 queries or more, below 5 % of the nominal FLOP rate (20 % from "
            "1,024 queries, 40 % from 2,048, 50 % from 4,096; less in proportion where the GPU's "
            "products are known to reach less than 80 % of the nominal rate)"
        ),
        needs=("model_flop_pct",),
        uses=(
            "primary_class", "model", "model_shape", "roof_pct", "model_dram_pct", *CEILINGS, "model_dtype",
            "model_flops", "duration_ns",
        ),
        applies=_attends,
        when=lambda k: k.model_flop_pct < _expected_pct(k),
        because=(
            "{model_shape} in {model_dtype} runs at {model_flop_pct} of the nominal FLOP rate"
        ),
        fix=(
            "A newer fused kernel for this device (FlashAttention 3, cuDNN, AITER or CK on AMD), a "
            "head size that it supports (64, 128), contiguous layouts, causal masking by flag and "
            "not by a mask tensor, sequences packed rather than padded."
        ),
        refute=(
            "Time another backend of scaled_dot_product_attention on the same shapes: if none is "
            "faster, the shape does not allow more."
),
        saves=missed,
        likely=_up_to_expected,
        kind="hard",
        grade="derived",
        layer="operator",
        effort="config",
        suppresses=("roofline-headroom*", "latency-bound"),
        thresholds={"model_flop_pct": "< 5, 20, 40, 50 % from 512, 1,024, 2,048, 4,096 queries"},
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
            {**_PREFILL, "model_shape": "B=1 H=32 KV=8 Sq=511 Skv=4096 D=128",
             "model_flop_pct": 1.0},
            {**_PREFILL, "model_shape": "B=1 H=32 KV=8 Sq=1024 Skv=1024 D=128",
             "model_flop_pct": 20.0},
        ),
    ),
)  # fmt: skip
