"""How fast and in how much memory torch.profiler traces are read, against one typed decode.

    python benchmarks/torch_ingest.py                     100 MB and 1 GB, plain and gzip
    python benchmarks/torch_ingest.py --sizes 100         only 100 MB
    python benchmarks/torch_ingest.py --trace FILE ...    traces of your own

Traces are made here: the training step of ``sample_traces/torch`` over and over, in Kineto's
layout, with the Python frames and flow arrows that fill real traces (a third and a sixth of the
events). Each measurement is a process of its own; CPU (user and system, import and exit included)
and peak memory are the operating system's figures for it. The yardstick is what cannot be had
cheaper with msgspec: one typed decode of the whole file into structs of only the needed fields.
"""

import argparse
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
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
    import msgspec

    from traceroof.parsers._torch_events import Event

    class Trace(msgspec.Struct):
        traceEvents: list[Event]

    data = path.read_bytes()
    if data.startswith(b"\x1f\x8b"):
        from isal import isal_zlib

        data = isal_zlib.decompress(data, wbits=31)
    return len(msgspec.json.decode(data, type=Trace).traceEvents)


def read(path: Path, jobs: int = 1) -> int:
    """What traceroof does: rows of the kernel table."""
    from traceroof.parser import Options, silent
    from traceroof.parsers.torch_profiler import PARSER

    return int(PARSER.read(path, silent, Options(jobs=jobs)).kernels.num_rows)


def diagnose(path: Path) -> int:
    """From the file to the findings: kernel groups."""
    import traceroof

    return len(traceroof.diagnose(path).kernels)


WHATS = {
    "typed decode": lambda path: decode(path),
    "read": lambda path: read(path),
    "read, 2 jobs": lambda path: read(path, jobs=2),
    "diagnose": lambda path: diagnose(path),
}


@dataclass(frozen=True)
class Measured:
    cpu: float
    wall: float
    peak_mb: float


def measure(what: str, path: Path) -> Measured:
    """Run one thing in a fresh process. CPU is that of the process and its own children."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, "--child", what, str(path)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{what} of {path} failed")
    # Linux counts in KiB.
    return Measured(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - began,
        usage.ru_maxrss / 1024,
    )


def report(paths: list[Path], whats: list[str], rounds: int) -> None:
    head = f"{'file':<16}{'what':<16}{'CPU s':>8}{'± s':>7}{'wall s':>8}{'MB/s':>7}{'peak MB':>9}{'x decode':>10}"
    print(head)
    for path in paths:
        size = _inflated(path)
        found: dict[str, list[Measured]] = {what: [] for what in whats}
        # In turns, so that a noisy neighbour disturbs all of them alike.
        for _ in range(rounds):
            for what in whats:
                found[what].append(measure(what, path))
        yardstick = statistics.median(one.cpu for one in found[whats[0]])
        for what, runs in found.items():
            cpu = statistics.median(one.cpu for one in runs)
            print(
                f"{path.name:<16}{what:<16}{cpu:>8.2f}"
                f"{(max(one.cpu for one in runs) - min(one.cpu for one in runs)) / 2:>7.2f}"
                f"{statistics.median(one.wall for one in runs):>8.2f}{size / cpu / 1e6:>7.0f}"
                f"{max(one.peak_mb for one in runs):>9.0f}{cpu / yardstick:>10.2f}"
            )


def _inflated(path: Path) -> int:
    """Size of the trace as plain text."""
    with path.open("rb") as file:
        if file.read(2) != b"\x1f\x8b":
            return path.stat().st_size
    with gzip.open(path, "rb") as text:
        return sum(len(part) for part in iter(lambda: text.read(1 << 20), b""))


def traces(folder: Path, sizes: list[int]) -> Iterator[Path]:
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument(
        "--sizes", type=int, nargs="*", default=[100, 1000], help="MB (10^6 bytes)"
    )
    options.add_argument("--trace", type=Path, nargs="*", help="measure these files instead")
    options.add_argument("--folder", type=Path, help="keep the traces here")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--what", nargs="*", default=list(WHATS), choices=list(WHATS))
    options.add_argument("--child", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.child:
        WHATS[given.child[0]](Path(given.child[1]))
        return
    whats = ["typed decode", *(what for what in given.what if what != "typed decode")]
    if given.trace:
        report(given.trace, whats, given.rounds)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        report(list(traces(folder, given.sizes)), whats, given.rounds)


if __name__ == "__main__":
    main()
