"""Writes the samples for rocprofv3 and rocprof-compute: what those tools would write for a model.

Nothing here was measured. A handful of kernels with known work (FLOPs, bytes, waves) runs on a
modelled MI300X (rocprofv3) and MI210 (rocprof-compute); durations follow from the work and an
assumed share of the peak, counters from the work by the definitions of the counters. So every
figure that traceroof derives from the samples has a known answer.

    python sample_traces/make_amd.py
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Gpu:
    """A device of the data sheets. Peaks in FLOP/s and byte/s, clock in Hz."""

    name: str
    gfx: str
    pci_id: int
    compute_units: int
    dies: int
    engines: int
    clock: float
    bandwidth: float
    matrix_flops: float
    vector_flops: float


MI300X = Gpu(
    "AMD Instinct MI300X", "gfx942", 29857, 304, 8, 32, 2.1e9, 5.3248e12, 1307.4e12, 163.4e12
)
MI210 = Gpu("AMD Instinct MI210", "gfx90a", 29711, 104, 1, 8, 1.7e9, 1.6384e12, 181e12, 22.6e12)

CYCLES_PER_QUAD = 4
MATRIX_UNIT = 512  # operations that SQ_INSTS_VALU_MFMA_MOPS_* counts as one
LANES = 64


@dataclass(frozen=True)
class Kernel:
    """One kernel and the work of one launch.

    blocks: workgroups in x, y, z. matrix_flop: with BF16 inputs. waits: shares of wave time
    waiting for data, waiting to issue, issuing. occupancy: share of the wave slots. lds_cycles:
    cycles of the LDS data path a wave, ``conflicts`` of them lost to bank conflicts.
    """

    name: str
    blocks: tuple[int, int, int]
    threads: int
    read: int
    written: int
    matrix_flop: int = 0
    vector_flop: int = 0
    vgprs: int = 32
    agprs: int = 0
    lds: int = 0
    reach: float = 0.8
    waits: tuple[float, float, float] = (0.6, 0.3, 0.1)
    occupancy: float = 0.5
    l2_hit: float = 0.5
    lds_cycles: int = 0
    conflicts: float = 0.0

    @property
    def waves(self) -> int:
        x, y, z = self.blocks
        return x * y * z * -(-self.threads // LANES)

    def duration_ns(self, gpu: Gpu) -> int:
        """The slowest of memory, matrix units and vector units, at ``reach`` of its peak."""
        seconds = max(
            (self.read + self.written) / gpu.bandwidth,
            self.matrix_flop / gpu.matrix_flops,
            self.vector_flop / gpu.vector_flops,
        )
        return max(round(seconds / self.reach * 1e9), 2_000)


MIB = 1 << 20

# One step of a small transformer in BF16: 4,096 tokens, width 4,096.
KERNELS = (
    Kernel(
        "Cijk_Ailk_Bljk_BBS_BH_MT256x256x64_MI16x16x1_SN_1LDSB0_WG32_8_1",
        blocks=(16, 16, 1),
        threads=256,
        read=2 * 32 * MIB,
        written=32 * MIB,
        matrix_flop=2 * 4096**3,
        vgprs=256,
        agprs=256,
        lds=65536,
        reach=0.55,
        waits=(0.35, 0.40, 0.25),
        occupancy=0.125,
        l2_hit=0.85,
        lds_cycles=16_384,
        conflicts=0.02,
    ),
    Kernel(
        "void flash_fwd_kernel<ck_tile::bf16_t, 128, true>(ck_tile::FmhaFwdArgs, float*)",
        blocks=(32, 32, 1),
        threads=256,
        read=96 * MIB,
        written=32 * MIB,
        matrix_flop=4 * 32 * 4096 * 4096 * 128 // 2,
        vector_flop=5 * 32 * 4096 * 4096 // 2,
        vgprs=192,
        agprs=64,
        lds=32768,
        reach=0.35,
        waits=(0.45, 0.35, 0.20),
        occupancy=0.25,
        l2_hit=0.70,
        lds_cycles=8_192,
        conflicts=0.30,
    ),
    Kernel(
        "void rms_norm_kernel<__hip_bfloat16, 1024>(__hip_bfloat16*, __hip_bfloat16 const*, float)",
        blocks=(4096, 1, 1),
        threads=1024,
        read=32 * MIB,
        written=32 * MIB,
        vector_flop=4 * 4096 * 4096,
        vgprs=24,
        lds=4096,
        reach=0.62,
        waits=(0.88, 0.06, 0.06),
        occupancy=0.75,
        l2_hit=0.33,
        lds_cycles=16,
    ),
    Kernel(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>,"
        " at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<c10::BFloat16>,"
        " at::detail::Array<char*, 3>)",
        blocks=(8192, 1, 1),
        threads=256,
        read=64 * MIB,
        written=32 * MIB,
        vector_flop=4096 * 4096,
        vgprs=20,
        reach=0.78,
        waits=(0.92, 0.04, 0.04),
        occupancy=0.85,
        l2_hit=0.33,
    ),
)
STEPS = 3
HOST_GAP_NS = 4_000


def counters(kernel: Kernel, gpu: Gpu) -> Mapping[str, float]:
    """What the counters of ``gpu`` read after one launch, by their definitions."""
    cycles = kernel.duration_ns(gpu) * gpu.clock / 1e9
    wave_quads = kernel.occupancy * 32 * gpu.compute_units * cycles / CYCLES_PER_QUAD
    requests = (kernel.read + kernel.written) // 128
    hits = round(requests * kernel.l2_hit / (1 - kernel.l2_hit))
    vector_instructions = kernel.vector_flop // LANES
    lds = kernel.waves * kernel.lds_cycles
    dependency, issue, issuing = kernel.waits
    reads = kernel.read // 64
    found: dict[str, float] = {
        "GRBM_COUNT": round(cycles) * gpu.dies,
        "GRBM_GUI_ACTIVE": round(cycles) * gpu.dies,
        "SQ_WAVES": kernel.waves,
        "SQ_WAVE_CYCLES": round(wave_quads),
        "SQ_WAIT_ANY": round(wave_quads * dependency),
        "SQ_WAIT_INST_ANY": round(wave_quads * issue),
        "SQ_ACTIVE_INST_ANY": round(wave_quads * issuing),
        "SQ_BUSY_CU_CYCLES": round(0.95 * gpu.compute_units * cycles),
        "SQ_ACTIVE_INST_VALU": round(vector_instructions + kernel.waves * 8),
        "SQ_VALU_MFMA_BUSY_CYCLES": round(
            4
            * gpu.compute_units
            * cycles
            * kernel.matrix_flop
            / (gpu.matrix_flops * kernel.duration_ns(gpu) / 1e9)
        ),
        "SQ_LDS_IDX_ACTIVE": lds,
        "SQ_LDS_BANK_CONFLICT": round(lds * kernel.conflicts),
        "SQ_INSTS_LDS": lds // 4,
        "TCC_HIT_sum": hits,
        "TCC_MISS_sum": requests,
        "SQ_INSTS_VALU_MFMA_MOPS_BF16": kernel.matrix_flop // MATRIX_UNIT,
    }
    for kind in ("F16", "F32", "F64", "I8", *(("F8",) if gpu is MI300X else ())):
        found[f"SQ_INSTS_VALU_MFMA_MOPS_{kind}"] = 0
    for kind in ("F16", "F32", "F64"):
        for operation in ("ADD", "MUL", "TRANS", "FMA"):
            fused = kind == "F32" and operation == "FMA"
            found[f"SQ_INSTS_VALU_{operation}_{kind}"] = vector_instructions // 2 if fused else 0
    if gpu is MI300X:
        # A read of 128 bytes counts as one request and one bubble.
        found |= {
            "TCC_BUBBLE_sum": reads // 2,
            "TCC_EA0_RDREQ_sum": reads // 2,
            "TCC_EA0_RDREQ_32B_sum": 0,
            "TCC_EA0_WRREQ_sum": kernel.written // 64,
            "TCC_EA0_WRREQ_64B_sum": kernel.written // 64,
        }
    else:
        found |= {
            "TCC_EA_RDREQ_sum": reads,
            "TCC_EA_RDREQ_32B_sum": 0,
            "TCC_EA_WRREQ_sum": kernel.written // 64,
            "TCC_EA_WRREQ_64B_sum": kernel.written // 64,
        }
    return found


# The groups of counters that rocprofv3 collects in one run each.
PASSES = (
    (
        "GRBM_GUI_ACTIVE", "TCC_BUBBLE_sum", "TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum",
        "TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum", "TCC_HIT_sum", "TCC_MISS_sum",
    ),
    (
        "GRBM_GUI_ACTIVE", "SQ_WAVES", "SQ_WAVE_CYCLES", "SQ_WAIT_ANY", "SQ_WAIT_INST_ANY",
        "SQ_ACTIVE_INST_ANY", "SQ_ACTIVE_INST_VALU", "SQ_VALU_MFMA_BUSY_CYCLES",
    ),
    (
        "SQ_INSTS_VALU_MFMA_MOPS_BF16", "SQ_INSTS_VALU_MFMA_MOPS_F16",
        "SQ_INSTS_VALU_MFMA_MOPS_F32", "SQ_INSTS_VALU_MFMA_MOPS_F64",
        "SQ_INSTS_VALU_MFMA_MOPS_F8", "SQ_INSTS_VALU_MFMA_MOPS_I8", "SQ_LDS_IDX_ACTIVE",
        "SQ_LDS_BANK_CONFLICT", "SQ_INSTS_LDS",
    ),
)  # fmt: skip


def quoted(rows: Sequence[Sequence[object]]) -> str:
    """Rows as rocprofv3 writes them: text in quotation marks, numbers bare."""
    return "".join(
        ",".join(f'"{cell}"' if isinstance(cell, str) else str(cell) for cell in row) + "\n"
        for row in rows
    )


def plain(rows: Sequence[Sequence[object]]) -> str:
    """Rows as pandas writes them."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


