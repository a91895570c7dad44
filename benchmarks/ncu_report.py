"""How long a large Nsight Compute report takes, against protobuf's own parse of its blocks.

    python benchmarks/ncu_report.py                         a 500 MB report, made here
    python benchmarks/ncu_report.py --megabytes 2000        another size
    python benchmarks/ncu_report.py --page docs/performance.md    and write the table there

The report is made of one launch over and over, as ``--set full`` writes it: 2,100 metrics, 59 of
them at 264 instructions. *parse* is protobuf (upb) parsing every message of the blocks, nothing more;
*read* is ``traceroof.read``: kernel table, raw metrics, verdicts, source lines; *diagnose* the command.
"""

import argparse
import random
import resource
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
METRICS, INSTRUCTIONS = 2_100, 264
BEGIN, END = "<!-- ncu_report.py -->", "<!-- end of ncu_report.py -->"


def result_of(write: Any, names: list[bytes], seed: int) -> bytes:
    """One launch with metrics and instances as ``--set full`` of 2025 has them."""
    rng = random.Random(seed)
    made = write["Result"](thread=1, demangled=b"void f<float>(float *)", context=1, stream=7)
    made.grid.x = made.block.x = 256
    made.source.reference = 0x500000001
    for number, name in enumerate(names):
        metric = made.metrics.add(name=number)
        if number % 3:
            metric.value.real = rng.random() * 1e6
        else:
            metric.value.whole = rng.randrange(1 << 30)
        if name.startswith(PER_INSTRUCTION):
            for at in range(INSTRUCTIONS):
                one = metric.instances.add()
                one.at.whole = 0x7F0000001000 + 16 * at
                one.value.whole = rng.randrange(5_000)
    return bytes(made.SerializeToString())


PER_INSTRUCTION = (
    b"smsp__pcsamp",
    b"inst_executed",
    b"thread_inst",
    b"memory_",
    b"derived__memory",
)


def names_of() -> list[bytes]:
    """Names of metrics: those that reports count per instruction, and others by pattern."""
    from traceroof.core.source_lines import REASONS
    from traceroof.parsers.nsight.source_metrics import COLUMNS

    stalled = [
        f"smsp__pcsamp_warps_issue_stalled_{reason}{end}"
        for reason in REASONS
        for end in ("", "_not_issued")
    ]
    known = [
        "gpu__time_duration.sum",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        *COLUMNS,
        *stalled,
    ]
    units = ("sm", "smsp", "l1tex", "lts", "dram", "gpc", "fbpa", "ltc")
    while len(known) < METRICS:
        number = len(known)
        known.append(
            f"{units[number % 8]}__counter_{number // 4}.{('sum', 'avg', 'max', 'min')[number % 4]}"
        )
    return [name.encode() for name in known]


def make(path: Path, megabytes: int) -> int:
    """Write a report of that size; returns its launches."""
    from tests.parsers.test_nsight_compute_report import WRITTEN
    from traceroof.ingest.messages import messages

    write = messages("bench.ncu_rep", WRITTEN)
    names = names_of()
    results = [result_of(write, names, seed) for seed in range(4)]

    def sized(data: bytes) -> bytes:
        return struct.pack("<I", len(data)) + data

    launches = max(megabytes * 1_000_000 // len(results[0]), 1)
    with path.open("wb") as file:
        file.write(b"NVR\0" + sized(write["FileHeader"](version=7).SerializeToString()))
        first = write["BlockHeader"]()
        first.strings.texts.extend(names)
        file.write(sized(first.SerializeToString()))
        for number in range(launches):
            payload = sized(results[number % len(results)])
            header = write["BlockHeader"](results=1, payload=len(payload))
            header.process.id, header.process.name = 4242, b"program"
            file.write(sized(header.SerializeToString()) + payload)
    return launches


def parse(path: Path) -> None:
    """Protobuf's parse of every message of the blocks."""
    from traceroof.ingest.decompress import open_inflated
    from traceroof.parser import Options
    from traceroof.parsers.nsight.report_blocks import read_headers, read_results

    with open_inflated(path, Options()) as stream:
        read_headers(stream)
    with open_inflated(path, Options()) as stream:
        for _ in read_results(stream, lambda module: None):
            pass


def read(path: Path) -> None:
    """The whole reader."""
    import traceroof

    traceroof.read(path)


STEPS = {"parse": parse, "read": read}


def measured(step: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one step in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--step", step, str(path)]
    if step == "diagnose":
        command = [
            sys.executable,
            "-m",
            "traceroof",
            "--no-config",
            "diagnose",
            str(path),
            "--top",
            "5",
        ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT
    )
    _, _, used = __import__("os").wait4(child.pid, 0)
    del before
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Make, measure, print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--megabytes", type=int, default=500)
    arguments.add_argument("--step")
    arguments.add_argument("--page", type=Path)
    arguments.add_argument("path", nargs="?", type=Path)
    asked = arguments.parse_args()
    if asked.step:
        begin = time.process_time()
        STEPS[asked.step](asked.path)
        print(f"{time.process_time() - begin:.2f} s")
        return


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
