"""Savings and trust of the rules on memory accesses and on matrix products."""

from typing import Any

import numpy as np
import pytest

from traceroof.core.kernel_table import kernel_table
from traceroof.hardware.device_lookup import find
from traceroof.kernels.groups import group
from traceroof.plugins import rules
from traceroof.rule import Facts, Judgement, judge

BY_ID = {rule.id: rule for rule in rules()}


def judged(id: str, **values: Any) -> Judgement:
    rule = BY_ID[id]
    return judge(rule, Facts.of((values,), rule.columns))


@pytest.mark.parametrize(
    ("values", "saved"),
    [
        # 75 % of the bytes wasted, and arithmetic for 10 % of the time.
        ({"compute_pct": 10.0}, 0.75),
        # Arithmetic fills 40 % of the time whatever the accesses.
        ({"compute_pct": 40.0}, 0.6),
        # At the wall of device memory: of the waste 50 % x 80 % misses both caches, at 90 % use.
        (
            {"primary_class": "dram-bound", "l1_hit_pct": 50.0, "l2_hit_pct": 20.0, "dram_pct": 90.0},
            0.75 * 0.5 * 0.8 * 0.9,
        ),
        ({"primary_class": "dram-bound", "dram_pct": 90.0}, 0.675),
        # All bytes of device memory must move, and keep it busy 80 % of an unknown time; half of
        # them; a count that says more than moved.
        ({"kernel_dram_pct": 80.0, "compulsory_bytes": 33e6, "dram_bytes": 33e6}, 0.2),
        ({"kernel_dram_pct": 80.0, "compulsory_bytes": 16.5e6, "dram_bytes": 33e6}, 0.6),
        ({"kernel_dram_pct": 80.0, "compulsory_bytes": 99e6, "dram_bytes": 33e6}, 0.2),
        ({}, 0.75),
    ],
)  # fmt: skip
def test_scattered_accesses_save_their_waste_at_most(values: Any, saved: float) -> None:
    result = judged("uncoalesced-global", global_sectors_wasted_pct=75.0, **values)
    assert result.fired.all()
    np.testing.assert_allclose(result.saved, saved)


@pytest.mark.parametrize(
    ("values", "saved"),
    [
        # 1,000 requests of 128 bytes in 1.28 MB through L1: 10 %, at 50 % memory use.
        ({"l1_bytes": 1.28e6, "memory_pct": 50.0}, 0.05),
        ({"l1_bytes": 1.28e6, "memory_pct": 50.0, "issue_active": 0.97}, 0.03),
        # Without the L1 traffic: 1,000 of 50,000 instructions.
        ({"instructions": 5e4, "registers_per_thread": 255.0}, 0.02),
        ({"registers_per_thread": 255.0, "issue_active": 0.3}, np.nan),
    ],
)
def test_spills_save_their_part_of_the_l1_traffic(values: Any, saved: float) -> None:
    result = judged("register-spill", local_requests=1000.0, **values)
    assert result.fired.all()
    np.testing.assert_allclose(result.saved, saved)


@pytest.mark.parametrize(
    ("values", "saved"),
    [
        ({"l1_throughput_pct": 60.0}, 0.3),
        # The data path of the shared memory says it more exactly than the whole cache.
        ({"l1_throughput_pct": 60.0, "shared_memory_busy_pct": 20.0}, 0.1),
        ({}, np.nan),
    ],
)
def test_conflicts_save_their_part_of_a_busy_path(values: Any, saved: float) -> None:
    result = judged("smem-bank-conflict", shared_conflict_pct=50.0, **values)
    assert result.fired.all()
    np.testing.assert_allclose(result.saved, saved)


def product(name: str, device: str, **columns: Any) -> Judgement:
    """fp32-gemm-no-tf32 on one launch of a kernel of this name on a real device."""
    row = {"kernel_name": name, "duration_ns": 1_000_000, **columns}
    table = kernel_table({key: [value] for key, value in row.items()})
    known = find(device)
    assert known is not None
    facts = group(table, ["gemm"], {-1: known}).facts
    return judge(BY_ID["fp32-gemm-no-tf32"], facts)


@pytest.mark.parametrize(
    ("device", "fires"),
    [
        ("A100-SXM4-80GB", True),
        ("H100-SXM5-80GB", True),
        ("A10", True),
        # TF32 at the rate of FP32, and no TF32 at all.
        ("RTX 3090", False),
        ("RTX 4090", False),
        ("V100-SXM2-16GB", False),
        ("T4", False),
    ],
)
def test_tf32_is_advised_where_it_is_faster(device: str, fires: bool) -> None:
    result = product("ampere_sgemm_128x64_nn", device, pipe_tensor_pct=0.0)
    assert result.fired.tolist() == [fires]
    assert not result.unjudged.any()


def test_tf32_by_counter() -> None:
    # TF32 at 156 TFLOP/s against FP32 at 19.5: 7/8 at most; 1 - 1/(8 x 0.8) likely.
    counted = product("gemm(float *)", "A100-SXM4-80GB", pipe_tensor_pct=0.0)
    assert counted.fired.all()
    np.testing.assert_allclose(counted.saved, 0.875)
    np.testing.assert_allclose(counted.likely, 1 - 1 / 6.4)
    np.testing.assert_allclose(counted.trust, 0.9)
    # What only names say is one finding for the run: gemm-precision-bf16.
    by_name = product("ampere_sgemm_128x64_nn", "A100-SXM4-80GB")
    assert not by_name.fired.any()
    assert not by_name.unjudged.any()


def test_tiles_are_left_to_the_waves_where_those_are_known() -> None:
    # 109 blocks on 108 multiprocessors: 1 - 109/216 = 49.5 %.
    result = judged("gemm-tile-quantisation", category="gemm", blocks=109.0, sm_count=108.0)
    np.testing.assert_allclose(result.saved, 1 - 109 / 216)
    np.testing.assert_allclose(result.trust, 0.35)
    known = judged(
        "gemm-tile-quantisation", category="gemm", blocks=109.0, sm_count=108.0, waves=1.01
    )
    assert not known.fired.any()