@dataclass(frozen=True)
class Number:
    """A number with the digits that a tool prints."""

    digits: str

    def __str__(self) -> str:
        return self.digits


def number(value: float) -> Number:
    """A counter as rocprofv3 prints it."""
    return Number(f"{value:.6f}" if value >= 1 else f"{value:.8e}")


def launches() -> list[tuple[int, Kernel, int]]:
    """(dispatch number, kernel, start in ns) of every launch on the MI300X, in order."""
    clock = 7_000_000_000_000
    found: list[tuple[int, Kernel, int]] = []
    for _ in range(STEPS):
        for kernel in KERNELS:
            found.append((len(found) + 1, kernel, clock))
            clock += kernel.duration_ns(MI300X) + HOST_GAP_NS
    return found


def agent_info() -> str:
    header = (
        "Node_Id", "Logical_Node_Id", "Agent_Type", "Simd_Count", "Lds_Size_In_Kb",
        "Wave_Front_Size", "Num_Xcc", "Cu_Count", "Num_Shader_Banks", "Simd_Per_Cu",
        "Gfx_Target_Version", "Vendor_Id", "Device_Id", "Max_Engine_Clk_Fcompute",
        "Max_Waves_Per_Cu", "Local_Mem_Size", "Name", "Vendor_Name", "Product_Name",
    )  # fmt: skip
    host = (0, 0, "CPU", 0, 0, 0, 1, 96, 0, 0, 0, 0, 0, 0, 0, 0, "AMD EPYC 9654", "CPU", "")
    gpu = (
        2, 2, "GPU", MI300X.compute_units * 4, 64, 64, MI300X.dies, MI300X.compute_units,
        MI300X.engines, 4, 90402, 4098, MI300X.pci_id, int(MI300X.clock / 1e6), 32, 0,
        MI300X.gfx, "AMD", MI300X.name,
    )  # fmt: skip
    return quoted([header, host, gpu])


