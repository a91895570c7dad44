"""Writes ``calibration/``: probes of a modelled GPU, as two profilers would write them.

Nothing here was measured. The GPU is an H100 SXM5 80GB whose reads, writes, copies and products
reach the shares of the nominal peaks below, with a scatter of half a percent. Two files:

- ``h100.torch.json``: a torch.profiler trace of the program in docs/calibrate.md: large copies,
  fills, sums and matrix products, and a small copy that is served by the cache;
- ``h100.ncu.csv``: large and small streaming kernels of our own under ``ncu --csv --page raw``.
"""

import csv
import io
import json
import random
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent / "calibration"

# NVIDIA H100 SXM5 80GB, dense peaks (traceroof devices).
DRAM_BYTES_PER_S = 3.35e12
PRODUCT_FLOPS_PER_S = {"bf16": 989.4e12, "tf32": 494.7e12, "fp32": 66.9e12}
# What the modelled GPU reaches of them.
READ, WRITE, COPY = 0.93, 0.95, 0.89
PRODUCTS = {"bf16": 0.76, "tf32": 0.79, "fp32": 0.84}
SCATTER = 0.005

GIB, MIB = 2**30, 2**20
REPEATS = 12
BASE_NS = 1_751_410_836_000_000_000

FILL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
    "std::array<char*, 1ul>>(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)"
)
ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>, "
    "std::array<char*, 2ul>>(int, at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul>)"
)
SUM = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t"
    "<float, at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::"
    "{lambda(float, float)#1}>, unsigned int, float, 4, 4>>"
)
PRODUCT_KERNELS = {
    "bf16": "nvjet_tst_256x128_64x4_2x1_v_bz_coopA_NNT",
    "tf32": "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute",
    "fp32": "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_ffma",
}
TYPES = {"bf16": "c10::BFloat16", "tf32": "float", "fp32": "float"}


class Trace:
    """A host that launches one operator after another, and waits for each."""

    def __init__(self) -> None:
        self.random = random.Random(5)
        self.clock, self.correlation = 1_000_000, 100
        self.events: list[dict[str, Any]] = []

    def scattered(self, ns: float) -> int:
        return round(ns * (1 + self.random.gauss(0, SCATTER)))

    def operator(
        self,
        name: str,
        shapes: list[list[int]],
        dtypes: list[str],
        kernel: str,
        ns: float,
        *,
        category: str = "kernel",
        grid: int = 0,
        **args: Any,
    ) -> None:
        """One call of an operator, its launch, and the GPU's work of ``ns``."""
        self.correlation += 1
        begin = self.clock
        self._event("cpu_op", name, begin, begin + 11_000, 4100, 4100,
                    {"External id": self.correlation, "Input Dims": shapes, "Input type": dtypes})  # fmt: skip
        call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
        self._event("cuda_runtime", call, begin + 4_000, begin + 9_000, 4100, 4100,
                    {"External id": self.correlation, "correlation": self.correlation})  # fmt: skip
        where = {"device": 0, "context": 1, "stream": 7, "correlation": self.correlation,
                 "External id": self.correlation}  # fmt: skip
        if category == "kernel":
            args |= {"grid": [grid, 1, 1], "block": [512, 1, 1], "registers per thread": 32,
                     "shared memory": 0}  # fmt: skip
        start = begin + 13_000
        end = start + self.scattered(ns)
        self._event(category, kernel, start, end, 0, 7, where | args)
        self.clock = end + 20_000

    def _event(
        self,
        category: str,
        name: str,
        start: int,
        end: int,
        pid: int,
        tid: int,
        args: dict[str, Any],
    ) -> None:
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid,
                            "ts": start, "dur": end - start, "args": args})  # fmt: skip


def stream_ns(moved: float, share: float) -> float:
    return moved / (DRAM_BYTES_PER_S * share) * 1e9


