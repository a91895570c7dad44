"""How long a large Nsight Compute report takes, against protobuf's own parse of its blocks.

    python benchmarks/ncu_report.py                         reports of 500 MB, made here
    python benchmarks/ncu_report.py --megabytes 2000        another size
    python benchmarks/ncu_report.py --page docs/performance.md    and write the table there

A report is made of two kernels over and over, with the proportions of real reports of 2025 (SHAPES).
*parse* is protobuf (upb) parsing every message of the blocks with all that is nested in it, nothing
more; *read* is ``traceroof.read``: kernel table, raw metrics, verdicts, source lines; *diagnose* the
command.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Shape:
    """What one launch holds.

    metrics: values. instructions: of the kernel, each counted in every metric per instruction that
    fits it. times: points in time of each of the metrics sampled over time. sections: messages with
    a text that describe tables and charts. rules: sentences.
    """

    title: str
    metrics: int
    instructions: int
    times: int
    sections: int
    rules: int


SHAPES = {
    "full": Shape("`--set full`", 2_140, 262, 150, 12_000, 12),
    "basic": Shape("`--set basic`", 560, 0, 0, 200, 4),
    "metrics": Shape("nothing but metrics", 2_100, 330, 0, 0, 0),
}
# Metrics with values by number rather than by instruction: curves of occupancy, attributes.
INDEXED = (257, 65, 200, 1200, *[1] * 56)
OPCODES, TIMED = (21, 22, 27, 21, 22, 27), 17
# Sections are trees of this depth.
DEPTH = 10


def described() -> dict[str, str]:
    """Every message of a report, with all that is nested in it."""
    from tests.parsers.test_nsight_compute_report import WRITTEN

    result = f"{WRITTEN['Result'].strip()}\n17 sections *Section"
    section = """
        1 name string
        2 text string
        5 parts *Section
    """
    return {**WRITTEN, "Result": result, "Section": section}


def result_of(write: Any, names: list[bytes], shape: Shape, seed: int) -> bytes:
    """One launch without what the rules say of it alone; seeds of one parity are of one kernel.

    As in real reports, whole numbers (limits, attributes, shapes) are those of the kernel.
    """
    kernel, rng = seed % 2, random.Random(seed)
    made = write["Result"](thread=1, demangled=b"void f%d<float>(float *)" % kernel, stream=7)
    made.context = 1
    made.grid.x = made.block.x = 256
    made.source.reference = 0x500000001
    same = random.Random(kernel)
    indexed, opcodes, timed = list(INDEXED), list(OPCODES), [shape.times] * TIMED
    for number, name in enumerate(names):
        metric = made.metrics.add(name=number)
        if number % 8:
            metric.value.real = rng.random() * 1e6
        else:
            metric.value.whole = same.randrange(1 << 30)
        if name.startswith(PER_INSTRUCTION):
            # Sectors and wavefronts fit few instructions.
            step = 1 if name.startswith((b"smsp__", b"inst_", b"thread_")) else 32
            for at in range(0, shape.instructions, step):
                one = metric.instances.add()
                one.at.whole = 0x7F0000001000 + 0x10000 * kernel + 16 * at
                one.value.whole = rng.choice((0, 3, 40, 700, 5_000))
        elif number > len(names) // 2 and indexed:
            for at in range(indexed.pop()):
                one = metric.instances.add()
                one.at.whole, one.value.whole = at, same.randrange(64)
        elif number > len(names) // 2 and shape.sections > 1000 and opcodes:
            for at in range(opcodes.pop()):
                one = metric.instances.add()
                one.at.text, one.value.real = b"OPCODE%d" % at, float(same.randrange(1 << 20))
        elif number > len(names) // 2 and timed and shape.times:
            for at in range(timed.pop()):
                one = metric.instances.add()
                one.at.whole, one.value.real = 1_745_000_000_000_000_000 + at * 1000, rng.random()
    add_rules(made, shape.rules - shape.rules // 2, b"100.0")
    for _ in range(shape.sections // DEPTH):
        part = made.sections.add(name=b"SpeedOfLight_RooflineChart")
        for level in range(DEPTH - 1):
            part = part.parts.add(text=b"sm__sass_thread_inst_executed_op_%d" % level)
    return bytes(made.SerializeToString())


def add_rules(result: Any, count: int, figure: bytes) -> None:
    """Sentences with a figure in them."""
    for number in range(count):
        item = result.rules.add(name=b"Rule", section=b"SourceCounters").body.items.add()
        text = b"This kernel does what sentence %d of some length says of %s %% of it. "
        item.message.text = text % (number, figure) * 5
        item.message.level = 4


PER_INSTRUCTION = (
    b"smsp__pcsamp",
    b"inst_executed",
    b"thread_inst",
    b"memory_",
    b"derived__memory",
)


def names_of(count: int) -> list[bytes]:
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
    while len(known) < count:
        number = len(known)
        known.append(
            f"{units[number % 8]}__counter_{number // 4}.{('sum', 'avg', 'max', 'min')[number % 4]}"
        )
    return [name.encode() for name in known]


def make(path: Path, megabytes: int, shape: Shape) -> int:
    """Write a report of that size; returns its launches."""
    from traceroof.ingest.messages import messages

    write = messages("bench.ncu_rep", described())
    names = names_of(shape.metrics)
    results = [result_of(write, names, shape, seed) for seed in range(8)]

    def sized(data: bytes) -> bytes:
        return struct.pack("<I", len(data)) + data

    launches = max(megabytes * 1_000_000 // (len(results[0]) + 330 * (shape.rules // 2)), 1)
    with path.open("wb") as file:
        file.write(b"NVR\0" + sized(write["FileHeader"](version=7).SerializeToString()))
        first = write["BlockHeader"]()
        first.strings.texts.extend(names)
        file.write(sized(first.SerializeToString()))
        for number in range(launches):
            # Half of the sentences have figures of their own. Messages one behind the other are one.
            own = write["Result"]()
            add_rules(own, shape.rules // 2, b"%d.%d" % divmod(number, 10))
            payload = sized(results[number % len(results)] + own.SerializeToString())
            header = write["BlockHeader"](results=1, payload=len(payload))
            header.process.id, header.process.name = 4242, b"program"
            file.write(sized(header.SerializeToString()) + payload)
    return launches


def parse(path: Path) -> None:
    """Protobuf's parse of every message of the blocks, with all that is nested in it."""
    from traceroof.ingest.decompress import open_inflated
    from traceroof.ingest.messages import messages
    from traceroof.parser import Options
    from traceroof.parsers.nsight import report_blocks

    result = messages("bench.ncu_rep", described())["Result"]
    with open_inflated(path, Options()) as stream:
        report_blocks.read_headers(stream)
    with open_inflated(path, Options()) as stream:
        for found in report_blocks.read_results(stream, lambda module: None):
            result().ParseFromString(found.data)


