"""Run the mutation tests of formats and say how it went: ``python -m benchmarks.fuzz torch``.

One line a format: inputs, how many were read and refused, crashes, the slowest, the largest memory.
Formats take turns, so that a run that ends early leaves an equal count of each. What crashed is written
below ``--keep`` with its traceback. ``--first`` begins at another input; ``--tally FILE`` keeps the
figures after each turn, and a later run goes on from there. Reading takes a fifth of the time: with
``--every N`` only one in N of the runs that damage made new is diagnosed, compared and rendered.
"""

import argparse
import gc
import json
import random
import resource
import shutil
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import traceroof
from tests.fuzzing.inputs import made, written
from tests.fuzzing.outcomes import Baseline, outcome
from tests.fuzzing.seeds import FORMATS, seeds
from tests.mutate import time_limit
from traceroof.errors import TraceroofError

_LONGEST_S = 10.0
_TURN = 20


@dataclass
class Tally:
    """What came of the inputs of one format. slowest: CPU seconds and number of the input."""

    inputs: int = 0
    read: int = 0
    diagnosed: int = 0
    refused: int = 0
    crashes: list[int] = field(default_factory=list)
    slowest: list[float] = field(default_factory=lambda: [0.0, -1])
    spent_s: float = 0.0
    largest_mb: int = 0

    def line(self, name: str, first: int, commit: str) -> str:
        """The tally as one row of tab-separated figures."""
        each_ms = self.spent_s / max(self.inputs, 1) * 1e3
        return (
            f"{name}\t{first}\t{self.inputs}\t{self.read}\t{self.diagnosed}\t{self.refused}\t{len(self.crashes)}\t"
            f"{self.slowest[0]:.2f}\t{self.slowest[1]:.0f}\t{self.largest_mb}\t{each_ms:.0f}\t{commit}"
        )


def baseline(name: str, folder: Path) -> Baseline:
    """The first sound seed of a format."""
    for number, seed in enumerate(seeds(name)):
        try:
            return Baseline(traceroof.read(written(seed, folder / f"sound{number}")))
        except TraceroofError:
            continue
    raise SystemExit(f"no seed of {name} can be read")


def turn(
    name: str,
    numbers: range,
    tally: Tally,
    sound: Baseline,
    folder: Path,
    asked: argparse.Namespace,
) -> None:
    """Try some inputs of a format, adding to its tally; report each crash once on stderr."""
    before = sound.diagnosed
    for number in numbers:
        shutil.rmtree(folder / "input", ignore_errors=True)
        path = written(made(name, number), folder)
        start = time.process_time()
        try:
            with time_limit(_LONGEST_S):
                refused = outcome(path, sound, number, asked.every)
            tally.refused += refused is not None
            tally.read += refused is None
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            tally.crashes.append(number)
            print(f"{name}:{number}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
            if asked.keep is not None:
                at = asked.keep / f"{name}-{number}"
                shutil.copytree(folder / "input", at, dirs_exist_ok=True)
                (at / "traceback.txt").write_text("".join(traceback.format_exception(error)))
        spent = time.process_time() - start
        tally.slowest = max(tally.slowest, [spent, number])
        tally.spent_s += spent
        tally.inputs += 1
    tally.diagnosed += sound.diagnosed - before
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    tally.largest_mb = max(tally.largest_mb, peak_mb)


def run(asked: argparse.Namespace) -> dict[str, Tally]:
    """Try the inputs of all formats in turns, at most so many seconds."""
    began = time.monotonic()
    tallies = _kept(asked.tally, asked.formats)
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as place:
        sounds = {name: baseline(name, Path(place) / name) for name in asked.formats}
        # What is loaded by now stays: the collector need not look at it again and again.
        gc.freeze()
        for done in range(min(one.inputs for one in tallies.values()), asked.inputs, _TURN):
            for name, tally in tallies.items():
                if time.monotonic() - began > asked.seconds:
                    return tallies
                numbers = range(
                    asked.first + max(done, tally.inputs),
                    asked.first + min(done + _TURN, asked.inputs),
                )
                turn(name, numbers, tally, sounds[name], Path(place) / name, asked)
                if asked.tally:
                    kept = {name: asdict(one) for name, one in tallies.items()}
                    asked.tally.write_text(json.dumps(kept))
    return tallies


def _kept(file: Path | None, names: Sequence[str]) -> dict[str, Tally]:
    kept = json.loads(file.read_text()) if file and file.exists() else {}
    return {name: Tally(**kept.get(name, {})) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", default=FORMATS)
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--tally", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    random.seed(0)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    for name, tally in run(asked).items():
        print(tally.line(name, asked.first, commit), flush=True)


if __name__ == "__main__":
    main()
