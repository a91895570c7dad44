"""Writes ``nsight_compute/``: one transformer layer on a modelled A100, as ncu would print it.

Nothing here was measured. Every kernel has its work (operations, DRAM bytes, launch) and one
figure that says how close it comes to the unit that limits it; time, utilisation, occupancy,
waves and stalls follow by arithmetic from the peaks of the A100-SXM4-80GB. The same numbers are
printed as three files: the details page, the raw page and a ``--metrics`` selection.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent / "nsight_compute"

# NVIDIA A100-SXM4-80GB, dense peaks (traceroof devices A100-SXM4-80GB).
SMS = 108
SM_CLOCK_HZ = 1.41e9
DRAM_CLOCK_HZ = 1.593e9
DRAM_BYTES_PER_S = 2.039e12
TENSOR_FLOPS_PER_S = 312e12
FP32_FLOPS_PER_S = 19.5e12
WARP_SLOTS = 64
REGISTERS_PER_SM = 65536
SHARED_BYTES_PER_SM = 164 * 1024
BLOCK_SLOTS = 32

# LLaMA-7B: 8 sequences of 2,048 tokens, hidden 4,096, 32 heads, feed-forward 11,008, bfloat16.
TOKENS, HIDDEN, HEADS, HEAD, FFN, BATCH, SEQUENCE = 16384, 4096, 32, 128, 11008, 8, 2048
BF16 = 2


@dataclass(frozen=True)
class Kernel:
    """One launch: its work and what limits it.

    limit: (unit, percent): the unit that decides the time and how close to its peak it runs;
    "dram", "tensor" and "fp32" turn work into time, "ns" gives the time itself.
    other: percent of peak of units that follow from no work here (l1, l2, sm ...).
    issue: instructions per scheduler and cycle. stalls: shares of the time between two issues.
    raw: counters that only the raw page has.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    limit: tuple[str, float]
    read: float = 0.0
    written: float = 0.0
    tensor_flop: float = 0.0
    fp32_flop: float = 0.0
    registers: int = 32
    shared: int = 0
    achieved: float = 0.95
    issue: float = 0.3
    other: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    raw: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        unit, figure = self.limit
        if unit == "ns":
            return figure / 1e9
        work, peak = {
            "dram": (self.read + self.written, DRAM_BYTES_PER_S),
            "tensor": (self.tensor_flop, TENSOR_FLOPS_PER_S),
            "fp32": (self.fp32_flop, FP32_FLOPS_PER_S),
        }[unit]
        return work / (peak * figure / 100)

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    def limits(self) -> dict[str, int]:
        """Resident blocks per SM that each resource allows (CUDA occupancy calculator, CC 8.0)."""
        warps = math.ceil(self.threads / 32)
        registers_per_warp = math.ceil(self.registers * 32 / 256) * 256
        shared = self.shared + 1024
        return {
            "blocks": BLOCK_SLOTS,
            "registers": REGISTERS_PER_SM // (registers_per_warp * warps),
            "shared_mem": SHARED_BYTES_PER_SM // shared,
            "warps": WARP_SLOTS // warps,
        }


def gemm(
    name: str,
    rows: int,
    columns: int,
    depth: int,
    percent: float,
    tile: tuple[int, int] = (128, 256),
) -> Kernel:
    """A bf16 GEMM that reads each operand once and runs at ``percent`` of the tensor peak."""
    grid = (math.ceil(columns / tile[1]), math.ceil(rows / tile[0]), 1)
    return Kernel(
        name=name,
        grid=grid,
        block=(256, 1, 1),
        limit=("tensor", percent),
        read=(rows * depth + depth * columns) * BF16,
        written=rows * columns * BF16,
        tensor_flop=2.0 * rows * columns * depth,
        registers=232,
        shared=147456,
        achieved=0.99,
        issue=0.34,
        other={"l1": 46.0, "l2": 38.0, "sm": percent + 3.5, "lsu": 21.0, "fma": 3.0, "alu": 9.0},
        stalls={"math_pipe_throttle": 0.42, "wait": 0.2, "long_scoreboard": 0.12, "barrier": 0.1,
                "not_selected": 0.05},
    )  # fmt: skip


