"""A kernel takes far longer than its shapes need, or is as fast as they allow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from traceroof.core.facts import Facts, Mask
from traceroof.core.tracing import one_of
from traceroof.rule import Rule, at_least, below
from traceroof.rules._kernels import tunable
from traceroof.rules._models import (
    CEILINGS,
    CREDIBLE,
    FAR,
    IS_FAR,
    LONG_QUERIES,
    RATES,
    attained,
    credible,
    far,
    missed,
    size,
    traced,
)

_LIBRARY = ("gemm", "conv")
_ATTENTION = ("attention",)
# What a kernel that is neither is about: its fix is that of its kind.
_TOPICS = {
    "norm": "unfused-norm",
    "softmax": "unfused-norm",
    "elementwise": "unfused-elementwise",
    "layout": "layout",
    "quantize": "precision-cast",
    "optimizer": "optimizer",
    "embedding": "embedding",
    "moe-routing": "moe",
    "sort-scan": "sampling",
    "": "kernel-efficiency",
}


@dataclass(frozen=True, kw_only=True)
class _Work:
    """Kernels to which the same advice applies.

    categories: what they are, or with ``but`` what they are not. example: one of them.
    """

    id: str
    topic: str | Mapping[str, str]
    title: str
    what: str
    categories: tuple[str, ...]
    example: str
    fix: str
    refute: str
    but: bool = False

    def concerns(self, k: Facts) -> Mask:
        named = one_of(k.category, *self.categories)
        long = (k.model == "attention") & ~k.meets("queries")
        return np.asanyarray((~named if self.but else named) & ~long)


_WORKS = (
    _Work(
        id="roofline-headroom",
        topic="gemm-efficiency",
        title="The product takes far longer than its shapes need",
        what="a product or a convolution",
        categories=_LIBRARY,
        example="gemm",
        fix=(
            "Let the library search ([nvidia: max-autotune, cudnn.benchmark][amd: TunableOp, the "
            "find mode of MIOpen]) or use another release of it. See the findings on tiles and "
            "alignment. With a short reduction or few rows, batch several products into one call."
        ),
        refute=(
            "Time the best library call for the same shapes on an idle GPU. If it is no faster, "
            "the shape itself is unfavourable."
        ),
    ),
    _Work(
        id="roofline-headroom-attention",
        topic="attention-kernel",
        title="Attention takes far longer than its shapes need",
        what="attention",
        categories=_ATTENTION,
        example="attention",
        fix=(
            "Use a fused kernel made for this GPU and element type (scaled_dot_product_attention, "
            "FlashAttention, [nvidia: cuDNN][amd: AITER or Composable Kernel]), and check that mask, "
            "head size and layout do not rule it out. With few queries against a long cache, split "
            "the keys over blocks."
        ),
        refute=(
            "Time another attention backend on the same shapes on an idle GPU. If none is faster, "
            "the shape itself is unfavourable."
        ),
    ),
    _Work(
        id="roofline-headroom-bytes",
        topic=_TOPICS,
        title="The kernel takes far longer than its bytes need",
        what="a kernel that is not a product, a convolution or attention",
        categories=(*_LIBRARY, *_ATTENTION),
        but=True,
        example="elementwise",
        fix=(
            "Fuse it with its neighbours, so that its bytes need not move at all. Otherwise use "
            "contiguous tensors, 16-byte accesses, one pass instead of several, and enough blocks to "
            "fill the device. Give a kernel of a few microseconds more work per launch."
        ),
        refute=(
            "Time a copy of as many bytes on an idle GPU. If it is no faster, the size is too small "
            "for the bandwidth."
        ),
    ),
)


def _half(one: _Work) -> Mapping[str, Any]:
    return {
        "category": one.example,
        "operator": "aten::mm",
        "input_shapes": "[]",
        "roof_pct": 40.0,
        "model_flop_pct": 40.0,
        "model_dram_pct": 8.0,
    }


def _fires(one: _Work) -> tuple[Mapping[str, Any], ...]:
    half = _half(one)
    # 40 / 80 = 0.5; 55.9 / 80 = 0.699; 59.4 / 85 = 0.699.
    return (
        half,
        {**half, "roof_pct": 55.9, "model_flop_pct": 55.9},
        {**half, "roof_pct": 59.4, "model_flop_pct": 0.5, "model_dram_pct": 59.4},
        # 40 / 54.2 = 0.74, as on an MI300X.
        {**half, "flop_attainable": 0.542},
        {**half, "model": "attention", "model_shape": "B=1 H=8 KV=8 Sq=511 Skv=512 D=64"},
    )


def _silent(one: _Work) -> tuple[Mapping[str, Any], ...]:
    half = _half(one)
    other = next(work.example for work in _WORKS if work is not one)
    # 40 / 43 = 0.93. 56 / 80 = 0.7; 59.5 / 85 = 0.7; a fixed cost of 2 of 2.8 µs; more bytes than can
    # move.
    return (
        {**half, "category": other},
        {**half, "model": "attention", "model_shape": "B=1 H=8 KV=8 Sq=512 Skv=512 D=64"},
        {**half, "flop_attainable": 0.43},
        {**half, "roof_pct": 56.0, "model_flop_pct": 56.0},
        {**half, "roof_pct": 59.5, "model_dram_pct": 59.5},
        {**half, "roof_pct": 71.0},
        {**half, "roof_pct": 106.0, "model_dram_pct": 106.0},
        {**half, "primary_class": "launch-bound"},
        {"category": one.example, "roof_pct": 40.0},
    )


def _headroom(one: _Work) -> Rule:
    return Rule(
        id=one.id,
        topic=one.topic,
        title=one.title,
        scope="kernel",
        why=(
            "The shapes give the operations that the mathematics needs and the bytes that must "
            "move once. At the rates that good kernels reach on this device, these give a least "
            "time. This kernel takes much longer."
        ),
        condition=(
            f"{one.what} with {IS_FAR}; attention over {{queries}} queries or more is judged by "
            "attn-prefill-compute"
        ),
        needs=("input_shapes", "roof_pct"),
        uses=(
            "category",
            "primary_class",
            "operator",
            "model",
            "model_shape",
            *CEILINGS,
            "model_flop_pct",
            "model_dram_pct",
            "model_intensity",
            "model_ridge",
            "t_min_ns",
            "duration_ns",
        ),
        applies=lambda k: tunable(k) & traced(k) & one.concerns(k),
        when=lambda k: credible(k) & far(k),
        because=(
            "its shapes ({model_shape}) need {t_min_ns} at nominal peaks and it takes {duration_ns}: "
            "{model_flop_pct} of the FLOP rate and {model_dram_pct} of the bandwidth"
        ),
        fix=one.fix,
        refute=one.refute,
        saves=missed,
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("latency-bound", "dram-leaning-headroom"),
        thresholds={
            **CREDIBLE,
            **FAR,
            "queries": below(
                LONG_QUERIES, measure=lambda k: size(k, "Sq"), or_unknown=True, told=False
            ),
        },
        references=(
            "Williams, Waterman, Patterson: Roofline, CACM 2009",
            "docs/operators.md: the models of operations and bytes",
        ),
        fires=_fires(one),
        silent=_silent(one),
    )


_STATED = {
    "model": "stated",
    "category": "gemm",
    "roof_pct": 40.0,
    "model_flop_pct": 40.0,
    "model_dram_pct": 8.0,
}

RULES = (
    *(_headroom(one) for one in _WORKS),
    Rule(
        id="roofline-headroom-stated",
        topic={
            **_TOPICS,
            "gemm": "gemm-efficiency",
            "conv": "gemm-efficiency",
            "attention": "attention-kernel",
        },
        title="The kernel takes far longer than its stated work needs",
        scope="kernel",
        why=(
            "The program states how many operations a launch does and how many bytes it moves. At the "
            "rates that good kernels reach on this device, these give a least time."
        ),
        condition=f"a kernel whose launches state their work, with {IS_FAR}",
        needs=("model", "roof_pct"),
        uses=(
            "category",
            "primary_class",
            *CEILINGS,
            "model_flop_pct",
            "model_dram_pct",
            "model_intensity",
            "model_ridge",
            "t_min_ns",
            "duration_ns",
        ),
        applies=lambda k: tunable(k) & (k.model == "stated"),
        when=lambda k: credible(k) & far(k),
        because=(
            "the work that the program states needs {t_min_ns} at nominal peaks and it takes "
            "{duration_ns}: "
            "{model_flop_pct} of the FLOP rate and {model_dram_pct} of the bandwidth"
        ),
        fix=(
            "Let the tuner search more tiles, stages and warps, and time the library's kernel for the "
            "same sizes beside it. Check the stated numbers first: they are the program's own."
        ),
        refute="Time the best library call for the same sizes. It must be faster.",
        saves=missed,
        kind="hard",
        grade="inferred",
        layer="operator",
        suppresses=("latency-bound", "dram-leaning-headroom"),
        thresholds={**CREDIBLE, **FAR},
        references=("Triton documentation: Proton, launch_metadata",),
        fires=(
            _STATED,
            {
                **_STATED,
                "category": "other",
                "model_flop_pct": 0.5,
                "roof_pct": 59.4,
                "model_dram_pct": 59.4,
            },
        ),
        silent=(
            {**_STATED, "roof_pct": 56.0, "model_flop_pct": 56.0},
            {**_STATED, "model": "gemm"},
            {**_STATED, "roof_pct": 120.0, "model_flop_pct": 120.0},
            {**_STATED, "primary_class": "launch-bound"},
        ),
    ),
    Rule(
        id="roofline-at-wall",
        topic="nothing-to-gain",
        title="The kernel is as fast as its shapes allow",
        scope="kernel",
        why=(
            "Given its shapes, the kernel moves bytes or computes about as fast as good kernels do on "
            "this device. Further tuning gains next to nothing."
        ),
        condition=(
            "the least time is {reached:.0%} of the time taken or more, at the rates that were "
            "measured or published for this GPU, otherwise at the usual attainable rates"
        ),
        needs=("roof_pct",),
        uses=(
            "primary_class",
            "model",
            "model_shape",
            *CEILINGS,
            "model_flop_pct",
            "model_dram_pct",
            "model_dtype",
            "model_intensity",
            "model_ridge",
            "t_min_ns",
            "duration_ns",
        ),
        applies=lambda k: tunable(k) & credible(k),
        when=lambda k: k.meets("reached"),
        because=(
            "its shapes ({model_shape}) need {t_min_ns} at nominal peaks and it takes {duration_ns}: "
            "{model_flop_pct} of the FLOP rate and {model_dram_pct} of the bandwidth"
        ),
        fix=(
            "Leave the kernel alone and change the approach: a narrower element type, another "
            "algorithm, fusion with its neighbours so that bytes need not move, fewer calls, or a "
            "faster device."
        ),
        refute=(
            "Flush the caches before the call. If the time grows, the data came from a cache and "
            "the model counts bytes that did not move."
        ),
        kind="hard",
        grade="derived",
        layer="model",
        severity="info",
        thresholds={
            **CREDIBLE,
            "reached": at_least(
                0.9, beside=RATES, measure=attained, words="{op} {value:.0%} of attainable"
            ),
        },
        references=("Williams, Waterman, Patterson: Roofline, CACM 2009",),
        # 72 / 80 = 0.9; 76.5 / 85 = 0.9.
        fires=(
            {"roof_pct": 72.0, "model_flop_pct": 72.0, "model_dram_pct": 10.0},
            {"roof_pct": 76.5, "model_flop_pct": 1.0, "model_dram_pct": 76.5},
        ),
        silent=(
            {"roof_pct": 71.9, "model_flop_pct": 71.9, "model_dram_pct": 10.0},
            {"roof_pct": 76.4, "model_flop_pct": 1.0, "model_dram_pct": 76.4},
            {"roof_pct": 120.0, "model_flop_pct": 1.0, "model_dram_pct": 120.0},
        ),
    ),
)
