"""What the lines of the program's Python cost: traces read with them and without.

    python benchmarks/source_lines.py TRACE ...

Each measurement is a process of its own that only reads the trace; CPU is user and system, import
included; the least of three. Without: no frame counts as a line of the program.
"""

import os
import subprocess
import sys
from pathlib import Path

_READ = """
import sys, traceroof
if sys.argv[2] == "without":
    from traceroof.parsers.torch import columns, python_frames
    python_frames.is_own_code = lambda frame: False
    columns.own_line = lambda stack: None
traceroof.read(sys.argv[1])
"""
_RUNS = 3


def seconds(trace: Path, how: str) -> float:
    """CPU seconds of reading a trace once."""
    before = os.times()
    subprocess.run([sys.executable, "-c", _READ, str(trace), how], check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def main(traces: list[str]) -> None:
    """Print the table."""
    print("| trace | without | with | lines cost |\n|---|--:|--:|--:|")
    for trace in map(Path, traces):
        without, with_lines = (
            min(seconds(trace, how) for _ in range(_RUNS)) for how in ("without", "with")
        )
        extra = with_lines / without - 1
        print(f"| {trace.name} | {without:.2f} s | {with_lines:.2f} s | {extra:+.0%} |")


if __name__ == "__main__":
    main(sys.argv[1:])
