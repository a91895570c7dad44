"""How fast Nsight Compute's details CSV is read, against a bare pass of ``csv.reader``.

    python benchmarks/ncu_ingest.py [--launches 250] [--metrics 48]

The file is made here: a table like the one of ``ncu --csv``, with a row per launch and metric.
The comparison is what Python needs to split the same file into cells and do nothing with them.
"""

import argparse
import csv
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from traceroof.parser import Options, silent
from traceroof.parsers.nsight_compute import PARSER

_HEADER = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
    "Block Size", "Grid Size", "Device", "CC", "Section Name", "Metric Name", "Metric Unit",
    "Metric Value", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type",
    "Estimated Speedup",
)  # fmt: skip
_METRICS = (
    ("gpu__time_duration.sum", "ns", 1e6),
    ("dram__bytes_read.sum", "byte", 1e9),
    ("dram__bytes_write.sum", "byte", 1e9),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", 100.0),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", 100.0),
    ("smsp__inst_executed.sum", "inst", 1e8),
)
_KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::Fill<float>>(int, T2)"


def write_table(path: Path, launches: int, metrics: int) -> None:
    """A details table of ``launches`` x ``metrics`` rows, with values from a fixed seed."""
    rows = random.Random(0)
    names = list(_METRICS[:metrics])
    names += [(f"smsp__counter_{n}.sum", "inst", 1e7) for n in range(metrics - len(names))]
    with path.open("w", encoding="utf-8") as out:
        out.write(",".join(f'"{title}"' for title in _HEADER) + "\n")
        for launch in range(launches):
            start = (
                f'"{launch}","4242","python3","127.0.0.1","{_KERNEL} #{launch % 40}","1","7",'
                f'"(256, 1, 1)","({launch % 97 + 1}, 1, 1)","0","9.0",'
                '"Command line profiler metrics",'
            )
            for name, unit, size in names:
                out.write(f'{start}"{name}","{unit}","{rows.random() * size:,.2f}",\n')


def _cpu_seconds(work: Callable[[], object]) -> float:
    """The best of three: the others were disturbed."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def _split_only(path: Path) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        for _ in csv.reader(file):
            pass


def main() -> None:
    """Make the file, read it both ways, print CPU time and peak memory."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--launches", type=int, default=250)
    arguments.add_argument("--metrics", type=int, default=48)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "launches.csv"
        write_table(path, asked.launches, asked.metrics)
        PARSER.read(path, silent, Options())  # start-up: data files, imports
        split = _cpu_seconds(lambda: _split_only(path))
        read = _cpu_seconds(lambda: PARSER.read(path, silent, Options()))
        size = path.stat().st_size
    rows = asked.launches * asked.metrics
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if sys.platform == "darwin":
        peak /= 1024
    print(f"{asked.launches:,} launches x {asked.metrics} metrics = {rows:,} rows, {size:,} bytes")
    print(f"traceroof   {read:8.3f} s CPU  {rows / read:12,.0f} rows/s")
    print(f"csv.reader  {split:8.3f} s CPU  {rows / split:12,.0f} rows/s  ({read / split:.1f}x)")
    print(f"peak memory of the process {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
