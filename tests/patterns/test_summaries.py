"""Summaries without a timeline: what shows of launches all the same."""

from pathlib import Path

import traceroof
from tests.patterns.test_own_attention import summary


def test_kernels_shorter_than_their_launches_come_first(tmp_path: Path) -> None:
    """GIVEN 1,000 products of 4 µs and 1,000 additions of 1 µs in a summary THEN a launch takes 2.5 µs
    on average, so that launching comes first; it saves 1 µs of each at most, half of it expected."""
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("void gemvx_kernel<__nv_bfloat16>(int)", 4_000_000, 1_000),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
         1_000_000, 1_000),
    )  # fmt: skip
    first = traceroof.diagnose(file, calibrated=False).advice[0]
    assert (first.lead.rule, first.topic) == ("tiny-kernels", "small-kernels-graph")
    assert (first.bound_ns, first.expected_ns) == (2_000_000, 1_000_000)
    assert "2,000 launches take 2.50 µs on average" in first.because


def test_longer_kernels_are_no_matter_of_launches(tmp_path: Path) -> None:
    """On average 5.5 µs."""
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("void gemvx_kernel<__nv_bfloat16>(int)", 10_000_000, 1_000),
        ("void mine(int)", 1_000_000, 1_000),
    )
    found = traceroof.diagnose(file, calibrated=False)
    assert not [one for one in found.fired() if one.rule == "tiny-kernels"]


def test_two_short_launches_of_a_summary_are_too_few(tmp_path: Path) -> None:
    file = summary(
        tmp_path / "sums_cuda_gpu_kern_sum.csv",
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_tn", 33_696, 1),
        ("void mine(int)", 1_792, 1),
    )
    (only,) = traceroof.diagnose(file, calibrated=False).advice
    assert only.topic == "too-short-to-judge"
