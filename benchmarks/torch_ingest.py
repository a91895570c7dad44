"""How fast and in how much memory torch.profiler traces are diagnosed, against one typed decode.

    python benchmarks/torch_ingest.py                     100 MB and 1 GB, plain and gzip
    python benchmarks/torch_ingest.py --sizes 100         only 100 MB
    python benchmarks/torch_ingest.py --trace FILE ...    traces of your own
    python benchmarks/torch_ingest.py --page docs/performance.md    and write the page

Traces are made here: the training step of ``sample_traces/torch`` over and over, in Kineto's
layout, with the Python frames and flow arrows that fill real traces (a third and a sixth of the
events). Each measurement is a process of its own; CPU (user and system, import and exit included)
and peak memory are the operating system's figures for it. The yardstick is what cannot be had
cheaper with msgspec: one typed decode of the whole file into structs of only the needed fields.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces/torch/training.rank0.json"

# Kineto since 2024: one field a line.
_EVENT = """
  {
    "ph": "X",
    "cat": "%s",
    "name": %s,
    "pid": %d,
    "tid": %d,
    "ts": @%d@,
    "dur": %s
    ,
    "args": {
      %s
    }
  },"""
_FLOW = """
  {
    "ph": "%s",
    "id": #%d#,
    "pid": %d,
    "tid": %d,
    "ts": @%d@,
    "cat": "ac2g",
    "name": "ac2g"
    %s
  },"""


def write_trace(path: Path, size: int) -> None:
    """A plain trace of about ``size`` bytes."""
    sample = json.loads(SAMPLE.read_text("utf-8"))
    events = sample.pop("traceEvents")
    sample.pop("traceName")
    host, gpu = _template(events, on_gpu=False), _template(events, on_gpu=True)
    period = max(_ns(one["ts"]) + _ns(one["dur"]) for one in events) + 1_000_000
    span = 1 + max(one["args"].get("correlation", 0) for one in events)
    rounds = max(1, size // (len(host.text) + len(gpu.text)))
    # Kineto writes what the host did first and what the GPU did behind it.
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(sample)[:-1] + ', "traceEvents": [')
        for template in (host, gpu):
            for number in range(rounds):
                file.write(template.shifted(number * period, number * span))
        file.write(
            '\n  {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 1}'
            '\n], "traceName": "benchmark.json"}\n'
        )


@dataclass
class _Template:
    """Text with ``@ns@`` for times and ``#number#`` for ids."""

    text: str

    def __post_init__(self) -> None:
        self._parts = re.split(r"[@#](\d+)[@#]", self.text)
        marks = [found[0][0] for found in re.finditer(r"[@#]\d+[@#]", self.text)]
        self._times = [mark == "@" for mark in marks]
        self._numbers = [int(number) for number in self._parts[1::2]]

    def shifted(self, ns: int, ids: int) -> str:
        parts = self._parts.copy()
        parts[1::2] = [
            _us(number + ns) if is_time else str(number + ids)
            for number, is_time in zip(self._numbers, self._times, strict=True)
        ]
        return "".join(parts)


def _template(events: list[dict[str, object]], on_gpu: bool) -> _Template:
    out: list[str] = []
    for one in events:
        args = dict(one["args"])  # type: ignore[call-overload]
        category, pid, tid = str(one["cat"]), int(str(one["pid"])), int(str(one["tid"]))
        start = _ns(one["ts"])
        is_launched = "correlation" in args
        if is_launched != on_gpu:
            continue
        correlation = args.pop("correlation", None)
        text = json.dumps(args)[1:-1]
        if correlation is not None:
            text += f'{", " if text else ""}"correlation": #{correlation}#'
        name = json.dumps(one["name"])
        out.append(_EVENT % (category, name, pid, tid, start, _us(_ns(one["dur"])), text))
        if category == "cpu_op":
            frame = '"Python parent id": 17, "Python id": 18, "Ev Idx": 19'
            for title in ("torch/nn/modules/module.py(1773): _wrapped_call_impl",):
                out.append(
                    _EVENT
                    % ("python_function", json.dumps(title), pid, tid, start - 100, "0.090", frame)
                )
        if correlation is not None:
            phase = "s" if category == "cuda_runtime" else "f"
            out.append(
                _FLOW % (phase, correlation, pid, tid, start, ', "bp": "e"' if phase == "f" else "")
            )
    return _Template("".join(out))


