"""Products without shapes, and what those with shapes reach."""

import json

import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.hardware.device_lookup import find
from traceroof.kernels import groups, modelled_work
from traceroof.patterns.unshaped import unshaped

NAME = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN"
# 2 x 4096^3 FLOP: 105 µs at 1,307.4 TFLOP/s.
SHAPES = json.dumps([[4096, 4096], [4096, 4096]])


def test_products_in_graphs_stand_beside_those_with_shapes() -> None:
    """GIVEN 10 ms of BF16 products in a graph and 0.4 ms that reach 52.6 % of the peak of an MI300X
    WHEN added up THEN both stand."""
    table = kernel_table(
        {
            "kernel_name": [NAME] * 3 + ["void at::native::reduce_kernel<512>(int)"],
            "duration_ns": [200_000, 200_000, 10_000_000, 1_000_000],
            "operator": ["aten::mm", "aten::mm", None, None],
            "input_shapes": [SHAPES, SHAPES, None, None],
            "input_dtypes": ['["c10::BFloat16", "c10::BFloat16"]'] * 2 + [None] * 2,
        }
    )
    categories = ["gemm", "gemm", "gemm", "reduction"]
    gpu = find("MI300X")
    assert gpu
    model = modelled_work.model_columns(table, categories)
    grouped = groups.group(table, categories, {-1: gpu}, model)
    found = unshaped(grouped, 11_400_000.0)
    assert found["unshaped_products_ns"] == 10_000_000
    assert found["unshaped_products_pct"] == pytest.approx(10 / 11.4 * 100)
    assert found["shaped_products_launches"] == 2
    least = 2 * 4096**3 / 1307.4e12 * 1e9
    assert found["shaped_roof_pct"] == pytest.approx(least / 200_000 * 100)
    # Without a calibration at hand: of 80 %.
    assert found["shaped_reached_pct"] == pytest.approx(least / 200_000 * 100 / 0.8)
    assert unshaped(groups.group(table.slice(0, 2), categories[:2], {-1: gpu}, None), 4e5)