def kernel_trace() -> str:
    header = (
        "Kind", "Agent_Id", "Queue_Id", "Stream_Id", "Thread_Id", "Dispatch_Id", "Kernel_Id",
        "Kernel_Name", "Correlation_Id", "Start_Timestamp", "End_Timestamp", "LDS_Block_Size",
        "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "Workgroup_Size_X",
        "Workgroup_Size_Y", "Workgroup_Size_Z", "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
    )  # fmt: skip
    rows: list[Sequence[object]] = [header]
    for dispatch, kernel, start in launches():
        x, y, z = kernel.blocks
        end = start + kernel.duration_ns(MI300X)
        which = ("KERNEL_DISPATCH", "Agent 2", 1, 1, 4711, dispatch, 10 + KERNELS.index(kernel))
        when = (100 + dispatch, start, end)
        registers = (kernel.lds, 0, kernel.vgprs, kernel.agprs, 112)
        shape = (kernel.threads, 1, 1, x * kernel.threads, y, z)
        rows.append((*which, kernel.name, *when, *registers, *shape))
    return quoted(rows)


def api_trace() -> str:
    rows: list[Sequence[object]] = [
        ("Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp",
         "End_Timestamp")
    ]  # fmt: skip
    for dispatch, _, start in launches():
        at = start - 9_000
        rows.append(
            ("HIP_RUNTIME_API_EXT", "hipLaunchKernel", 4711, 4711, 100 + dispatch, at, at + 3_000)
        )
    return quoted(rows)


