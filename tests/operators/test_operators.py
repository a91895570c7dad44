"""Operator calls as traces record them -> FLOPs and bytes."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.dictionary import coded
from traceroof.core.kernel_table import kernel_table
from traceroof.operators import (
    Work,
    element_bytes,
    operators,
    shares,
    work,
    works,
)

HALF, BF16, FP8 = "c10::Half", "c10::BFloat16", "c10::Float8_e4m3fn"
S, L = "Scalar", "ScalarList"


def of(operator: str, *arguments: tuple[Any, ...], training: bool = False) -> Work | None:
    """``work`` of arguments written as (dims, type) or (dims, type, value)."""
    return work(
        operator,
        [one[0] for one in arguments],
        [one[1] for one in arguments],
        training=training,
        concrete=[one[2] if len(one) > 2 else "" for one in arguments],
    )


def scalar(value: Any) -> tuple[Any, ...]:
    return ([], S, str(value))


def numbers(*values: int) -> tuple[Any, ...]:
    return ([], L, str(list(values)))


NONE: tuple[Any, ...] = ([], "", "")


def figures(found: Work | None) -> tuple[float | None, float | None]:
    assert found is not None
    return found.flops, found.bytes_min


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("c10::BFloat16", 2), ("c10::Half", 2), ("float", 4), ("double", 8), ("long int", 8),
        ("long", 8), ("int", 4), ("unsigned char", 1), ("signed char", 1), ("bool", 1),
        ("c10::Float8_e4m3fn", 1), ("c10::Float8_e4m3fnuz", 1), ("c10::complex<float>", 8),
        ("c10::complex<c10::Half>", 4), ("torch.bfloat16", 2), ("short int", 2), ("long long", 8),
        ("Scalar", None), ("TensorList", None), ("", None),
    ],
)  # fmt: skip
def test_element_bytes(name: str, size: float | None) -> None:
    assert element_bytes(name) == size


# The reference's rows as calls. FLOP and bytes to the last digit.
T = [32, 2048, 4096]
Q, KV8 = ([1, 32, 4096, 128], HALF), ([1, 8, 4096, 128], HALF)
ORACLES: dict[str, tuple[Work | None, int, int]] = {
    "mm 4096^3 half": (
        of("aten::mm", ([4096, 4096], HALF), ([4096, 4096], HALF)), 137_438_953_472, 100_663_296,
    ),
    "mm 4096^3 float": (
        of("aten::mm", ([4096, 4096], "float"), ([4096, 4096], "float")), 137_438_953_472, 201_326_592,
    ),
    "scaled mm fp8 in, bf16 out": (
        of("aten::_scaled_mm", ([4096, 4096], FP8), ([4096, 4096], FP8), ([], "float"),
           ([], "float"), NONE, NONE, scalar(15), scalar("False")),
        137_438_953_472, 67_108_864,
    ),
    "scaled mm, schema of 2.3": (
        of("aten::_scaled_mm", ([4096, 4096], FP8), ([4096, 4096], FP8), NONE, scalar(15),
           ([], "float"), ([], "float"), NONE, scalar("False")),
        137_438_953_472, 67_108_864,
    ),
    "int mm": (
        of("aten::_int_mm", ([4096, 4096], "signed char"), ([4096, 4096], "signed char")),
        137_438_953_472, 100_663_296,
    ),
    "linear 1x4096x4096": (
        of("aten::linear", ([1, 1, 4096], HALF), ([4096, 4096], HALF), NONE), 33_554_432, 33_570_816,
    ),
    "linear folds its batch into rows": (
        of("aten::linear", (T, HALF), ([4096, 4096], HALF), NONE), 2_199_023_255_552, 1_107_296_256,
    ),
    "bmm 64 x (128, 128, 64)": (
        of("aten::bmm", ([64, 128, 64], HALF), ([64, 64, 128], HALF)), 134_217_728, 4_194_304,
    ),
    "W4A16 g128, packed": (
        # 4-bit weights as int32 [N/8, K/128, 32, 4], one scale and zero point for 128: the
        # reference's 8,667,136 has the scale alone; + 2 bytes x 4096 x 4096 / 128 zero points
        of("aten::_weight_int4pack_mm", ([1, 4096], BF16), ([512, 32, 32, 4], "int"), scalar(128),
           ([32, 4096, 2], BF16)),
        33_554_432, 8_667_136 + 2 * 4096 * 32,
    ),
    "W8A16 packed": (
        # the reference's 16,793,600; scales are not counted there either
        of("aten::_weight_int8pack_mm", ([1, 4096], BF16), ([4096, 4096], "signed char"),
           ([4096], BF16)),
        33_554_432, 16_793_600,
    ),
    "convolution 3x3": (
        of("aten::convolution", ([32, 64, 56, 56], HALF), ([64, 64, 3, 3], HALF), NONE,
           numbers(1, 1), numbers(1, 1), numbers(1, 1), scalar("False"), numbers(0, 0), scalar(1)),
        7_398_752_256, 25_763_840,
    ),
    "cudnn has padding before stride": (
        of("aten::cudnn_convolution", ([32, 3, 224, 224], HALF), ([64, 3, 7, 7], HALF),
           numbers(3, 3), numbers(2, 2), numbers(1, 1), scalar(1), scalar("True"),
           scalar("False"), scalar("True")),
        7_552_892_928, 61_032_832,
    ),
    "miopen has a bias before them": (
        of("aten::miopen_convolution", ([32, 3, 224, 224], HALF), ([64, 3, 7, 7], HALF), NONE,
           numbers(3, 3), numbers(2, 2), numbers(1, 1), scalar(1), scalar("True"),
           scalar("False")),
        7_552_892_928, 61_032_832,
    ),
    "both gradients of a 1x1": (
        of("aten::convolution_backward", ([32, 256, 56, 56], HALF), ([32, 64, 56, 56], HALF),
           ([256, 64, 1, 1], HALF), numbers(0), numbers(1, 1), numbers(0, 0), numbers(1, 1),
           scalar("False"), numbers(0, 0), scalar(1), ([], L, "[True, True, False]")),
        2 * 3_288_334_336, 2 * 64_258_048,
    ),
    "one gradient": (
        of("aten::convolution_backward", ([32, 256, 56, 56], HALF), ([32, 64, 56, 56], HALF),
           ([256, 64, 1, 1], HALF), numbers(0), numbers(1, 1), numbers(0, 0), numbers(1, 1),
           scalar("False"), numbers(0, 0), scalar(1), ([], L, "[False, True, False]")),
        3_288_334_336, 64_258_048,
    ),
    "depthwise": (
        of("aten::_conv_depthwise2d", ([32, 256, 56, 56], HALF), ([256, 1, 3, 3], HALF),
           numbers(3, 3), NONE, numbers(1, 1), numbers(1, 1), numbers(1, 1)),
        462_422_016, 102_765_056,
    ),
    "flash, BHSD": (
        of("aten::_scaled_dot_product_flash_attention", Q, Q, Q, scalar("0."), scalar("False"),
           scalar("False"), scalar("0.088")),
        274_877_906_944, 134_217_728,
    ),
    "flash, causal": (
        of("aten::_scaled_dot_product_flash_attention", Q, Q, Q, scalar("0."), scalar("True"),
           scalar("False"), scalar("0.088")),
        137_472_507_904, 134_217_728,
    ),
    "grouped queries, causal, training": (
        of("aten::scaled_dot_product_attention", Q, KV8, KV8, NONE, scalar("0."), scalar("True"),
           NONE, scalar("True"), training=True),
        137_472_507_904, 84_410_368,
    ),
    "flash forward, BSHD": (
        of("aten::_flash_attention_forward", *[([1, 4096, 32, 128], HALF)] * 3, NONE, NONE,
           scalar(4096), scalar(4096), scalar("0."), scalar("True"), scalar("False"), NONE, NONE,
           NONE, NONE, NONE),
        137_472_507_904, 134_217_728,
    ),
    "decode, 32 heads over 8": (
        of("aten::_scaled_dot_product_flash_attention", ([1, 32, 1, 128], HALF), KV8, KV8,
           scalar("0."), scalar("False"), scalar("False")),
        67_108_864, 16_793_600,
    ),
    "layer norm": (
        of("aten::native_layer_norm", (T, HALF), numbers(4096), ([4096], HALF), ([4096], HALF),
           scalar("1e-05")),
        2_147_483_648, 1_073_758_208,
    ),
    "rms norm": (
        of("aten::_fused_rms_norm", (T, HALF), numbers(4096), ([4096], HALF), NONE),
        1_073_741_824, 1_073_750_016,
    ),
    "softmax": (
        of("aten::_softmax", (T, HALF), scalar(-1), scalar("False")), 1_342_177_280, 1_073_741_824,
    ),
    "add half": (
        of("aten::add", (T, HALF), (T, HALF), scalar(1)), 268_435_456, 1_610_612_736,
    ),
    "add float in place": (
        of("aten::add_", (T, "float"), (T, "float"), scalar(1)), 268_435_456, 3_221_225_472,
    ),
    "unary": (of("aten::neg", (T, HALF)), 268_435_456, 1_073_741_824),
    "swiglu": (
        of("_C::silu_and_mul", (T, HALF), ([32, 2048, 8192], HALF)), 1_342_177_280, 1_610_612_736,
    ),
    "clone": (of("aten::clone", (T, HALF), NONE), 0, 1_073_741_824),
    "embedding": (
        of("aten::embedding", ([50257, 4096], HALF), ([65536], "long int"), scalar(-1),
           scalar("False"), scalar("False")),
        0, 65536 * (8 + 2 * 4096 * 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORACLES)
def test_call_is_the_reference_s(name: str) -> None:
    found, flops, moved = ORACLES[name]
    assert figures(found) == (flops, moved)


# Shapes as real traces have them, counted by hand.
CALLS: dict[str, tuple[Work | None, float | None, float | None]] = {
    "addmm adds its bias: 2MNK + MN; bias read": (
        of("aten::addmm", ([1024], BF16), ([8944, 1024], BF16), ([1024, 1024], BF16), scalar(1),
           scalar(1)),
        2 * 8944 * 1024 * 1024 + 8944 * 1024,
        2 * (8944 * 1024 * 2 + 1024 * 1024 + 1024),
    ),
    "baddbmm with beta 0 reads no C": (
        of("aten::baddbmm", ([32, 2048, 2048], HALF), ([32, 2048, 64], HALF),
           ([32, 64, 2048], HALF), scalar("0."), scalar("0.125")),
        2 * 32 * 2048 * 2048 * 64,
        2 * 32 * (2048 * 2048 + 2 * 2048 * 64),
    ),
    "baddbmm with beta 1 reads C": (
        of("aten::baddbmm", ([2, 3, 5], "float"), ([2, 3, 4], "float"), ([2, 4, 5], "float"),
           scalar(1), scalar(1)),
        2 * 2 * 3 * 5 * 4 + 2 * 3 * 5,
        4 * 2 * (3 * 4 + 4 * 5 + 2 * 3 * 5),
    ),
    "mm with out=": (
        of("aten::mm", ([8, 4], "float"), ([4, 6], "float"), ([8, 6], "float")),
        2 * 8 * 4 * 6, 4 * (32 + 24 + 48),
    ),
    "addmm with an empty out=": (
        of("aten::addmm", ([6], "float"), ([8, 4], "float"), ([4, 6], "float"), scalar(1),
           scalar(1), ([0], "float")),
        2 * 8 * 4 * 6 + 48, 4 * (6 + 32 + 24 + 48),
    ),
    "the TorchScript stack: the call's arguments are the last": (
        of("aten::pow", ([512, 2842], "float"), ([512], "float"), ([2048, 1421], "float"),
           ([2048, 1421], "float"), scalar(2)),
        2048 * 1421, 2 * 4 * 2048 * 1421,
    ),
    "matmul on a stack of ten": (
        of("aten::matmul", *[([7, 7], "float")] * 8, ([16, 32], "float"), ([32, 8], "float")),
        2 * 16 * 32 * 8, 4 * (16 * 32 + 32 * 8 + 16 * 8),
    ),
    "matmul broadcasts a batch": (
        of("aten::matmul", ([4, 1, 8, 16], HALF), ([3, 16, 5], HALF)),
        # 4 x 3 products; A has 4 matrices, B has 3
        2 * 12 * 8 * 16 * 5, 2 * (4 * 8 * 16 + 3 * 16 * 5 + 12 * 8 * 5),
    ),
    "mv": (of("aten::mv", ([8, 4], "float"), ([4], "float")), 64, 4 * (32 + 4 + 8)),
    "transposed convolution": (
        # 4x4 -> 8x8: every input meets all 3x3 taps of 5 filters
        of("aten::convolution", ([2, 3, 4, 4], "float"), ([3, 5, 3, 3], "float"), NONE,
           numbers(2, 2), numbers(1, 1), numbers(1, 1), scalar("True"), numbers(1, 1), scalar(1)),
        2 * (2 * 3 * 4 * 4) * 5 * 9, 4 * (2 * 3 * 16 + 3 * 5 * 9 + 2 * 5 * 64),
    ),
    "grouped convolution in one dimension": (
        of("aten::conv1d", ([2, 8, 10], "float"), ([4, 2, 3], "float"), ([4], "float"),
           numbers(1), numbers(0), numbers(1), scalar(4)),
        2 * (2 * 4 * 8) * 2 * 3 + 2 * 4 * 8, 4 * (2 * 8 * 10 + 4 * 2 * 3 + 2 * 4 * 8 + 4),
    ),
    "a stride wider than the kernel skips inputs": (
        # 1x1 with stride 2: a quarter of the input is read
        of("aten::miopen_convolution", ([512, 64, 56, 56], HALF), ([128, 64, 1, 1], HALF), NONE,
           numbers(0, 0), numbers(2, 2), numbers(1, 1), scalar(1), scalar("True"),
           scalar("False")),
        2 * 512 * 128 * 28 * 28 * 64, 2 * (512 * 64 * 28 * 28 + 128 * 64 + 512 * 128 * 28 * 28),
    ),
    "its input gradient is written whole, its weight gradient reads a quarter": (
        of("aten::convolution_backward", ([512, 128, 28, 28], HALF), ([512, 64, 56, 56], HALF),
           ([128, 64, 1, 1], HALF), numbers(0), numbers(2, 2), numbers(0, 0), numbers(1, 1),
           scalar("False"), numbers(0, 0), scalar(1), ([], L, "[True, True, False]")),
        2 * 2 * 512 * 128 * 28 * 28 * 64,
        2 * (2 * (512 * 128 * 28 * 28 + 128 * 64) + 512 * 64 * (56 * 56 + 28 * 28)),
    ),
    "the input gradient alone, sizes not recorded: bytes unknown": (
        work("aten::cudnn_convolution_backward_input",
             [[], [32, 2048, 7, 7], [2048, 512, 1, 1], [], [], [], [], [], [], []], []),
        2 * 32 * 2048 * 49 * 512, None,
    ),
    "efficient attention of 2.2, no mask": (
        of("aten::_efficient_attention_forward", *[([25, 196, 16, 80], BF16)] * 3,
           ([25, 16, 196, 196], BF16), NONE, NONE, NONE, scalar("0."), scalar(0),
           scalar("False"), NONE, NONE, NONE),
        4 * 25 * 16 * 196 * 196 * 80, 4 * 2 * 25 * 196 * 16 * 80,
    ),
    "attention without recorded values: the mask is unknown, the bytes are not": (
        work("aten::_scaled_dot_product_flash_attention",
             [[1, 2, 8, 4], [1, 2, 8, 4], [1, 2, 8, 4], [], [], []], [HALF] * 3 + [S] * 3),
        None, 4 * 2 * 2 * 8 * 4,
    ),
    "sequences of one length, end to end": (
        of("flash_attn::_flash_attn_varlen_forward", *[([32, 2, 4], HALF)] * 3,
           ([5], "int"), ([5], "int"), scalar(8), scalar(8), scalar("0."), scalar("0.5"),
           scalar("True")),
        2 * 4 * 2 * (8 * 9 // 2) * 8, 4 * 2 * 32 * 2 * 4,
    ),
    "a window of 2 before the diagonal": (
        of("aten::_flash_attention_forward", *[([1, 8, 1, 4], HALF)] * 3, NONE, NONE, scalar(8),
           scalar(8), scalar("0."), scalar("True"), scalar("False"), NONE, scalar(2), scalar(0)),
        # 1 + 2 + 6 x 3 scores of 8 dimensions each way
        2 * 21 * 8, 4 * 2 * 8 * 4,
    ),
    "attention backward": (
        of("aten::_scaled_dot_product_flash_attention_backward", *[([2, 3, 8, 4], HALF)] * 5,
           ([2, 3, 8], "float"), NONE, NONE, scalar(8), scalar(8), scalar("0."), scalar("False"),
           ([], "long int"), ([], "long int")),
        2.5 * 4 * 2 * 3 * 8 * 8 * 4, 8 * 2 * 2 * 3 * 8 * 4 + 4 * 2 * 3 * 8,
    ),
    "batch norm in training passes twice over x": (
        of("aten::native_batch_norm", ([8, 16, 32, 32], "float"), *[([16], "float")] * 4,
           scalar("True"), scalar("0.1"), scalar("1e-05")),
        8 * 131072, 3 * 4 * 131072 + 2 * 4 * 16,
    ),
    "batch norm in evaluation does not": (
        of("aten::native_batch_norm", ([8, 16, 32, 32], "float"), *[([16], "float")] * 4,
           scalar("False"), scalar("0.1"), scalar("1e-05")),
        8 * 131072, 2 * 4 * 131072 + 2 * 4 * 16,
    ),
    "layer norm backward": (
        of("aten::native_layer_norm_backward", ([8, 64], "float"), ([8, 64], "float"),
           numbers(64), ([8, 1], "float"), ([8, 1], "float"), ([64], "float"), ([64], "float"),
           ([], L, "[True, True, True]")),
        16 * 512, 4 * (3 * 512 + 2 * 8 + 3 * 64),
    ),
    "add and rms norm, both kept": (
        of("_C::fused_add_rms_norm", ([888, 2880], BF16), ([888, 2880], BF16), ([2880], BF16),
           scalar("1e-05")),
        5 * 888 * 2880, 2 * (4 * 888 * 2880 + 2880),
    ),
    "a bias is read once": (
        of("aten::add", ([2048, 4, 1536], HALF), ([1536], HALF), scalar(1)),
        2048 * 4 * 1536, 2 * (2 * 2048 * 4 * 1536 + 1536),
    ),
    "a number beside a tensor moves no bytes and keeps its type": (
        of("aten::div", ([256, 2048, 1, 1], HALF), ([], "long int")),
        256 * 2048, 2 * 2 * 256 * 2048,
    ),
    "a comparison writes bool": (
        of("aten::gt", ([2048, 256], "float"), scalar(0)), 2048 * 256, 2048 * 256 * (4 + 1),
    ),
    "where reads its condition": (
        of("aten::where", ([2048], "bool"), ([], "float"), ([2048], "float")),
        2048, 2048 * (1 + 4 + 4),
    ),
    "half and bfloat16 make float": (
        of("aten::mul", ([64], HALF), ([64], BF16)), 64, 64 * (2 + 2 + 4),
    ),
    "a cast in copy_": (
        of("aten::copy_", ([4, 2048], "unsigned char"), ([4, 2048], "long int"),
           scalar("False")),
        0, 4 * 2048 * 9,
    ),
    "a list of tensors, their types not recorded": (
        of("aten::cat", ([[4, 8], [4, 2]], "TensorList"), scalar(1)), 0, None,
    ),
    "a reduction reads everything once": (
        of("aten::sum", ([4, 2048, 6400], "float"), numbers(-1), scalar("False"), NONE),
        4 * 2048 * 6400, 4 * 4 * 2048 * 6400,
    ),
    "max of two tensors is no reduction": (
        of("aten::max", ([64], "float"), ([64], "float")), 64, 64 * 12,
    ),
    "gathered rows": (
        of("aten::index_select", ([2048, 4096], HALF), scalar(0), ([8192], "long int")),
        0, 8 * 8192 + 2 * 2 * 8192 * 4096,
    ),
    "scatter_add reads and writes what it touches": (
        of("aten::scatter_add_", ([50], "float"), scalar(0), ([1000], "long"),
           ([1000], "float")),
        1000, 1000 * (8 + 4 + 2 * 4),
    ),
    "a KV-cache write converts to the cache's type": (
        of("_C_cache_ops::reshape_and_cache_flash", ([888, 1, 64], BF16), ([888, 1, 64], BF16),
           ([4213816, 16, 1, 64], "unsigned char"), ([4213816, 16, 1, 64], "unsigned char"),
           ([888], "long int"), NONE, ([], "float"), ([], "float")),
        0, 2 * 888 * 64 * (2 + 1) + 8 * 888,
    ),
    "rotary embedding of query and key": (
        of("_C::rotary_embedding", ([888], "long int"), ([888, 512], BF16), ([888, 64], BF16),
           scalar(64), ([131072, 64], BF16), scalar("True")),
        3 * 888 * 576, 2 * 2 * 888 * 576 + 8 * 888,
    ),
    "fused Adam: p, m, v read and written, g read": (
        work("aten::_fused_adamw_", [[[8, 4], [8]]] * 4 + [[], [[], []]] + [[]] * 9,
             [["float", "float"]] * 4 + ["TensorList"] + [["float", "float"]] + [""] * 9),
        12 * 40, 40 * 28,
    ),
    "the loss gathers one logit a row": (
        of("aten::nll_loss_forward", ([256, 100], "float"), ([256], "long int"), NONE, scalar(1),
           scalar(-100)),
        256, 256 * (8 + 4),
    ),
    "experts: rows against one weight each": (
        of("aten::_grouped_mm", ([64, 16], BF16), ([4, 16, 8], BF16), ([4], "int"), NONE,
           NONE),
        2 * 64 * 16 * 8, 2 * (64 * 16 + 4 * 16 * 8 + 64 * 8),
    ),
    "einsum of two": (
        of("aten::einsum", ([], "", "bij,bjk->bik"),
           ([[2, 3, 4], [2, 4, 5]], ["float", "float"]), NONE),
        2 * 2 * 3 * 4 * 5, 4 * (24 + 40 + 30),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    found, flops, moved = CALLS[name]
    assert figures(found) == (flops, moved)


@pytest.mark.parametrize(
    ("operator", "shapes", "dtypes"),
    [
        ("torchvision::nms", [[1318, 4], [1318], []], ["float", "double", S]),  # no model
        ("aten::mm", [[4, 5], [6, 7]], [HALF, HALF]),  # K differs
        ("aten::mm", [[4, 5]], [HALF]),  # an operand is missing
        ("aten::mm", [], []),  # shapes were not recorded
        ("aten::mm", [[4, -5], [5, 7]], [HALF, HALF]),
        ("aten::mm", ["4x5", "5x7"], [HALF, HALF]),
        ("aten::add", [[4, 5], [3, 5], []], [HALF, HALF, S]),  # do not broadcast
        # strides and padding decide the output and were not recorded
        ("aten::cudnn_convolution", [[32, 64, 56, 56], [64, 64, 3, 3]] + [[]] * 7, []),
        # which gradients were asked for was not recorded
        ("aten::convolution_backward", [[8, 4, 2, 2], [8, 4, 2, 2], [4, 4, 1, 1]] + [[]] * 8, []),
        # the KV length of a serving engine is not in the shapes
        ("vllm::unified_attention_with_output", [[888, 8, 64]] * 4, [BF16] * 4),
        # packed sequences of unknown length
        ("aten::_flash_attention_forward", [[100, 2, 8]] * 3 + [[5], [5]] + [[]] * 8, [HALF] * 3),
        ("aten::_foreach_add_", [[], [], []], ["TensorList", "TensorList", S]),  # shapes lost
    ],
)
def test_nothing_is_guessed(operator: str, shapes: list[Any], dtypes: list[str]) -> None:
    assert work(operator, shapes, dtypes) is None


def test_paged_keys_have_no_length() -> None:
    paged = of(
        "aten::_flash_attention_forward", *[([1, 8, 1, 4], HALF)] * 3, NONE, NONE, scalar(8),
        scalar(8), scalar("0."), scalar("True"), scalar("False"), NONE, NONE, NONE,
        ([1], "int"), NONE,
    )  # fmt: skip
    assert paged is None


def test_what_the_card_shows() -> None:
    found = of("aten::linear", ([1, 1, 8192], BF16), ([28672, 8192], BF16), NONE)
    assert found is not None
    assert found.shape == "M=1 N=28672 K=8192"
    assert (found.model, found.unit, found.dtype) == ("gemm", "tensor", "bf16")
    assert found.weight_bytes == 2 * 28672 * 8192
    assert found.intensity == pytest.approx(0.999843, abs=5e-7)  # the reference's row


def test_vector_work_of_half_types_is_fp32_arithmetic() -> None:
    found = of("aten::add", (T, HALF), (T, HALF), scalar(1))
    assert found is not None
    assert (found.unit, found.dtype) == ("vector", "fp32")


@pytest.mark.parametrize(
    ("element", "dtype"),
    [(HALF, "fp16"), (BF16, "bf16"), ("float", "fp32"), ("double", "fp64"), (FP8, "fp8")],
)
def test_matrix_types_are_the_device_table_s(element: str, dtype: str) -> None:
    found = of("aten::bmm", ([2, 4, 8], element), ([2, 8, 4], element))
    assert found is not None
    assert (found.unit, found.dtype) == ("tensor", dtype)


def test_fp4_packs_two_values_in_an_element() -> None:
    packed = "c10::Float4_e2m1fn_x2"
    found = of(
        "aten::_scaled_mm", ([128, 32], packed), ([32, 256], packed),
        ([512], FP8), ([512], FP8), NONE, NONE, scalar(15), scalar("False"),
    )  # fmt: skip
    # K = 64 values in 32 bytes
    # More scales than rows: they change along K, and are read as well.
    moved = 128 * 32 + 32 * 256 + 2 * 128 * 256 + 512 + 512
    assert figures(found) == (2 * 128 * 256 * 64, moved)
    assert found is not None
    assert found.dtype == "fp4"


# M = 32, N = 4096, K = 2880 in two values a byte, a scale for each 32 (MXFP4) or 16 (NVFP4).
BYTE = "unsigned char"
A4, W4 = ([32, 1440], BYTE), ([4096, 1440], BYTE)
MX_A, MX_W = ([32, 90], BYTE), ([4096, 90], BYTE)
NV_A, NV_W = ([128, 180], FP8), ([4096, 180], FP8)
OUT = ([32, 4096], BF16)


@pytest.mark.parametrize(
    ("found", "scales"),
    [
        (of("aiter::gemm_a4w4", A4, W4, MX_A, MX_W, NONE, scalar(15)), 32 * 90 + 4096 * 90),
        (of("aiter::gemm_a4w4_asm", A4, W4, MX_A, MX_W, OUT, NONE), 32 * 90 + 4096 * 90),
        (of("aiter::gemm_a4w4_blockscale", A4, W4, MX_A, MX_W, OUT, scalar(0)), 32 * 90 + 4096 * 90),
        (of("_C::cutlass_scaled_fp4_mm", OUT, A4, W4, NV_A, NV_W, ([1], "float")), 128 * 180 + 4096 * 180),
        (of("sgl_kernel::cutlass_scaled_fp4_mm", OUT, A4, W4, NV_A, NV_W, ([1], "float")), 128 * 180 + 4096 * 180),
    ],
)  # fmt: skip
def test_products_of_four_bits_in_bytes(found: Work | None, scales: int) -> None:
    moved = 32 * 1440 + 4096 * 1440 + 2 * 32 * 4096 + scales
    assert figures(found) == (2 * 32 * 4096 * 2880, moved)
    assert found is not None
    assert (found.dtype, dict(found.dims)["K"]) == ("fp4", 2880)


def test_weights_of_four_bits_beside_wider_activations() -> None:
    """vLLM quantises the activations within the call: BF16 in, weights and their scales in bytes."""
    found = of(
        "vllm::gemm_with_dynamic_quant", ([32, 2880], BF16), W4, MX_W, scalar(15), NONE
    )  # fmt: skip
    weight = 4096 * 1440 + 4096 * 90
    assert figures(found) == (2 * 32 * 4096 * 2880, 2 * 32 * 2880 + weight + 2 * 32 * 4096)
    assert found is not None
    assert found.weight_bytes == weight


def test_the_autograd_function_of_flash_attention_tells_bytes() -> None:
    """FlashAttnFunc (flash-attn 2 to 4) records its tensors, not whether the mask is causal. GQA, 32
    heads of queries over 8 of keys: bytes are known, operations are not."""
    q, kv = ([2, 4096, 32, 128], BF16), ([2, 4096, 8, 128], BF16)
    found = of("FlashAttnFunc", q, kv, kv)
    assert found is not None
    assert found.flops is None
    assert found.bytes_min == 2 * 2 * (2 * 4096 * 32 * 128 + 2 * 4096 * 8 * 128)


def test_every_row_of_the_table_names_a_model() -> None:
    from traceroof.operators.models import MODELS
    from traceroof.operators.operands import entries

    for operator in operators():
        for entry in entries(operator):
            assert entry.model in MODELS
            assert len(set(entry.arguments)) == len(entry.arguments)


@given(
    st.sampled_from(operators()),
    st.lists(
        st.one_of(
            st.lists(st.integers(0, 9), max_size=5),
            st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=3),
            st.none(),
            st.text(max_size=3),
        ),
        max_size=12,
    ),
    st.lists(st.sampled_from(["float", HALF, "", S, "TensorList", "nonsense"]), max_size=12),
    st.one_of(st.none(), st.lists(st.sampled_from(["", "1", "[2]", "True", "x", "-3"]))),
)
def test_any_arguments_give_work_or_none(
    operator: str, shapes: list[Any], dtypes: list[str], concrete: list[str] | None
) -> None:
    found = work(operator, shapes, dtypes, concrete=concrete)
    if found is not None:
        assert found.flops is None or found.flops >= 0
        assert found.bytes_min is None or found.bytes_min >= 0


def text(*values: Any) -> list[str | None]:
    return [None if value is None else json.dumps(value) for value in values]


def test_works_computes_each_distinct_call_once() -> None:
    """GIVEN two equal calls, one other, one without operator and one with broken shapes."""
    mm = [[4, 5], [5, 6]]
    kernels = kernel_table(
        {
            "kernel_name": ["a", "a", "b", "c", "d"],
            "operator": ["aten::mm", "aten::mm", "aten::neg", None, "aten::mm"],
            "input_shapes": [*text(mm, mm, [[8]], None), "[[4, 5"],
            "input_dtypes": text(["float"] * 2, ["float"] * 2, ["float"], None, None),
        }
    )
    found = works(kernels)
    assert len(found.distinct) == 4
    assert found.of_row[0] == found.of_row[1] != found.of_row[2]
    assert found.row(3) is None
    assert found.row(4) is None
    np.testing.assert_array_equal(found.column("flops"), [240, 240, 8, np.nan, np.nan])
    np.testing.assert_array_equal(
        found.column("bytes_min"), [4 * (20 + 30 + 24)] * 2 + [64, np.nan, np.nan]
    )


def test_works_of_an_empty_table() -> None:
    found = works(kernel_table({"kernel_name": []}))
    assert found.distinct == ()
    assert found.column("flops").tolist() == []


def test_a_call_s_work_goes_to_its_own_kernels() -> None:
    """GIVEN two calls of one convolution backward, each a layout change and two gradients (30 and
    10 ns), and a product with a split: the parts of a call add up to one."""
    names = ["layout", "dgrad", "wgrad", "layout", "dgrad", "wgrad", "mm", "split"]
    values = [""] * 7 + ["False", "", "", "[True, True, False]"]
    kernels = kernel_table(
        {
            "kernel_name": names,
            "operator": ["aten::convolution_backward"] * 6 + ["aten::mm"] * 2,
            "input_shapes": text(
                *[[[8, 4, 2, 2], [8, 4, 2, 2], [4, 4, 1, 1], *[[]] * 8]] * 6,
                *[[[4, 5], [5, 6]]] * 2,
            ),
            "input_values": [json.dumps(values)] * 6 + [None] * 2,
            "host_launch_ns": [1, 2, 3, 4, 5, 6, 7, 8],
            "start_ns": [11, 12, 13, 14, 15, 16, 17, 18],
            "duration_ns": [5, 30, 10, 5, 10, 30, 60, 20],
        }
    )
    found = works(kernels)
    categories = ["layout", "conv", "conv", "layout", "conv", "conv", "gemm", "gemm"]
    part = shares(found, kernels, coded(pa.array(categories)))
    np.testing.assert_allclose(part, [0, 0.75, 0.25, 0, 0.25, 0.75, 0.75, 0.25])
    total = found.column("flops") * part
    # one call: 2 gradients x 2 x (8 x 4 x 2 x 2) outputs x 4 channels x 1 tap
    assert total[:3].sum() == total[3:6].sum() == 2 * 2 * 128 * 4
    assert total[6:].sum() == 2 * 4 * 5 * 6


def test_a_helper_launched_twice_a_call_makes_no_second_call() -> None:
    """GIVEN one convolution between two layout changes of one name."""
    kernels = kernel_table(
        {
            "kernel_name": ["transpose", "conv", "transpose"],
            "operator": ["aten::mm"] * 3,
            "input_shapes": text(*[[[4, 5], [5, 6]]] * 3),
            "start_ns": [1, 100, 200],
            "duration_ns": [50, 60, 70],
        }
    )
    part = shares(works(kernels), kernels, coded(pa.array(["layout", "gemm", "layout"])))
    assert part.tolist() == [0, 1, 0]


def test_the_operator_call_decides_where_the_table_has_it() -> None:
    """GIVEN one kernel launched twice by one call: half each, not a call each."""
    columns = {
        "kernel_name": ["mm", "mm"],
        "operator": ["aten::mm"] * 2,
        "input_shapes": text(*[[[4, 5], [5, 6]]] * 2),
        "start_ns": [1, 100],
        "duration_ns": [50, 50],
    }
    guessed = kernel_table(columns)
    assert shares(works(guessed), guessed, coded(pa.array(["gemm"] * 2))).tolist() == [1, 1]
    known = kernel_table({**columns, "operator_call": [17, 17]})
    assert shares(works(known), known, coded(pa.array(["gemm"] * 2))).tolist() == [0.5, 0.5]
    # The same number in another file is another call.
    apart = kernel_table({**columns, "operator_call": [17, 17], "source": [0, 1]})
    assert shares(works(apart), apart, coded(pa.array(["gemm"] * 2))).tolist() == [1, 1]


def test_where_no_kernel_is_of_the_model_s_kind_the_longest_has_the_work() -> None:
    kernels = kernel_table(
        {
            "kernel_name": ["x", "y"],
            "operator": ["aten::mm"] * 2,
            "input_shapes": text(*[[[4, 5], [5, 6]]] * 2),
            "duration_ns": [3, 9],
            "start_ns": [1, 5],
        }
    )
    part = shares(works(kernels), kernels, coded(pa.array(["other", "other"])))
    assert part.tolist() == [0, 1]


# --- libraries of serving engines ------------------------------------------------------------------


def flash_3(operator: str, q: list[int], k: list[int], dtype: str, **more: Any) -> Work | None:
    """A call of FlashAttention 3's forward (hopper/flash_api.cpp), 37 arguments."""
    arguments: list[tuple[Any, ...]] = [NONE] * 37
    arguments[:3] = [(q, dtype), (k, dtype), (k, dtype)]
    arguments[23:27] = [scalar(0.09), scalar(more.get("causal", False)), scalar(-1), scalar(-1)]
    if "page_table" in more:
        arguments[14] = (more["page_table"], "int")
    return of(operator, *arguments)


