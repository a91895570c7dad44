"""Convolutions that move more than they compute."""

import numpy as np

from traceroof.core.facts import Column, Facts, Mask
from traceroof.rule import Attainable, Rule, above, at_least, below
from traceroof.rules._kernels import computes, tunable
from traceroof.rules._models import CEILINGS, CREDIBLE, by_bytes, credible, size


def _depthwise(k: Facts) -> Mask:
    groups = size(k, "groups")
    of_channels = (groups > 1) & (groups == size(k, "C"))
    return np.asanyarray(tunable(k) & (k.model == "convolution") & of_channels & credible(k))


def _unfolding(k: Facts) -> Mask:
    return np.asanyarray(k.role == "im2col")


def _saves_traffic(k: Facts, peak: Attainable) -> Column:
    # The copy goes altogether; a convolution keeps the bytes that its shapes need.
    return np.asanyarray(np.where(_unfolding(k), 1.0, 1 - 1 / k.traffic_ratio))


_THIN = {
    "model": "convolution",
    "model_shape": "N=32 C=256 K=256 H=56 W=56 out_H=56 out_W=56 R=3 S=3 groups=256",
    "roof_pct": 30.0,
    "model_flop_pct": 1.0,
    "model_dram_pct": 30.0,
}

RULES = (
    Rule(
        id="depthwise-conv",
        topic="conv-efficiency",
        title="A depthwise convolution uses less than half of the bandwidth",
        scope="kernel",
        why=(
            "With one filter per channel there is next to nothing to reuse: a 3x3 filter does 4.5 "
            "FLOP per byte of 16-bit data. Reading and writing the image takes all of the time, and "
            "this kernel does so slowly."
        ),
        condition=(
            "a convolution with as many groups as channels, which moves its modelled bytes at less "
            "than {model_dram_pct:.0%} of the attainable bandwidth"
        ),
        needs=("model_dram_pct",),
        uses=(
            "primary_class", "model", "model_shape", "roof_pct", "model_flop_pct", *CEILINGS,
            "model_intensity", "model_bytes", "duration_ns",
        ),
        applies=_depthwise,
        when=lambda k: k.meets("model_dram_pct"),
        because=(
            "{model_shape} moves {model_bytes} at {model_dram_pct} of the nominal bandwidth"
        ),
        fix=(
            "Use the library's depthwise kernel (channels_last, 16-bit, current cuDNN or MIOpen) or "
            "a hand-written or compiled one. Fuse it with the pointwise convolution or the "
            "activation behind it."
        ),
        refute="Time a plain copy of the same tensor. If it is no faster, the size is too small.",
        saves=lambda k, peak: 1 - by_bytes(k, peak),
        kind="hard",
        grade="derived",
        layer="operator",
        suppresses=("roofline-headroom*", "latency-bound", "dram-leaning-headroom"),
        thresholds={
            **CREDIBLE,
            "model_dram_pct": below(0.5, measure=by_bytes, words="{op} {value:.0%} of attainable"),
        },
        references=("docs/operators.md: the model of a convolution",),
        # 42.4 / 85 = 0.499.
        fires=(_THIN, {**_THIN, "roof_pct": 42.4, "model_dram_pct": 42.4}),
        silent=(
            {**_THIN, "roof_pct": 42.5, "model_dram_pct": 42.5},
            {**_THIN, "model_shape": "N=32 C=256 K=256 H=56 W=56 out_H=56 out_W=56 R=3 S=3 groups=32"},
            {**_THIN, "model_shape": "N=32 C=1 K=64 H=56 W=56 out_H=56 out_W=56 R=3 S=3 groups=1"},
        ),
    ),
    Rule(
        id="im2col-traffic",
        topic="conv-efficiency",
        title="A convolution copies its input before it multiplies",
        scope="kernel",
        why=(
            "Explicit im2col writes each pixel once per filter position that covers it, nine "
            "times for 3x3, and reads all of it back. Implicit products and Winograd kernels "
            "address the image itself."
        ),
        condition=(
            "a kernel that unfolds an image into columns or back, or a convolution that moves "
            "more than {traffic_ratio} times the bytes of its shapes"
        ),
        needs=(),
        uses=("primary_class", "category", "role", "traffic_ratio", "share_pct", "operator",
              "model_shape"),
        applies=lambda k: computes(k) & (_unfolding(k) | (k.category == "conv")),
        when=lambda k: _unfolding(k) | k.meets("traffic_ratio"),
        because=(
            "{share_pct} of the kernel time goes to it (role: {role}; bytes moved over those that "
            "its shapes need: {traffic_ratio})"
        ),
        fix=(
            "Use an implicit convolution: cuDNN or MIOpen instead of the framework's slow path "
            "(supported type, layout and dilation), channels_last, cudnn.benchmark. If the model "
            "itself uses unfold, write it as a convolution."
        ),
        refute=(
            "Use the implicit convolution. The im2col kernels must be gone and the product no "
            "slower."
        ),
        saves=_saves_traffic,
        kind="hard",
        grade="inferred",
        layer="framework",
        effort="config",
        thresholds={"traffic_ratio": above(3)},
        references=("Chetlur et al.: cuDNN, efficient primitives for deep learning, 2014",),
        fires=(
            {"role": "im2col", "category": "conv", "share_pct": 12.0},
            {"category": "conv", "traffic_ratio": 3.1},
        ),
        silent=(
            {"category": "conv", "traffic_ratio": 3.0},
            {"category": "gemm", "traffic_ratio": 9.0},
            {"category": "conv", "role": "fill"},
        ),
    ),
    Rule(
        id="channels-last-missing",
        topic="layout",
        title="Convolutions change the layout of their tensors",
        scope="category",
        why=(
            "Tensor-core convolutions work on channels-last data. With channels-first tensors, "
            "the library transposes input, weight and output of every call, and back."
        ),
        condition=(
            "{conv_layout_per_conv} layout changes or more per kernel that convolves (launched by "
            "a convolution, or named nchwToNhwc and similar), {conv_layout_pct} of the GPU time "
            "or more"
        ),
        needs=("conv_layout_pct", "conv_layout_per_conv"),
        uses=("category", "share_pct", "layout_change_launches"),
        applies=lambda k: k.conv_layout_pct > 0,
        when=lambda k: k.meets("conv_layout_per_conv") & k.meets("conv_layout_pct"),
        because=(
            "for each kernel that convolves there are {conv_layout_per_conv} layout changes between "
            "channels first and channels last; together they take {conv_layout_pct} of the GPU time"
        ),
        fix=(
            "Use model.to(memory_format=torch.channels_last) and the same for the input. Keep "
            "every operator between convolutions in that format, or it changes back."
        ),
        refute=(
            "Convert the model. The transposes must be gone. A convolution that gets slower has "
            "no kernel for this layout."
        ),
        saves=lambda k, peak: k.conv_layout_pct / k.share_pct,
        kind="hard",
        grade="inferred",
        layer="framework",
        effort="one-line",
        suppresses=("layout-conversion-share",),
        thresholds={"conv_layout_per_conv": at_least(0.5), "conv_layout_pct": at_least(1)},
        references=(
            "PyTorch tutorial: channels last memory format",
            "NVIDIA, Convolutional Layers User's Guide: tensor layouts",
        ),
        fires=(
            {"conv_layout_pct": 1.0, "conv_layout_per_conv": 0.5, "share_pct": 1.0},
            {"conv_layout_pct": 16.4, "conv_layout_per_conv": 3.0, "share_pct": 18.5},
        ),
        silent=(
            {"conv_layout_pct": 10.0, "conv_layout_per_conv": 0.49, "share_pct": 12.0},
            {"conv_layout_pct": 0.99, "conv_layout_per_conv": 3.0, "share_pct": 12.0},
            {"conv_layout_pct": 0.0},
        ),
    ),
)  # fmt: skip
