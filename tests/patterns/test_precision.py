"""FP32 products that 16 bits would speed up: what counts, and how much time they would take."""

from collections.abc import Mapping
from typing import Any

import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo
from traceroof.hardware.device_lookup import find
from traceroof.hardware.run_devices import RunDevice, by_ordinal
from traceroof.kernels import groups
from traceroof.patterns.precision import precision


def found(device: str, rows: list[tuple[str, str, int]], **columns: Any) -> Mapping[str, Any]:
    """rows: (kernel name, category, duration in ns)."""
    table = kernel_table(
        {
            "kernel_name": [name for name, _, _ in rows],
            "duration_ns": [time for _, _, time in rows],
            **columns,
        }
    )
    gpu = find(device)
    assert gpu
    grouped = groups.group(table, [one for _, one, _ in rows], {-1: gpu})
    return precision(grouped, float(sum(time for _, _, time in rows)))


def test_fp32_on_volta_goes_to_fp16_by_the_ratio_of_the_peaks() -> None:
    # V100: 15.7 TFLOP/s in FP32, 125 in FP16. Whole models gain a factor of 3 at most.
    facts = found(
        "V100-SXM2-16GB",
        [("volta_sgemm_128x64_nn", "gemm", 300_000), ("volta_scudnn_128x64_nn", "conv", 100_000),
         ("vectorized_elementwise_kernel<float>", "elementwise", 100_000)],
    )  # fmt: skip
    assert facts["precision_to"] == "fp16"
    assert facts["precision_time_ns"] == 400_000
    assert facts["precision_pct"] == pytest.approx(80)
    assert facts["precision_least_ns"] == pytest.approx(400_000 * 15.7 / 125)
    assert facts["precision_likely_ns"] == pytest.approx(400_000 / 3)
    assert facts["precision_tf32_pct"] == 0


def test_tf32_gains_a_factor_of_two_and_narrow_kernels_are_told() -> None:
    # A100: TF32 156 TFLOP/s, BF16 312; 80 % of that ratio is likely.
    name = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_32x4_nn_align1>(Params)"
    facts = found("A100-SXM4-40GB", [(name, "gemm", 400_000)])
    assert facts["precision_to"] == "bf16"
    assert facts["precision_least_ns"] == pytest.approx(200_000)
    assert facts["precision_likely_ns"] == pytest.approx(250_000)
    assert (facts["precision_tf32_pct"], facts["precision_narrow_pct"]) == (100, 100)


def test_matrix_vector_products_gain_what_half_the_bytes_give() -> None:
    name = "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>(float)"
    facts = found("A100-SXM4-40GB", [(name, "gemm", 100_000)])
    assert facts["precision_least_ns"] == pytest.approx(50_000)


@pytest.mark.parametrize(
    ("device", "name", "more"),
    [
        ("A100-SXM4-40GB", "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", {}),
        # ggml: weights of a few bits, whatever else its arguments hold.
        ("RTX-4090", "void mul_mat_vec_q<(ggml_type)12, 1, false>(void const*, float*)", {}),
        ("RTX-4090", "void dequantize_mul_mat_q4_0<int=32>(void const *, float const *)", {}),
        # A counter tells the use of tensor cores: the rules on single kernels judge it.
        ("A100-SXM4-40GB", "ampere_sgemm_128x64_nn", {"pipe_tensor_pct": [0.0]}),
    ],
)
def test_nothing_where_it_is_16_bit_or_counted(
    device: str, name: str, more: Mapping[str, Any]
) -> None:
    assert found(device, [(name, "gemm", 100_000)], **more) == {}


def test_a_gpu_that_is_not_named_is_one_that_the_kernels_run_on() -> None:
    """GIVEN FP32 products in kernels compiled for Volta, of no named GPU WHEN their time in 16 bits is
    worked out THEN by the ratio of the GPU since Volta that gains most (GB200: 2,500 over 80
    TFLOP/s), likely a factor of 3, in FP16, and that is said."""
    table = kernel_table({"kernel_name": ["volta_sgemm_128x64_nn"], "duration_ns": [300_000]})
    facts = precision(groups.group(table, ["gemm"], {}), 300_000.0)
    assert facts["precision_to"] == "fp16"
    assert facts["precision_least_ns"] == pytest.approx(300_000 * 80 / 2_500)
    assert facts["precision_likely_ns"] == pytest.approx(100_000)
    assert "names none" in str(facts["precision_of"])


@pytest.mark.parametrize(
    ("name", "capability", "vendor", "ratio", "said"),
    [
        # T4: 8.1 TFLOP/s in FP32, 65 in FP16: the most of its generation.
        ("Quadro RTX 8000", "7.5", "nvidia", 65 / 8.1, "of its compute capability"),
        # No generation of the table: of what runs the kernels, the GB200 gains most.
        ("NVIDIA of 2031", "31.0", "nvidia", 2_500 / 80, "names none"),
    ],
)
def test_a_gpu_that_the_table_does_not_have_is_one_of_its_generation(
    name: str, capability: str, vendor: str, ratio: float, said: str
) -> None:
    """GIVEN a GPU that the device table does not have, with its compute capability THEN the ratio of
    the peaks is that of its generation, not of any GPU."""
    info = DeviceInfo(index=0, name=name, vendor=vendor, compute_capability=capability)
    table = kernel_table({"kernel_name": ["volta_sgemm_128x64_nn"], "duration_ns": [300_000]})
    devices = by_ordinal([RunDevice(info, None)], unlisted=True)
    facts = precision(groups.group(table, ["gemm"], devices), 300_000.0)
    assert facts["precision_to"] == "fp16"
    assert facts["precision_least_ns"] == pytest.approx(300_000 / ratio)
    assert said in str(facts["precision_of"])


def test_the_capability_of_others_gpus_is_not_one_of_nvidia() -> None:
    """HIP prints 9.0 for an MI210, which is no Hopper."""
    info = DeviceInfo(index=0, name="AMD of 2031", vendor="amd", compute_capability="9.0")
    assert by_ordinal([RunDevice(info, None)], unlisted=True) == {0: None}