@pytest.mark.parametrize("operator", ["flash_attn_3::fwd", "sgl_kernel::fwd", "_vllm_fa3_C::fwd"])
def test_flash_attention_3_with_grouped_heads(operator: str) -> None:
    found = flash_3(operator, [2, 4096, 32, 128], [2, 4096, 8, 128], BF16)
    # 4 x 2 x 32 x 4096 x 4096 x 128 FLOP; Q and output 67,108,864 byte each, K and V 16,777,216.
    assert figures(found) == (549_755_813_888, 167_772_160)
    fp8 = flash_3(operator, [2, 4096, 32, 128], [2, 4096, 8, 128], FP8)
    # One byte in, two bytes out.
    assert figures(fp8) == (549_755_813_888, 33_554_432 + 67_108_864 + 16_777_216)
    # Pages hold the lengths inside a tensor: nothing is guessed.
    paged = flash_3(operator, [16, 1, 32, 128], [9000, 64, 8, 128], BF16, page_table=[16, 64])
    assert paged is None


def test_attention_of_aiter() -> None:
    q, k = ([1, 8192, 16, 128], BF16), ([1, 8192, 16, 128], BF16)
    more = (scalar(0.0), scalar(0.09), scalar(True), scalar(-1), scalar(0))
    found = of("aiter::fmha_v3_fwd", q, k, k, *more, scalar(True), scalar(False), scalar(1))
    # Causal: 8192 x 8193 / 2 scores a head.
    assert figures(found)[0] == 4 * 16 * 128 * 8192 * 8193 // 2
    ends = ([3], "int")
    packed = ([16384, 16, 128], BF16)
    lengths = (scalar(8192), scalar(8192), scalar(0))
    varlen = of("aiter::mha_varlen_fwd", packed, packed, packed, ends, ends, *lengths, scalar(0.0),
                scalar(0.09), scalar(0.0), scalar(False), scalar(False), scalar(-1), scalar(-1))  # fmt: skip
    assert figures(varlen)[0] == 4 * 2 * 16 * 128 * 8192 * 8192


