"""Run the mutation test of a format and say how it went: ``python -m benchmarks.fuzz torch``.

One line a format: inputs, how many were read and refused, crashes, the slowest, the largest memory.
What crashed is written below ``--keep`` with its traceback; ``--first`` begins at another input, so that
a long run can be split.
"""

import argparse
import random
import resource
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import traceroof
from tests.fuzzing.inputs import made, written
from tests.fuzzing.outcomes import Baseline, outcome
from tests.fuzzing.seeds import FORMATS, seeds
from tests.mutate import time_limit
from traceroof.errors import TraceroofError

_LONGEST_S = 10.0


@dataclass
class Tally:
    """What came of the inputs of one format. slowest: CPU seconds and number of the input."""

    inputs: int = 0
    read: int = 0
    diagnosed: int = 0
    refused: int = 0
    crashes: list[int] = field(default_factory=list)
    slowest: tuple[float, int] = (0.0, -1)
    spent_s: float = 0.0

    def line(self, name: str, first: int, commit: str) -> str:
        """The tally as one row of tab-separated figures."""
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        each_ms = self.spent_s / max(self.inputs, 1) * 1e3
        return (
            f"{name}\t{first}\t{self.inputs}\t{self.read}\t{self.diagnosed}\t{self.refused}\t{len(self.crashes)}\t"
            f"{self.slowest[0]:.2f}\t{self.slowest[1]}\t{peak_mb:.0f}\t{each_ms:.0f}\t{commit}"
        )


def baseline(name: str, folder: Path) -> Baseline:
    """The first sound seed of a format."""
    for number, seed in enumerate(seeds(name)):
        try:
            return Baseline(traceroof.read(written(seed, folder / f"sound{number}")))
        except TraceroofError:
            continue
    raise SystemExit(f"no seed of {name} can be read")


def run(name: str, inputs: range, seconds: float, keep: Path | None) -> Tally:
    """Try the inputs, at most so many seconds; report each crash once on stderr."""
    tally, began = Tally(), time.monotonic()
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
        folder = Path(place)
        sound = baseline(name, folder)
        for number in inputs:
            if time.monotonic() - began > seconds:
                break
            shutil.rmtree(folder / "input", ignore_errors=True)
            path = written(made(name, number), folder)
            start = time.process_time()
            try:
                with time_limit(_LONGEST_S):
                    refused = outcome(path, sound, number)
                tally.refused += refused is not None
                tally.read += refused is None
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                tally.crashes.append(number)
                print(f"{name}:{number}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
                if keep is not None:
                    at = keep / f"{name}-{number}"
                    shutil.copytree(folder / "input", at, dirs_exist_ok=True)
                    (at / "traceback.txt").write_text("".join(traceback.format_exception(error)))
            spent = time.process_time() - start
            tally.slowest = max(tally.slowest, (spent, number))
            tally.spent_s += spent
            tally.inputs += 1
        tally.diagnosed = sound.diagnosed
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=FORMATS)
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    random.seed(0)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    for name in asked.formats:
        tally = run(name, range(asked.first, asked.first + asked.inputs), asked.seconds, asked.keep)
        print(tally.line(name, asked.first, commit), flush=True)


if __name__ == "__main__":
    main()
