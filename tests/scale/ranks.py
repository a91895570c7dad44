"""Traces of many ranks, as small as Kineto's can be: two steps of work and one all-reduce each."""

import json
from pathlib import Path
from typing import Any

GPU = {
    "id": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
}


def trace(rank: int, world: int, *, late_us: int = 0) -> dict[str, Any]:
    """A trace of one rank; its work of 100 µs takes ``late_us`` more, and the all-reduce, which all
    leave at 200 µs, so much less."""
    events: list[dict[str, Any]] = []
    for step in range(2):
        base = 1_000 * (step + 1)
        events += [
            _event("user_annotation", f"ProfilerStep#{step}", 1, 1, base, 300),
            *_launched(3 * step + 1, "ampere_sgemm_128x64_nn", base + 5, base + 10, 90 + late_us),
            *_launched(
                3 * step + 2,
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                base + 20,
                base + 100 + late_us,
                100 - late_us,
                {
                    "Collective name": "allreduce",
                    "In msg nelems": 1024,
                    "Out msg nelems": 1024,
                    "Group size": world,
                    "dtype": "BFloat16",
                    "Process Group Name": "0",
                    "Process Group Ranks": str([*range(world)]),
                },
            ),
        ]
    return {
        "schemaVersion": 1,
        "deviceProperties": [GPU],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "traceEvents": events,
    }


def _event(
    category: str, name: str, pid: int, tid: int, start: float, length: float, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start,
        "dur": length, "args": args,
    }  # fmt: skip


def _launched(
    number: int, name: str, call: int, start: int, length: int, args: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    of_gpu = {
        "device": 0,
        "stream": 7,
        "correlation": number,
        "grid": [132, 1, 1],
        "block": [128, 1, 1],
    }
    return [
        _event("cuda_runtime", "cudaLaunchKernel", 1, 1, call, 3, correlation=number),
        _event("kernel", name, 0, 7, start, length, **of_gpu, **(args or {})),
    ]


def written(folder: Path, world: int, *, late: dict[int, int] | None = None) -> list[Path]:
    """One file a rank. late: µs by rank."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in range(world):
        path = folder / f"rank{rank}.json"
        late_us = (late or {}).get(rank, 0)
        path.write_text(json.dumps(trace(rank, world, late_us=late_us)), encoding="utf-8")
        paths.append(path)
    return paths
