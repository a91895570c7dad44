"""Writes ``nsight_systems/``: an export and summaries as Nsight Systems would write them, of a
program that never ran.

Nothing here was measured. A small host and GPU model makes the times: an operator and a launch call
cost the host a fixed time, a kernel takes as long as its bytes or operations need at a given share
of the peak of an A100, and starts when its stream is free and its launch has arrived.

- ``training.sqlite``: five steps of training a small network. Each step reads a batch from a file
  (the host is in ``read`` meanwhile), copies it from pageable memory, runs forward, backward and
  optimizer under NVTX ranges as PyTorch's ``emit_nvtx`` and people write them, and reads the loss.
- ``training.kern_sum.csv``, ``training.gpu_trace.csv``: what ``nsys stats`` prints of it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, pstdev
from typing import Any

HERE = Path(__file__).resolve().parent / "nsight_systems"

# NVIDIA A100-SXM4-40GB, as its driver reports it and its data sheet rates it.
GPU = {
    "id": 0, "name": "NVIDIA A100-SXM4-40GB", "busLocation": "0000:07:00.0", "isDiscrete": 1,
    "l2CacheSize": 41_943_040, "totalMemory": 42_409_000_960, "memoryBandwidth": 1_555_200_000_000,
    "clockRate": 1_410_000_000, "smCount": 108, "chipName": "GA100", "cuDevice": 0,
    "computeMajor": 8, "computeMinor": 0,
}  # fmt: skip
DRAM_BYTES_PER_S, TENSOR_FLOPS_PER_S = 1.555e12, 312e12
PCIE_BYTES_PER_S = 6e9  # from pageable memory

LAYERS, BATCH, WIDTH = 4, 4096, 4096
HALF, FLOAT = 2, 4
LAUNCH, OPERATOR, LATENCY, GAP = 4_500, 6_000, 2_500, 900
READ = 9_000_000  # what a batch takes to read from the file
PROCESS = (1 << 48) | (4100 << 24)
THREAD = PROCESS | 4100
EPOCH = 1_751_410_836_000_000_000

TABLES = {
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs, utcTime TEXT, localTime TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "PROCESSES": "globalPid, pid, name TEXT",
    "TARGET_INFO_GPU": ", ".join(
        f"{one} TEXT" if isinstance(value, str) else one for one, value in GPU.items()
    ),
    "TARGET_INFO_CUDA_DEVICE": "gpuId, cudaId, pid",
    "ENUM_CUDA_MEMCPY_OPER": "id, name TEXT, label TEXT",
    "ENUM_CUDA_MEM_KIND": "id, name TEXT, label TEXT",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, deviceId, contextId, greenContextId, streamId,"
    " correlationId, globalPid, demangledName, shortName, mangledName, launchType, cacheConfig,"
    " registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory,"
    " dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, gridId, sharedMemoryExecuted,"
    " graphNodeId, sharedMemoryLimitConfig",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, deviceId, contextId, streamId, correlationId,"
    " globalPid, bytes, copyKind, deprecatedSrcId, srcKind, dstKind, graphNodeId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, eventClass, globalTid, correlationId, nameId,"
    " returnValue, callchainId",
    "OSRT_API": "start, end, eventClass, globalTid, nameId, returnValue, nestingLevel, callchainId",
    "NVTX_EVENTS": "start, end, eventType, rangeId, category, color, text TEXT, globalTid,"
    " endGlobalTid, textId, domainId",
}


@dataclass
class Program:
    """The host thread and the GPU's one stream, in ns since the session began."""

    now: int = 1_000_000
    free: int = 0
    strings: dict[str, int] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    correlation: int = 0

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def add(self, table: str, **values: Any) -> None:
        self.rows.setdefault(table, []).append(values)

    @contextmanager
    def range(self, text: str) -> Iterator[None]:
        begin = self.now
        yield
        self.add(
            "NVTX_EVENTS", start=begin, end=self.now, eventType=59, text=text, globalTid=THREAD,
            domainId=0,
        )  # fmt: skip

    def call(self, name: str, duration: int) -> tuple[int, int]:
        """A call of the runtime: its correlation id and its start."""
        self.correlation += 1
        begin = self.now
        self.now += duration
        self.add(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=begin, end=self.now, eventClass=0,
            globalTid=THREAD, correlationId=self.correlation, nameId=self.string(name),
            returnValue=0,
        )  # fmt: skip
        return self.correlation, begin

    def system(self, name: str, duration: int) -> None:
        self.add(
            "OSRT_API", start=self.now, end=self.now + duration, eventClass=27, globalTid=THREAD,
            nameId=self.string(name), returnValue=0, nestingLevel=1,
        )  # fmt: skip
        self.now += duration

    def run(self, arrived: int, duration: int) -> tuple[int, int]:
        begin = max(self.free + GAP, arrived + LATENCY)
        self.free = begin + duration
        return begin, self.free

    def kernel(self, name: str, duration: int, blocks: int, registers: int, shared: int) -> None:
        correlation, _ = self.call("cudaLaunchKernel_v7000", LAUNCH)
        begin, end = self.run(self.now, duration)
        text = self.string(name)
        self.add(
            "CUPTI_ACTIVITY_KIND_KERNEL", start=begin, end=end, deviceId=0, contextId=1, streamId=7,
            correlationId=correlation, globalPid=PROCESS, demangledName=text,
            shortName=self.string(name.partition("<")[0].rpartition(" ")[2]), mangledName=text,
            launchType=1, cacheConfig=0, registersPerThread=registers, gridX=blocks, gridY=1,
            gridZ=1, blockX=256, blockY=1, blockZ=1, staticSharedMemory=0,
            dynamicSharedMemory=shared, localMemoryPerThread=0, localMemoryTotal=0,
            gridId=correlation, sharedMemoryExecuted=shared, sharedMemoryLimitConfig=0,
        )  # fmt: skip

    def copy(self, size: int, kind: int, source: int, target: int) -> None:
        """A copy that holds the host until it is done."""
        correlation, begin = self.call("cudaMemcpyAsync_v3020", 0)
        begin, end = self.run(begin + LAUNCH, LATENCY + int(size / PCIE_BYTES_PER_S * 1e9))
        self.add(
            "CUPTI_ACTIVITY_KIND_MEMCPY", start=begin, end=end, deviceId=0, contextId=1, streamId=7,
            correlationId=correlation, globalPid=PROCESS, bytes=size, copyKind=kind,
            srcKind=source, dstKind=target,
        )  # fmt: skip
        self.now = end + LATENCY
        self.rows["CUPTI_ACTIVITY_KIND_RUNTIME"][-1]["end"] = self.now

    def synchronise(self) -> None:
        self.call("cudaStreamSynchronize_v3020", max(self.free - self.now, 0) + LATENCY)


