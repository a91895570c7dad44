"""The map: one file becomes its kernel rows and a partial that adds up; two files are never held.

``reader`` gives the function by which ``ingest.detect`` reads many files. What a file is worked out
to (``Mapped``) does not depend on where: in this process, on processes, on a cluster.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import Literal, Protocol

from traceroof.core import kernel_table
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import HOST_CALLS, SPANS, Recording, empty
from traceroof.errors import TraceroofError
from traceroof.hardware.devices import Device, knowing
from traceroof.ingest import remote
from traceroof.ingest.detect import File, in_turn, read_file
from traceroof.ingest.remote import RemoteFile
from traceroof.kernels.categories import coded_categories
from traceroof.parser import Options, Progress, silent
from traceroof.patterns import launch_part
from traceroof.scale.engines import Done, Engine, is_killed, jobs_for, run
from traceroof.scale.engines import silent as nobody
from traceroof.timeline.partial import Partial, overlapping, partial_of

#: Called as files are read with (files done, files, bytes done, bytes).
Watch = Callable[[int, int, int, int], None]


def unwatched(files_done: int, files: int, bytes_done: int, size: int) -> None:
    """A ``Watch`` that shows nothing."""


# Small files go to a process several at once: so many bytes and so many files.
_BATCH_BYTES, _MOST_TOGETHER = 64_000_000, 32


#: What is kept of a file: ``parts``, what was worked out of its rows alone; ``rows`` as well; or
#: ``all`` its tables, where a part of it is judged and host calls tell which.
Keep = Literal["parts", "rows", "all"]


@dataclass(frozen=True)
class Kept:
    """Where a worker keeps what it reads: the name of the part, '' where it keeps none; and the
    digest of the file's bytes."""

    name: str
    digest: str


class Keeper(Protocol):
    """Keeps what is read where a later try, and other processes, find it; picklable."""

    @property
    def is_remote(self) -> bool:
        """Whether it keeps in a storage where runs are made of parts alone."""

    def named(self, task: "Task", local: Path) -> Kept:
        """What the part of a file is called. local: its bytes, on this machine."""

    def known(self, kept: Kept, task: "Task") -> Recording | None:
        """What an earlier try kept; None where there is nothing."""

    def keep(self, kept: Kept, whole: Recording, light: Recording) -> None:
        """Keep what was read: whole, and with what was worked out of what the host did."""


@dataclass(frozen=True)
class Task:
    """One file, and how to read it. own: the user's GPUs, which the device table has besides."""

    file: File
    options: Options
    keep: Keep = "parts"
    own: tuple[Device, ...] = ()
    keeper: Keeper | None = None


@dataclass(frozen=True)
class Mapped:
    """What a file was worked out to; its kernel table ``narrowed``. cpu_s: what that took of a
    processor."""

    recording: Recording
    kept: Kept | None = None
    cpu_s: float = 0.0


def mapped(task: Task) -> Mapped:
    """Read one file. A pure function of it: what it returns can be made anywhere, any number of
    times. Raises TraceroofError where the file cannot be read."""
    began = process_time()
    with knowing(task.own):
        file = task.file
        if isinstance(file, RemoteFile):
            with remote.fetched(file) as local:
                found, kept = _read(task, local)
        else:
            found, kept = _read(task, file)
    # What holds nothing is not sent.
    narrow = replace(found, kernels=kernel_table.narrowed(found.kernels))
    return Mapped(narrow, kept, process_time() - began)


def _read(task: Task, local: Path) -> tuple[Recording, Kept | None]:
    kept = task.keeper.named(task, local) if task.keeper and local.is_file() else None
    if task.keeper and kept and (before := task.keeper.known(kept, task)):
        return before, kept
    whole = remote.shown_as(task.file, local, lambda: read_file(local, silent, task.options))
    if task.keep == "all":
        return whole, kept and replace(kept, name="")
    light = summarised(whole, "parts" if task.keeper and kept else task.keep)
    if not light.summaries:
        return light, kept and replace(kept, name="")
    if task.keeper and kept:
        task.keeper.keep(kept, whole, light)
    if task.keep == "rows":
        light = replace(light, kernels=whole.kernels, summaries=light.summaries[:1])
    return light, kept


