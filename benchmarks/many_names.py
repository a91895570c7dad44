"""Seconds and memory of ``diagnose`` where every launch is another kernel.

    python benchmarks/many_names.py          20,000 and 200,000 names, three formats
    python benchmarks/many_names.py 20000    so many

The bars are 2 s for 20,000 names, 20 s and 600 MB for 200,000, on an idle core.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_FUNCTOR = "at::native::Functor{n}<float>"
_GEMM = "cutlass_80_tensorop_f16_s16816gemm_relu_f16_128x128_32x{n}_nn_align8"
_SHAPES = (
    "triton_poi_fused_add_mul_{n}",
    f"void at::native::vectorized_elementwise_kernel<4, {_FUNCTOR}, Array>(int, {_FUNCTOR})",
    "kernel_{n}",
    f"void cutlass::Kernel2<{_GEMM}>({_GEMM}::Params)",
)


def _launches(count: int) -> Iterator[tuple[int, str, int, int]]:
    """Number, name, start in ns, duration in ns of each launch."""
    rng, start = random.Random(1), 1_000_000_000
    for n in range(count):
        duration = rng.randint(2_000, 90_000)
        yield n, _SHAPES[n % len(_SHAPES)].format(n=n), start, duration
        start += duration + rng.randint(500, 5_000)


def torch(path: Path, count: int) -> None:
    """A torch.profiler trace with launch calls."""
    events = []
    for n, name, start, duration in _launches(count):
        times = {"ts": start / 1e3, "dur": duration / 1e3}
        events += [
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
             "ts": start / 1e3 - 5, "dur": 3, "args": {"correlation": n}},
            {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, **times,
             "args": {"correlation": n, "device": 0, "stream": 7, "grid": [n % 1000 + 1, 1, 1],
                      "block": [256, 1, 1], "registers per thread": 32}},
        ]  # fmt: skip
    device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB"}
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))


def rocprofv3(path: Path, count: int) -> None:
    """A kernel trace of rocprofv3."""
    with path.open("w") as file:
        file.write("Kind,Agent_Id,Queue_Id,Dispatch_Id,Kernel_Name,Start_Timestamp,End_Timestamp\n")
        for n, name, start, duration in _launches(count):
            file.write(f'KERNEL_DISPATCH,Agent 2,1,{n + 1},"{name}",{start},{start + duration}\n')


def nsight_compute(path: Path, count: int) -> None:
    """A raw page of Nsight Compute with use of compute, memory and DRAM."""
    use = [f"{one}.avg.pct_of_peak_sustained_elapsed" for one in
           ("sm__throughput", "gpu__compute_memory_throughput", "dram__throughput")]  # fmt: skip
    rng = random.Random(2)
    with path.open("w") as file:
        names = [
            "ID",
            "Kernel Name",
            "Block Size",
            "Grid Size",
            "CC",
            "gpu__time_duration.sum",
            *use,
        ]
        file.write(",".join(f'"{one}"' for one in names) + "\n")
        file.write('"","","","","","ns","%","%","%"\n')
        for n, name, _, duration in _launches(count):
            values = [n, name, "(256, 1, 1)", f"({n % 1000 + 1}, 1, 1)", "8.0", duration]
            values += [rng.randint(1, 95) for _ in use]
            file.write(",".join(f'"{one}"' for one in values) + "\n")


_FORMATS: dict[str, Callable[[Path, int], None]] = {
    "trace.json": torch, "1_kernel_trace.csv": rocprofv3, "page.csv": nsight_compute,
}  # fmt: skip


def main(counts: list[int]) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    command = [sys.executable, "-m", "traceroof", "diagnose", "--no-config"]
    print("names | file | wall s | CPU s | MB")
    for count in counts:
        for name, write in _FORMATS.items():
            with tempfile.TemporaryDirectory() as folder:
                write(Path(folder, name), count)
                began = time.perf_counter()
                child = subprocess.Popen(
                    [*command, name], cwd=folder, env=environment, stdout=subprocess.DEVNULL
                )
                _, status, used = os.wait4(child.pid, 0)
                wall = time.perf_counter() - began
            if status:
                raise SystemExit(f"{name} of {count:,} names ended with status {status}")
            cpu = used.ru_utime + used.ru_stime
            print(f"{count:,} | {name} | {wall:.1f} | {cpu:.1f} | {used.ru_maxrss / 1024:.0f}")


if __name__ == "__main__":
    main([int(one) for one in sys.argv[1:]] or [20_000, 200_000])
