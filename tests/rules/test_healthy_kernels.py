"""Kernels that are as good as their kind gets: what traceroof says of them must not be an alarm.

The launches are made up, consistent with the device: 6.16 GB in 2 ms are 3.08 TB/s, 92 % of an
H100's 3.35; 1.7 TFLOP in 2 ms are 850 TFLOP/s, 86 % of its 989.
"""

from typing import Any

import pytest

from tests.runs import recording
from traceroof.diagnosis import Diagnosis, diagnose
from traceroof.recording import DeviceInfo

_LAUNCH = {
    "duration_ns": 2_000_000,
    "grid_x": 132 * 64, "grid_y": 1, "grid_z": 1,
    "block_x": 256, "block_y": 1, "block_z": 1,
    "sm_count": 132.0,
    "waves_per_sm": 16.0,
    "occupancy_limit_warps": 8.0,
    "occupancy_limit_blocks": 32.0,
    "occupancy_limit_registers": 4.0,
    "occupancy_limit_shared_memory": 16.0,
    "occupancy_limit_barriers": 16.0,
    "pipe_basis": "elapsed",
    "threads_per_instruction": 31.5,
    "threads_per_instruction_predicated": 30.0,
    "load_bytes_per_sector": 32.0,
    "store_bytes_per_sector": 32.0,
    "imbalance_sm_pct": 1.0,
    "imbalance_smsp_pct": 2.0,
    "imbalance_l1_pct": 1.0,
    "imbalance_l2_pct": 1.5,
    "imbalance_dram_pct": 0.5,
    "local_load_instructions": 0.0,
    "local_store_instructions": 0.0,
    "spill_requests": 0.0,
}  # fmt: skip

HEALTHY: dict[str, dict[str, Any]] = {
    # Warp-specialised matrix product: one block a multiprocessor, few warps, few issue slots.
    "cutlass3x_sm90_tensorop_s64x256x16gemm_bf16_bf16_f32_bf16_warpspecialized_pingpong": {
        "sm_throughput_pct": 88.0, "memory_throughput_pct": 46.0, "dram_throughput_pct": 22.0,
        "l2_throughput_pct": 46.0, "l1_throughput_pct": 44.0,
        "sm_busy_pct": 88.0, "issue_slots_busy_pct": 14.0,
        "pipe_tensor_pct": 88.0, "pipe_alu_pct": 7.0, "pipe_fma_pct": 2.0, "pipe_fp64_pct": 0.0,
        "pipe_xu_pct": 0.1, "pipe_lsu_pct": 3.0, "pipe_tma_pct": 4.0,
        "block_x": 384, "grid_x": 132, "waves_per_sm": 1.0, "registers_per_thread": 168.0,
        "theoretical_occupancy_pct": 18.75, "achieved_occupancy_pct": 17.5,
        "occupancy_limit_registers": 1.0, "occupancy_limit_shared_memory": 1.0,
        "issue_active": 0.14, "warps_active": 2.8, "warps_eligible": 0.16,
        "warp_cycles_per_issue": 20.0, "threads_per_instruction": 23.0,
        "stall_barrier": 0.35, "stall_long_scoreboard": 0.25, "stall_gmma": 0.2,
        "stall_wait": 0.05, "stalls_from": "ratios",
        "flop_tensor": 1.7e12, "tensor_dtype": "bf16",
    },
    # A streaming kernel: everything waits for device memory, as it must.
    "void vectorized_elementwise_kernel<4, silu_functor, std::array<char*, 2>>(int)": {
        "sm_throughput_pct": 24.0, "memory_throughput_pct": 92.0, "dram_throughput_pct": 92.0,
        "l2_throughput_pct": 40.0, "l1_throughput_pct": 25.0, "l1_hit_pct": 0.0, "l2_hit_pct": 50.0,
        "sm_busy_pct": 24.0, "issue_slots_busy_pct": 12.0,
        "pipe_tensor_pct": 0.0, "pipe_alu_pct": 9.0, "pipe_fma_pct": 12.0, "pipe_fp64_pct": 0.0,
        "pipe_xu_pct": 24.0, "pipe_lsu_pct": 5.0,
        "theoretical_occupancy_pct": 62.5, "achieved_occupancy_pct": 50.0,
        "issue_active": 0.12, "warps_active": 8.0, "warps_eligible": 0.15,
        "warp_cycles_per_issue": 66.0, "stall_long_scoreboard": 0.92, "stalls_from": "ratios",
        "dram_read_bytes": 3.08e9, "dram_write_bytes": 3.08e9,
    },
    # An FP32 matrix product on the vector units, which this device has no faster FP32 for.
    "sgemm_largek_lds64": {
        "sm_throughput_pct": 91.0, "memory_throughput_pct": 55.0, "dram_throughput_pct": 12.0,
        "l2_throughput_pct": 20.0, "l1_throughput_pct": 56.0,
        "sm_busy_pct": 91.0, "issue_slots_busy_pct": 75.0,
        "pipe_tensor_pct": 0.0, "pipe_alu_pct": 12.0, "pipe_fma_pct": 91.0, "pipe_fp64_pct": 0.0,
        "pipe_xu_pct": 0.0, "pipe_lsu_pct": 30.0,
        "theoretical_occupancy_pct": 25.0, "achieved_occupancy_pct": 24.0,
        "occupancy_limit_registers": 2.0, "registers_per_thread": 128.0,
        "issue_active": 0.75, "warps_active": 4.0, "warps_eligible": 1.6,
        "warp_cycles_per_issue": 5.3, "stall_math_pipe_throttle": 0.32, "stall_not_selected": 0.2,
        "stalls_from": "ratios",
    },
}  # fmt: skip


