"""Plays the Nsight Compute command that `traceroof diagnose` prints, for the training sample.

    python sample_traces/play_ncu.py 'ncu --csv --page raw --metrics … YOUR_PROGRAM > more.csv'

Nothing here was measured. The kernels, their launches and shapes are those of
``torch/training.rank0.json``; what each reaches of the units' peaks stands in ``FIGURES``. Names are
printed as Nsight Compute prints them: without namespaces, casts and parameter types.
"""

import argparse
import csv
import io
import json
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

TRACE = Path(__file__).resolve().parent / "torch" / "training.rank0.json"

# Percent of peak: multiprocessor, memory system, DRAM. AdamW streams its state through DRAM; the
# attention kernels keep the tensor cores busy and their tiles in shared memory.
FIGURES = {
    "multi_tensor_apply_kernel": (14.0, 91.0, 91.0),
    "flash_fwd_kernel": (68.0, 41.0, 12.0),
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel": (63.0, 52.0, 14.0),
}
OF_METRIC = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": 0,
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": 1,
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 2,
}
IDENTITY = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC",
)  # fmt: skip


def played(command: str, trace: Path = TRACE) -> str:
    """The raw page that the command would print: a row for each launch that its filter picks."""
    options = argparse.ArgumentParser(exit_on_error=False)
    options.add_argument("--metrics", required=True)
    options.add_argument("--kernel-name", default="regex:")
    options.add_argument("--launch-count", type=int)
    given, _ = options.parse_known_args(shlex.split(command.partition(" > ")[0]))
    picked = re.compile(given.kernel_name.removeprefix("regex:"))
    launches = [one for one in _launches(trace) if picked.search(_function(one["name"]))]
    metrics = [name for name in given.metrics.split(",") if name in OF_METRIC]
    units = [*([""] * len(IDENTITY)), *("%" for _ in metrics)]
    rows: list[Sequence[object]] = [[*IDENTITY, *metrics], units]
    rows += [_row(at, one, metrics) for at, one in enumerate(launches[: given.launch_count])]
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return sink.getvalue()


def _launches(trace: Path) -> Iterable[dict[str, Any]]:
    events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    return sorted((one for one in events if one.get("cat") == "kernel"), key=lambda one: one["ts"])


def _function(name: str) -> str:
    plain = _as_ncu(name).removeprefix("void ").removeprefix("unnamed>::")
    return plain.partition("<")[0].partition("(")[0]


def _as_ncu(name: str) -> str:
    """Without namespaces; of an anonymous one the bracket goes too."""
    name = name.replace("(anonymous namespace)::", "<unnamed>::")
    return re.sub(r"(?:\b\w+::)+<?", "", name).replace("> >", ">>")


def _row(number: int, launch: dict[str, Any], metrics: Sequence[str]) -> Sequence[object]:
    shape = launch["args"]
    block, grid = (f"({', '.join(map(str, shape[one]))})" for one in ("block", "grid"))
    name = launch["name"]
    figures = FIGURES[_function(name)]
    return [
        number, 4711, "python3", "127.0.0.1", _as_ncu(name), 1, 7, block, grid, 0, "9.0",
        *(figures[OF_METRIC[one]] for one in metrics),
    ]  # fmt: skip


if __name__ == "__main__":
    sys.stdout.write(played(sys.argv[1]))
