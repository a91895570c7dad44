"""Modelled work beside the launches: whose work it is, in which type, and whether it is credible.

A product of 4096 x 4096 by 4096 x 4096 in FP16 is 2 x 4096^3 = 137,438,953,472 FLOP and
3 x 4096^2 x 2 byte = 100,663,296 byte.
"""

import math
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

import traceroof
from tests.runs import recording
from traceroof.core.dictionary import Coded
from traceroof.core.facts import is_unknown_value
from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.hardware.device_lookup import find
from traceroof.hardware.devices import AMD, Device
from traceroof.kernels import groups, modelled_work
from traceroof.report.common import json as json_report
from traceroof.report.html import render
from traceroof.report.run import terminal

FLOPS, BYTES = 137_438_953_472.0, 100_663_296.0
SQUARE = "[[4096, 4096], [4096, 4096]]"
HALF = '["c10::Half", "c10::Half"]'
FLOAT = '["float", "float"]'
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"


def device(name: str) -> Device:
    found = find(name)
    assert found
    return found


A100 = device("A100-SXM4-80GB")


def _rows(values: npt.NDArray[Any] | Coded) -> list[Any]:
    return list((values.values() if isinstance(values, Coded) else values).tolist())


def model(columns: dict[str, Any], categories: list[str]) -> dict[str, list[Any]]:
    found = modelled_work.model_columns(kernel_table(columns), categories)
    return {
        name: [None if is_unknown_value(one) else one for one in _rows(values)]
        for name, values in found.items()
    }


def product(count: int, dtypes: str = HALF, **more: Any) -> dict[str, Any]:
    return {
        "kernel_name": [GEMM] * count,
        "operator": ["aten::mm"] * count,
        "input_shapes": [SQUARE] * count,
        "input_dtypes": [dtypes] * count,
        "duration_ns": [500_000] * count,
        "start_ns": [1_000_000 * at for at in range(count)],
        "host_launch_ns": [10_000 * at for at in range(count)],
        **more,
    }


def test_without_shapes_there_is_no_model() -> None:
    assert model({"kernel_name": [GEMM], "operator": ["aten::mm"]}, ["gemm"]) == {}


def test_a_product_has_its_operations_bytes_and_weight() -> None:
    found = model(product(1), ["gemm"])
    assert found["model_flops"] == [FLOPS]
    assert found["model_bytes"] == [BYTES]
    # The second operand, 4096^2 x 2 byte.
    assert found["model_weight_bytes"] == [33_554_432.0]
    assert found["model"] == ["gemm"]
    assert found["model_dtype"] == ["fp16"]
    assert found["model_unit"] == ["tensor"]
    assert found["model_shape"] == ["M=4096 N=4096 K=4096"]


def test_a_split_product_and_its_reduction_share_the_work_by_time() -> None:
    """GIVEN one call of 450 and 50 µs WHEN modelled THEN they did 9/10 and 1/10 of it."""
    found = model(
        product(
            2,
            kernel_name=[GEMM, "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)"],
            duration_ns=[450_000, 50_000],
        ),
        ["gemm", "gemm"],
    )
    assert found["model_flops"] == pytest.approx([0.9 * FLOPS, 0.1 * FLOPS])


def test_launches_from_before_the_recording_do_not_divide_a_call() -> None:
    """An orphan has no launch call and is sorted by its start, here between the two kernels."""
    found = model(
        product(
            3,
            kernel_name=[GEMM, "orphan", "void splitKreduce_kernel<float>(float)"],
            operator=["aten::mm", None, "aten::mm"],
            input_shapes=[SQUARE, None, SQUARE],
            input_dtypes=[HALF, None, HALF],
            duration_ns=[450_000, 10_000, 50_000],
            host_launch_ns=[0, None, 20_000],
            start_ns=[0, 10_000, 600_000],
        ),
        ["gemm", "elementwise", "gemm"],
    )
    assert found["model_flops"] == pytest.approx([0.9 * FLOPS, None, 0.1 * FLOPS])


@pytest.mark.parametrize("category", ["layout", "quantize", "memset", "memcpy"])
def test_a_helper_bears_no_work_even_alone(category: str) -> None:
    """The product itself may be missing from the file; its transpose did not multiply."""
    found = model(product(1, kernel_name=["batched_transpose_32x32_half"]), [category])
    assert found["model_flops"] == [None]
    assert found["model"] == [None]


def test_a_copy_bears_its_own_bytes() -> None:
    found = model(
        {
            "kernel_name": ["void elementwise_kernel<128, 4, direct_copy_kernel_cuda>(int)"],
            "operator": ["aten::copy_"],
            "input_shapes": ["[[1024, 1024], [1024, 1024], []]"],
            "input_dtypes": ['["c10::BFloat16", "float", "Scalar"]'],
            "duration_ns": [10_000],
        },
        ["layout"],
    )
    assert found["model_bytes"] == [1024 * 1024 * (2 + 4)]
    assert found["model_flops"] == [0.0]


# --- the peak that the work is held against ------------------------------------------------------


