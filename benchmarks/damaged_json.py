"""CPU seconds of ``traceroof diagnose`` on damaged traces, and of reading them, against the trace whole.

    python -m benchmarks.damaged_json            a trace of 100 MB, every kind of damage
    python -m benchmarks.damaged_json 16 flips   of 16 MB, the kinds whose name begins so

The bar was twice the time of ``diagnose`` of the whole trace, whatever the damage, before usual events were
scanned by compiled code; now it is 2.6 times, which is no longer in seconds. ``kept`` is the share of the
GPU activities that are read all the same, ``noted`` what the notes count as lost or repaired.
"""

import argparse
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.torch_ingest import SAMPLE, write_trace

_READ = """
import sys, time
from pathlib import Path
import traceroof
traceroof.read(Path(sys.argv[2]))  # imports are not what is measured
began = time.process_time()
try:
    run = traceroof.read(Path(sys.argv[1]))
except traceroof.TraceroofError:
    print(time.process_time() - began, 0, 0)
else:
    took = time.process_time() - began
    print(took, run.recording.kernels.num_rows, sum(one.count for one in run.recording.notes
          if "event" in one.text or "text" in one.text))
"""


def _flips(count: int) -> Callable[[bytearray], bytes | bytearray]:
    def damaged(text: bytearray) -> bytes | bytearray:
        rng = random.Random(count)
        for _ in range(count):
            text[rng.randrange(len(text))] ^= 1 << rng.randrange(8)
        return text

    return damaged


def _without(what: bytes, count: int) -> Callable[[bytearray], bytes | bytearray]:
    def damaged(text: bytearray) -> bytes | bytearray:
        parts = text.split(what)
        gone = set(random.Random(count).sample(range(1, len(parts)), min(count, len(parts) - 1)))
        return b"".join((b"" if at in gone else what) + one for at, one in enumerate(parts))[1:]

    return damaged


def _inserted(what: bytes, count: int) -> Callable[[bytearray], bytes | bytearray]:
    def damaged(text: bytearray) -> bytes | bytearray:
        rng = random.Random(count)
        places = sorted(rng.randrange(len(text)) for _ in range(count))
        return what.join(text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True))

    return damaged


#: Kind of damage -> what it makes of a trace. "of 100 MB": counts are for 10^8 bytes.
KINDS: dict[str, Callable[[float], Callable[[bytearray], bytes | bytearray]]] = {
    "whole": lambda size: bytes,
    "flips 1": lambda size: _flips(1),
    "flips 100": lambda size: _flips(max(1, round(100 * size))),
    "flips 10,000": lambda size: _flips(round(10_000 * size)),
    "flips 1,000,000": lambda size: _flips(round(1_000_000 * size)),
    "bytes beyond UTF-8 10,000": lambda size: _inserted(b"\xff", round(10_000 * size)),
    "braces closed lost 100": lambda size: _without(b"}", max(1, round(100 * size))),
    "braces closed lost 10,000": lambda size: _without(b"}", round(10_000 * size)),
    "braces closed lost all": lambda size: _without(b"}", 1 << 30),
    "braces opened lost 10,000": lambda size: _without(b"{", round(10_000 * size)),
    "brackets 10,000": lambda size: _inserted(b"[", round(10_000 * size)),
    "brackets 1,000,000": lambda size: _inserted(b"[", round(1_000_000 * size)),
    "quotes 10,000": lambda size: _inserted(b'"', round(10_000 * size)),
    "quotes 1,000,000": lambda size: _inserted(b'"', round(1_000_000 * size)),
    "quotes lost 10,000": lambda size: _without(b'"', round(10_000 * size)),
    "NUL runs 100": lambda size: _inserted(bytes(10_000), max(1, round(100 * size))),
    "commas lost": lambda size: lambda text: text.replace(b"},\n", b"}\n"),
    "commas and space lost": lambda size: lambda text: text.replace(b"},\n  {", b"}{"),
    "cut": lambda size: lambda text: text[: len(text) // 2],
    "twice": lambda size: lambda text: text + text,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("megabytes", nargs="?", type=int, default=100)
    parser.add_argument("kinds", nargs="*", default=[""])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole.json")
        write_trace(whole, asked.megabytes * 1_000_000)
        text = whole.read_bytes()
        print("damage | diagnose, CPU s | x whole | read | x whole | kept | noted")
        clean = activities = usual = 0.0
        for kind, made in KINDS.items():
            if kind != "whole" and not kind.startswith(tuple(asked.kinds)):
                continue
            trace = Path(folder, "trace.json")
            trace.write_bytes(made(asked.megabytes / 100)(bytearray(text)))
            command = [sys.executable, "-c", _READ, str(trace), str(SAMPLE)]
            answer = subprocess.run(command, check=True, capture_output=True, text=True)
            took, found, noted = (float(one) for one in answer.stdout.split())
            command = [sys.executable, "-m", "traceroof", "diagnose", str(trace)]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=False, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            if kind == "whole":
                clean, activities, usual = took, found, spent
            print(
                f"{kind} | {spent:.2f} | {spent / usual:.2f} | {took:.2f} | {took / clean:.2f} | "
                f"{found / activities:.1%} | {noted:,.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