def _ns(microseconds: object) -> int:
    return round(float(str(microseconds)) * 1000)


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03}"


# ------------------------------------------------------------------------------------------------
# What is measured, in a process of its own


def decode(path: Path) -> int:
    """The yardstick: events of one typed decode of the whole file."""
    from traceroof.parsers.torch.events import Event

    return _decoded(path, Event)


def four_fields(path: Path) -> int:
    """The same of name, category, start and duration alone."""
    from typing import Any

    import msgspec

    return _decoded(
        path,
        msgspec.defstruct(
            "Event", [(one, Any, None) for one in ("name", "cat", "ts", "dur")], gc=False
        ),
    )


def _decoded(path: Path, event: type) -> int:
    import msgspec

    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        from isal import isal_zlib

        data = isal_zlib.decompress(data, wbits=31)
    trace = msgspec.defstruct("Trace", [("traceEvents", list[event])])  # type: ignore[valid-type]
    return len(msgspec.json.decode(data, type=trace).traceEvents)  # type: ignore[attr-defined]


def read(path: Path, jobs: int = 1) -> int:
    """From the file to the kernel table: its rows."""
    import traceroof

    return int(traceroof.read(path, jobs=jobs).recording.kernels.num_rows)


def diagnose(path: Path, *options: str) -> int:
    """From the file to what a user reads, the whole command: lines."""
    from traceroof.cli import main as cli

    sys.argv = ["traceroof", "diagnose", str(path), "--top", "5", *options]
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        cli.main()
    return len(shown.getvalue().splitlines())


DECODE = "typed decode"
WHATS: dict[str, Callable[[Path], int]] = {
    DECODE: decode,
    "four fields": four_fields,
    "read": read,
    "read, 2 jobs": lambda path: read(path, jobs=2),
    "diagnose": lambda path: diagnose(path, "--jobs", "1"),
    "diagnose, 2 jobs": lambda path: diagnose(path, "--jobs", "2"),
}


@dataclass(frozen=True)
class Measured:
    """Seconds, MiB, and how many of what the work is about it found."""

    cpu: float
    wall: float
    peak_mib: float
    found: int


def measure(what: str, path: Path) -> Measured:
    """Run one thing in a fresh process. CPU is that of the process and its own children."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", what, str(path)], stdout=subprocess.PIPE
    )
    assert process.stdout
    found = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{what} of {path} failed")
    return Measured(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - began,
        usage.ru_maxrss / 1024,  # Linux counts in KiB
        int(found),
    )


COLUMNS = (
    "file", "what", "CPU s", "± s", "wall s", "MB/s", "x decode", "peak MiB", "GPU activities",
)  # fmt: skip


def rows(paths: Iterable[Path], whats: list[str], rounds: int) -> Iterator[tuple[str, ...]]:
    """A row of COLUMNS for each file and thing; medians over the rounds, the largest peak."""
    for path in paths:
        size = inflated(path)
        found: dict[str, list[Measured]] = {what: [] for what in whats}
        # In turns, so that a noisy neighbour disturbs all of them alike.
        for _ in range(rounds):
            for what in whats:
                found[what].append(measure(what, path))
        yardstick = statistics.median(one.cpu for one in found[DECODE])
        for what, runs in found.items():
            cpu = statistics.median(one.cpu for one in runs)
            spread = (max(one.cpu for one in runs) - min(one.cpu for one in runs)) / 2
            yield (
                path.name,
                what,
                f"{cpu:.2f}",
                f"{spread:.2f}",
                f"{statistics.median(one.wall for one in runs):.2f}",
                f"{size / cpu / 1e6:.0f}",
                f"{cpu / yardstick:.2f}",
                f"{max(one.peak_mib for one in runs):.0f}",
                f"{runs[0].found:,}" if what.startswith("read") else "",
            )


def inflated(path: Path) -> int:
    """Size of the trace as plain text."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return path.stat().st_size
    with gzip.open(path, "rb") as text:
        return sum(len(part) for part in iter(lambda: text.read(1 << 20), b""))


