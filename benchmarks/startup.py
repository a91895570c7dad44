"""CPU seconds until ``traceroof --help`` has answered, beside an empty interpreter.

    python benchmarks/startup.py

The bar is 0.3 s of CPU for --help and for ``import traceroof``.
"""

import resource
import statistics
import subprocess
import sys

_RUNS = 7


def cpu_seconds(*arguments: str) -> float:
    """Median CPU of a child process (user and system) over a few runs."""
    found = []
    for _ in range(_RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    empty = cpu_seconds("-c", "pass")
    for label, arguments in (
        ("python -c pass", ["-c", "pass"]),
        ("import traceroof", ["-c", "import traceroof"]),
        ("traceroof --help", ["-m", "traceroof", "--help"]),
        ("traceroof diagnose --help", ["-m", "traceroof", "diagnose", "--help"]),
        ("traceroof formats", ["-m", "traceroof", "formats"]),
    ):
        seconds = cpu_seconds(*arguments)
        print(f"{label:28} {seconds:6.3f} s CPU, {seconds / empty:5.1f} x an empty interpreter")


if __name__ == "__main__":
    main()
