"""CPU seconds of small commands, beside an empty interpreter: what start-up costs.

    python benchmarks/startup.py                              print the table
    python benchmarks/startup.py --page docs/performance.md   and write the page's last section

The bars are 0.3 s of CPU for --help and for ``import traceroof``, 0.7 s for ``diagnose`` of a small
file.
"""

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

_RUNS = 7
_ROOT = Path(__file__).resolve().parent.parent
_SMALL = _ROOT / "sample_traces" / "nsight_compute" / "transformer_layer.raw.csv"

#: First line of the section that this benchmark writes.
HEADING = "## Start-up"

_SECTION = """\
{heading}

CPU time (user and system) of a whole process, median of {runs}; `diagnose` reads
`sample_traces/nsight_compute/transformer_layer.raw.csv` (17 launches) and prints the table. Python
{python}, {cores} cores ({machine}). `python benchmarks/startup.py` measures; the bars are 0.3 s for
`--help` and 0.7 s for `diagnose`.

| command | CPU s |
|---|--:|
{rows}

The load average was {load:.0f} on {cores} cores. CPU times grow by half and more on a busy machine, so
compare two versions side by side. What remains of `diagnose` is numpy, pyarrow, rich and
the command-line library (about half), and the modules of the diagnosis and the rules. Parsers are loaded
only for files that can be theirs. A regular expression is compiled only where a text contains one of its
words. The tables of devices and categories are parsed once per installation and kept beside the
bytecode. pandas is imported for AMD's formats and for DataFrames, sqlalchemy for a store, plotly for a
report.
"""


def cpu_seconds(*arguments: str) -> float:
    """Median CPU of a child process (user and system) over a few runs."""
    # As users run it: modules are compiled once, and kept.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(_RUNS + 1):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *arguments],
                check=True,
                stdout=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found[1:])


def section(seconds: dict[str, float]) -> str:
    """The section of docs/performance.md."""
    return _SECTION.format(
        heading=HEADING,
        runs=_RUNS,
        python=platform.python_version(),
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        machine=platform.machine(),
        rows="\n".join(f"| `{label}` | {value:.2f} |" for label, value in seconds.items()),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--page", type=Path, help="the page whose section to write")
    chosen = options.parse_args()
    seconds = {}
    for label, arguments in (
        ("python -c pass", ["-c", "pass"]),
        ("import traceroof", ["-c", "import traceroof"]),
        ("traceroof --help", ["-m", "traceroof", "--help"]),
        ("traceroof diagnose --help", ["-m", "traceroof", "diagnose", "--help"]),
        ("traceroof formats", ["-m", "traceroof", "formats"]),
        ("traceroof diagnose FILE", ["-m", "traceroof", "diagnose", str(_SMALL)]),
    ):
        seconds[label] = cpu_seconds(*arguments)
        print(f"{label:28} {seconds[label]:6.3f} s CPU")
    if chosen.page:
        before, _, _ = chosen.page.read_text("utf-8").partition(HEADING)
        chosen.page.write_text(before + section(seconds), "utf-8")


if __name__ == "__main__":
    main()