def copy_trace() -> str:
    start = launches()[0][2] - 2_000_000
    return quoted(
        [
            ("Kind", "Direction", "Stream_Id", "Source_Agent_Id", "Destination_Agent_Id",
             "Correlation_Id", "Start_Timestamp", "End_Timestamp"),
            ("MEMORY_COPY", "MEMORY_COPY_HOST_TO_DEVICE", 1, "Agent 0", "Agent 2", 50, start,
             start + 640_000),
        ]
    )  # fmt: skip


def marker_trace() -> str:
    rows: list[Sequence[object]] = [
        ("Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp",
         "End_Timestamp")
    ]  # fmt: skip
    all_launches = launches()
    for step in range(STEPS):
        mine = all_launches[step * len(KERNELS) : (step + 1) * len(KERNELS)]
        begin = mine[0][2] - 9_000
        end = mine[-1][2] + mine[-1][1].duration_ns(MI300X)
        rows.append(("MARKER_CORE_API", f"step {step}", 4711, 4711, step + 1, begin, end))
    return quoted(rows)


def counter_collection(process: int, names: Sequence[str]) -> str:
    header = (
        "Correlation_Id", "Dispatch_Id", "Agent_Id", "Queue_Id", "Process_Id", "Thread_Id",
        "Grid_Size", "Kernel_Id", "Kernel_Name", "Workgroup_Size", "LDS_Block_Size",
        "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count", "Counter_Name",
        "Counter_Value", "Start_Timestamp", "End_Timestamp",
    )  # fmt: skip
    rows: list[Sequence[object]] = [header]
    for dispatch, kernel, start in launches():
        x, y, z = kernel.blocks
        end = start + kernel.duration_ns(MI300X)
        which = (dispatch, dispatch, "Agent 2", 1, process, process, x * y * z * kernel.threads)
        what = (10 + KERNELS.index(kernel), kernel.name, kernel.threads)
        registers = (kernel.lds, 0, kernel.vgprs, kernel.agprs, 112)
        values = counters(kernel, MI300X)
        for name in names:
            rows.append((*which, *what, *registers, name, number(values[name]), start, end))
    return quoted(rows)


def kernel_stats() -> str:
    rows: list[Sequence[object]] = [
        ("Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev")
    ]
    total = sum(kernel.duration_ns(MI300X) for kernel in KERNELS)
    for kernel in KERNELS:
        each = kernel.duration_ns(MI300X)
        rows.append(
            (kernel.name, STEPS, each * STEPS, Number(f"{each:.6f}"),
             Number(f"{100 * each / total:.2f}"), each, each, Number("0.00000000e+00"))
        )  # fmt: skip
    return quoted(rows)


