"""Many ranks: made from one trace, read by every engine, killed on the way.

    python benchmarks/scale.py make BASE.json OUT --ranks 1024 --straggler 17 --slow-link 16
    python benchmarks/scale.py measure OUT --engine "--jobs 2" --engine "--scheduler local --jobs 2"
    python benchmarks/scale.py same OUT
    python benchmarks/scale.py kill OUT --times 10

BASE is any torch.profiler trace with NCCL kernels. Every rank gets its own clock, the process groups
of a job (tensor parallel: 8 ranks of a host; pipeline parallel: pairs of hosts; data parallel: the
rest), and the times that follow: whoever enters a collective early waits for the last one.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

_KINDS = ("tp", "dp", "pp")
_HOST = 8


# Making ranks


def make(base: Path, out: Path, ranks: int, stragglers: list[int], slow: int | None) -> None:
    """Write ``ranks`` traces into ``out``. stragglers: ranks whose kernels take 1.3 times as long.
    slow: a rank whose pipeline link is five times as slow."""
    document = json.loads(base.read_bytes())
    events = document["traceEvents"]
    timed = [one for one in events if one.get("ph") == "X" and "dur" in one]
    start = np.array([float(one["ts"]) for one in timed])
    begin = float(start.min())
    start = (start - begin) * 1e3
    length = np.array([float(one["dur"]) for one in timed]) * 1e3
    is_kernel = np.array([one.get("cat") == "kernel" for one in timed])
    is_sent = np.array(["nccl" in str(one.get("name")) for one in timed]) & is_kernel
    sent = np.flatnonzero(is_sent)[np.argsort(start[is_sent], kind="stable")]
    group_of = [_groups(ranks, _KINDS[at % len(_KINDS)]) for at in range(len(sent))]
    shifts = _simulated(
        start, length, is_kernel & ~is_sent, sent, group_of, ranks, stragglers, slow
    )
    out.mkdir(parents=True, exist_ok=True)
    flows = [one for one in events if one.get("ph") in ("s", "f") and "ts" in one]
    flow_start = (np.array([float(one["ts"]) for one in flows]) - begin) * 1e3
    for rank in range(ranks):
        at, amount, longer = shifts[rank]
        clock = random.Random(rank).randrange(0, 5_000_000)
        moved, ends = _moved(start, at, amount) + clock, length + longer
        for one, ts, dur in zip(timed, moved.tolist(), ends.tolist(), strict=True):
            one["ts"], one["dur"] = round(begin + ts / 1e3, 3), round(dur / 1e3, 3)
        for one, ts in zip(flows, (_moved(flow_start, at, amount) + clock).tolist(), strict=True):
            one["ts"] = round(begin + ts / 1e3, 3)
        for number, which in enumerate(sent.tolist()):
            _describe(timed[which]["args"], group_of[number], rank)
        document["distributedInfo"] = _distributed(rank, ranks)
        (out / f"rank{rank:05d}.json").write_text(json.dumps(document), encoding="utf-8")
    print(f"{ranks} ranks in {out}: {sum(f.stat().st_size for f in out.iterdir()) / 1e9:.2f} GB")


class _Groups:
    """The groups of one kind: of each rank its group, and the ranks of each."""

    def __init__(self, kind: str, of_rank: list[int]) -> None:
        self.kind, self.of_rank = kind, np.array(of_rank)
        self.members = {
            number: np.flatnonzero(self.of_rank == number) for number in sorted(set(of_rank))
        }


def _groups(ranks: int, kind: str) -> _Groups:
    if kind == "tp":
        return _Groups(kind, [rank // _HOST for rank in range(ranks)])
    if kind == "pp":
        return _Groups(kind, [rank // (2 * _HOST) * _HOST + rank % _HOST for rank in range(ranks)])
    return _Groups(kind, [rank % (2 * _HOST) for rank in range(ranks)])


def _simulated(
    start: Reals, length: Reals, computes: Any, sent: Any, group_of: list[_Groups], ranks: int,
    stragglers: list[int], slow: int | None,
) -> dict[int, tuple[Reals, Reals, Reals]]:  # fmt: skip
    """Of each rank: when time is inserted, how much, and by how much each event is longer."""
    entry_shift = np.zeros(ranks)
    own = {}
    for rank in range(ranks):
        # What the rank's own kernels take longer, at their ends.
        rng = np.random.default_rng(rank)
        factor = 0.3 if rank in stragglers else 0.0
        longer = np.where(computes, length * (factor + rng.uniform(0, 0.002, len(length))), 0.0)
        at = (start + length)[computes]
        order = np.argsort(at, kind="stable")
        own[rank] = (at[order], longer[computes][order], longer)
    waits = np.zeros((ranks, len(sent)))
    for number, which in enumerate(sent.tolist()):
        groups = group_of[number]
        for rank in range(ranks):
            at, amount, _ = own[rank]
            entry_shift[rank] = amount[: np.searchsorted(at, start[which], side="right")].sum()
        entry_shift += waits[:, :number].sum(axis=1)
        for name, members in groups.members.items():
            takes = length[which]
            if slow is not None and groups.kind == "pp" and name == groups.of_rank[slow]:
                takes *= 5
            last = entry_shift[members].max()
            waits[members, number] = last - entry_shift[members] + takes - length[which]
    result = {}
    for rank in range(ranks):
        at, amount, longer = own[rank]
        longer = longer.copy()
        longer[sent] = waits[rank]
        when = np.concatenate([at, (start + length)[sent]])
        much = np.concatenate([amount, waits[rank]])
        order = np.argsort(when, kind="stable")
        result[rank] = (when[order], much[order], longer)
    return result


def _moved(times: Reals, at: Reals, amount: Reals) -> Reals:
    before = np.concatenate([[0.0], np.cumsum(amount)])
    return np.asarray(times + before[np.searchsorted(at, times, side="right")])


def _describe(args: dict[str, Any], groups: _Groups, rank: int) -> None:
    number = int(groups.of_rank[rank])
    members = groups.members[number].tolist()
    args["Process Group Name"] = str(number)
    args["Process Group Description"] = groups.kind
    args["Process Group Ranks"] = str(members)
    args["Group size"] = len(members)


def _distributed(rank: int, ranks: int) -> dict[str, Any]:
    config = [
        {"pg_name": str(int(one.of_rank[rank])), "pg_desc": one.kind,
         "ranks": one.members[int(one.of_rank[rank])].tolist()}
        for one in (_groups(ranks, kind) for kind in _KINDS)
    ]  # fmt: skip
    return {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_config": config}


# Reading them


def _traceroof() -> str:
    return str(Path(sys.executable).with_name("traceroof"))


def diagnosed(files: list[Path], options: str, out: Path) -> tuple[float, float, float]:
    """Diagnose files in a process of its own: wall seconds, CPU seconds of it and its children, and
    the most memory that it held itself, MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [_traceroof(), "diagnose", *map(str, files), "--no-config", "--no-calibration"]
    subprocess.run(
        [*command, *options.split(), "-f", "json", "-o", str(out)], check=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, after.ru_maxrss / 1024


def measure(folder: Path, engines: list[str]) -> None:
    """A line of the table for each engine, and what the map alone takes."""
    files = sorted(folder.glob("*.json*"))
    size = sum(file.stat().st_size for file in files)
    map_cpu, memory = mapped(files)
    print(f"{len(files)} ranks, {size / 1e9:.2f} GB; the map alone: {map_cpu:.1f} s of CPU "
          f"({map_cpu / (size / 1e9):.1f} s/GB), {memory:.0f} MB")  # fmt: skip
    print(
        "| ranks | GB | engine | wall s | CPU s | CPU s/GB | wall / (map CPU / 2) | largest process MB |"
    )
    print("|--:|--:|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as place:
        for engine in engines:
            wall, cpu, most = diagnosed(files, engine, Path(place) / "out.json")
            print(
                f"| {len(files):,} | {size / 1e9:.2f} | `{engine}` | {wall:.1f} | {cpu:.1f} "
                f"| {cpu / (size / 1e9):.1f} | {wall / (map_cpu / 2):.2f} | {most:.0f} |",
                flush=True,
            )


def mapped(files: list[Path]) -> tuple[float, float]:
    """CPU seconds of the map over all files, and the memory of the process that does it, MB."""
    code = (
        "import sys, resource; from pathlib import Path; from traceroof.parser import Options\n"
        "from traceroof.scale.mapping import Task, mapped\n"
        "files = sys.stdin.read().split()\n"
        "mapped(Task(Path(files[0]), Options()))\n"
        "spent = sum(mapped(Task(Path(one), Options())).cpu_s for one in files)\n"
        "print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input="\n".join(map(str, files)), text=True, check=True,
        capture_output=True,
    ).stdout.split()  # fmt: skip
    return float(found[0]), float(found[1])


ENGINES = (
    "--jobs 1", "--jobs 2", "--scheduler local --jobs 1", "--scheduler local --jobs 2",
    "--scheduler local --jobs 4",
)  # fmt: skip


def same(folder: Path) -> None:
    """Whether every engine, and every order of the files, gives the same bytes."""
    files = sorted(folder.glob("*.json*"))
    seen = {}
    with tempfile.TemporaryDirectory() as place:
        for number, engine in enumerate(ENGINES):
            shuffled = random.Random(number).sample(files, len(files))
            diagnosed(shuffled, engine, Path(place) / "out.json")
            seen[engine] = hashlib.sha256((Path(place) / "out.json").read_bytes()).hexdigest()
            print(f"{seen[engine][:16]}  {engine}", flush=True)
    print("equal" if len(set(seen.values())) == 1 else "NOT EQUAL")


# Killing

_KILLED_ENGINES = ("--jobs 2", "--scheduler local --jobs 2", "tcp")


def kill(folder: Path, engines: list[str], times: int, seed: int) -> None:
    """Kill the driver, and then workers, at random moments of an ingest; then what is in the store
    is what an ingest that nobody disturbed leaves. The engine ``tcp`` is a Dask scheduler with two
    workers, in processes of their own."""
    files = [str(file) for file in sorted(folder.glob("*.json*"))]
    place = Path(tempfile.mkdtemp(prefix="kill-"))
    rng = random.Random(seed)
    try:
        for number, engine in enumerate(engines):
            with _cluster(engine) as (options, workers_of):
                calm = place / f"calm{number}"
                _ingest(files, calm, options)
                for turn in range(times):
                    _kill_driver(files, place / f"driver{turn}", calm, options, rng)
                    _kill_worker(files, place / f"worker{turn}", calm, options, rng, workers_of)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _kill_driver(
    files: list[str], store: Path, calm: Path, options: str, rng: random.Random
) -> None:
    process = _started(files, store, options)
    _wait(process, store, rng.randrange(len(files)), rng.random() * _PART_S)
    # The driver alone: those who work for it must notice.
    process.kill()
    process.wait()
    kept = len(list((store / "parts").iterdir())) if (store / "parts").exists() else 0
    _ingest(files, store, options)
    same = _compared(store, calm)
    print(f"{options}: driver killed, {kept} of {len(files)} parts kept: {same}",
          flush=True)  # fmt: skip
    shutil.rmtree(store)


def _kill_worker(
    files: list[str], store: Path, calm: Path, options: str, rng: random.Random,
    workers_of: Callable[[int], list[int]],
) -> None:  # fmt: skip
    process = _started(files, store, options)
    # With two files or more to go, both workers have one.
    _wait(process, store, rng.randrange(len(files) - 3), rng.random() * _PART_S)
    workers = workers_of(process.pid) if process.poll() is None else []
    if workers:
        os.kill(rng.choice(workers), signal.SIGKILL)
    process.wait()
    said = "a worker killed" if workers else "it had ended"
    print(f"{options}: {said}, exit {process.returncode}: {_compared(store, calm)}", flush=True)
    shutil.rmtree(store)


# A part takes about so long, seconds.
_PART_S = 0.2


def _wait(process: "subprocess.Popen[bytes]", store: Path, parts: int, more: float) -> None:
    """Wait until so many parts are there and for some seconds more: however busy the machine is, the
    moment lies within the map."""
    while process.poll() is None:
        if not parts or (
            (store / "parts").exists() and len(list((store / "parts").iterdir())) >= parts
        ):
            break
        time.sleep(0.02)
    time.sleep(more)


def _started(files: list[str], store: Path, options: str) -> "subprocess.Popen[bytes]":
    command = [_traceroof(), "ingest", *files, "--store", str(store), "--no-config"]
    return subprocess.Popen(
        [*command, *options.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _ingest(files: list[str], store: Path, options: str) -> None:
    process = _started(files, store, options)
    if process.wait():
        raise SystemExit(f"ingest failed with {process.returncode}")


@contextmanager
def _cluster(engine: str) -> Iterator[tuple[str, Callable[[int], list[int]]]]:
    """The options that an engine is, and how the processes of its workers are found, by the
    driver's."""
    if engine != "tcp":
        yield engine, _children
        return
    dask = str(Path(sys.executable).with_name("dask"))
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "scheduler.json"
        scheduler = subprocess.Popen(
            [dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
             "--scheduler-file", str(file)], **quiet,
        )  # fmt: skip
        while not file.exists():
            time.sleep(0.1)
        workers = subprocess.Popen(
            [dask, "worker", "--scheduler-file", str(file), "--nworkers", "2", "--nthreads", "1",
             "--local-directory", place, "--no-dashboard"], **quiet,
        )  # fmt: skip
        address = json.loads(file.read_text("utf-8"))["address"]
        try:
            yield f"--scheduler {address}", lambda driver: _children(workers.pid)
        finally:
            for one in (workers, scheduler):
                one.terminate()
                one.wait()


def _children(parent: int) -> list[int]:
    """The worker processes that a process started."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(parent)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if "spawn_main" in line]


def _compared(store: Path, calm: Path) -> str:
    """The diagnosis of the store's only run against that of the calm one, and its parts."""
    texts = []
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out.json"
        for one in (store, calm):
            command = [_traceroof(), "diagnose", "--store", str(one), "--no-config"]
            subprocess.run(
                [*command, "--no-calibration", "-f", "json", "-o", str(out)], check=True,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            texts.append(out.read_text(encoding="utf-8"))
    listed = [
        sorted(str(path.relative_to(one)) for at in ("parts", "incoming")
               for path in (one / at).rglob("*"))
        for one in (store, calm)
    ]  # fmt: skip
    runs = len(list((store / "runs").iterdir()))
    if texts[0] == texts[1] and listed[0] == listed[1] and runs == 1:
        return "as undisturbed"
    return f"DIFFERS (text {texts[0] != texts[1]}, files {listed[0] != listed[1]}, runs {runs})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    sub = parser.add_subparsers(dest="what", required=True)
    making = sub.add_parser("make")
    making.add_argument("base", type=Path)
    making.add_argument("out", type=Path)
    making.add_argument("--ranks", type=int, default=1024)
    making.add_argument("--straggler", type=int, action="append", default=[])
    making.add_argument("--slow-link", type=int)
    for name in ("measure", "same", "kill"):
        one = sub.add_parser(name)
        one.add_argument("folder", type=Path)
        one.add_argument("--engine", action="append", default=[])
        one.add_argument("--times", type=int, default=10)
        one.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.what == "make":
        make(given.base, given.out, given.ranks, given.straggler, given.slow_link)
    elif given.what == "measure":
        measure(given.folder, given.engine or list(ENGINES))
    elif given.what == "same":
        same(given.folder)
    else:
        kill(given.folder, given.engine or list(_KILLED_ENGINES), given.times, given.seed)


if __name__ == "__main__":
    main()
