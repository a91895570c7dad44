"""Writes sample_traces/nvprof, proton, xplane and rocprof_compute_text: one small program each.

Nothing was measured. A vector scaling of 2^24 floats moves 128 MiB at 90 % of the bandwidth of the
modelled GPU; a reduction reads 64 MiB at 70 %.
"""

import json
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent
N = 1 << 24
STEPS = 4


def _time_ns(nbytes: float, bandwidth: float, share: float) -> int:
    return round(nbytes / (bandwidth * share) * 1e9)


def _write(name: str, data: str | bytes) -> None:
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)


# nvprof on a GTX 1080 Ti (484.4 GB/s)

GTX = 484.4e9
KERNELS = (
    ("void scale<float>(float*, float, int)", 8 * N, 0.90, (65536, 256, 12, 0), 8 * N),
    ("void reduce<float, unsigned int=256>(float*, float*, int)", 4 * N, 0.70,
     (1024, 256, 18, 1024), 4 * N),
)  # fmt: skip
DEVICE = '"GeForce GTX 1080 Ti (0)"'


def nvprof_trace() -> str:
    lines = [
        "==4242== NVPROF is profiling process 4242, command: ./scale",
        "==4242== Profiling application: ./scale",
        "==4242== Profiling result:",
        (
            '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
            '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",'
            '"DstMemType","Device","Context","Stream","Name"'
        ),
        "ms,ms,,,,,,,,B,B,MB,GB/s,,,,,,",
    ]
    at, number = 200.0, 100
    copy_ms = 4 * N / 11e9 * 1e3
    lines.append(
        f'{at:.6f},{copy_ms:.6f},,,,,,,,,,64.000000,10.244548,"Pageable","Device",{DEVICE},"1","7",'
        '"[CUDA memcpy HtoD]"'
    )
    at += copy_ms + 0.02
    for _ in range(STEPS):
        for name, nbytes, share, (blocks, threads, registers, shared), _ in KERNELS:
            spent = _time_ns(nbytes, GTX, share) / 1e6
            lines.append(
                f"{at:.6f},{spent:.6f},{blocks},1,1,{threads},1,1,{registers},{shared},0,,,,,"
                f'{DEVICE},"1","7","{name} [{number}]"'
            )
            at += spent + 0.004
            number += 7
    return "\n".join(lines) + "\n"


