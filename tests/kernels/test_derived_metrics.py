"""What follows from counters and names, each figure by hand."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from traceroof.core.facts import Facts
from traceroof.core.kernel_table import kernel_table
from traceroof.hardware.device_lookup import find
from traceroof.kernels.groups import group


def facts(device: str | None = None, **columns: Any) -> Facts:
    """The facts of one group made of one launch of 1 ms."""
    row: Mapping[str, Any] = {"kernel_name": "f(int *)", "duration_ns": 1_000_000, **columns}
    known = find(device) if device else None
    table = kernel_table({name: [value] for name, value in row.items()})
    return group(table, ["gemm"], {-1: known} if known else {}).facts


def value(name: str, device: str | None = None, **columns: Any) -> Any:
    return facts(device, **columns).value(name, 0)


def test_sectors_beyond_what_the_accesses_need() -> None:
    # 33,554,432 sectors where 8,388,608 would do: three too many each, 75 % of the bytes wasted.
    counted: dict[str, Any] = {"global_sectors": 33_554_432.0, "global_sectors_ideal": 8_388_608.0}
    assert value("global_sectors_excess_pct", **counted) == 300.0
    assert value("global_sectors_wasted_pct", **counted) == 75.0


def test_wasted_bytes_without_sector_counts() -> None:
    assert value("global_sectors_wasted_pct", load_bytes_per_sector=24.0) == 25.0
    # 32 sectors where at most 16 are needed, whatever the width.
    assert value("global_sectors_wasted_pct", load_sectors_per_request=32.0) == 50.0
    # 16 sectors are right for 16-byte loads and wrong for 4-byte ones: nobody can tell.
    assert value("global_sectors_wasted_pct", load_sectors_per_request=16.0) is None
    assert value("global_sectors_excess_pct", load_bytes_per_sector=24.0) is None


def test_no_accesses_are_no_waste() -> None:
    assert value("global_sectors_wasted_pct", global_sectors=0.0, global_sectors_ideal=0.0) is None
    assert value("shared_conflict_pct", shared_conflicts=0.0, shared_wavefronts=0.0) == 0
    assert value("shared_conflict_pct", shared_conflicts=0.0) is None


def test_shared_conflicts_and_ways() -> None:
    conflicts: dict[str, Any] = {
        "shared_conflicts": 31.0,
        "shared_wavefronts": 32.0,
        "shared_requests": 1.0,
    }
    assert value("shared_conflict_pct", **conflicts) == 96.875
    assert value("shared_wavefronts_per_request", **conflicts) == 32.0


def test_shared_conflicts_without_wavefronts() -> None:
    """31 conflicts of one request are 31 of 32 wavefronts; AMD's conflicts are cycles."""
    counted: dict[str, Any] = {"shared_conflicts": 31.0, "shared_requests": 1.0}
    assert value("shared_conflict_pct", **counted) == 96.875
    assert value("shared_wavefronts_per_request", **counted) == 32.0
    assert value("shared_conflict_pct", shared_conflicts=31.0) is None
    assert value("shared_conflict_pct", "MI300X", **counted) is None


def test_atomics_are_held_against_sectors() -> None:
    # 3,200 bytes are 100 sectors.
    assert value("atomic_requests_pct", atomic_requests=25.0, l2_bytes=3200.0) == 25.0


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"spill_requests": 7.0, "local_load_instructions": 100.0}, 7.0),
        ({"local_load_instructions": 100.0, "local_store_instructions": 20.0}, 120.0),
        ({"local_load_instructions": 100.0}, None),
    ],
)
def test_spills_count_before_all_local_accesses(columns: Any, expected: float | None) -> None:
    assert value("local_requests", **columns) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"issue_active": 0.3, "issue_slots_busy_pct": 40.0, "sm_throughput_pct": 50.0}, 0.3),
        ({"issue_slots_busy_pct": 40.0, "sm_throughput_pct": 50.0}, 0.4),
        ({"sm_throughput_pct": 50.0}, 0.5),
        ({}, None),
    ],
)
def test_how_often_a_scheduler_issues(columns: Any, expected: float | None) -> None:
    assert value("issue_active_ceiling", **columns) == expected