def gemm(program: Program, sequence: int, name: str) -> None:
    flops = 2 * BATCH * WIDTH * WIDTH
    with program.range(f"{name}, seq = {sequence}, op_id = {1000 + sequence}"):
        program.now += OPERATOR
        kernel = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_64x4_tn>(T1::Params)"
        program.kernel(kernel, int(flops / (0.72 * TENSOR_FLOPS_PER_S) * 1e9), 1024, 168, 98_304)


def pointwise(program: Program, sequence: int, name: str, tensors: int, size: int = HALF) -> None:
    moved = tensors * BATCH * WIDTH * size
    with program.range(f"{name}, seq = {sequence}, op_id = {2000 + sequence}"):
        program.now += OPERATOR
        kernel = f"void at::native::vectorized_elementwise_kernel<4, {name.partition('::')[2]}_functor, std::array<char *, {tensors}>>(int, T2, T3)"
        program.kernel(kernel, int(moved / (0.78 * DRAM_BYTES_PER_S) * 1e9), 16_384, 32, 0)


def step(program: Program, number: int) -> None:
    with program.range(f"step {number}"):
        with program.range("load batch"):
            program.now += 200_000
            program.system("read", READ)
            program.now += 150_000
        program.copy(BATCH * WIDTH * HALF, kind=1, source=0, target=2)
        with program.range("forward"):
            for layer in range(LAYERS):
                with program.range(f"layer {layer}"):
                    gemm(program, layer, "aten::addmm")
                    pointwise(program, layer, "aten::gelu", 2)
        with program.range("backward"):
            for layer in reversed(range(LAYERS)):
                pointwise(program, layer, "aten::gelu_backward", 3)
                gemm(program, layer, "aten::mm")
                gemm(program, layer, "aten::mm")
        with program.range("optimizer"):
            for layer in range(LAYERS):
                pointwise(program, layer, "aten::_fused_adamw_", 7, FLOAT)
        program.copy(FLOAT, kind=2, source=2, target=0)
        program.synchronise()


