"""How long `traceroof history` takes with many runs in the store.

    python benchmarks/history_store.py [--runs 2000] [--kernels 120]

The runs are made up: a program of so many kernels, one of which gets 6 % slower half-way. Prints the
seconds of the whole command, start-up included, best of three.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import numpy as np

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import DeviceInfo, Recording, source_of
from traceroof.history.summary import summary_of
from traceroof.store import Store
from traceroof.store.summaries import Origin


def recording(at: int, runs: int, kernels: int, generator: np.random.Generator) -> Recording:
    """One run: kernel k takes 1/k of the largest, with 1 % noise."""
    times = 1e6 / np.arange(1, kernels + 1) * (1 + 0.01 * generator.standard_normal(kernels))
    times[1] *= 1.06 if at >= runs // 2 else 1.0
    table = kernel_table(
        {
            "kernel_name": [f"void made_up_kernel_{k}<float, {k}>(float*)" for k in range(kernels)],
            "duration_ns": times.astype(np.int64),
            "start_ns": np.cumsum(times.astype(np.int64)) - times.astype(np.int64),
        }
    )
    return Recording(
        format="made-up",
        time_basis="timeline",
        kernels=table,
        sources=(source_of("nightly.json", "made-up", table),),
        devices=(DeviceInfo(index=0, name="NVIDIA H100 80GB HBM3"),),
    )


def fill(folder: Path, runs: int, kernels: int) -> None:
    """A store with so many runs of one program, a commit a day."""
    generator = np.random.default_rng(1)
    kept = Store.open(folder)
    first = datetime(2021, 1, 1, tzinfo=UTC)
    for at in range(runs):
        made = recording(at, runs, kernels, generator)
        code = sha256(str(at).encode()).hexdigest()
        when = (first + timedelta(days=at)).isoformat(timespec="seconds")
        kept.add(
            made,
            name="nightly",
            digest=code,
            summary=summary_of(made),
            origin=Origin(code[:40], when, "main", False, None),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--kernels", type=int, default=120)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "store"
        fill(folder, arguments.runs, arguments.kernels)
        for options in ([], ["step-time"], ["kernel-time"], ["made_up_kernel_1<"], ["-f", "json"]):
            best = 1e9
            for _ in range(3):
                start = time.perf_counter()
                done = subprocess.run(
                    [
                        sys.executable,
                        "-m",
                        "traceroof",
                        "history",
                        *options,
                        "--store",
                        str(folder),
                    ],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                best = min(best, time.perf_counter() - start)
            state = "" if done.returncode == 0 else f" ({done.stderr.splitlines()[0]})"
            print(
                f"{arguments.runs:,} runs, history {' '.join(options) or '(all)'}: {best:.2f} s{state}"
            )
        print(
            subprocess.run(
                [sys.executable, "-m", "traceroof", "history", "--store", str(folder)],
                capture_output=True,
                text=True,
                check=False,
            ).stdout
        )


if __name__ == "__main__":
    main()
