"""Attention that a program wrote itself, beside the products of its layers."""

from pathlib import Path

import pytest

import traceroof

HEAD = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"


def summary(path: Path, *kernels: tuple[str, int, int]) -> Path:
    rows = [
        f"1.0,{total},{count},{total / count},{total // count},{total // count},{total // count},0.0,{name}"
        for name, total, count in kernels
    ]
    path.write_text("\n".join([HEAD, *rows]) + "\n")
    return path


def test_own_attention_beside_faster_products_comes_first(tmp_path: Path) -> None:
    """GIVEN 60 ms of attention and 30 ms of products in 100 ms: at most 60 ms, likely the 30 ms that it
    takes beyond them, half of which is expected."""
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("flash_attention_prefill_f16", 60_000_000, 32),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn", 30_000_000, 240),
        ("rmsnorm_f16", 10_000_000, 64),
    )
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert first.lead.rule == "attention-outweighs-products"
    assert (first.topic, first.bound_ns, first.likely_ns) == (
        "attention-kernel",
        60_000_000,
        30_000_000,
    )
    assert first.expected_ns == 15_000_000
    assert "take 60 % of the GPU time" in first.because


@pytest.mark.parametrize(
    ("attention", "product"),
    [
        # A library's kernel: long contexts and video take this long.
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4> >(Flash_fwd_params)",
         "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn"),
        ("void pytorch_flash::flash_attention_kernel<128>(int)",
         "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn"),
        ("kernel_unified_attention_2d", "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn"),
        # Decoding: products with a vector are no measure of it.
        ("attention_decode_f16", "void gemv2T_kernel_val<int, int, __half, __half, __half, float>(int)"),
    ],
)  # fmt: skip
def test_attention_of_libraries_and_in_decoding_may_outweigh_products(
    tmp_path: Path, attention: str, product: str
) -> None:
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        (attention, 60_000_000, 32), (product, 30_000_000, 224), ("rmsnorm_f16", 10_000_000, 64),
    )  # fmt: skip
    found = traceroof.diagnose(file, calibrated=False)
    fired = {one.rule for one in found.findings if one.state == "fired"}
    assert "attention-outweighs-products" not in fired
