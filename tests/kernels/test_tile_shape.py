"""The tile that a product kernel's name states."""

import numpy as np
import pytest

from traceroof.kernels import tile_shape


@pytest.mark.parametrize(
    ("name", "tile"),
    [
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT448x32x64_MI16x16x1_SN", (448, 32)),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize192x128x32_stage4_warpsize4x2x1", (192, 128)),
        ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", (192, 8)),
        ("nvjet_sm103_tst_256x16_64x6_4x1_v_bz_TNT", (256, 16)),
        ("cutlass3x_sm90_tensorop_s64x256x16gemm_bf16_bf16_f32_bf16_bf16_128x256x64_2x1x1_0_tnn_align8",
         (128, 256)),
        ("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x64_32x5_tn_align8>(P)",
         (128, 64)),
        ("ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn", (128, 256)),
        ("volta_h884gemm_128x128_ldg8_nn", (128, 128)),
        ("volta_sgemm_64x32_sliced1x4_nn", (64, 32)),
        ("ampere_sgemm_32x128_tn", (32, 128)),
        ("void gemv2T_kernel_val<int, int, float, float>(float)", None),
        ("void splitKreduce_kernel<32, 16, int, float>(float)", None),
        ("gemm_0x64_nn", None),
        ("", None),
    ],
)  # fmt: skip
def test_tile_of(name: str, tile: tuple[int, int] | None) -> None:
    assert tile_shape.tile_of(name) == tile


def test_the_first_size_runs_along_the_columns() -> None:
    """cuBLAS is column-major: its 192x8 tile covers 192 columns and 8 rows of a row-major result,
    as a product of one row shows."""
    found = tile_shape.columns(["nvjet_tst_192x8_64x8_4x1_v_bz_TNT", "gemv"])
    np.testing.assert_array_equal(found["tile_n"], [192, np.nan])
    np.testing.assert_array_equal(found["tile_m"], [8, np.nan])
    assert tile_shape.columns(["gemv"]) == {}


def test_a_long_name_takes_no_time() -> None:
    assert tile_shape.tile_of("cutlass3x_" + "gemm_a_" * 1000 + "x") is None