def read(path: Path) -> None:
    """The whole reader, without pandas, as the command line reads."""
    import traceroof
    from traceroof.core.arrow_start import arrow_without_pandas

    arrow_without_pandas()
    traceroof.read(path)


_STEPS = {"parse": parse, "read": read}
_RUNS = 3
#: First line of the section that this benchmark writes.
HEADING = "## Nsight Compute reports"
_SECTION = """\
{heading}

Made-up reports of {megabytes} MB, with the proportions of real ones of 2025. Per launch, `--set full` has 2,140
metrics, 262 instructions counted by up to 46 of them, 17 metrics over time, and 12,000 messages that
describe tables and charts; `--set basic` has 560 metrics and 60 curves and lists; *nothing but metrics*
leaves out all that a reader can skip. *parse* is protobuf (upb) parsing every message of the same
blocks with all that is nested in it, and nothing more; *read* is `traceroof.read` (kernel table, raw
metrics, source table), *diagnose* the whole command. Each is a process of its own, in turns, median
of {runs}. Python {python}, {cores} cores ({machine}). `python benchmarks/ncu_report.py` measures.

| report | launches | what | CPU s | MB/s | x parse | peak MiB |
|---|--:|---|--:|--:|--:|--:|
{rows}

The report is streamed: blocks are held one at a time. Memory is what is kept: a row of raw metrics takes
20 bytes (launches with the same metrics share what their rows are of), an instruction of the source
table 300.

**Bar.** *read* in at most 1.5 times *parse*: met. *parse* builds messages and drops them; *read* makes
tables of them: with 560 metrics, half of the sentences with figures of their own, and 37 kB per launch,
`--set basic` has eight million rows to make. Launches of one kernel have single metrics of the same
length (in five real reports with several launches of one kernel, every one of up to 2,140 has), so
where those of a small result stand is known from a launch before, and one comparison of its bytes tells
whether it is so. A report of 2 GB (`--megabytes 2000`, `--set full`, 2,625 launches) took 1.2 times its
parse and 486 MiB, one run.

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


def rows_of(megabytes: int, shape: Shape) -> list[str]:
    """The rows of the table for one shape."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.ncu-rep"
        launches = make(path, megabytes, shape)
        size = path.stat().st_size / 1e6
        steps = (*_STEPS, "diagnose")
        runs = [{step: measured(step, path) for step in steps} for _ in range(_RUNS)]
    rows = []
    base = statistics.median(one["parse"][0] for one in runs)
    for step in steps:
        spent, peak = (statistics.median(one[step][at] for one in runs) for at in (0, 1))
        cells = (shape.title, f"{launches:,}", step, f"{spent:.2f}", f"{size / spent:.0f}",
                 f"{spent / base:.2f}", f"{peak:.0f}")  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def section(megabytes: int) -> str:
    """The section of docs/performance.md."""
    rows = [row for shape in SHAPES.values() for row in rows_of(megabytes, shape)]
    return _SECTION.format(
        heading=HEADING, megabytes=megabytes, runs=_RUNS, rows="\n".join(rows),
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
    before, _, rest = page.partition(HEADING)
    last = rest[rest.index("\n## ") + 1 :]
    given.page.write_text(before + text + last, "utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