def traces(folder: Path, sizes: list[int]) -> Iterator[Path]:
    """The generated traces, made where they are not there yet."""
    for size in sizes:
        plain = folder / f"{size}mb.json"
        if not plain.exists():
            print(f"writing {plain}", file=sys.stderr)
            write_trace(plain, size * 1_000_000)
        packed = folder / f"{size}mb.json.gz"
        if not packed.exists():
            with plain.open("rb") as file, gzip.open(packed, "wb", 4) as out:
                for part in iter(lambda: file.read(1 << 20), b""):
                    out.write(part)
        yield plain
        yield packed


PAGE = """\
<!-- Written by `python benchmarks/torch_ingest.py --page docs/performance.md`; edit the template
there. -->

# Performance

How long a torch.profiler trace takes from the file to the diagnosis, and in how much memory.

**Method.** The traces are made by the benchmark: the training step of `sample_traces/torch` over
and over in Kineto's layout, with the Python frames and flow arrows that fill real traces. Each
measurement is a process of its own, import and exit included; CPU is user and system time, and
peak memory the largest resident size, both as the operating system counts them. Medians of
{rounds} rounds in which the programs take turns; `±` is half the range of the CPU times.
Several jobs serve plain files from 256 MB on.
*typed decode* is the yardstick: one `msgspec.json.decode` of the whole file into structs of only
the fields that are needed, the least that can be done with that library; *four fields* is the same of name,
category, start and duration alone. *read* is
`traceroof.read` (the kernel table, host calls and spans), *diagnose* is the whole command
`traceroof diagnose FILE --top 5`. MB are 10^6 bytes, of the plain text. Python {python}, {cores}
cores ({machine}).

{table}

**What time is made of.** Of `diagnose` on the 1 GB trace with one job two fifths are reading, a tenth
is the start of Python and its libraries; linking and diagnosis are the rest, on one core however many jobs
there are. Usual events go from text into columns in compiled code (`parsers/torch/_scan.c`), without an object
for each; others are decoded. Installed without a C compiler, all events are decoded: reading takes 2.4 times
as long. Of the 100 MB trace half is the start.

**What memory is made of.** Interpreter and libraries take about 67 MiB (Arrow, numpy,
msgspec, the rules), the read buffer a few. What grows is what is kept: about 210 bytes for each GPU
activity and 40 for each host call, texts once for all rows that share them; the analysis needs
about 250 bytes more for each GPU activity while it runs. Python frames, flow arrows and operators
that launched nothing are dropped as they stream by: a trace twice as large with the same kernels
takes the same memory. These traces are dense: every 2.4 kB of text hold a GPU activity.

**Bars.** `diagnose` of the 1 GB trace with one job in at most 1.1 times the CPU of the typed decode, 2.0
times that of the four fields, and 300 MiB. In turns beside revision 6cadffa with one job, on an idle machine:
with two jobs in at most 0.62 of its wall time (measured: 0.42), and a trace of 110 MB in at most 0.65 of
its CPU time (measured: 0.60). `make bench` measures; no test asserts a time. The decode builds all events at
once and pays for three gigabytes of memory, which moves it by half from machine to machine.
"""


def page(table: list[tuple[str, ...]], rounds: int) -> str:
    """docs/performance.md."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    lines += [f"| {' | '.join(one)} |" for one in table]
    return PAGE.format(
        rounds=rounds,
        table="\n".join(lines),
        python=platform.python_version(),
        cores=os.cpu_count(),
        machine=platform.machine(),
    )


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--sizes", type=int, nargs="*", default=[100, 1000], help="MB (10^6 bytes)"
    )
    options.add_argument("--trace", type=Path, nargs="*", help="measure these files instead")
    options.add_argument("--folder", type=Path, help="keep the traces here")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--what", nargs="*", default=list(WHATS), choices=list(WHATS))
    options.add_argument("--page", type=Path, help="write the page of the documentation there")
    options.add_argument("--child", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        print(WHATS[given.child[0]](Path(given.child[1])))
        return
    whats = [DECODE, *(what for what in given.what if what != DECODE)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        table = []
        for row in rows(given.trace or traces(folder, given.sizes), whats, given.rounds):
            table.append(row)
            print("  ".join(cell.ljust(14) for cell in row), flush=True)
    if given.page:
        # Further sections are those of ncu_report.py and startup.py.
        _, heading, rest = given.page.read_text("utf-8").partition("## ")
        written = page(table, given.rounds) + (f"\n{heading}{rest}" if heading else "")
        given.page.write_text(written, "utf-8")


if __name__ == "__main__":
    main()
