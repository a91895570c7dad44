"""How long the HTML report of a trace takes: to build, and to become usable in a browser.

    python benchmarks/report_page.py                      a 1 GB trace, made here
    python benchmarks/report_page.py FILE ...             traces of your own
    python benchmarks/report_page.py FILE ... --write docs/report.md    and write the table there

Building is the whole command ``traceroof report FILE``, in a process of its own: CPU (user and
system, import and exit included) and peak memory are the operating system's figures for it.
Usable is the time from opening the page, a local file, until its table is filtered and sorted, its
charts are drawn and the next frame is shown; in headless Chromium, driven by playwright. A browser
is opened anew for each round, and its first page is an empty one. Without playwright or Chromium
this part is left out, and said to be.
"""

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

MARK = "<!-- measured by benchmarks/report_page.py -->"

# The two frames that pass before the picture of the first is on the screen. The page's policy
# forbids playwright's own waits, which evaluate text in the page.
_SHOWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True)
class Built:
    """Seconds and MiB of one ``traceroof report``."""

    cpu: float
    wall: float
    peak_mib: float


def build(trace: Path, page: Path) -> Built:
    """Write the report of a trace, in a fresh process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "traceroof", "report", str(trace), "-o", str(page)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr
    said = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report of {trace} failed:\n{said}")
    return Built(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - began,
        usage.ru_maxrss / 1024,  # Linux counts in KiB
    )


def browser() -> str | None:
    """Chromium's program; None where it or playwright is missing."""
    if find_spec("playwright") is None:
        return None
    return shutil.which("chromium") or shutil.which("google-chrome")


def usable(program: str, page: Path) -> float:
    """Seconds from opening the page until it can be used."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # In a container Chromium runs as root, which its sandbox does not allow.
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = opened.new_context(offline=True, viewport={"width": 1280, "height": 900})
        shown = context.new_page()
        shown.goto("about:blank")
        began = time.perf_counter()
        shown.goto(page.resolve().as_uri(), wait_until="commit")
        # Set by the page's script as the last thing that it does: all is sorted and drawn.
        shown.wait_for_selector("html[data-ready]", state="attached")
        shown.evaluate(_SHOWN)
        took = time.perf_counter() - began
        charts = shown.locator(".chart .main-svg").count()
        kernels = shown.locator("#table tbody tr[id]").count()
        opened.close()
    if not charts or not kernels:
        raise SystemExit(f"{page} shows {charts} charts and {kernels} kernels")
    return took


COLUMNS = ("trace", "MB", "kernels in the table", "page, MB", "CPU s", "wall s", "peak MiB",
           "usable after, s")  # fmt: skip


def rows(traces: Iterable[Path], rounds: int, folder: Path) -> Iterator[tuple[str, ...]]:
    """A row of COLUMNS for each trace; medians over the rounds, the largest peak."""
    program = browser()
    for trace in traces:
        page = folder / "report.html"
        built = [build(trace, page) for _ in range(rounds)]
        waits = [usable(program, page) for _ in range(_OPENED * rounds)] if program else []
        yield (
            _escaped(trace.name),
            f"{_plain_bytes(trace) / 1e6:,.1f}",
            f"{len(re.findall(r'<tr id=k[0-9]+>', page.read_text('utf-8'))):,}",
            f"{page.stat().st_size / 1e6:.2f}",
            f"{statistics.median(one.cpu for one in built):.1f}",
            f"{statistics.median(one.wall for one in built):.1f}",
            f"{max(one.peak_mib for one in built):.0f}",
            f"{statistics.median(waits):.2f} ({min(waits):.2f}-{max(waits):.2f})" if waits else "-",
        )


def _plain_bytes(trace: Path) -> int:
    """Size of a trace as plain text."""
    return int(import_module("torch_ingest").inflated(trace))


def _escaped(name: str) -> str:
    return name.replace("_", r"\_")


def made(folder: Path) -> Path:
    """A plain trace of 1 GB, as ``torch_ingest`` makes it."""
    path = folder / "1000mb.json"
    import_module("torch_ingest").write_trace(path, 1_000_000_000)
    return path


# Opening a page is short: what else the machine does weighs more.
_OPENED = 3


def table(found: Iterable[tuple[str, ...]], rounds: int) -> str:
    """The part of docs/report.md between its marks."""
    how = (
        f"Medians of {rounds} rounds, {_OPENED * rounds} in the browser (least to most); MB are 10^6 bytes, those of a trace as plain "
        f"text. Python {platform.python_version()}, {os.cpu_count()} cores ({platform.machine()}), "
        f"shared with other work: load average {os.getloadavg()[2]:.1f} over the last 15 minutes."
    )
    lines = [how, "", f"| {' | '.join(COLUMNS)} |", "|---|" + "--:|" * (len(COLUMNS) - 1)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in found])


def write(page: Path, text: str) -> None:
    """Replace what stands between the two marks."""
    before, _, after = page.read_text("utf-8").split(MARK)
    page.write_text(f"{before}{MARK}\n{text}\n{MARK}{after}", "utf-8")


def main() -> None:
    """The command line."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("traces", type=Path, nargs="*")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--write", type=Path, help="put the table between the marks of this page")
    given = options.parse_args()
    if browser() is None:
        print("no playwright or no Chromium here: 'usable after' is not measured", file=sys.stderr)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = []
        for row in rows(given.traces or [made(folder)], given.rounds, folder):
            found.append(row)
            print("  ".join(row), flush=True)
    if given.write:
        write(given.write, table(found, given.rounds))


if __name__ == "__main__":
    main()
