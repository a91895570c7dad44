"""What the articles that the project started from got wrong is not in the program: for each such
statement (docs/accounted_for.toml, state "wrong") what our models and tables say instead."""

import pytest

from docs.generate import accounted_for
from tests import closed_forms as more_forms
from traceroof.hardware.device_lookup import find
from traceroof.hardware.devices import Device
from traceroof.hardware.roofline import roofline
from traceroof.operators import closed_forms, work

HALF = "c10::Half"


def device(name: str) -> Device:
    found = find(name)
    assert found is not None
    return found


def ridge(name: str) -> float:
    """Dense 16-bit peak over bandwidth, from the device table."""
    bandwidth = device(name).dram_bandwidth_bytes_per_s
    assert bandwidth is not None
    return rate(name, "fp16") / bandwidth


def rate(name: str, dtype: str) -> float:
    peak = device(name).peak(dtype)
    assert peak is not None
    return peak


def convolution(
    channels: int, filters: int, groups: int, size: float, im2col: bool = False
) -> float:
    """FLOP/byte of a 3 x 3 convolution of 32 images of 56 x 56."""
    hw = (56, 56)
    return closed_forms.convolution(
        32, channels, filters, hw, hw, (3, 3), size=size, groups=groups, explicit_im2col=im2col
    ).intensity


def a_ridge_is_a_quotient() -> None:
    """S0-05 said about 150: 160e12 / 1e12."""
    made = roofline(
        flops=1.0, bytes=1.0, time_ns=1.0, peak_flops_per_s=160e12, peak_bytes_per_s=1e12,
        dtype="fp16", ceiling_basis="report", traffic_basis="measured",
    )  # fmt: skip
    assert made.ridge == 160


def ridges_differ_by_device() -> None:
    """S0-06 said 150 for nearly every card."""
    figures = {"H20": 37, "A100-SXM4-80GB": 153, "H100-SXM5": 295, "L40S": 419}
    found = {name: round(ridge(name)) for name in figures}
    assert found == figures


def an_optimizer_moves_fourteen_times_the_weights() -> None:
    """S0-12 said six, which is what stays in memory: two moments and a master copy of 4 bytes."""
    rule = closed_forms.OPTIMIZERS["adam 16-bit model, fp32 states"]
    assert rule.bytes == 28 == 14 * 2
    assert 3 * 4 == 6 * 2


def an_outer_product_is_no_decoding() -> None:
    """S0-17 took K = 1 for a matrix-vector product: the large tensor is then the output, which no
    quantised weight makes smaller. Decoding reads a weight of nearly all bytes."""
    outer = work("aten::mm", [[4096, 1], [1, 4096]], [HALF, HALF])
    decode = work("aten::mm", [[1, 4096], [4096, 4096]], [HALF, HALF])
    assert outer is not None
    assert decode is not None
    assert outer.bytes_min == decode.bytes_min == 33_570_816
    assert outer.shape == "M=4096 N=4096 K=1"
    assert decode.shape == "M=1 N=4096 K=4096"
    assert outer.weight_bytes == 2 * 4096
    assert decode.weight_bytes == 2 * 4096 * 4096


def im2col_counts_its_buffer_twice() -> None:
    """S0-22 said a ninth: the buffer is written and read."""
    direct, explicit = (convolution(64, 64, 1, 2, buffered) for buffered in (False, True))
    assert (round(direct, 1), round(explicit, 1)) == (287.2, 28.8)
    assert direct / explicit == pytest.approx(9.97, abs=0.01)


def a_product_of_two_teraflop_takes_seven_milliseconds() -> None:
    """S0-25 said little over 1 ms for [65536, 4096] x [4096, 4096] at 300 TFLOP/s."""
    cost = closed_forms.gemm(65536, 4096, 4096, a_size=2, b_size=2, out_size=2)
    assert cost.flops / 300e12 == pytest.approx(7.33e-3, abs=5e-6)


def depthwise_has_half_of_nine() -> None:
    """S0-35 said 9."""
    assert convolution(256, 256, 256, 2) == pytest.approx(4.499798, abs=5e-7)
    assert convolution(256, 256, 256, 4) == pytest.approx(2.249899, abs=5e-7)


def a_fused_norm_saves_a_fifth() -> None:
    """S0-54 said three quarters, against four kernels. An addition reads two and writes one, a
    one-pass norm reads one and writes one; fused, two are read and two written: 4 of 5."""
    addition = work("aten::add", [[4096, 4096], [4096, 4096]], [HALF, HALF])
    assert addition is not None
    assert addition.bytes_min == 3 * 2 * 4096 * 4096
    fused = closed_forms.streaming(4096 * 4096, flops=9, reads=[2, 2], writes=[2, 2]).bytes
    apart = closed_forms.streaming(4096 * 4096, flops=9, reads=[2] * 3, writes=[2] * 2).bytes
    assert 1 - fused / apart == pytest.approx(0.2)


def a_tile_in_half_precision_has_sixty_four() -> None:
    """S0-56 said 32, which is FP32."""
    assert more_forms.tile_intensity(128, 128, 2) == 64
    assert more_forms.tile_intensity(128, 128, 4) == 32


def int8_is_what_the_device_says() -> None:
    """S0-63 said two to four times 16 bit: twice on A100 and H100, far less on B300."""
    for name in ("A100-SXM4-80GB", "H100-SXM5"):
        assert rate(name, "int8") / rate(name, "bf16") == pytest.approx(2.0, rel=0.01)
    assert rate("B300", "int8") / rate("B300", "bf16") < 0.1


def a_cache_of_two_thousand_tokens_is_a_gibibyte() -> None:
    """S4-11 said 100 MB for LLaMA-7B: 2 x 32 layers x 32 heads x 128 x 2,048 tokens x 2 bytes."""
    assert more_forms.kv_cache_bytes(32, 32, 128, 2048, 2) == 2**30


RIGHT = {
    "S0-05": a_ridge_is_a_quotient,
    "S0-06": ridges_differ_by_device,
    "S0-12": an_optimizer_moves_fourteen_times_the_weights,
    "S0-17": an_outer_product_is_no_decoding,
    "S0-22": im2col_counts_its_buffer_twice,
    "S0-25": a_product_of_two_teraflop_takes_seven_milliseconds,
    "S0-35": depthwise_has_half_of_nine,
    "S0-54": a_fused_norm_saves_a_fifth,
    "S0-56": a_tile_in_half_precision_has_sixty_four,
    "S0-63": int8_is_what_the_device_says,
    "S4-11": a_cache_of_two_thousand_tokens_is_a_gibibyte,
}


@pytest.mark.parametrize("statement", RIGHT)
def test_what_holds_instead(statement: str) -> None:
    RIGHT[statement]()


def test_every_wrong_statement_is_refuted() -> None:
    assert set(RIGHT) == {one["id"] for one in accounted_for() if one["state"] == "wrong"}