def torch_trace() -> str:
    trace = Trace()
    large, small = GIB // 4, 4 * MIB  # elements of float32: 1 GiB and 16 MiB
    for _ in range(REPEATS):
        trace.operator("aten::copy_", [[large], [large], []], ["float", "float", "Scalar"],
                       "Memcpy DtoD (Device -> Device)", stream_ns(2 * GIB, COPY),
                       category="gpu_memcpy", bytes=GIB)  # fmt: skip
        trace.operator("aten::add_", [[large], [], []], ["float", "Scalar", "Scalar"], ADD,
                       stream_ns(2 * GIB, COPY - 0.01), grid=large // 2048)  # fmt: skip
        trace.operator("aten::fill_", [[large], []], ["float", "Scalar"], FILL,
                       stream_ns(GIB, WRITE), grid=large // 2048)  # fmt: skip
        trace.operator("aten::sum", [[large], []], ["float", ""], SUM, stream_ns(GIB, READ),
                       grid=528)  # fmt: skip
        # 32 MiB stay in the L2 of 50 MiB, which is faster than DRAM.
        trace.operator("aten::add_", [[small], [], []], ["float", "Scalar", "Scalar"], ADD,
                       stream_ns(32 * MIB, 1.45), grid=small // 2048)  # fmt: skip
        for name, kernel in PRODUCT_KERNELS.items():
            size = 4096 if name == "fp32" else 8192
            ns = 2 * size**3 / (PRODUCT_FLOPS_PER_S[name] * PRODUCTS[name]) * 1e9
            trace.operator("aten::mm", [[size, size], [size, size]], [TYPES[name]] * 2, kernel,
                           ns, grid=(size // 128) ** 2)  # fmt: skip
    head = {
        "schemaVersion": 1,
        "deviceProperties": [
            {"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_017_755_648,
             "computeMajor": 9, "computeMinor": 0, "maxThreadsPerBlock": 1024,
             "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
             "sharedMemPerBlock": 49152, "numSms": 132}
        ],
        "record_shapes": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS,
    }  # fmt: skip
    lines = [
        json.dumps({**one, "ts": "@ts", "dur": "@dur"})
        .replace('"@ts"', microseconds(one["ts"]))
        .replace('"@dur"', microseconds(one["dur"]))
        for one in trace.events
    ]
    return json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"


def microseconds(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


# Kernel, bytes read and written by one launch, share of the nominal bandwidth.
STREAMS = (
    ("copy_kernel(const float4 *, float4 *, unsigned long)", GIB, GIB, COPY - 0.01),
    ("read_kernel(const float4 *, float *, unsigned long)", GIB, 0, READ - 0.01),
    ("write_kernel(float4 *, float, unsigned long)", 0, GIB, WRITE - 0.01),
    ("triad_kernel(const float4 *, const float4 *, float4 *, unsigned long)", 2 * GIB, GIB,
     COPY - 0.02),
    ("copy_kernel(const float4 *, float4 *, unsigned long)", 24 * MIB, 24 * MIB, 0.61),
)  # fmt: skip


def ncu_page() -> str:
    draw = random.Random(6)
    units = {
        "ID": "", "Kernel Name": "", "Device": "", "CC": "", "Grid Size": "", "Block Size": "",
        "device__attribute_display_name": "", "device__attribute_multiprocessor_count": "",
        "dram__bytes_read.sum": "byte", "dram__bytes_write.sum": "byte",
        "dram__bytes.sum.peak_sustained": "byte/cycle", "dram__cycles_elapsed.avg.per_second": "hz",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": "%", "gpu__time_duration.sum": "ns",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "%",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": "%",
    }  # fmt: skip
    rows: list[list[str | float]] = []
    clock = 2_619_000_000  # the HBM3 of this card
    for name, read, written, share in STREAMS:
        for _ in range(5):
            moved = read + written
            ns = stream_ns(moved, share) * (1 + draw.gauss(0, SCATTER))
            pct = moved / ns * 1e9 / DRAM_BYTES_PER_S * 100
            rows.append(
                [len(rows), name, 0, "9.0", f"({moved // 2**16}, 1, 1)", "(256, 1, 1)",
                 "NVIDIA H100 80GB HBM3", 132, read + 4096, written + 2048,
                 round(DRAM_BYTES_PER_S / clock, 3), clock, round(pct, 2), round(ns),
                 round(pct, 2), round(draw.uniform(11, 14), 2)]
            )  # fmt: skip
    page = io.StringIO()
    writer = csv.writer(page, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([list(units), list(units.values()), *rows])
    return page.getvalue()


def main() -> None:
    HERE.mkdir(exist_ok=True)
    (HERE / "h100.torch.json").write_text(torch_trace(), "utf-8")
    (HERE / "h100.ncu.csv").write_text(ncu_page(), "utf-8")


if __name__ == "__main__":
    main()