def streaming(name: str, elements: int, inputs: int, percent: float, bytes: int = BF16) -> Kernel:
    """An elementwise kernel that reads ``inputs`` tensors and writes one."""
    return Kernel(
        name=name,
        grid=(math.ceil(elements / 1024), 1, 1),
        block=(128, 1, 1),
        limit=("dram", percent),
        read=float(elements * inputs * bytes),
        written=float(elements * bytes),
        fp32_flop=float(elements * inputs),
        registers=34,
        achieved=0.82,
        issue=0.11,
        other={"l1": 24.0, "l2": 44.0, "sm": 16.0, "lsu": 7.0, "fma": 6.0, "alu": 12.0},
        stalls={"long_scoreboard": 0.81, "wait": 0.06, "lg_throttle": 0.03},
    )


def layer() -> list[Kernel]:
    """The kernels of one layer and its surroundings, each class of bottleneck among them."""
    tokens_hidden = TOKENS * HIDDEN
    norm = Kernel(
        name="void vllm::rms_norm_kernel<c10::BFloat16, (int)8>(T1 *, const T1 *, const T1 *, "
        "float, int, int)",
        grid=(TOKENS, 1, 1),
        block=(512, 1, 1),
        limit=("dram", 88.0),
        read=tokens_hidden * BF16 * 1.0,
        written=tokens_hidden * BF16 * 1.0,
        fp32_flop=4.0 * tokens_hidden,
        registers=30,
        achieved=0.93,
        issue=0.22,
        other={"l1": 31.0, "l2": 47.0, "sm": 28.0, "lsu": 12.0, "fma": 9.0, "alu": 14.0},
        stalls={"long_scoreboard": 0.62, "barrier": 0.17, "wait": 0.06},
    )
    rotary = Kernel(
        # Strided pairs: half of every sector that it loads is thrown away.
        name="void rotary_embedding_kernel<c10::BFloat16, (bool)1>(const long *, T1 *, T1 *, "
        "const T1 *, int, long, long, int, int, int)",
        grid=(TOKENS, 1, 1),
        block=(512, 1, 1),
        limit=("dram", 63.0),
        read=2.0 * tokens_hidden * BF16 * 1.9,
        written=2.0 * tokens_hidden * BF16,
        fp32_flop=6.0 * tokens_hidden,
        registers=40,
        achieved=0.86,
        issue=0.16,
        other={"l1": 58.0, "l2": 66.0, "sm": 24.0, "lsu": 19.0, "fma": 7.0, "alu": 17.0,
               "l1_hit": 31.0, "l2_hit": 46.0},
        stalls={"long_scoreboard": 0.66, "lg_throttle": 0.14, "wait": 0.05},
        raw={
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 16.2,
            "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": 32.0,
            "memory_l2_theoretical_sectors_global": 15728640.0,
            "memory_l2_theoretical_sectors_global_ideal": 8388608.0,
        },
    )  # fmt: skip
    attention = Kernel(
        name="void flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, "
        "(bool)0, (bool)0, cutlass::bfloat16_t>, (bool)0, (bool)1>(Flash_fwd_params)",
        grid=(SEQUENCE // 128, BATCH, HEADS),
        block=(128, 1, 1),
        limit=("tensor", 62.0),
        read=3.0 * tokens_hidden * BF16,
        written=1.0 * tokens_hidden * BF16,
        tensor_flop=4.0 * BATCH * HEADS * SEQUENCE * SEQUENCE * HEAD * 0.53,
        registers=255,
        shared=65536,
        achieved=0.96,
        issue=0.42,
        other={"l1": 51.0, "l2": 33.0, "sm": 71.0, "lsu": 24.0, "fma": 38.0, "alu": 30.0,
               "xu": 44.0, "memory": 51.0},
        stalls={"wait": 0.31, "math_pipe_throttle": 0.18, "barrier": 0.13, "short_scoreboard": 0.12},
    )  # fmt: skip
    transpose = Kernel(
        # A 32x32 tile without padding: every column lies in one bank.
        name="void batched_transpose_kernel<__nv_bfloat16, (int)32>(const T1 *, T1 *, int, int)",
        grid=(HIDDEN // 32, TOKENS // 32, 1),
        block=(32, 8, 1),
        limit=("dram", 41.0),
        read=tokens_hidden * BF16 * 1.0,
        written=tokens_hidden * BF16 * 1.0,
        registers=24,
        shared=2048,
        achieved=0.88,
        issue=0.21,
        other={"l1": 91.0, "l2": 36.0, "sm": 33.0, "lsu": 58.0, "fma": 1.0, "alu": 11.0,
               "memory": 91.0},
        stalls={"short_scoreboard": 0.46, "mio_throttle": 0.21, "barrier": 0.12},
        raw={
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": 58720256.0,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": 0.0,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 62914560.0,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 4194304.0,
        },
    )  # fmt: skip
    gamma = Kernel(
        # Every block walks the same columns again: the reads come out of L2.
        name="void at::native::<unnamed>::GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, "
        "float, (unsigned int)64, (unsigned int)1, (unsigned int)32>(long, long, const T1 *)",
        grid=(512, 4, 1),
        block=(64, 16, 1),
        limit=("dram", 33.0),
        read=2.0 * tokens_hidden * BF16,
        written=2.0 * HIDDEN * BF16,
        fp32_flop=4.0 * tokens_hidden,
        registers=38,
        shared=8192,
        achieved=0.9,
        issue=0.28,
        other={"l1": 57.0, "l2": 86.0, "sm": 37.0, "lsu": 22.0, "fma": 14.0, "alu": 18.0,
               "memory": 86.0, "l2_hit": 84.0},
        stalls={"long_scoreboard": 0.58, "barrier": 0.11, "wait": 0.08},
    )  # fmt: skip
    dropout = Kernel(
        name="void at::native::<unnamed>::fused_dropout_kernel_vec<c10::BFloat16, float, "
        "(unsigned int)1, (int)8>(at::cuda::detail::TensorInfo<const T1, T3>, float)",
        grid=(SMS * 8, 1, 1),
        block=(256, 1, 1),
        limit=("dram", 58.0),
        read=tokens_hidden * BF16 * 1.0,
        written=tokens_hidden * (BF16 + 1.0),
        fp32_flop=3.0 * tokens_hidden,
        registers=46,
        achieved=0.84,
        issue=0.61,
        other={"l1": 29.0, "l2": 41.0, "sm": 66.0, "lsu": 12.0, "fma": 27.0, "alu": 66.0,
               "memory": 61.0},
        stalls={"wait": 0.3, "math_pipe_throttle": 0.2, "long_scoreboard": 0.2},
    )  # fmt: skip
    sampling = Kernel(
        # One block a sequence: 8 of 108 SMs have work.
        name="void at::native::sbtopk::gatherTopK<c10::BFloat16, (int)1, (bool)0>"
        "(at::cuda::detail::TensorInfo<const T1, unsigned int>, unsigned int, unsigned int)",
        grid=(BATCH, 1, 1),
        block=(1024, 1, 1),
        limit=("ns", 412_000.0),
        read=BATCH * 32000 * BF16 * 8.0,
        written=BATCH * 50 * 10.0,
        registers=48,
        achieved=0.5,
        issue=0.19,
        other={"l1": 7.0, "l2": 3.0, "sm": 2.1, "lsu": 4.0, "fma": 1.0, "alu": 8.0,
               "memory": 3.0, "l2_hit": 92.0},
        stalls={"barrier": 0.44, "long_scoreboard": 0.27, "short_scoreboard": 0.1},
    )  # fmt: skip
    spilling = Kernel(
        # 255 registers are not enough: the accumulators go through local memory.
        name="_rms_norm_backward_kernel",
        grid=(1728, 1, 1),
        block=(256, 1, 1),
        limit=("dram", 36.0),
        read=3.0 * tokens_hidden * BF16,
        written=1.0 * tokens_hidden * BF16,
        fp32_flop=12.0 * tokens_hidden,
        registers=255,
        achieved=0.97,
        issue=0.24,
        other={"l1": 49.0, "l2": 45.0, "sm": 31.0, "lsu": 27.0, "fma": 21.0, "alu": 19.0,
               "memory": 49.0},
        stalls={"lg_throttle": 0.37, "long_scoreboard": 0.31, "wait": 0.08},
        raw={
            "smsp__sass_inst_executed_op_local_ld.sum": 5308416.0,
            "smsp__sass_inst_executed_op_local_st.sum": 5308416.0,
            "derived__local_spilling_requests": 10616832.0,
        },
    )  # fmt: skip
    scale = Kernel(
        name="void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor"
        "<float>, at::detail::Array<char *, (int)1>>(int, T2, T3)",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        limit=("ns", 2_300.0),
        written=512.0,
        registers=16,
        achieved=0.06,
        issue=0.04,
        other={"l1": 0.4, "l2": 0.6, "sm": 0.1, "lsu": 0.1, "fma": 0.0, "alu": 0.1, "memory": 0.6},
        stalls={"no_instruction": 0.55, "imc_miss": 0.2},
    )
    all_reduce = Kernel(
        name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        grid=(24, 1, 1),
        block=(544, 1, 1),
        limit=("ns", 1_950_000.0),
        read=2.0 * tokens_hidden * BF16,
        written=1.0 * tokens_hidden * BF16,
        registers=96,
        shared=82240,
        achieved=0.98,
        issue=0.12,
        other={"l1": 9.0, "l2": 12.0, "sm": 4.0, "lsu": 6.0, "fma": 0.0, "alu": 4.0},
        stalls={"long_scoreboard": 0.7, "membar": 0.12},
    )
    return [
        norm,
        gemm(
            "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
            TOKENS, 3 * HIDDEN, HIDDEN, 86.0,
        ),
        rotary,
        transpose,
        attention,
        gemm(
            "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x4_tn",
            TOKENS, HIDDEN, HIDDEN, 74.0, tile=(128, 128),
        ),
        streaming(
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add"
            "<c10::BFloat16>, at::detail::Array<char *, (int)3>>(int, T2, T3)",
            tokens_hidden, 2, 87.0,
        ),
        dropout,
        gemm(
            "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
            TOKENS, 2 * FFN, HIDDEN, 88.0,
        ),
        streaming(
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::silu_kernel"
            "(at::TensorIteratorBase &)::[lambda() (instance 1)], at::detail::Array<char *, (int)2>>"
            "(int, T2, T3)",
            TOKENS * FFN, 1, 89.0,
        ),
        streaming(
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::BinaryFunctor"
            "<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor"
            "<float>>, at::detail::Array<char *, (int)3>>(int, T2, T3)",
            TOKENS * FFN, 2, 90.0,
        ),
        gemm(
            "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn",
            TOKENS, HIDDEN, FFN, 87.0,
        ),
        all_reduce,
        gamma,
        spilling,
        sampling,
        scale,
    ]  # fmt: skip


# Sections of the details page: label, unit, raw metric. The raw page has all of them and more.
SECTIONS: Sequence[tuple[str, str, Sequence[tuple[str, str, str]]]] = (
    ("SpeedOfLight", "GPU Speed Of Light Throughput", (
        ("DRAM Frequency", "hz", "dram__cycles_elapsed.avg.per_second"),
        ("SM Frequency", "hz", "gpc__cycles_elapsed.avg.per_second"),
        ("Elapsed Cycles", "cycle", "gpc__cycles_elapsed.max"),
        ("Memory Throughput", "%",
         "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
        ("DRAM Throughput", "%", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
        ("Duration", "ns", "gpu__time_duration.sum"),
        ("L1/TEX Cache Throughput", "%", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
        ("L2 Cache Throughput", "%", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("SM Active Cycles", "cycle", "sm__cycles_active.avg"),
        ("Compute (SM) Throughput", "%", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    )),
    ("ComputeWorkloadAnalysis", "Compute Workload Analysis", (
        ("Executed Ipc Active", "inst/cycle", "sm__inst_executed.avg.per_cycle_active"),
        ("Issue Slots Busy", "%", "sm__inst_issued.avg.pct_of_peak_sustained_active"),
        ("SM Busy", "%", "sm__instruction_throughput.avg.pct_of_peak_sustained_active"),
    )),
    ("MemoryWorkloadAnalysis", "Memory Workload Analysis", (
        ("Memory Throughput", "byte/s", "dram__bytes.sum.per_second"),
        ("L1/TEX Hit Rate", "%", "l1tex__t_sector_hit_rate.pct"),
        ("L2 Hit Rate", "%", "lts__t_sector_hit_rate.pct"),
    )),
    ("SchedulerStats", "Scheduler Statistics", (
        ("One or More Eligible", "%", "smsp__issue_active.avg.pct_of_peak_sustained_active"),
        ("Issued Warp Per Scheduler", "", "smsp__issue_active.avg.per_cycle_active"),
        ("Active Warps Per Scheduler", "warp", "smsp__warps_active.avg.per_cycle_active"),
        ("Eligible Warps Per Scheduler", "warp", "smsp__warps_eligible.avg.per_cycle_active"),
    )),
    ("WarpStateStats", "Warp State Statistics", (
        ("Warp Cycles Per Issued Instruction", "cycle",
         "smsp__average_warp_latency_per_inst_issued.ratio"),
        ("Avg. Active Threads Per Warp", "", "smsp__thread_inst_executed_per_inst_executed.ratio"),
        ("Avg. Not Predicated Off Threads Per Warp", "",
         "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"),
    )),
    ("LaunchStats", "Launch Statistics", (
        ("Block Size", "", "launch__block_size"),
        ("Grid Size", "", "launch__grid_size"),
        ("Registers Per Thread", "register/thread", "launch__registers_per_thread"),
        ("Dynamic Shared Memory Per Block", "byte/block", "launch__shared_mem_per_block_dynamic"),
        ("Static Shared Memory Per Block", "byte/block", "launch__shared_mem_per_block_static"),
        ("# SMs", "SM", "launch__sm_count"),
        ("Threads", "thread", "launch__thread_count"),
        ("Waves Per SM", "", "launch__waves_per_multiprocessor"),
    )),
    ("Occupancy", "Occupancy", (
        ("Block Limit SM", "block", "launch__occupancy_limit_blocks"),
        ("Block Limit Registers", "block", "launch__occupancy_limit_registers"),
        ("Block Limit Shared Mem", "block", "launch__occupancy_limit_shared_mem"),
        ("Block Limit Warps", "block", "launch__occupancy_limit_warps"),
        ("Theoretical Occupancy", "%", "sm__maximum_warps_per_active_cycle_pct"),
        ("Achieved Occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    )),
)  # fmt: skip

SELECTION = (
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__time_duration.sum",
    "launch__waves_per_multiprocessor",
)

STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle",
    "long_scoreboard", "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction",
    "not_selected", "selected", "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip


def metrics(kernel: Kernel) -> dict[str, tuple[str, float]]:
    """Raw metric -> (unit, value) of one launch."""
    seconds = kernel.seconds
    moved = kernel.read + kernel.written
    dram = moved / seconds / DRAM_BYTES_PER_S * 100
    tensor = kernel.tensor_flop / seconds / TENSOR_FLOPS_PER_S * 100
    other = dict(kernel.other)
    l1, l2 = other["l1"], other["l2"]
    memory = other.get("memory", max(dram, l2, l1 * 0.9))
    limits = kernel.limits()
    resident = max(min(limits.values()), 1)
    warps = math.ceil(kernel.threads / 32)
    theoretical = min(resident * warps / WARP_SLOTS, 1.0) * 100
    achieved = theoretical * kernel.achieved
    # Four schedulers an SM. Little's law ties the three together: latency = warps / issue rate.
    warps_per_scheduler = achieved / 100 * WARP_SLOTS / 4
    latency = warps_per_scheduler / kernel.issue
    rest = 1.0 - sum(kernel.stalls.values())
    spread = [reason for reason in STALLS if reason not in kernel.stalls and reason != "selected"]
    found: dict[str, tuple[str, float]] = {
        "gpu__time_duration.sum": ("ns", round(seconds * 1e9)),
        "dram__cycles_elapsed.avg.per_second": ("hz", DRAM_CLOCK_HZ),
        "gpc__cycles_elapsed.avg.per_second": ("hz", SM_CLOCK_HZ),
        "gpc__cycles_elapsed.max": ("cycle", round(seconds * SM_CLOCK_HZ)),
        "sm__cycles_active.avg": ("cycle", seconds * SM_CLOCK_HZ * min(kernel.blocks / SMS, 0.98)),
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", other["sm"]),
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": ("%", memory),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", dram),
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("%", l2),
        "l1tex__throughput.avg.pct_of_peak_sustained_active": ("%", l1),
        "sm__inst_executed.avg.per_cycle_active": ("inst/cycle", kernel.issue * 4),
        "sm__inst_issued.avg.pct_of_peak_sustained_active": ("%", kernel.issue * 100),
        "sm__instruction_throughput.avg.pct_of_peak_sustained_active": (
            "%", max(tensor, other["alu"], other["fma"], kernel.issue * 100)),
        "dram__bytes.sum.per_second": ("byte/s", moved / seconds),
        "dram__bytes_read.sum": ("byte", kernel.read),
        "dram__bytes_write.sum": ("byte", kernel.written),
        "l1tex__t_sector_hit_rate.pct": ("%", other.get("l1_hit", 2.0)),
        "lts__t_sector_hit_rate.pct": ("%", other.get("l2_hit", 50.0)),
        "smsp__issue_active.avg.pct_of_peak_sustained_active": ("%", kernel.issue * 100),
        "smsp__issue_active.avg.per_cycle_active": ("", kernel.issue),
        "smsp__warps_active.avg.per_cycle_active": ("warp", warps_per_scheduler),
        "smsp__warps_eligible.avg.per_cycle_active": ("warp", kernel.issue * 1.4),
        "smsp__average_warp_latency_per_inst_issued.ratio": ("cycle", latency),
        "smsp__thread_inst_executed_per_inst_executed.ratio": ("", 32.0),
        "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio": ("", 30.5),
        "launch__block_size": ("", kernel.threads),
        "launch__grid_size": ("", kernel.blocks),
        "launch__registers_per_thread": ("register/thread", kernel.registers),
        "launch__shared_mem_per_block_dynamic": ("byte/block", kernel.shared),
        "launch__shared_mem_per_block_static": ("byte/block", 0),
        "launch__sm_count": ("SM", SMS),
        "launch__thread_count": ("thread", kernel.threads * kernel.blocks),
        "launch__waves_per_multiprocessor": ("", kernel.blocks / (SMS * resident)),
        "sm__maximum_warps_per_active_cycle_pct": ("%", theoretical),
        "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", achieved),
        **{f"launch__occupancy_limit_{name}": ("block", value) for name, value in limits.items()},
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": ("%", tensor),
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active": ("%", other["fma"]),
        "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active": ("%", other["alu"]),
        "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": ("%", other["lsu"]),
        "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": ("%", other.get("xu", 0.0)),
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": ("inst", kernel.fp32_flop / 4),
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": ("inst", kernel.fp32_flop / 4),
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": ("inst", kernel.fp32_flop / 4),
        "sm__ops_path_tensor_src_bf16_dst_fp32_sparsity_off.sum": ("", kernel.tensor_flop),
        "smsp__sass_inst_executed_op_local_ld.sum": ("inst", 0.0),
        "smsp__sass_inst_executed_op_local_st.sum": ("inst", 0.0),
        "device__attribute_display_name": ("", math.nan),
        "device__attribute_multiprocessor_count": ("", SMS),
    }  # fmt: skip
    for reason in STALLS:
        share = kernel.stalls.get(reason, rest / len(spread))
        cycles = 1.0 if reason == "selected" else share * (latency - 1.0)
        name = f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
        found[name] = ("inst", cycles)
    found.update({name: ("", value) for name, value in kernel.raw.items()})
    return found


def verdict(found: Mapping[str, tuple[str, float]]) -> tuple[str, str]:
    """(type, text) of the SpeedOfLight rule: its conditions, in our words."""
    sm = found["sm__throughput.avg.pct_of_peak_sustained_elapsed"][1]
    memory = found["gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"][1]
    waves = found["launch__waves_per_multiprocessor"][1]
    if max(sm, memory) >= 80:
        return "INF", "This kernel is utilizing greater than 80.0% of its compute or memory peak."
    if max(sm, memory) < 60:
        if waves < 1:
            return "OPT", f"This kernel grid is too small: only {waves:.1f} full waves."
        return "OPT", "This kernel shows low compute throughput and memory bandwidth utilization."
    if abs(sm - memory) < 10:
        return "OPT", "Compute and Memory are well-balanced."
    busier = "Memory" if memory > sm else "Compute"
    idler = "Compute" if memory > sm else "Memory"
    return "OPT", f"{busier} is more heavily utilized than {idler}, both are below 80.0%."


IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip


def identity(number: int, kernel: Kernel) -> list[str]:
    block, grid = (str(shape) for shape in (kernel.block, kernel.grid))
    return [str(number), "4711", "python3", "127.0.0.1", kernel.name, "1", "7", block, grid, "0",
            "8.0"]  # fmt: skip


def number_text(value: float) -> str:
    """As ncu prints: whole numbers as they are, others with two decimals."""
    return str(int(value)) if value == int(value) else f"{value:.2f}"


def details_page(kernels: Sequence[Kernel]) -> str:
    """`ncu --csv --page details` with rules (the layout of 2024 and later)."""
    header = [*IDENTITY, "Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name",
              "Rule Type", "Rule Description", "Estimated Speedup Type",
              "Estimated Speedup"]  # fmt: skip
    rows: list[list[str]] = []
    for number, kernel in enumerate(kernels):
        found = metrics(kernel)
        for section, title, labels in SECTIONS:
            for label, unit, metric in labels:
                value = number_text(found[metric][1])
                # ncu ends metric rows after one empty cell where rule columns exist.
                rows.append([*identity(number, kernel), title, label, unit, value, ""])
            if section == "SpeedOfLight":
                level, text = verdict(found)
                rows.append([*identity(number, kernel), section, "", "", "", "SOLBottleneck",
                             level, text, "", ""])  # fmt: skip
    return preamble(kernels) + quoted([header, *rows])


def selection_page(kernels: Sequence[Kernel]) -> str:
    """`ncu --csv --metrics ...`: only what was asked for, under raw names."""
    header = [*IDENTITY, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    rows = [
        [
            *identity(number, kernel),
            "Command line profiler metrics",
            metric,
            metrics(kernel)[metric][0],
            number_text(metrics(kernel)[metric][1]),
        ]
        for number, kernel in enumerate(kernels)
        for metric in SELECTION
    ]
    return preamble(kernels) + quoted([header, *rows])


def raw_page(kernels: Sequence[Kernel]) -> str:
    """`ncu --csv --page raw`: a column a metric, a row a launch, units in the second row."""
    tables = [metrics(kernel) for kernel in kernels]
    names = sorted({name for table in tables for name in table})
    units = {name: unit for table in tables for name, (unit, _) in table.items()}
    rows = [[*IDENTITY, *names], [*([""] * len(IDENTITY)), *(units[name] for name in names)]]
    for number, (kernel, table) in enumerate(zip(kernels, tables, strict=True)):
        cells = [cell(name, table) for name in names]
        rows.append([*identity(number, kernel), *cells])
    return quoted(rows)


def cell(name: str, table: Mapping[str, tuple[str, float]]) -> str:
    if name == "device__attribute_display_name":
        return "NVIDIA A100-SXM4-80GB"
    return number_text(table[name][1]) if name in table else ""


def preamble(kernels: Sequence[Kernel]) -> str:
    lines = ["==PROF== Connected to process 4711 (/usr/bin/python3)"]
    for number, kernel in enumerate(kernels):
        short = kernel.name.split("<")[0].split("(")[0].split("::")[-1].split(" ")[-1][:32]
        lines.append(f'==PROF== Profiling "{short}" - {number}: 0%....50%....100% - 38 passes')
    lines.append("==PROF== Disconnected from process 4711")
    return "".join(line + "\n" for line in lines)


def quoted(rows: Iterable[Sequence[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def main() -> None:
    kernels = layer()
    HERE.mkdir(exist_ok=True)
    for name, page in (
        ("transformer_layer.details.csv", details_page(kernels)),
        ("transformer_layer.raw.csv", raw_page(kernels)),
        ("transformer_layer.metrics.csv", selection_page(kernels)),
    ):
        (HERE / name).write_text(page, "utf-8", newline="")


if __name__ == "__main__":
    main()