def described(program: Program) -> None:
    program.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=EPOCH,
                utcTime="2025-07-01T23:00:36", localTime="2025-07-01T23:00:36")  # fmt: skip
    for name, value in (
        ("EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems"),
        ("EXPORT_PRODUCT_VERSION", "2025.3.1.90"), ("EXPORT_SCHEMA_VERSION", "3.20.2"),
    ):  # fmt: skip
        program.add("META_DATA_EXPORT", name=name, value=value)
    program.add("PROCESSES", globalPid=PROCESS, pid=4100, name="python")
    program.add("TARGET_INFO_GPU", **GPU)
    program.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=4100)
    for number, label in ((1, "Host-to-Device"), (2, "Device-to-Host")):
        program.add("ENUM_CUDA_MEMCPY_OPER", id=number, name=f"KIND_{number}", label=label)
    for number, label in ((0, "Pageable"), (2, "Device")):
        program.add("ENUM_CUDA_MEM_KIND", id=number, name=f"KIND_{number}", label=label)


def write_database(program: Program, path: Path) -> None:
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("PRAGMA page_size = 4096")
    database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT)")
    database.executemany(
        "INSERT INTO StringIds VALUES (?, ?)",
        [(key, text) for text, key in program.strings.items()],
    )
    for table, columns in TABLES.items():
        names = [one.split()[0] for one in columns.split(",")]
        typed = ", ".join(
            one.strip() if "TEXT" in one else f'"{one.strip()}" INTEGER'
            for one in columns.split(",")
        )
        database.execute(f"CREATE TABLE {table} ({typed})")
        database.executemany(
            f"INSERT INTO {table} VALUES ({', '.join('?' * len(names))})",
            [[row.get(name) for name in names] for row in program.rows.get(table, [])],
        )
    database.commit()
    database.close()
    # The version of SQLite that wrote it stands in the file, and would change with the machine.
    data = bytearray(path.read_bytes())
    data[96:100] = (3_045_001).to_bytes(4, "big")
    path.write_bytes(data)


def write_summaries(program: Program) -> None:
    texts = {key: text for text, key in program.strings.items()}
    kernels = program.rows["CUPTI_ACTIVITY_KIND_KERNEL"]
    spent: dict[str, list[int]] = {}
    for row in kernels:
        spent.setdefault(texts[row["demangledName"]], []).append(row["end"] - row["start"])
    total = sum(map(sum, spent.values()))
    lines = [
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    ]
    for name, times in sorted(spent.items(), key=lambda one: -sum(one[1])):
        cells = [
            f"{sum(times) / total * 100:.1f}", sum(times), len(times),
            f"{sum(times) / len(times):.1f}", f"{median(times):.1f}", min(times), max(times),
            f"{pstdev(times):.1f}", f'"{name}"' if "," in name else name,
        ]  # fmt: skip
        lines.append(",".join(map(str, cells)))
    (HERE / "training.kern_sum.csv").write_text("\n".join(lines) + "\n", "utf-8")
    lines = [
        "",
        "NOTICE: Existing SQLite export found: training.sqlite",
        "        It is assumed file was previously exported from: training.nsys-rep",
        "",
        "Processing [training.sqlite] with [reports/cuda_gpu_trace.py]... ",
        (
            "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
            "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name"
        ),
    ]
    device = f"{GPU['name']} (0)"
    words = {
        1: ("Pageable", "Device", "Host-to-Device"),
        2: ("Device", "Pageable", "Device-to-Host"),
    }
    for row in sorted(
        [*kernels, *program.rows["CUPTI_ACTIVITY_KIND_MEMCPY"]], key=lambda one: one["start"]
    ):
        took = row["end"] - row["start"]
        cells = [row["start"], took, row["correlationId"]]
        if "bytes" in row:
            source, target, way = words[row["copyKind"]]
            size, rate = row["bytes"] / 1e6, row["bytes"] / took * 1e3
            cells += [*[""] * 9, f"{size:.3f}", f"{rate:.3f}", source, target, device, 1, "", 7]
            name = f"[CUDA memcpy {way}]"
        else:
            shape = [row[f"{what}{axis}"] for what in ("grid", "block") for axis in "XYZ"]
            memory = [
                f"{row['staticSharedMemory'] / 1e6:.3f}",
                f"{row['dynamicSharedMemory'] / 1e6:.3f}",
            ]
            cells += [*shape, row["registersPerThread"], *memory, "", "", "", "", device, 1, "", 7]
            name = texts[row["demangledName"]]
        cells.append(f'"{name}"' if "," in name else name)
        lines.append(",".join(map(str, cells)))
    (HERE / "training.gpu_trace.csv").write_text("\n".join(lines) + "\n", "utf-8")


def main() -> None:
    HERE.mkdir(exist_ok=True)
    program = Program()
    described(program)
    with program.range("train"):
        for number in range(5):
            step(program, number)
    write_database(program, HERE / "training.sqlite")
    write_summaries(program)


if __name__ == "__main__":
    main()