def nvprof_metrics() -> str:
    lines = [
        "==4243== NVPROF is profiling process 4243, command: ./scale",
        "==4243== Some kernel(s) will be replayed on device 0 in order to collect all events/metrics.",
        "==4243== Profiling result:",
        "==4243== Metric result:",
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"',
    ]
    for name, nbytes, share, _, read in KERNELS:
        half = read // 2 if "scale" in name else read
        level = round(10 * share)
        word = "High" if level > 6 else "Mid"
        for metric, title, value in (
            ("achieved_occupancy", "Achieved Occupancy", "0.910000"),
            ("warp_execution_efficiency", "Warp Execution Efficiency", "100.000000%"),
            ("gld_efficiency", "Global Memory Load Efficiency", "100.000000%"),
            ("gld_transactions", "Global Load Transactions", str(half // 32)),
            ("dram_read_transactions", "Device Memory Read Transactions", str(half // 32)),
            ("dram_write_transactions", "Device Memory Write Transactions",
             str((nbytes - half) // 32)),
            ("dram_utilization", "Device Memory Utilization", f"{word} ({level})"),
            ("stall_memory_dependency", "Issue Stall Reasons (Data Request)", "82.000000%"),
        ):  # fmt: skip
            lines.append(f'{DEVICE},"{name}",{STEPS},"{metric}","{title}",{value},{value},{value}')
    return "\n".join(lines) + "\n"


# Proton on an A100 PCIe (1,935 GB/s, 312 TFLOP/s in FP16)


def proton() -> str:
    def node(name: str, children: list[object], **metrics: object) -> dict[str, object]:
        frame = {"name": name, "type": "function"}
        return {"frame": frame, "metrics": metrics, "children": children}

    size = 4096
    flops, nbytes = 2.0 * size**3, 3 * 2 * size**2
    rows = []
    for name, share in (("cublas", 0.82), ("triton_matmul", 0.64)):
        mean = flops / (312e12 * share) * 1e9
        kernel = node(
            f"{name}_kernel", [], count=100, device_id="0", device_type="CUDA",
            **{"time (ns)": round(mean) * 100},
        )  # fmt: skip
        work = {"flops16": flops * 100, "bytes": nbytes * 100}
        rows.append(node(f"{name} [M={size}, N={size}, K={size}]", [kernel], **work))
    root = node("ROOT", list(rows), count=0, **{"time (ns)": 0})
    a100 = {"arch": "80", "bus_width": 5120, "clock_rate": 1410000, "memory_clock_rate": 1512000,
            "num_sms": 108}  # fmt: skip
    return json.dumps([root, {"CUDA": {"0": a100}}], indent=1) + "\n"


# XLA on an MI300X, written field by field as protocol buffers are


def _varint(value: int) -> bytes:
    out = b""
    while True:
        value, low = value >> 7, value & 0x7F
        out += struct.pack("B", low | (0x80 if value else 0))
        if not value:
            return out


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


class _Plane:
    """A plane: names once, events and statistics by number."""

    def __init__(self, name: str) -> None:
        self.name, self.lines = name, b""
        self.events: dict[str, int] = {}
        self.stats: dict[str, int] = {}
        self.own = b""

    def stat(self, name: str, value: int | str) -> bytes:
        number = self.stats.setdefault(name, len(self.stats) + 1)
        if isinstance(value, int):
            return _number(1, number) + _number(4, value)
        return _number(1, number) + _number(7, self.stats.setdefault(value, len(self.stats) + 1))

    def property(self, name: str, value: int | str) -> None:
        self.own += _bytes(6, self.stat(name, value))

    def event(self, name: str, start_ns: int, spent_ns: int, /, **stats: int | str) -> bytes:
        number = self.events.setdefault(name, len(self.events) + 1)
        body = _number(1, number) + _number(2, start_ns * 1000) + _number(3, spent_ns * 1000)
        return body + b"".join(_bytes(4, self.stat(key, value)) for key, value in stats.items())

    def line(self, number: int, name: str, events: list[bytes]) -> None:
        body = _number(1, number) + _bytes(2, name) + b"".join(_bytes(4, one) for one in events)
        self.lines += _bytes(3, body)

    def message(self) -> bytes:
        named = b"".join(
            _bytes(field, _number(1, number) + _bytes(2, _bytes(2, name)))
            for field, table in ((4, self.events), (5, self.stats))
            for name, number in table.items()
        )
        return _bytes(1, _number(1, 1) + _bytes(2, self.name) + self.lines + named + self.own)


def xplane() -> bytes:
    gpu, host = _Plane("/device:GPU:0"), _Plane("/host:CPU")
    for name, value in (
        ("device_vendor", "AMD"), ("core_count", 304), ("memory_size", 206_141_652_992),
        ("compute_cap_major", 9), ("compute_cap_minor", 4), ("clock_rate", 2_100_000),
    ):  # fmt: skip
        gpu.property(name, value)
    details = " grid:{},1,1 block:256,1,1 private_mem:0 group_mem:0 occ_pct:0"
    ran: list[bytes] = []
    called: list[bytes] = []
    steps: list[bytes] = []
    at, number = 100_000, 1
    for step in range(STEPS):
        began = at
        for name, operator, blocks, spent in (
            ("loop_multiply_fusion.kd", "loop_multiply_fusion", 65536, 28_000),
            ("input_reduce_fusion.kd", "input_reduce_fusion", 1024, 18_000),
        ):
            called.append(host.event("hipModuleLaunchKernel", at, 6_000, correlation_id=number))
            ran.append(
                gpu.event(
                    name, at + 9_000, spent, correlation_id=number,
                    kernel_details=details.format(blocks), hlo_op=operator, hlo_module="jit_step",
                    name=f"jit(step)/{operator}",
                )
            )  # fmt: skip
            at += spent + 12_000
            number += 1
        steps.append(host.event("train", began - 2_000, at - began, step_num=step))
    gpu.line(16, "Stream #16(Kernel)", ran)
    host.line(41, "Host Threads/41", called)
    host.line(1, "python", steps)
    return gpu.message() + host.message()


# rocprof-compute analyze on an MI210


def analysis() -> str:
    mean = _time_ns(8 * N, 1638.4e9, 0.72)
    return f"""\
$ rocprof-compute analyze -p workloads/scale/MI200 --dispatch 1
Analysis mode = cli
[analysis] deriving rocprof-compute metrics...
--------------------------------------------------------------------------------
0. Top Stats
0.1 Top Kernels
╒════╤════════════════════════════╤═════════╤═══════════╤════════════╤══════════════╤════════╕
│    │ Kernel_Name                │   Count │   Sum(ns) │   Mean(ns) │   Median(ns) │    Pct │
╞════╪════════════════════════════╪═════════╪═══════════╪════════════╪══════════════╪════════╡
│  0 │ scale(float*, float, int)  │    1.00 │ {mean:9.2f} │ {mean:10.2f} │ {mean:12.2f} │ 100.00 │
╘════╧════════════════════════════╧═════════╧═══════════╧════════════╧══════════════╧════════╛
--------------------------------------------------------------------------------
2. System Speed-of-Light
2.1 Speed-of-Light
╒═════════════╤═════════════════════╤═════════╤════════════╤═════════╤═══════════════╕
│ Metric_ID   │ Metric              │     Avg │ Unit       │    Peak │   Pct of Peak │
╞═════════════╪═════════════════════╪═════════╪════════════╪═════════╪═══════════════╡
│ 2.1.7       │ Active CUs          │  104.00 │ Cus        │  104.00 │        100.00 │
├─────────────┼─────────────────────┼─────────┼────────────┼─────────┼───────────────┤
│ 2.1.15      │ Wavefront Occupancy │ 2463.00 │ Wavefronts │ 3328.00 │         74.01 │
╘═════════════╧═════════════════════╧═════════╧════════════╧═════════╧═══════════════╛
--------------------------------------------------------------------------------
7. Wavefront
7.1 Wavefront Launch Stats
╒═════════════╤══════════════════╤════════════╤════════════╤════════════╤════════════╕
│ Metric_ID   │ Metric           │        Avg │        Min │        Max │ Unit       │
╞═════════════╪══════════════════╪════════════╪════════════╪════════════╪════════════╡
│ 7.1.0       │ Grid Size        │ {N}.00 │ {N}.00 │ {N}.00 │ Work items │
├─────────────┼──────────────────┼────────────┼────────────┼────────────┼────────────┤
│ 7.1.1       │ Workgroup Size   │     256.00 │     256.00 │     256.00 │ Work items │
╘═════════════╧══════════════════╧════════════╧════════════╧════════════╧════════════╛
"""


def main() -> None:
    _write("nvprof/scale.gpu_trace.csv", nvprof_trace())
    _write("nvprof/scale.metrics.csv", nvprof_metrics())
    _write("proton/matmul.hatchet", proton())
    _write("xplane/step.xplane.pb", xplane())
    _write("rocprof_compute_text/scale.txt", analysis())


if __name__ == "__main__":
    main()
