"""What kernel names say: every sample of the table, and the names that mislead."""

import numpy as np
import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.hardware.device_lookup import find
from traceroof.kernels import groups, name_features
from traceroof.kernels.group_columns import VOCABULARY

SAMPLES = [(row, sample) for row in name_features.markers() for sample in row.samples]


@pytest.mark.parametrize(
    ("row", "sample"), SAMPLES, ids=[f"{row.column}={row.value}:{s[:40]}" for row, s in SAMPLES]
)
def test_a_sample_is_first_met_by_its_own_row(row: name_features.Marker, sample: str) -> None:
    column = [one for one in name_features.markers() if one.column == row.column]
    first = next(one for one in column if one.pattern.search(sample))
    assert first is row


def test_every_row_has_samples_and_fills_a_column_of_a_group() -> None:
    for row in name_features.markers():
        assert row.samples
        assert row.column in VOCABULARY


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        # The engine's name alone would say tensor cores; the variant says FFMA.
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_ffma_kernel", "name_tensor_core", 0),
        # s1688gemm contains no sgemm; tensorop is a tensor core.
        ("cutlass_80_tensorop_s1688gemm_64x64_32x6_nt_align1", "name_tensor_core", 1),
        ("ampere_fp16_sgemm_fp16_128x64_tn", "name_tensor_core", 0),
        ("vectorAdd(const float *, const float *, float *, int)", "name_tensor_core", None),
        ("triton_mm_kernel", "name_tensor_core", None),
        # TensorOptions is a type of PyTorch, not a tensor operation of CUTLASS.
        ("void f<c10::TensorOptions>(c10::TensorOptions)", "name_tensor_core", None),
        ("void at::native::elementwise_kernel<c10::BFloat16>(float)", "name_dtype", "bf16"),
        ("matmul(float *, float *, float *, int)", "name_dtype", "fp32"),
        ("floatToInt(int *)", "name_dtype", None),
        # Substitutions of the mangling, and a 64-bit offset.
        ("_ZN2ck16tensor_operation12element_wise11PassThroughES8_S8_Li1E", "name_dtype", None),
        ("transpose_NCHW2CNHW_V2_2D_WG_off64", "name_dtype", None),
        ("igemm_fwd_gtcx3_nhwc_fp16_bx0", "name_dtype", "fp16"),
        ("gemm_double_buffered(float *, float *)", "name_dtype", "fp32"),
        ("gemm_double_buffered(float *, float *)", "name_fp64", None),
        ("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_align8>(Params)", "name_route", None),
        ("volta_sgemm_64x32_sliced1x4_tn", "name_split_k", None),
        ("preference_kernel(int)", "name_route", None),
        # FlashAttention 3 of its first release, and FlashMLA, are made for Hopper.
        ("void flash::compute_attn_ws<Flash_fwd_kernel_traits<192, 128>>(Params)", "name_flash2", None),
        ("void flash_fwd_splitkv_mla_kernel<Traits>(Params)", "name_flash2", None),
        ("void at::native::index_elementwise_kernel<128, 4>(int)", "name_operands", None),
        ("cutlass3x_sm100_tensorop_s64x256x32gemm_f8_f8_f32_tnn_align4_1sm", "name_alignment", None),
        ("cutlass_80_tensorop_i16832gemm_s8_128x128_64x4_tn_align16", "name_alignment", 16),
    ],
)  # fmt: skip
def test_names_that_mislead(name: str, column: str, value: float | str | None) -> None:
    assert name_features.marks(name).get(column) == value


def test_columns_are_unknown_where_a_name_says_nothing() -> None:
    found = name_features.columns(["volta_sgemm_128x32_nt", "vectorAdd", "volta_h884gemm_128x128"])
    np.testing.assert_array_equal(found["name_tensor_core"], [0.0, np.nan, 1.0])
    assert found["name_dtype"].tolist() == ["fp32", None, "fp16"]
    assert "name_route" not in found


def test_a_long_name_takes_no_time_out_of_proportion() -> None:
    # 6 KB names exist (reference); a quadratic pattern would need minutes for 64 KB.
    name = "void f<" + "at::native::half_float_sm90_align_GSU<" * 1700 + ">"
    assert name_features.marks(name)["name_dtype"] in {"fp16", "fp32"}


def test_without_a_device_the_names_say_the_least_gpu() -> None:
    """GIVEN kernels of no named GPU, compiled for Volta and for Ampere WHEN they are grouped THEN the
    GPU has compute capability 8.0 at least; the GPU that is named has its own."""
    table = kernel_table(
        {
            "kernel_name": ["volta_sgemm_128x64_nn", "ampere_sgemm_32x128_tn", "plain"],
            "duration_ns": [10_000, 10_000, 10_000],
        }
    )
    of = ["gemm", "gemm", "other"]
    see = groups.group(table, of, {}).facts.only(("least_capability",))
    assert see.least_capability.tolist() == [8.0, 8.0, 8.0]
    v100 = find("V100-SXM2-16GB")
    assert v100
    see = groups.group(table, of, {-1: v100}).facts.only(("least_capability",))
    assert see.least_capability.tolist() == [7.0, 7.0, 7.0]
