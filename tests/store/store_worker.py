"""What the tests of the store run in processes of their own, to be killed or starved.

add STORE SEED...               store these recordings, print the ids
churn STORE SEED COUNT          store and remove a recording again and again
serve                           see ``serve``
starve STORE BYTES SEED ROWS    store a recording while no file may grow beyond BYTES
fill STORE                      see ``fill``
as-nobody STORE                 see ``as_nobody``
"""

import builtins
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from traceroof.core.kernel_table import kernel_table
from traceroof.core.recording import (
    SPANS,
    DeviceInfo,
    Note,
    Recording,
    Source,
)
from traceroof.errors import TraceroofError
from traceroof.store import Store


def recording_of(seed: int, rows: int = 50, notes: int = 1) -> Recording:
    """A recording that differs with the seed: noise that hardly compresses."""
    random = np.random.default_rng(seed)
    durations = random.integers(0, 1 << 40, rows)
    kernels = kernel_table(
        {
            "kernel_name": [f"kernel_{seed}"] * rows,
            "duration_ns": pa.array(durations, mask=durations % 7 == 0),
            "dram_throughput_pct": random.random(rows),
        }
    )
    spans = pa.table([[0], [1], [None], ["step"], [f"s{seed}"], [0], [None]], schema=SPANS)
    said = tuple(Note(f"note {seed} {number}", number + 1) for number in range(notes))
    return Recording(
        format="made-up",
        time_basis="timeline",
        kernels=kernels,
        sources=(Source(f"traces/{seed}.json", "made-up", rows, said),),
        devices=(DeviceInfo(index=0, name="GPU", sm_clock_hz=1.5e9, memory_bytes=0),),
        spans=spans,
    )


def digest(seed: int) -> str:
    return sha256(str(seed).encode()).hexdigest()


def add(store: Store, seed: int, rows: int = 50, notes: int = 1) -> str:
    return store.add(recording_of(seed, rows, notes), digest=digest(seed)).id


def attempt(action: Callable[[], Any]) -> dict[str, Any]:
    """What an action gives, or the error that it raises."""
    try:
        return {"result": action()}
    except TraceroofError as error:
        return {"error": error.message, "hint": error.hint}


def serve() -> None:
    """For each line ``STORE SEED ROWS STEP`` on stdin: fork, print the child's process id, let it
    open the store and add the recording, and print how it ended (0, or minus the signal) and how
    many steps it took. The child kills itself before its STEP-th step (0: never).

    A step is whatever changes the disk or the catalogue, so that dying before each of them covers
    every state in which a kill can leave a store.
    """
    with tempfile.TemporaryDirectory() as place:  # so that all is imported before the forks
        add(Store.open(Path(place) / "warm", f"sqlite:///{place}/db"), 0)
    if url := os.environ.get("TRACEROOF_CATALOGUE"):
        sa.create_engine(url, poolclass=sa.NullPool).connect().close()
    for line in sys.stdin:
        folder, seed, rows, step = line.split()
        tell, told = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(tell)
            try:
                count = die_at(int(step))
                # Before the first step, so that a killer can time its kill from here.
                print(os.getpid(), flush=True)
                add(Store.open(Path(folder)), int(seed), int(rows))
                os.write(told, str(count()).encode())
            except TraceroofError as error:
                print(error, file=sys.stderr, flush=True)
                os._exit(2)
            os._exit(0)
        os.close(told)
        _, status = os.waitpid(child, 0)
        with os.fdopen(tell) as end:
            steps = end.read() or "-"
        print(os.waitstatus_to_exitcode(status), steps, flush=True)


def die_at(step: int) -> Callable[[], int]:
    """Kill this process before its ``step``-th step from here on; returns what counts them."""
    taken = 0

    def count(*_: Any) -> None:
        nonlocal taken
        taken += 1
        if taken == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            count()
            return function(*arguments, **options)

        return wrapper

    for name in ("open", "write", "fsync", "rename", "mkdir", "unlink", "rmdir", "link"):
        setattr(os, name, counted(getattr(os, name)))
    for module in (builtins, io):
        module.open = counted(module.open)  # type: ignore[attr-defined]
    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.Engine, "commit", count)
    return lambda: taken


def starve(folder: str, limit: int, seed: int, rows: int) -> dict[str, Any]:
    """Let the system refuse (EFBIG) to make any file larger than ``limit`` bytes."""
    store = Store.open(Path(folder))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        return attempt(lambda: add(store, seed, rows))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fill(folder: str) -> list[dict[str, Any]]:
    """Mount a file system of 2 MB and use it up, leaving a different rest for each attempt.

    Prints {"rest": bytes left, then "result" or "error", "runs" and "files" after it} for each
    rest, and at last what happens when the file system is read-only.
    """
    place = Path(folder)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
    store = Store.open(place / "store")
    add(store, 1)
    outcomes = []
    for rest in (0, 4096, 8192, 16384, 32768, 65536, 131072, 200000, 400000):
        filler = place / "filler"
        free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
        filler.write_bytes(bytes(max(0, free - rest)))
        outcome = attempt(lambda: add(store, 2, rows=8000))
        filler.unlink()
        outcomes.append({"rest": rest, **outcome, **state(store, place / "store")})
        if "result" in outcome:
            store.remove(outcome["result"])
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    outcomes.append({"rest": "read-only", **attempt(lambda: add(store, 2)), "runs": ids(store)})
    return outcomes


def as_nobody(folder: str) -> dict[str, Any]:
    """Give up every privilege and use a store that belongs to somebody else."""
    store = Store.open(Path(folder))  # everything is imported before we lose sight of it
    store.get()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    store = Store.open(Path(folder), create=False)
    return {
        "runs": ids(store),
        "read": store.get().recording == recording_of(1),
        "add": attempt(lambda: add(store, 2)),
        "again": attempt(lambda: add(store, 1)),
        "remove": attempt(lambda: store.remove(ids(store)[0])),
        "baseline": attempt(lambda: store.set_baseline("main", ids(store)[0])),
        "new": attempt(lambda: Store.open(Path(folder) / "sub" / "new")),
    }


def ids(store: Store) -> list[str]:
    return [info.id for info in store.runs()]


def state(store: Store, folder: Path) -> dict[str, Any]:
    """What a store holds, by its own account and on disk."""
    return {
        "runs": ids(store),
        "folders": sorted(path.name for path in (folder / "runs").iterdir()),
        "incoming": sorted(path.name for path in (folder / "incoming").iterdir()),
    }


def main(command: str, *arguments: str) -> Any:
    if command == "serve":
        return serve()
    if command == "starve":
        folder, limit, seed, rows = arguments
        return starve(folder, int(limit), int(seed), int(rows))
    if command == "fill":
        return fill(*arguments)
    if command == "as-nobody":
        return as_nobody(*arguments)
    folder, *numbers = arguments
    store = Store.open(Path(folder))
    if command == "churn":
        for _ in range(int(numbers[1])):
            store.remove(add(store, int(numbers[0])))
        return None
    return [attempt(partial(add, store, int(seed))) for seed in numbers]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
