"""Kernels that are as good as their kind gets: what traceroof says of them must not be an alarm.

The launches are made up, consistent with the device: 6.16 GB in 2 ms are 3.08 TB/s, 92 % of an
H100's 3.35; 1.7 TFLOP in 2 ms are 850 TFLOP/s, 86 % of its 989. Attention does not reach that: the
exponentials between its two products take their time, and its authors give 73 % of an A100's peak
(FlashAttention-2) and 75 % of an H100's (FlashAttention-3) at best.
"""

import json
from typing import Any

import numpy as np
import pytest

from tests.runs import recording
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis

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
    # Fused attention of an A100: 0.456 TFLOP in 2 ms, 73 % of 312 TFLOP/s; 255 registers leave two
    # blocks of four warps, which is how it keeps its tiles in registers.
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 32, 4, false, false, cutlass::half_t>, false, false>(Flash_fwd_params)": {
        "sm_count": 108.0, "grid_x": 32, "grid_y": 1, "grid_z": 128, "block_x": 128,
        "waves_per_sm": 18.96,
        "sm_throughput_pct": 73.0, "memory_throughput_pct": 44.0, "dram_throughput_pct": 6.0,
        "l2_throughput_pct": 16.0, "l1_throughput_pct": 45.0, "l2_hit_pct": 93.0,
        "sm_busy_pct": 73.0, "issue_slots_busy_pct": 30.0,
        "pipe_tensor_pct": 73.0, "pipe_alu_pct": 17.0, "pipe_fma_pct": 20.0, "pipe_fp64_pct": 0.0,
        "pipe_xu_pct": 22.0, "pipe_lsu_pct": 14.0,
        "theoretical_occupancy_pct": 12.5, "achieved_occupancy_pct": 12.4,
        "occupancy_limit_registers": 2.0, "occupancy_limit_shared_memory": 2.0,
        "occupancy_limit_warps": 16.0, "registers_per_thread": 255.0,
        "issue_active": 0.30, "warps_active": 1.98, "warps_eligible": 0.34,
        "warp_cycles_per_issue": 6.6, "stall_math_pipe_throttle": 0.36, "stall_wait": 0.2,
        "stall_short_scoreboard": 0.07, "stall_long_scoreboard": 0.06, "stall_barrier": 0.05,
        "stalls_from": "ratios",
        "flop_tensor": 4.56e11, "tensor_dtype": "fp16",
        "dram_read_bytes": 1.8e8, "dram_write_bytes": 6.0e7,
    },
    # Fused attention of an H100, warp-specialised: 1.48 TFLOP in 2 ms, 75 % of 989 TFLOP/s.
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1>>, cute::tuple<cute::C<128>, cute::C<176>, cute::C<128>>, 128, cutlass::bfloat16_t, float, cutlass::arch::Sm90>>>>(Params)": {
        "sm_throughput_pct": 75.0, "memory_throughput_pct": 38.0, "dram_throughput_pct": 5.0,
        "l2_throughput_pct": 18.0, "l1_throughput_pct": 38.0, "l2_hit_pct": 95.0,
        "sm_busy_pct": 75.0, "issue_slots_busy_pct": 29.0,
        "pipe_tensor_pct": 75.0, "pipe_alu_pct": 16.0, "pipe_fma_pct": 17.0, "pipe_fp64_pct": 0.0,
        "pipe_xu_pct": 37.0, "pipe_lsu_pct": 3.0, "pipe_tma_pct": 1.0,
        "block_x": 384, "grid_x": 132, "waves_per_sm": 1.0, "registers_per_thread": 168.0,
        "theoretical_occupancy_pct": 18.75, "achieved_occupancy_pct": 18.1,
        "occupancy_limit_registers": 1.0, "occupancy_limit_shared_memory": 1.0,
        "issue_active": 0.29, "warps_active": 2.9, "warps_eligible": 0.34,
        "warp_cycles_per_issue": 10.0, "stall_gmma": 0.3, "stall_barrier": 0.2,
        "stall_long_scoreboard": 0.12, "stall_wait": 0.14, "stall_math_pipe_throttle": 0.06,
        "stalls_from": "ratios",
        "flop_tensor": 1.48e12, "tensor_dtype": "bf16",
        "dram_read_bytes": 2.5e8, "dram_write_bytes": 8.0e7,
    },
    # A plain copy: 6.16 GB in 2 ms.
    "void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}, std::array<char*, 2ul>>(int)": {
        "sm_throughput_pct": 14.0, "memory_throughput_pct": 92.0, "dram_throughput_pct": 92.0,
        "l2_throughput_pct": 38.0, "l1_throughput_pct": 22.0, "l1_hit_pct": 0.0, "l2_hit_pct": 50.0,
        "sm_busy_pct": 8.0, "issue_slots_busy_pct": 5.0,
        "pipe_tensor_pct": 0.0, "pipe_alu_pct": 4.0, "pipe_fma_pct": 2.0, "pipe_fp64_pct": 0.0,
        "pipe_xu_pct": 0.0, "pipe_lsu_pct": 4.0,
        "block_x": 128, "registers_per_thread": 26.0,
        "theoretical_occupancy_pct": 100.0, "achieved_occupancy_pct": 82.0,
        "occupancy_limit_registers": 16.0, "occupancy_limit_warps": 16.0,
        "issue_active": 0.05, "warps_active": 13.1, "warps_eligible": 0.06,
        "warp_cycles_per_issue": 262.0, "stall_long_scoreboard": 0.96, "stalls_from": "ratios",
        "dram_read_bytes": 3.08e9, "dram_write_bytes": 3.08e9,
    },
}  # fmt: skip