def grouped(device: Device, **columns: Any) -> dict[str, list[Any]]:
    kernels = kernel_table(columns)
    categories = ["gemm"] * kernels.num_rows
    found = groups.group(
        kernels, categories, {-1: device}, modelled_work.model_columns(kernels, categories)
    )
    facts = found.facts
    return {name: getattr(facts, name).tolist() for name in facts.names()}


def test_use_of_the_peaks_and_the_least_time() -> None:
    """312 TFLOP/s and 2,039 GB/s: 440.5 µs for the operations, 49.4 µs for the bytes."""
    found = grouped(A100, **product(1))
    assert found["t_min_ns"] == pytest.approx([FLOPS / 312e12 * 1e9])
    assert found["model_flop_pct"] == pytest.approx([FLOPS / 312e12 / 500e-6 * 100])
    assert found["model_dram_pct"] == pytest.approx([BYTES / 2.039e12 / 500e-6 * 100])
    assert found["roof_pct"] == pytest.approx(found["model_flop_pct"])
    assert found["model_intensity"] == pytest.approx([1365.333333])
    assert found["model_ridge"] == pytest.approx([312e12 / 2.039e12])


def test_fp32_on_tensor_cores_is_tf32_for_every_kernel_of_the_work() -> None:
    """The reduction's own name does not tell; against 19.5 TFLOP/s it would be at 1,410 %."""
    names = ["void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4>(P)",
             "void splitKreduce_kernel<float, float, float>(float)"]  # fmt: skip
    found = grouped(A100, **product(2, FLOAT, kernel_name=names, duration_ns=[800_000, 200_000]))
    assert found["model_dtype"] == ["tf32", "tf32"]
    # Both at the rate of the whole call: 137.4 GFLOP in 1 ms of 156 TFLOP/s.
    assert found["model_flop_pct"] == pytest.approx([FLOPS / 156e12 / 1e-3 * 100] * 2)
    assert "model_on_tensor_cores" not in found


def test_fp32_on_vector_units_stays_fp32() -> None:
    found = grouped(A100, **product(1, FLOAT, kernel_name=["ampere_sgemm_128x128_nn"]))
    assert found["model_dtype"] == ["fp32"]
    assert found["model_flop_pct"] == pytest.approx([FLOPS / 19.5e12 / 500e-6 * 100])


def test_without_tf32_fp32_stays_fp32() -> None:
    mi300x = device("MI300X")
    plain = "Cijk_Alik_Bljk_SB_BH_Bias_AS_SAV_UserArgs_MT128x128x32_MI16x16x1_SN"
    found = grouped(mi300x, **product(1, FLOAT, kernel_name=[plain]))
    assert found["model_dtype"] == ["fp32"]
    assert found["model_flop_pct"] == pytest.approx([FLOPS / 163.4e12 / 500e-6 * 100])
    # With XF32 asked for, Tensile says so: 653.7 TFLOP/s.
    rounded = "Cijk_Ailk_Bljk_S_MX_B_Bias_HA_S_SAV_UserArgs_MT128x128x32_MI16x16x1_SN"
    found = grouped(mi300x, **product(1, FLOAT, kernel_name=[rounded]))
    assert found["model_dtype"] == ["tf32"]
    v100 = device("V100-SXM2-32GB")
    found = grouped(v100, **product(1, FLOAT, kernel_name=["volta_s884gemm_128x128_ldg8_nn"]))
    assert found["model_dtype"] == ["fp32"]


def test_matrix_units_have_rates_of_their_own_for_wide_types() -> None:
    """A100: FP64 9.7 TFLOP/s in vector units, 19.5 in tensor cores."""
    found = grouped(A100, **product(1, '["double", "double"]', duration_ns=[10_000_000]))
    assert found["model_dtype"] == ["fp64"]
    assert found["model_flop_pct"] == pytest.approx([FLOPS / 19.5e12 / 10e-3 * 100])


def added(elements: int, duration_ns: int) -> Diagnosis:
    """An element-wise addition in FP32: 12 byte and 1 FLOP an element."""
    columns = {
        "kernel_name": ["void vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)"],
        "operator": ["aten::add"],
        "input_shapes": [f"[[{elements}], [{elements}], []]"],
        "input_dtypes": ['["float", "float", "Scalar"]'],
        "duration_ns": [duration_ns],
        "start_ns": [0],
    }
    return diagnose(
        recording(columns, time_basis="timeline", devices=(DeviceInfo(name=A100.name),))
    )


def test_the_class_rests_on_the_model_up_to_the_peak_and_not_above() -> None:
    """1.2 MB in 20 µs are 60 GB/s, 3 %; 60 MB in 20 µs are 3 TB/s, 147 % of the bandwidth: they
    came from the cache."""
    slow = added(100_000, 20_000).kernels[0]
    # Far from both roofs; whether it waits, only counters tell.
    assert slow.primary_class == "below-roof"
    assert slow.metrics["dram_basis"] == "model, nominal peak"
    cached = added(5_000_000, 20_000).kernels[0]
    assert cached.metrics["model_dram_pct"] == pytest.approx(60e6 / 2.039e12 / 20e-6 * 100)
    assert cached.primary_class == "not-evaluable"
    assert "dram_pct" not in cached.metrics
    near = added(5_000_000, 35_000).kernels[0]  # 84 %
    assert near.primary_class == "dram-bound"


