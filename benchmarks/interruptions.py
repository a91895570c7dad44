"""Interrupt ingests at random moments and say what was left: ``python -m benchmarks.interruptions``.

kills: SIGKILL of an ingest of two files in two processes; the store is then read, written and read
again. signals: SIGTERM, SIGHUP and SIGINT to the program, or to it and its workers, as a shell does;
the exit code is 128 + n, nothing is left in the temporary folder, nothing prints a traceback. writers:
so many ingests, eight at once, into one store. full: a limit on the size of files while a run is
written. The moments are the same for the same ``--seed``, as far as the machine is as fast.
"""

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_traces"
FILES = (
    SAMPLES / "torch/training.rank0.json", SAMPLES / "torch/training.rank1.json",
    SAMPLES / "nsight_systems/training.sqlite", SAMPLES / "nsight_compute/transformer_layer.raw.csv",
)  # fmt: skip
RUN = (sys.executable, "-m", "traceroof")
#: The longest that an undisturbed ingest here takes; moments are drawn below it.
_LONGEST_S = 3.0


def environment(folder: Path) -> dict[str, str]:
    """A store and a temporary folder of its own; nothing of the user's."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRACEROOF_")}
    return kept | {
        "TRACEROOF_STORE": str(folder / "store"), "TRACEROOF_CONFIG": "", "TMPDIR": str(temporary),
        "PYTHONPATH": str(ROOT),
    }  # fmt: skip


def started(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """A command in a process group of its own."""
    return subprocess.Popen(
        [*RUN, *map(str, arguments)], env=environment(folder), cwd=folder, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def settled(folder: Path, *arguments: object) -> bytes:
    """What a command prints; it must succeed."""
    done = subprocess.run(
        [*RUN, *map(str, arguments)], env=environment(folder), cwd=folder, capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise AssertionError(f"{arguments}: {done.returncode}: {done.stderr.decode()[-500:]}")
    return done.stdout


def kills(count: int, rng: random.Random) -> Counter[str]:
    """Ingests that are killed."""
    found: Counter[str] = Counter()
    with TemporaryDirectory() as place:
        folder = Path(place)
        settled(folder, "ingest", FILES[2], "--name", "before")
        for _ in range(count):
            one = started(folder, "ingest", *FILES[:2], "--jobs", 2, "--name", "killed")
            time.sleep(rng.uniform(0, _LONGEST_S))
            os.killpg(one.pid, signal.SIGKILL)
            one.communicate()
            found["killed" if one.returncode == -signal.SIGKILL else "finished before"] += 1
            listed = settled(folder, "runs")
            found["the run before is lost"] += b"before" not in listed
            if b"killed" in listed:
                settled(folder, "diagnose", "killed")
                settled(folder, "runs", "remove", "killed")
        settled(folder, "ingest", *FILES[:2], "--name", "after")
        settled(folder, "diagnose", "after")
        settled(folder, "diagnose", "before")
        found["folders of no run left"] = len(list((folder / "store" / "runs").iterdir())) - 2
    return found


def signals(count: int, rng: random.Random) -> Counter[str]:
    """Ingests and diagnoses that are asked to stop."""
    found: Counter[str] = Counter()
    for number in range(count):
        for sent in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with TemporaryDirectory() as place:
                folder = Path(place)
                asked = rng.choice(
                    (("ingest", "--jobs", 2), ("diagnose", "--jobs", 2), ("diagnose",))
                )
                one = started(folder, *asked, *(FILES[:2] if "--jobs" in asked else FILES[2:3]))
                # Before Python listens a signal ends it as the system does.
                time.sleep(0.35 + rng.uniform(0, _LONGEST_S))
                to_all = number % 2
                (os.killpg if to_all else os.kill)(one.pid, sent)
                _, said = one.communicate(timeout=60)
                if one.returncode == 0:
                    found["finished before"] += 1
                    continue
                found[f"{sent.name} to {'all' if to_all else 'the program'}"] += 1
                # The system's own way counts 128 + n in a shell, too.
                if one.returncode not in (128 + sent, -sent):
                    found[f"exit code {one.returncode} for {sent.name}"] += 1
                found["traceback"] += b"Traceback" in said
                time.sleep(0.2)
                left = [str(path.relative_to(folder)) for path in (folder / "tmp").rglob("*")]
                found["temporary files left"] += bool(left)
                if left or b"Traceback" in said:
                    print(asked, sent.name, left, said.decode()[-1500:], file=sys.stderr)
    return found


def writers(count: int, rng: random.Random) -> Counter[str]:
    """Ingests of different files into one store, eight at once."""
    found: Counter[str] = Counter()
    with TemporaryDirectory() as place:
        folder = Path(place)
        trace = FILES[3].read_text()
        for first in range(0, count, 8):
            running = []
            for number in range(first, min(first + 8, count)):
                path = folder / f"{number}.csv"
                # Another duration each: other bytes are another run.
                path.write_text(trace + "\n" * (number + 1))
                running.append(started(folder, "ingest", path, "--name", f"run{number}"))
            for one in running:
                _, said = one.communicate(timeout=300)
                found[f"exit {one.returncode}"] += 1
                if one.returncode:
                    print(said.decode()[-500:], file=sys.stderr)
        listed = settled(folder, "runs").decode().split()
        found["runs in the store"] = sum(f"run{n}" in listed for n in range(count))
        settled(folder, "diagnose", f"run{rng.randrange(count)}")
    return found


def full(count: int, rng: random.Random) -> Counter[str]:
    """Ingests that may write no file beyond a size."""
    found: Counter[str] = Counter()
    with TemporaryDirectory() as place:
        folder = Path(place)
        settled(folder, "ingest", FILES[3], "--name", "before")
        largest = max(
            path.stat().st_size for path in (folder / "store").rglob("*") if path.is_file()
        )
        for _ in range(count):
            limit = rng.randrange(64, largest)

            def limited(size: int = limit) -> None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

            done = subprocess.run(
                [*RUN, "ingest", str(FILES[2]), "--name", "cut"], env=environment(folder), cwd=folder,
                capture_output=True, check=False, preexec_fn=limited,
            )  # fmt: skip
            found[f"exit {done.returncode}"] += 1
            found["traceback"] += b"Traceback" in done.stderr
            listed = settled(folder, "runs")
            found["the run before is lost"] += b"before" not in listed
            found["a run that is cut is listed"] += done.returncode != 0 and b"cut" in listed
            if b"cut" in listed:
                settled(folder, "diagnose", "cut")
                settled(folder, "runs", "remove", "cut")
    return found


KINDS: dict[str, Callable[[int, random.Random], Counter[str]]] = {
    "kills": kills, "signals": signals, "writers": writers, "full": full,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    for kind in asked.kinds:
        found = KINDS[kind](asked.count, random.Random(f"{kind}:{asked.seed}"))
        print(kind, dict(found), flush=True)


if __name__ == "__main__":
    main()
