"""Where the map runs: in this process, on processes of this machine, or on a Dask cluster.

All three are executors of ``concurrent.futures``, so that one code path serves them (``run``).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from traceroof.core.arrow_start import arrow_without_pandas
from traceroof.errors import TraceroofError

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future, ProcessPoolExecutor

T = TypeVar("T")
R = TypeVar("R")

#: Below so many bytes of input a second process costs more than it saves.
PARALLEL_BYTES = 64_000_000


def cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its control group."""
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()[:2]
        allowed = min(allowed, max(int(quota) // int(period), 1))
    except (OSError, ValueError):  # another system, or "max": no quota
        pass
    return allowed


def jobs_for(asked: int | None, size: int) -> int:
    """How many processes work on ``size`` bytes of input: as many as asked for, else as there are
    cores, and one where that would not pay."""
    if asked is not None:
        return asked
    return cores() if size >= PARALLEL_BYTES else 1


def silent(text: str) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Engine:
    """jobs: processes of this machine. scheduler: address of a Dask scheduler, a scheduler file, or
    ``local`` for a cluster of this machine; goes before ``jobs``. tell: hears where a cluster made
    here is watched."""

    jobs: int = 1
    scheduler: str | None = None
    tell: Callable[[str], None] = silent

    @property
    def is_here(self) -> bool:
        """Whether everything runs in this process."""
        return self.scheduler is None and self.jobs == 1


@dataclass(frozen=True)
class Done(Generic[R]):
    """What came of one task: a result, or why there is none."""

    number: int
    result: R | None = None
    error: Exception | None = None


def run(
    engine: Engine, function: Callable[[T], R], tasks: Sequence[T], together: int = 1
) -> Iterator[Done[R]]:
    """Run a function on each task and give what comes of it, as it comes.

    together: so many tasks at most go to a process in one message.
    A task whose process was killed runs again, in the end alone; killed then, its error says so.
    What a task raises is its result; TraceroofError is raised where the engine itself does not work.
    """
    if engine.is_here:
        for number, task in enumerate(tasks):
            yield _here(number, function, task)
        return
    left = dict.fromkeys(range(len(tasks)))
    suspects: list[int] = []
    while left:
        # One of those that ran when a process died may have killed it.
        for number in suspects:
            with processes(1) as alone:
                future = alone.submit(_sent, function, [(number, tasks[number])])
                yield from _received([number], future, killed=True)
            del left[number]
        if left:
            with _executor(engine) as (executor, workers):
                batches = _batches(list(left), workers, together)
                for done in _submitted(executor, function, tasks, batches):
                    del left[done.number]
                    yield done
            # They are taken up in order, one per process and one ahead.
            suspects = list(left)[: engine.jobs + 1] if together == 1 else []
            together = 1


def _batches(numbers: Sequence[int], workers: int, most: int) -> list[Sequence[int]]:
    """Numbers of tasks that go to a process at once: fewer and fewer, so that all processes end at
    about the same time."""
    batches: list[Sequence[int]] = []
    at = 0
    while at < len(numbers):
        size = max(min(most, (len(numbers) - at) // (workers * _TURNS)), 1)
        batches.append(numbers[at : at + size])
        at += size
    return batches


# So many messages at least a process still gets at any moment.
_TURNS = 4


def _submitted(
    executor: "Executor",
    function: Callable[[T], R],
    tasks: Sequence[T],
    batches: Sequence[Sequence[int]],
) -> Iterator[Done[R]]:
    """Run the tasks of some numbers, those of a batch at once, and give those that end; where a
    process dies, not the rest."""
    from concurrent.futures import BrokenExecutor, as_completed

    futures: dict[Future[tuple[int, bytes]], Sequence[int]] = {}
    with suppress(BrokenExecutor):
        for numbers in batches:
            numbered = [(number, tasks[number]) for number in numbers]
            futures[executor.submit(_sent, function, numbered)] = numbers
    for future in as_completed(futures):
        numbers = futures.pop(future)  # what came of it is not kept here
        for done in _received(numbers, future):
            several = len(numbers) > 1
            lost = isinstance(done.error, BrokenExecutor) or (is_killed(done.error) and several)
            if not lost:
                yield done


def is_killed(error: Exception | None) -> bool:
    """Whether Dask gave a task up, because the workers that ran it died."""
    return type(error).__name__ == "KilledWorker"


def _here(number: int, function: Callable[[T], R], task: T) -> Done[R]:
    try:
        return Done(number, function(task))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks go on
        return Done(number, error=error)


def _sent(function: Callable[[T], R], tasks: Sequence[tuple[int, T]]) -> tuple[int, bytes]:
    """What comes of some tasks, as it is sent from one process to another."""
    from traceroof.scale.messages import packed

    found = [_here(number, function, task) for number, task in tasks]
    if not any(one.error for one in found):
        with suppress(Exception):  # one of them is to blame, the others go on
            return packed(found)
    return packed([_sendable(one) for one in found])


def _sendable(done: Done[R]) -> Done[R]:
    """What came of a task; where that cannot be sent, why not."""
    from traceroof.scale.messages import packed, unpacked

    try:
        unpacked(packed([done]))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the reason
        reason = f"what came of it cannot be sent to another process: {error}"
        if done.error:
            reason = f"it failed with {type(done.error).__name__}: {done.error}"
        return Done(done.number, error=TraceroofError(reason))
    return done


def _received(
    numbers: Sequence[int], future: "Future[tuple[int, bytes]]", *, killed: bool = False
) -> Iterator[Done[Any]]:
    """What came of some tasks; of each the same error where their process did not end well."""
    from concurrent.futures import BrokenExecutor

    from traceroof.scale.messages import unpacked

    try:
        yield from unpacked(future.result())
    except BrokenExecutor as error:
        reason = "the process that read it was killed twice (out of memory?)"
        for number in numbers:
            yield Done(number, error=TraceroofError(reason) if killed else error)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other tasks go on
        for number in numbers:
            yield Done(number, error=error)


@contextmanager
def _executor(engine: Engine) -> "Iterator[tuple[Executor, int]]":
    """An executor, and how many processes it has (so far)."""
    if engine.scheduler is None:
        with processes(engine.jobs) as pool:
            yield pool, engine.jobs
        return
    with _dask(engine) as (client, executor):
        yield executor, max(len(client.nthreads()), 1)


@contextmanager
def processes(jobs: int) -> "Iterator[ProcessPoolExecutor]":
    """An executor of so many processes, which end when its body is left early."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    # Spawned, not forked: threads of Arrow or of the caller do not survive a fork.
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin) as pool:
        with _deaf():
            for _ in range(jobs):  # each starts one
                pool.submit(int)
        try:
            yield pool
        except BaseException:
            # All of them, as `terminate_workers` of Python 3.14: one that is left waits for ever for
            # a lock that another held.
            for one in tuple((pool._processes or {}).values()):
                one.terminate()
            raise


@contextmanager
def _deaf() -> "Iterator[None]":
    """Processes that are started meanwhile do not hear what a terminal sends to all of its
    programs: who started them ends them."""
    import signal

    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """What a process of ours does first."""
    end_with_parent()
    arrow_without_pandas()


def end_with_parent() -> None:
    """Make this process end when the one that started it is killed: it would wait for ever for the
    next task."""
    from multiprocessing import parent_process
    from threading import Thread

    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


@contextmanager
def _dask(engine: Engine) -> "Iterator[tuple[Any, Executor]]":
    """An executor on a Dask cluster. Lost workers are its own to replace and resubmit."""
    try:
        dask: Any = import_module("distributed")
    except ImportError:
        raise TraceroofError(
            "--scheduler needs Dask, which is not installed",
            "pip install 'traceroof[dask]', here and on the workers",
        ) from None
    where: Any = engine.scheduler
    cluster: Any = None
    try:
        if where == "local":
            cluster = _local(dask, engine.jobs)
            client = dask.Client(cluster, direct_to_workers=True)
            client.run(arrow_without_pandas)
            engine.tell(f"the cluster's dashboard: {client.dashboard_link}")
        elif Path(where).is_file():
            client = dask.Client(scheduler_file=where, timeout=_PATIENCE_SECONDS)
        else:
            client = dask.Client(where, timeout=_PATIENCE_SECONDS)
    except (OSError, TimeoutError, ValueError, TypeError) as error:
        raise TraceroofError(
            f"no Dask scheduler answers at {where} ({type(error).__name__})",
            "give its address (tcp://host:8786), its scheduler file, or `local`",
        ) from None
    try:
        with client.get_executor(pure=False, retries=_RETRIES) as executor:
            yield client, executor
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


def _local(dask: Any, jobs: int) -> Any:
    """A cluster of this machine, which says nothing when it loses a scheduler that ends."""
    import logging

    with import_module("dask").config.set(_LIGHT):
        return dask.LocalCluster(
            n_workers=jobs,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )


# Workers do not sample their own stacks, look at the machine and at their event loops many times a
# second, nor give memory back to the system for every 64 kB.
_LIGHT = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.tick.interval": "500ms",
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 26,
}
# How long a scheduler may take to answer.
_PATIENCE_SECONDS = 15
# How often a task runs again whose function raised what is no error of the file (a lost connection).
_RETRIES = 0