def profile_folder() -> Mapping[str, str]:
    """The files that rocprof-compute 2 leaves for one step on the MI210."""
    launch = (
        "Dispatch_ID", "GPU_ID", "Grid_Size", "Workgroup_Size", "LDS_Per_Workgroup",
        "Scratch_Per_Workitem", "Arch_VGPR", "Accum_VGPR", "SGPR", "Wave_Size", "Kernel_Name",
    )  # fmt: skip
    names = list(counters(KERNELS[0], MI210))
    merged: list[Sequence[object]] = [(*launch, *names, "Start_Timestamp", "End_Timestamp")]
    level: list[Sequence[object]] = [
        ("Dispatch_ID", "GPU_ID", "Queue_ID", "PID", "TID", *launch[2:], "GRBM_GUI_ACTIVE",
         "SQ_LEVEL_WAVES", "SQ_ACCUM_PREV_HIRES", "Start_Timestamp", "End_Timestamp")
    ]  # fmt: skip
    clock = 9_000_000_000_000
    for dispatch, kernel in enumerate(KERNELS):
        x, y, z = kernel.blocks
        each = kernel.duration_ns(MI210)
        sizes = (
            x * y * z * kernel.threads, kernel.threads, kernel.lds, 0, kernel.vgprs, kernel.agprs,
            112, LANES, kernel.name,
        )  # fmt: skip
        values = counters(kernel, MI210)
        times = (clock, clock + each)
        merged.append((dispatch, 0, *sizes, *(values[name] for name in names), *times))
        cycles = values["GRBM_GUI_ACTIVE"]
        in_flight = round(kernel.occupancy * 32 * MI210.compute_units * cycles)
        level.append((dispatch, 0, 1, 815, 815, *sizes, cycles, 0, in_flight, *times))
        clock += each + HOST_GAP_NS
    system = {
        "workload_name": "sample", "command": "./step", "ip_blocks": "SQ|LDS|TCP|TCC|SPI",
        "timestamp": "Mon Jan  1 00:00:00 2024 (UTC)", "version": "2", "hostname": "modelled",
        "compute_partition": "NA", "memory_partition": "NA", "gpu_model": "MI210",
        "gpu_arch": MI210.gfx, "gpu_l1": 16, "gpu_l2": 8192,
        "cu_per_gpu": MI210.compute_units, "simd_per_cu": 4, "se_per_gpu": MI210.engines,
        "wave_size": LANES, "workgroup_max_size": 1024, "max_waves_per_cu": 32,
        "max_sclk": int(MI210.clock / 1e6), "max_mclk": 1600, "cur_sclk": 1700, "cur_mclk": 1600,
        "total_l2_chan": 32, "lds_banks_per_cu": 32, "sqc_per_gpu": 56, "pipes_per_gpu": 4,
        "hbm_bw": MI210.bandwidth / 1e9, "num_xcd": MI210.dies, "num_hbm_channels": 32,
    }  # fmt: skip
    ceilings = {
        "device": 0, "HBMBw": 1400.0, "L2Bw": 5000.0, "L1Bw": 9200.0, "LDSBw": 18000.0,
        "FP32Flops": 21000.0, "FP64Flops": 20300.0, "MFMABF16Flops": 170000.0,
        "MFMAF16Flops": 165000.0, "MFMAF32Flops": 41400.0, "MFMAF64Flops": 41500.0,
        "MFMAI8Ops": 167000.0,
    }  # fmt: skip
    return {
        "pmc_perf.csv": plain(merged),
        "SQ_LEVEL_WAVES.csv": plain(level),
        "sysinfo.csv": plain([list(system), list(system.values())]),
        "roofline.csv": plain([list(ceilings), list(ceilings.values())]),
    }


def samples() -> Mapping[str, str]:
    """Every sample: path below this folder -> content."""
    traced = "rocprofv3/model-host/4711"
    found = {
        f"{traced}_agent_info.csv": agent_info(),
        f"{traced}_kernel_trace.csv": kernel_trace(),
        f"{traced}_hip_api_trace.csv": api_trace(),
        f"{traced}_memory_copy_trace.csv": copy_trace(),
        f"{traced}_marker_api_trace.csv": marker_trace(),
        f"{traced}_kernel_stats.csv": kernel_stats(),
    }
    for place, names in enumerate(PASSES, start=1):
        process = 4711 + place
        path = f"rocprofv3/pmc_{place}/model-host/{process}_counter_collection.csv"
        found[path] = counter_collection(process, names)
    found |= {f"rocprof_compute/MI210/{name}": text for name, text in profile_folder().items()}
    return found


def main() -> None:
    for name, text in samples().items():
        path = HERE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        print(f"{len(text):>9,} bytes  {name}")


if __name__ == "__main__":
    main()