GEMM, STREAM, SGEMM, FLASH2, FLASH3, COPY = HEALTHY
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
        (FLASH2, "NVIDIA A100-SXM4-80GB", "compute-leaning"),
        (FLASH3, H100, "compute-leaning"),
        (COPY, H100, "dram-bound"),
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


#: Launches of a torch trace on an A100 (80 GB, 2.039 TB/s, 312 TFLOP/s), each: what ran, its
#: operator with shapes and types, and its time.
_HALF = "c10::Half"
TRACED: tuple[tuple[str, str, list[Any], list[str], int], ...] = (
    # 8192 x 8192 x 8192: 1.0995 TFLOP in 4.2 ms are 262 TFLOP/s, 84 %.
    (
        "ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_tn",
        "aten::mm",
        [[8192, 8192], [8192, 8192]],
        [_HALF, _HALF],
        4_200_000,
    ),
    # 4 x 32 heads of 4,096 x 128, all keys: 4 x 128 x 4096^2 x 128 = 1.0995 TFLOP in 4.8 ms are
    # 229 TFLOP/s, 73 %.
    (
        "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false>>(int)",
        "aten::_scaled_dot_product_flash_attention",
        [*[[4, 32, 4096, 128]] * 3, [], [], []],
        [*[_HALF] * 3, "Scalar", "Scalar", "Scalar"],
        4_800_000,
    ),
    # 2^29 halves read and written: 2.147 GB in 1.15 ms are 1.867 TB/s, 91.6 %.
    (
        "void at::native::vectorized_elementwise_kernel<4, at::native::direct_copy_kernel_cuda>(int)",
        "aten::copy_",
        [[536870912], [536870912]],
        [_HALF, _HALF],
        1_150_000,
    ),
)


def traced(*which: int, steps: int = 20, around: str = "") -> Diagnosis:
    """A trace of some of TRACED, one after another in each of ``steps`` steps, 5 us apart.

    around: the operators around them.
    """
    rows = [TRACED[at] for _ in range(steps) for at in which]
    starts = np.cumsum([0, *(row[-1] + 5_000 for row in rows[:-1])]).tolist()
    columns = {
        "kernel_name": [row[0] for row in rows],
        "operator": [row[1] for row in rows],
        "operator_path": [around + row[1] for row in rows],
        "input_shapes": [json.dumps(row[2]) for row in rows],
        "input_dtypes": [json.dumps(row[3]) for row in rows],
        "input_values": [json.dumps(["", "", "", "0.", "False", "False"][: len(row[2])])
                         for row in rows],
        "duration_ns": [row[4] for row in rows],
        "start_ns": starts,
        "grid_x": [4096] * len(rows), "grid_y": [1] * len(rows), "grid_z": [1] * len(rows),
        "block_x": [256] * len(rows), "block_y": [1] * len(rows), "block_z": [1] * len(rows),
        "stream": [7] * len(rows), "device": [0] * len(rows),
    }  # fmt: skip
    device = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB")
    return diagnose(recording(columns, devices=(device,), time_basis="timeline"))


@pytest.mark.parametrize("which", [(0, 1, 2), (0,), (1,), (2,)], ids=["all", "mm", "sdpa", "copy"])
def test_no_alarm_on_a_trace(which: tuple[int, ...]) -> None:
    """GIVEN a product near its peak, fused attention and a copy at the wall, together and alone
    WHEN they are read from a trace THEN nothing is said above info."""
    diagnosis = traced(*which)
    alarms = [(f.rule, f.severity, f.because) for f in diagnosis.fired() if f.severity != "info"]
    assert alarms == []
    known = [one for one in diagnosis.kernels if one.roofline is not None]
    assert len(known) == len(which), "each has a model, so silence is a judgement"


def test_copies_are_an_alarm_where_another_operator_makes_them() -> None:
    """GIVEN a copy in each step beside a product, a fifth of the time WHEN the code asked for it
    THEN it is told and no more; made by contiguous(), it is a suspect."""
    asked = {f.rule: f for f in traced(0, 2).fired()}
    assert asked["device-copy-share"].severity == "info"
    assert "redundant-copy" not in asked
    by_the_way = {
        f.rule: f for f in traced(0, 2, around="aten::contiguous > aten::clone > ").fired()
    }
    assert by_the_way["redundant-copy"].confidence == 0.5
    assert "device-copy-share" not in by_the_way


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
    # Few resident warps are the design of such a kernel: another tile or algorithm comes first.
    assert "matrix-kernel-starves" in rules
    assert not {"occ-limited-registers", "occ-limited-smem"} & rules
    # The class gives way to what causes it.
    assert {f.rule for f in half.findings if f.state == "suppressed"} >= {"latency-bound"}
    slow = diagnosed(
        STREAM,
        H100,
        memory_throughput_pct=62.0,
        dram_throughput_pct=62.0,
        dram_read_bytes=2.07e9,
        dram_write_bytes=2.07e9,
    )
    rules = {f.rule for f in slow.fired() if f.severity == "high"}
    assert {"stall-long-scoreboard", "occ-limited-registers"} <= rules
    yields = {f.rule for f in slow.findings if f.state == "suppressed"}
    assert yields >= {"dram-leaning-headroom", "issue-slots-idle"}