GEMM, STREAM, SGEMM = HEALTHY
H100 = "NVIDIA H100 80GB HBM3"


def diagnosed(name: str, device: str, **changes: Any) -> Diagnosis:
    columns = {**_LAUNCH, **HEALTHY[name], "kernel_name": name, **changes}
    run = recording(
        {column: [value] for column, value in columns.items()}, devices=(DeviceInfo(name=device),)
    )
    return diagnose(run)


@pytest.mark.parametrize(
    ("name", "device", "primary"),
    [
        (GEMM, H100, "compute-bound"),
        (STREAM, H100, "dram-bound"),
        (SGEMM, "NVIDIA GeForce RTX 3090", "compute-bound"),
    ],
)
def test_no_alarm(name: str, device: str, primary: str) -> None:
    diagnosis = diagnosed(name, device)
    assert diagnosis.kernels[0].primary_class == primary
    alarms = [(f.rule, f.severity, f.because) for f in diagnosis.fired() if f.severity != "info"]
    assert alarms == []


def test_the_wall_is_named_and_silences_its_symptoms() -> None:
    fired = {f.rule for f in diagnosed(GEMM, H100).fired()}
    assert {"compute-tensor-bound", "occ-low-but-fine"} <= fired
    diagnosis = diagnosed(STREAM, H100)
    assert "dram-at-wall" in {f.rule for f in diagnosis.fired()}
    silenced = {f.rule: f.suppressed_by for f in diagnosis.findings if f.state == "suppressed"}
    assert set(silenced.values()) <= {"dram-at-wall"}
    assert "compute-fma-bound" in {f.rule for f in diagnosed(SGEMM, "RTX 3090").fired()}


def test_the_same_kernels_short_of_their_wall_do_alarm() -> None:
    half = diagnosed(
        GEMM,
        H100,
        sm_throughput_pct=41.0,
        sm_busy_pct=41.0,
        pipe_tensor_pct=41.0,
    )
    assert half.kernels[0].primary_class == "latency-bound"
    rules = {f.rule for f in half.fired() if f.severity == "high"}
    assert {"latency-bound", "occ-limited-registers", "occ-limited-smem"} <= rules
    slow = diagnosed(
        STREAM,
        H100,
        memory_throughput_pct=62.0,
        dram_throughput_pct=62.0,
        dram_read_bytes=2.07e9,
        dram_write_bytes=2.07e9,
    )
    rules = {f.rule for f in slow.fired() if f.severity == "high"}
    assert {"dram-leaning-headroom", "issue-slots-idle", "occ-limited-registers"} <= rules