# --- real traces ----------------------------------------------------------------------------------

WITH_SHAPES = (
    "astrasim_megatron_tp8_rank0_a100.json",
    "dlrm_8ranks",
    "hta_trace_diff_control_a100.json.gz",
    "hta_trace_diff_test_v100.json.gz",
    "saf_asdf_True_compile_cudagraph_a100.json.gz",
    "tracelens_b200_eager_vllm_moe.json.gz",
    "tracelens_mi300_Qwen1.5-0.5B.json.gz",
    "tracelens_mi300_ddp_resnet18.json.gz",
    "tracelens_mi300_normalization_layer_test.json.gz",
    "tracelens_mi300_resnet_act_checkpoint.json.gz",
    "tracelens_mi300_torch_compile_triton.json.gz",
    "tracelens_mi300_xdit_flux_aiter_sage.json.gz",
)
# Copies out of expanded tensors: shapes are logical, strides are not recorded (docs/operators.md).
EXPANDED = {"aten::copy_"}


@pytest.mark.corpus
@pytest.mark.parametrize("name", WITH_SHAPES)
def test_real_work_stays_below_the_peaks_unless_a_cache_holds_it(corpus: Path, name: str) -> None:
    """No modelled FLOP rate exceeds its peak. Bytes may, where the last-level cache holds the
    data of the kernel (V100 6 MB, A100 40 MB, B200 126 MB, MI300X 256 MB) or where it only
    writes."""
    diagnosis = traceroof.diagnose([corpus / "torch" / name])
    seen = 0
    for kernel in diagnosis.kernels:
        flops = kernel.metrics.get("model_flop_pct", 0.0)
        moved = kernel.metrics.get("model_dram_pct", 0.0)
        assert isinstance(flops, float)
        assert isinstance(moved, float)
        seen += "roof_pct" in kernel.metrics
        assert flops <= 100, (kernel.kernel, kernel.operator, flops)
        if moved <= 105 or kernel.operator in EXPANDED:
            continue
        size = kernel.metrics["model_bytes"]
        assert isinstance(size, float)
        fits = size <= 256e6 if diagnosis.vendor in AMD else size <= 1.5 * 126e6
        assert fits or kernel.operator in ("aten::fill_", "aten::zero_"), (kernel.kernel, moved)
        assert kernel.metrics.get("dram_basis") != "model, nominal peak"
    assert seen


@pytest.mark.corpus
def test_the_products_of_a_real_model_are_where_an_expert_expects_them(corpus: Path) -> None:
    """Megatron on A100: large FP16 products at 65 to 85 % of 312 TFLOP/s, the score product
    (K = 64) limited by writing the scores."""
    diagnosis = traceroof.diagnose(
        [corpus / "torch" / "astrasim_megatron_tp8_rank0_a100.json"], rules=[]
    )
    large = [
        kernel.metrics["model_flop_pct"]
        for kernel in diagnosis.kernels
        if str(kernel.metrics.get("model_shape", "")).startswith("M=8192")
    ]
    assert large
    assert all(isinstance(pct, float) and 65 < pct < 85 for pct in large)
    scores = next(k for k in diagnosis.kernels if k.operator == "aten::baddbmm")
    flops, moved = scores.metrics["model_flop_pct"], scores.metrics["model_dram_pct"]
    assert isinstance(flops, float)
    assert isinstance(moved, float)
    assert flops < 25 < moved < 60


@pytest.mark.corpus
def test_a_convolutions_transposes_bear_none_of_its_work(corpus: Path) -> None:
    diagnosis = traceroof.diagnose(
        [corpus / "torch" / "tracelens_mi300_resnet_act_checkpoint.json.gz"], rules=[]
    )
    helpers = [k for k in diagnosis.kernels
               if k.category == "layout" and "conv" in (k.operator or "")]  # fmt: skip
    assert len(helpers) > 50
    assert not any("model_flops" in kernel.metrics for kernel in helpers)


def test_modelled_numbers_are_finite_or_unknown() -> None:
    found = model(product(2, input_shapes=["[[], []]", "no json"]), ["gemm", "gemm"])
    assert found["model_flops"] == [None, None]
    assert found["model"] == [None, None]


def test_a_launch_of_no_time_has_no_rates() -> None:
    """GIVEN products of 0 ns beside a kernel with a time: no figure is infinite, and every report
    can be written."""
    columns = product(3, duration_ns=[0, 0, 0], dram_read_bytes=[1e6] * 3)
    run = recording(columns, devices=(DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB"),))
    diagnosis = diagnose(run)
    for kernel in diagnosis.kernels:
        assert all(math.isfinite(one) for one in kernel.metrics.values() if isinstance(one, float))
    assert "Infinity" not in json_report.render(diagnosis)
    assert render.render(diagnosis)
    assert terminal.render(diagnosis)