def summarised(recording: Recording, keep: Keep = "parts") -> Recording:
    """A recording with what its timelines show in place of the host calls and spans behind it.

    keep: ``parts`` leaves out the rows of its launches too, where all of them say of which rank they
    are: files without ranks are told apart by their rows.
    """
    if recording.time_basis != "timeline" or recording.clock_logs.num_rows:
        return recording
    kernels = recording.kernels
    categories = coded_categories(kernels)
    light = replace(
        recording,
        host_calls=empty(HOST_CALLS),
        spans=empty(SPANS),
        summaries=(partial_of(recording, categories),),
    )
    if keep != "parts" or not kernels.num_rows or kernels["rank"].null_count:
        return light
    launches, _ = launch_part.part_of(kernels, categories, (0,))
    return replace(
        light,
        kernels=launch_part.by_name(kernels),
        summaries=(*light.summaries, launch_part.narrowed(launches)),
    )


@dataclass(frozen=True)
class Mapping:
    """How many files are read.

    jobs: processes; None: as many as there are cores, where that pays. scheduler: ``Engine``.
    keeper: where what is read is kept. tell: hears where a cluster is watched. failed: the files that could not be read, with the reason.
    given: every file by the path that its recording shows. kept: by the same, where it was kept.
    options: how they were read. cpu_s: what each took. known: what their launches have in common.
    """

    jobs: int | None = None
    scheduler: str | None = None
    keep: Keep = "parts"
    own: tuple[Device, ...] = ()
    keeper: Keeper | None = None
    watch: Watch = unwatched
    tell: Callable[[str], None] = nobody
    failed: list[tuple[str, str]] = field(default_factory=list)
    given: dict[str, File] = field(default_factory=dict)
    kept: dict[str, Kept] = field(default_factory=dict)
    options: list[Options] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    known: launch_part.Known = field(default_factory=dict)

    def read(
        self, files: Sequence[File], progress: Progress, options: Options
    ) -> Iterator[Recording | TraceroofError]:
        """The ``ingest.detect.Reader``: a single file whole, each of several as far as ``keep``."""
        self.given.update({str(file): file for file in files})
        self.options.append(options)
        sizes = [_size(file) for file in files]
        jobs = jobs_for(self.jobs, sum(sizes))
        if len(files) == 1 and self.scheduler is None and not self._is_remote:
            yield from in_turn(files, progress, replace(options, jobs=jobs))
            return
        engine = Engine(max(min(jobs, len(files)), 1), self.scheduler, self.tell)
        # Files that are fewer than the processes share them.
        inner = 1 if engine.scheduler else max(jobs // max(len(files), 1), 1)
        how = replace(options, jobs=inner)
        tasks = [Task(file, how, self.keep, self.own, self.keeper) for file in files]
        waiting: dict[int, Recording | TraceroofError] = {}
        following = done_bytes = 0
        small = max(min(_BATCH_BYTES * len(files) // max(sum(sizes), 1), _MOST_TOGETHER), 1)
        for count, done in enumerate(run(engine, mapped, tasks, small), 1):
            done_bytes += sizes[done.number]
            self.watch(count, len(files), done_bytes, sum(sizes))
            progress(done_bytes, sum(sizes))
            waiting[done.number] = self._taken(files[done.number], done)
            while following in waiting:
                yield waiting.pop(following)
                following += 1

    @property
    def _is_remote(self) -> bool:
        """Whether what is read has to be kept part by part."""
        return self.keeper is not None and self.keeper.is_remote

    def _taken(self, file: File, done: Done[Mapped]) -> Recording | TraceroofError:
        if done.result is None:
            error = _explained(file, done.error)
            self.failed.append((str(file), error.message))
            return error
        self.cpu_s.append(done.result.cpu_s)
        if done.result.kept is not None:
            self.kept[str(file)] = done.result.kept
        found = done.result.recording
        kernels = kernel_table.widened(found.kernels)
        return launch_part.interned(replace(found, kernels=kernels), self.known)

    def settled(self, recording: Recording) -> Recording:
        """``settled`` with the files read again."""
        return settled(recording, lambda at: self._again(recording.sources[at].path))

    def kept_whole(self, recording: Recording) -> Recording:
        """What was read of a file, with what the host did: the file read again where that is
        lacking."""
        if not recording.summaries:
            return recording
        again = self._again(recording.sources[0].path)
        return replace(
            recording,
            kernels=again.kernels,
            host_calls=again.host_calls,
            spans=again.spans,
            summaries=(),
        )

    def with_rows(self, recordings: Sequence[Recording]) -> list[Recording]:
        """What was read, with the rows of all launches where others are to be held against them: a
        log of clocks tells only by their times what it is of."""
        if not any(one.clock_logs.num_rows for one in recordings):
            return list(recordings)
        return [self._with_rows(one) for one in recordings]

    def _with_rows(self, recording: Recording) -> Recording:
        if len(recording.summaries) < 2:
            return recording
        return replace(
            recording,
            kernels=self._again(recording.sources[0].path).kernels,
            summaries=tuple(one for one in recording.summaries if isinstance(one, Partial)),
        )

    def _again(self, path: str) -> Recording:
        with knowing(self.own):
            return read_file(self.given[path], silent, self.options[0])


def settled(recording: Recording, whole_of: Callable[[int], Recording]) -> Recording:
    """The recording of several files, where those that show one GPU or one process were looked at
    together: each alone does not tell when the GPU was idle.

    whole_of: a file by its number, with what the host did.
    """
    known = {
        one.files[0]: one
        for one in recording.judged().summaries
        if isinstance(one, Partial) and len(one.files) == 1
    }
    summaries = list(recording.summaries)
    for files in overlapping({file: one.owners for file, one in known.items()}):
        if len(files) > 1:
            whole = merge([whole_of(at) for at in files])
            seen = partial_of(whole, coded_categories(whole.kernels))
            summaries = [
                one
                for one in summaries
                if not (isinstance(one, Partial) and {*one.files} & {*files})
            ]
            summaries.append(_placed(seen, files))
    return replace(recording, summaries=tuple(summaries))


def _placed(partial: Partial, files: Sequence[int]) -> Partial:
    """A partial of files 0, 1, … as that of other numbers."""
    return replace(
        partial,
        files=tuple(files),
        timelines=tuple(
            replace(one, sources=tuple(files[at] for at in one.sources))
            for one in partial.timelines
        ),
        keys=tuple((*key[:4], files[key[4]] if key[4] >= 0 else -1) for key in partial.keys),
    )


def _explained(file: File, error: Exception | None) -> TraceroofError:
    """Why a file has no result, in a sentence that names it."""
    if isinstance(error, TraceroofError) and str(file) in error.message:
        return error
    if isinstance(error, TraceroofError):
        return TraceroofError(f"{file}: {error.message}", error.hint)
    if is_killed(error):
        return TraceroofError(
            f"{file}: every worker that read it was killed (out of memory?)",
            "give the workers more memory, or leave the file out",
        )
    text = " ".join(str(error).split())
    return TraceroofError(f"{file}: reading it failed with {type(error).__name__}: {text}")


def _size(file: File) -> int:
    """Bytes of a file, or of the files in a folder."""
    if isinstance(file, RemoteFile):
        return file.size
    if file.is_dir():
        return sum(one.stat().st_size for one in file.rglob("*") if one.is_file())
    return file.stat().st_size if file.exists() else 0