@pytest.mark.parametrize(
    ("operator", "residual_first"),
    [
        ("sgl_kernel::fused_add_rmsnorm", False),
        ("flashinfer::gemma_fused_add_rmsnorm", False),
        ("aiter::fused_add_rms_norm_cu", False),
        ("aiter::rmsnorm2d_fwd_with_add", True),
    ],
)
def test_norms_with_a_residual_move_four_tensors(operator: str, residual_first: bool) -> None:
    x, w = ([888, 2880], BF16), ([2880], BF16)
    arguments = [x, x, x, x, w, scalar(1e-5)] if residual_first else [x, x, w, scalar(1e-5)]
    known = of("_C::fused_add_rms_norm", x, x, w, scalar(1e-5))
    assert figures(of(operator, *arguments)) == figures(known)


@pytest.mark.parametrize("library", ["sgl_kernel", "flashinfer", "aiter"])
def test_gates_of_other_libraries_are_those_of_vllm(library: str) -> None:
    arguments = (([32, 8192], BF16), ([32, 16384], BF16))
    ours = figures(of(f"{library}::silu_and_mul", *arguments))
    assert ours == figures(of("_C::silu_and_mul", *arguments))


def test_products_of_other_libraries() -> None:
    a, b, scale = ([64, 4096], FP8), ([4096, 1024], FP8), ([64, 1], "float")
    found = of("sgl_kernel::fp8_scaled_mm", a, b, scale, scale, scalar(15), NONE)
    # 64 x 4096 + 4096 x 1024 byte in, 64 x 1024 values of 2 byte out.
    assert figures(found) == (2 * 64 * 4096 * 1024, 64 * 4096 + 4096 * 1024 + 2 * 64 * 1024)
    rocm = of("vllm::rocm_unquantized_gemm", ([32, 2880], BF16), ([201_088, 2880], BF16), NONE)
    assert figures(rocm)[0] == 2 * 32 * 2880 * 201_088