@pytest.mark.parametrize(
    ("columns", "operand", "declared"),
    [
        ({"input_dtypes": json.dumps(["float", "float", ""])}, "fp32", "fp32"),
        # A list of tensors counts one by one; indices and masks are no operands.
        (
            {"input_dtypes": json.dumps([["c10::Half", "float"], "long int", "bool"])},
            "fp16",
            "fp32",
        ),
        ({"input_dtypes": "no JSON"}, None, None),
        ({"kernel_name": "ampere_fp16_s16816gemm_fp16_64x64_nn"}, "fp16", "fp16"),
        # The FP32 operations of the epilogue do not make an FP32 product.
        ({"kernel_name": "ampere_fp16_s16816gemm_fp16_64x64_nn", "flop_fp32": 9.0}, "fp16", "fp16"),
        ({"flop_fp32": 9.0, "flop_fp64": 1.0}, "fp32", None),
        ({"kernel_name": "reduce(float *, double *)"}, "fp32", "fp64"),
        ({"flop_tensor": 9.0, "tensor_dtype": "tf32"}, "fp32", None),
        ({"flop_tensor": 9.0, "tensor_dtype": "fp8_e4m3"}, "fp8", None),
    ],
)
def test_element_types_of_the_operands(
    columns: Any, operand: str | None, declared: str | None
) -> None:
    assert value("operand_dtype", **columns) == operand
    assert value("declared_dtype", **columns) == declared


def test_what_tensor_cores_are_worth() -> None:
    # Dense peaks of A100: BF16 312, TF32 156, FP32 19.5 TFLOP/s; TF32 equals FP32 on RTX 3090.
    named: dict[str, Any] = {"kernel_name": "gemm(__nv_bfloat16 *)"}
    assert value("tensor_speedup", "A100-SXM4-80GB", **named) == 312 / 19.5
    assert value("tensor_speedup", "A100-SXM4-80GB", kernel_name="gemm(float *)") == 8.0
    assert value("tf32_speedup", "RTX 3090") == 1.0
    assert value("tensor_speedup", None, **named) is None


def test_a_counter_outranks_the_name() -> None:
    scalar: dict[str, Any] = {"kernel_name": "volta_sgemm_128x32_nt"}
    assert value("pipe_tensor_use_pct", **scalar) == 0.0
    assert value("pipe_tensor_use_pct", pipe_tensor_pct=12.5, **scalar) == 12.5
    assert value("pipe_tensor_use_pct", kernel_name="volta_h884gemm_128x128") is None


def test_the_route_by_name_or_operator() -> None:
    path = "aten::scaled_dot_product_attention > aten::_scaled_dot_product_attention_math"
    assert value("route") == ""
    assert value("route", operator_path=path) == "the unfused attention backend"
    assert value("route", kernel_name="naive_conv_nonpacked_fwd()") == "a naive implementation"
    assert value("route", kernel_name="gemm_naive(float *)") == ""  # its author knows


def test_an_empty_table_has_no_traits() -> None:
    empty = kernel_table({"kernel_name": []})
    assert len(group(empty, []).facts) == 0
    assert np.asarray(group(empty, []).facts.route).shape == (0,)


# ---------------------------------------------------------------- compute use that is loads' and stores'


def load_path(**changed: Any) -> Any:
    """Of a product from global memory on an H20: 73.49 % compute, 73.51 % memory, L1 73.93 %."""
    counted: dict[str, Any] = {
        "sm_throughput_pct": 73.49, "memory_throughput_pct": 73.51, "l1_throughput_pct": 73.93,
        "l2_throughput_pct": 5.89, "dram_throughput_pct": 4.4,
    }  # fmt: skip
    return value("load_path_pct", **{**counted, **changed})


def test_the_same_figure_for_compute_and_memory_is_that_of_loads_and_stores() -> None:
    assert load_path() == 73.49
    # The pipes that issue memory instructions show it where memory throughput is of another unit.
    assert load_path(memory_throughput_pct=80.0) is None
    assert load_path(memory_throughput_pct=80.0, memory_pipes_busy_pct=73.4) == 73.49


@pytest.mark.parametrize(
    "changed",
    [
        {"memory_throughput_pct": 73.3},
        # L2's or device memory's figure, by chance that of compute.
        {"l2_throughput_pct": 73.5},
        {"dram_throughput_pct": 72.5},
        {"l1_throughput_pct": 60.0},
        # A pipe that was measured explains it.
        {"pipe_fma_pct": 73.0},
    ],
)
def test_another_unit_with_that_figure_is_not(changed: dict[str, float]) -> None:
    assert load_path(**changed) is None


def test_the_pipe_of_loads_and_stores_is() -> None:
    assert load_path(pipe_lsu_pct=73.4, pipe_fma_pct=10.0) == 73.49


def test_idle_address_units_are_idle_memory_on_amd() -> None:
    """MemUnitBusy of an n-body kernel, 0.03 %; a busy one does not tell which level is."""
    assert value("memory_pct", "AMD Instinct MI210", memory_pipes_busy_pct=0.03) == 0.03
    assert value("memory_pct", "AMD Instinct MI210", memory_pipes_busy_pct=82.0) is None
    assert value("memory_pct", "NVIDIA A100-SXM4-80GB", memory_pipes_busy_pct=0.03) is None
