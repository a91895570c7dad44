"""How long a large Nsight Compute report takes, against protobuf's own parse of its blocks.

    python benchmarks/ncu_report.py                         a 500 MB report, made here
    python benchmarks/ncu_report.py --megabytes 2000        another size
    python benchmarks/ncu_report.py --page docs/performance.md    and write the table there

The report is made of one launch over and over, as ``--set full`` writes it: 2,100 metrics, 59 of
them at 264 instructions. *parse* is protobuf (upb) parsing every message of the blocks, nothing more;
*read* is ``traceroof.read``: kernel table, raw metrics, verdicts, source lines; *diagnose* the command.
"""

import argparse
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
METRICS, INSTRUCTIONS = 2_100, 264


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
    """Protobuf's parse of every message of the blocks, metrics and their instances included."""
    from tests.parsers.test_nsight_compute_report import WRITTEN
    from traceroof.ingest.decompress import open_inflated
    from traceroof.ingest.messages import messages
    from traceroof.parser import Options
    from traceroof.parsers.nsight import report_blocks

    described = messages("bench.ncu_rep", WRITTEN)
    report_blocks.report_messages = cache(lambda: described)
    with open_inflated(path, Options()) as stream:
        report_blocks.read_headers(stream)
    with open_inflated(path, Options()) as stream:
        for _ in report_blocks.read_results(stream, lambda module: None):
            pass


def read(path: Path) -> None:
    """The whole reader."""
    import traceroof

    traceroof.read(path)


_STEPS = {"parse": parse, "read": read}
_RUNS = 3
#: First line of the section that this benchmark writes.
HEADING = "## Nsight Compute reports"
_SECTION = """\
{heading}

A report of {size} MB and {launches:,} launches, each with 2,100 metrics, 59 of them at 264
instructions, as `ncu --set full` writes it. *parse* is protobuf (upb) parsing every message of the
same blocks and nothing more, *read* is `traceroof.read` (kernel table, raw metrics, source table),
*diagnose* the whole command. Each is a process of its own, median of {runs}. Python {python}, {cores}
cores ({machine}). `python benchmarks/ncu_report.py` measures.

| what | CPU s | MB/s | x parse | peak MiB |
|---|--:|--:|--:|--:|
{rows}

The report is streamed: blocks are held one at a time. Memory is what is kept: every metric of every
launch and every count of every instruction, here 4 million values and 500,000 instructions.

"""


def measured(step: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak MiB of one step in a process of its own."""
    command = [sys.executable, str(Path(__file__).resolve()), "--step", step, str(path)]
    if step == "diagnose":
        command = [sys.executable, "-m", "traceroof", step, str(path), "--top", "5"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{step} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def section(megabytes: int) -> str:
    """The section of docs/performance.md."""
    rows, base = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.ncu-rep"
        launches = make(path, megabytes)
        size = path.stat().st_size / 1e6
        for step in (*_STEPS, "diagnose"):
            runs = [measured(step, path) for _ in range(_RUNS)]
            spent = statistics.median(one[0] for one in runs)
            peak = statistics.median(one[1] for one in runs)
            base = base or spent
            rows.append(
                f"| {step} | {spent:.2f} | {size / spent:.0f} | {spent / base:.2f} | {peak:.0f} |"
            )
    return _SECTION.format(
        heading=HEADING, size=f"{size:.0f}", launches=launches, runs=_RUNS, rows="\n".join(rows),
        python=platform.python_version(), cores=len(os.sched_getaffinity(0)), machine=platform.machine(),
    )  # fmt: skip


def main() -> None:
    """Make, measure, print or write."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--megabytes", type=int, default=500)
    arguments.add_argument("--page", type=Path)
    arguments.add_argument("--step", choices=list(_STEPS))
    arguments.add_argument("path", nargs="?", type=Path)
    given = arguments.parse_args()
    if given.step:
        _STEPS[given.step](given.path)
        return
    text = section(given.megabytes)
    if given.page is None:
        print(text)
        return
    page = given.page.read_text("utf-8")
    # Behind what torch_ingest.py writes, before the last section, which is that of startup.py.
    before = page.partition("## ")[0]
    last = page[page.index("## Start-up") :]
    given.page.write_text(before + text + last, "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
