"""Plays the profilers of a small program before and after an edit, for docs/agents.md.

    python sample_traces/play_edit.py trace base 5 FOLDER       base.0.json … base.4.json: torch.profiler
    python sample_traces/play_edit.py ncu base 'ncu --csv --page raw --metrics …'

Nothing here was measured. The program multiplies two matrices and transposes the result, 20 times, on
an A100. In ``base`` each thread of the transposition writes a column, so that a warp's store touches 32
sectors; in ``head`` a tile in shared memory makes both sides whole lines. Each run is drawn from its
own seed: 1 % from run to run, 2 % from launch to launch.
"""

import csv
import io
import json
import random
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Version = Literal["base", "head"]
LAUNCHES = 20
#: The matrix: 8,192 x 8,192 floats, read once and written once.
BYTES = 2 * 8192 * 8192 * 4
DRAM_BYTES_PER_S, CYCLES_PER_S = 2.039e12, 1.41e9


@dataclass(frozen=True)
class Kernel:
    """A kernel: name, launch shape, time of a launch, and what counters would say of it."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    ns: int
    counters: Mapping[str, float]


def _counters(
    ns: int, compute: float, memory: float, l1: float, bytes_moved: float,
    sectors_a_request: tuple[float, float], scoreboard: float, drain: float,
) -> dict[str, float]:  # fmt: skip
    """Counters of a launch; requests: one for each 32 floats read, and each 32 written."""
    requests = BYTES / 2 / 4 / 32
    load, store = sectors_a_request
    dram = bytes_moved / (ns * 1e-9) / DRAM_BYTES_PER_S * 100
    return {
        "gpu__time_duration.sum": ns,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": compute,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": max(memory, dram),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": round(dram, 2),
        "l1tex__throughput.avg.pct_of_peak_sustained_active": l1,
        "lts__throughput.avg.pct_of_peak_sustained_elapsed": memory,
        "dram__bytes_read.sum": bytes_moved / 2,
        "dram__bytes_write.sum": bytes_moved / 2,
        "lts__t_sectors_srcunit_tex.sum": (load + store) * requests,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": requests,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": load * requests,
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": requests,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": store * requests,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio": 128 / load,
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio": 128 / store,
        "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct": scoreboard,
        "smsp__warp_issue_stalled_lg_throttle_per_warp_active.pct": drain,
        "smsp__thread_inst_executed_per_inst_executed.ratio": 32.0,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 0.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 1.0,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 88.0,
        "launch__registers_per_thread": 16.0,
    }


_GEMM = Kernel(
    "ampere_sgemm_128x64_tn", (64, 128, 1), (128, 1, 1), 610_000,
    {
        "gpu__time_duration.sum": 610_000,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed": 93.0,
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 38.0,
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 9.0,
    },
)  # fmt: skip
_TRANSPOSE = "transpose(float *, const float *, int)"


def program(version: Version) -> Sequence[Kernel]:
    """The kernels that one iteration launches."""
    if version == "base":
        counters = _counters(1_420_000, 9.0, 62.0, 71.0, 1.06 * BYTES, (4.0, 32.0), 21.0, 48.0)
        return _GEMM, Kernel(_TRANSPOSE, (256, 1024, 1), (32, 8, 1), 1_420_000, counters)
    counters = _counters(311_000, 17.0, 55.0, 47.0, 1.0 * BYTES, (4.0, 4.0), 30.0, 4.0)
    return _GEMM, Kernel(_TRANSPOSE, (256, 256, 1), (32, 8, 1), 311_000, counters)


def trace(version: Version, run: int) -> str:
    """One run as torch.profiler exports it; runs are a minute apart."""
    drawn = random.Random(f"{version} {run}")
    of_run, at = drawn.gauss(1.0, 0.01), (_BASE_S + 60 * run + 3600 * (version == "head")) * 1e9
    events = []
    for number in range(LAUNCHES):
        for kernel in program(version):
            ns = round(kernel.ns * of_run * drawn.gauss(1.0, 0.02))
            events.append(
                {"ph": "X", "cat": "kernel", "name": kernel.name, "pid": 0, "tid": 7,
                 "ts": _us(at), "dur": ns / 1000,
                 "args": {"device": 0, "stream": 7, "correlation": 100 + number,
                          "grid": kernel.grid, "block": kernel.block}}
            )  # fmt: skip
            at += ns + 900
    device = {"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8, "computeMinor": 0,
              "numSms": 108}  # fmt: skip
    whole = {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events}
    return json.dumps(whole, indent=0)


_BASE_S = 1_790_000_000


def _us(ns: float) -> float:
    return round(ns) / 1000


_IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip
_UNITS = {".pct": "%", "pct_of": "%", "bytes": "byte", "time_duration": "nsecond"}


def ncu(version: Version, command: str) -> str:
    """The raw page of the Nsight Compute command: three launches of each kernel that it picks."""
    words = shlex.split(command.partition(" > ")[0])
    asked = words[words.index("--metrics") + 1].split(",") if "--metrics" in words else []
    picked = re.compile("")
    if "--kernel-name" in words:
        picked = re.compile(words[words.index("--kernel-name") + 1].removeprefix("regex:"))
    kernels = [one for one in program(version) if picked.search(one.name.partition("(")[0])]
    metrics = ["gpu__time_duration.sum", *asked]
    metrics = [name for name in metrics if any(name in one.counters for one in kernels)]
    units = [next((u for part, u in _UNITS.items() if part in name), "") for name in metrics]
    rows: list[Sequence[object]] = [[*_IDENTITY, *metrics], [*([""] * len(_IDENTITY)), *units]]
    for at, kernel in enumerate(one for _ in range(3) for one in kernels):
        block, grid = (f"({', '.join(map(str, one))})" for one in (kernel.block, kernel.grid))
        rows.append(
            (at, 4711, "program", "127.0.0.1", kernel.name, 1, 7, block, grid, 0, "8.0",
             *(kernel.counters.get(name, "") for name in metrics))
        )  # fmt: skip
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return sink.getvalue()


def write_traces(version: Version, runs: int, folder: Path) -> list[Path]:
    """Some runs of a version of the program, a file each."""
    made = [folder / f"{version}.{run}.json" for run in range(runs)]
    for run, path in enumerate(made):
        path.write_text(trace(version, run), "utf-8")
    return made


def main(what: str, version: str, *more: str) -> None:
    """Play a tool on a version of the program."""
    if version not in ("base", "head"):
        raise SystemExit(f"{version} is no version: base or head")
    of: Version = "base" if version == "base" else "head"
    if what == "trace":
        write_traces(of, int(more[0]), Path(more[1]))
    else:
        sys.stdout.write(ncu(of, more[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
