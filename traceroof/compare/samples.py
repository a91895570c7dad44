"""What counts as one measurement: the runs in a recording, the steps in a run.

Launches of one run share its clocks, its memory layout, its neighbours on the machine: a thousand
of them are one measurement of the run, not a thousand. So a sample is a run where a side has
several, else a step, and never a launch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceroof.core.kernel_table import UNKNOWN, as_reals, whole
from traceroof.timeline import Timeline

if TYPE_CHECKING:
    from traceroof.core.recording import Source

Reals = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Per = Literal["step", "run"]
By = Literal["runs", "steps", "none"]
# BY_STEP of ``kernels.variants``, as columns.
Entries = Mapping[str, Whole]

# Steps count where at least half of the kernel time lies in them.
_STEPS_COVER = 0.5
# Files are repetitions where at least half of the kernel time is in kernels that all of them have.
_FILES_SHARE = 0.5
# Beyond this many steps neighbours are averaged: more would be finer, not more independent.
_MOST_SAMPLES = 50


@dataclass(frozen=True)
class Runs:
    """The runs of one side: of_source is the run of each source file (-1: left out)."""

    count: int
    of_source: Whole
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Steps:
    """The steady steps of one side: of_row is each row's step (-1: none), the rest is per step.

    span_ns is the longest over the GPUs that took part; idle and exposed communication are means.
    """

    of_row: Whole
    run: Whole
    span_ns: Reals
    idle_ns: Reals
    exposed_ns: Reals
    covers: bool

    def __len__(self) -> int:
        return len(self.run)


@dataclass(frozen=True)
class Samples:
    """How the rows of one side are counted.

    of_row: sample of each row of the kernel table, -1 for rows that count in none. parts: steps
    (or runs) in each sample; sums are divided by it. of_step: sample of each step.
    """

    of_row: Whole
    parts: Reals
    of_step: Whole

    def __len__(self) -> int:
        return len(self.parts)

    def sums(self, codes: Whole, count: int, weights: Reals) -> Reals:
        """Sum of weights (rows,) per thing and sample, for one step or run: (count, samples).

        codes: the thing of each row, -1 for none.
        """
        at = np.flatnonzero((codes >= 0) & (self.of_row >= 0))
        place = codes[at] * len(self) + self.of_row[at]
        summed = np.bincount(place, weights=weights[at], minlength=count * len(self))
        return np.asarray(summed.reshape(count, len(self)) / self.parts)

    def of_steps(self, values: Reals) -> Reals:
        """Median over the steps of each sample; values (steps,)."""
        return np.array(
            [np.median(values[self.of_step == sample]) for sample in range(len(self))],
            dtype=np.float64,
        )


def runs_of(
    entries: Entries,
    kernels: pa.Table,
    group_of_row: Whole,
    time_ns: Reals,
    sources: Sequence["Source"] = (),
) -> Runs:
    """Tell repetitions from ranks: which source files belong to one run. entries: launches by step
    and GPU (``kernels.variants.BY_STEP``), with the group and kernel time of each. kernels: the
    kernel table, for when they ran.

    Where the files were combined (``ingest.combine``), their roles say it: repeats are runs, and of
    runs of several ranks the n-th file of each rank is of the n-th run. Recordings that nobody
    combined are told apart here.

    Files of different ranks, or of different GPUs at the same time, are parts of one run; further
    files of the same rank and GPU are further runs, unless they hold other kernels.
    """
    source = entries["source"]
    files = np.unique(source[group_of_row >= 0])
    of_source = np.full(int(source.max()) + 1 if len(source) else 1, 0, dtype=np.int64)
    if len(files) < 2:
        return Runs(1, of_source)
    roles = {one.role for one in sources}
    if "repeat" in roles and "rank" not in roles:
        return Runs(len(files), np.searchsorted(files, np.arange(len(of_source))))
    part = _parts(entries, kernels, files)
    seen: dict[object, int] = {}
    for file in files.tolist():
        of_source[file] = seen.get(part[file], 0)
        seen[part[file]] = of_source[file] + 1
    if "repeat" in roles:
        return Runs(max(seen.values()), of_source)
    count = max(seen.values())
    if count > 1 and not _same_kernels(of_source[source], group_of_row, time_ns, count):
        note = f"{len(files)} files that hold different kernels: taken as parts of one run"
        return Runs(1, np.zeros_like(of_source), (note,))
    complete = min(seen.values())
    if complete == count:
        return Runs(count, of_source)
    of_source[of_source >= complete] = -1
    note = f"{count - complete} runs lack a rank that others have, and are left out"
    return Runs(complete, of_source, (note,))


def _parts(entries: Entries, kernels: pa.Table, files: Whole) -> dict[int, object]:
    """What tells the files of one run apart: their ranks, else their GPUs, else nothing."""
    start, ran_in = as_reals(kernels["start_ns"]), whole(kernels["source"])
    ranks: dict[int, object] = {}
    gpus: dict[int, object] = {}
    windows: list[tuple[float, float]] = []
    for file in files.tolist():
        mine = entries["source"] == file
        ranks[file], gpus[file] = (_only(entries[name][mine]) for name in ("rank", "device"))
        known = start[(ran_in == file) & ~np.isnan(start)]
        if len(known):
            windows.append((float(known.min()), float(known.max())))
    if all(ranks.values()):
        return ranks
    windows.sort()
    in_turn = all(a[1] < b[0] for a, b in pairwise(windows))
    # One after another, on whatever GPU was free: the same program again.
    return dict.fromkeys(files.tolist()) if in_turn else gpus


def _only(values: Whole) -> tuple[int, ...]:
    return tuple(np.unique(values[values != UNKNOWN]).tolist())


def _same_kernels(run_of_row: Whole, groups: Whole, time_ns: Reals, runs: int) -> bool:
    at = groups >= 0
    count = int(groups.max()) + 1
    place = groups[at] * runs + run_of_row[at]
    there = np.bincount(place, minlength=count * runs).reshape(count, runs) > 0
    time = np.bincount(groups[at], weights=time_ns[at], minlength=count)
    return bool(time[there.all(axis=1)].sum() >= _FILES_SHARE * time.sum())


def steps_of(
    entries: Entries, names: Sequence[str], lines: Sequence[Timeline], runs: Runs, time_ns: Reals
) -> Steps:
    """The steady steps of a side, over all its runs. entries: as for ``runs_of``; names: of their
    steps. time_ns: kernel time of each."""
    found: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    warm: set[tuple[int, str]] = set()
    step_of: dict[tuple[int, str], tuple[int, str]] = {}
    for line in lines:
        run = int(runs.of_source[line.sources[0]]) if line.sources else -1
        for step in line.steps:
            # Steps of one name in files of one run (its ranks) are one step.
            step_of |= {(source, step.name): (run, step.name) for source in line.sources}
            if step.warm_up or run < 0:
                warm.add((run, step.name))
            else:
                times = (step.span_ns, step.idle_ns, step.exposed_communication_ns)
                found.setdefault((run, step.name), []).append(times)
    kept = [key for key in found if key not in warm]
    number = {key: at for at, key in enumerate(kept)}
    lookup = {key: number.get(step, -1) for key, step in step_of.items()}
    of_row = _steps_of_rows(entries, names, lookup)
    covered = float(time_ns[of_row >= 0].sum())
    return Steps(
        of_row=of_row,
        run=np.array([run for run, _ in kept], dtype=np.int64),
        span_ns=np.array([max(t[0] for t in found[key]) for key in kept], dtype=np.float64),
        idle_ns=np.array([np.mean([t[1] for t in found[key]]) for key in kept], dtype=np.float64),
        exposed_ns=np.array([np.mean([t[2] for t in found[key]]) for key in kept], dtype=float),
        covers=len({run for run, _ in kept}) == runs.count
        and covered >= _STEPS_COVER * float(time_ns.sum()),
    )


def _steps_of_rows(
    entries: Entries, names: Sequence[str], lookup: dict[tuple[int, str], int]
) -> Whole:
    sources = entries["source"]
    if not lookup or not names:
        return np.full(len(sources), -1, dtype=np.int64)
    grid = np.full((int(sources.max()) + 1, len(names) + 1), -1, dtype=np.int64)
    column = {name: at for at, name in enumerate(names)}
    for (source, name), step in lookup.items():
        if name in column:
            grid[source, column[name]] = step
    found: Whole = grid[sources, entries["step"]]  # unknown is -1, the last
    return found


def samples_of(steps: Steps, runs: Runs, sources: Whole, per: Per, by: By) -> Samples:
    """The samples of one side. sources: source file of each row."""
    run_of_row = runs.of_source[sources]
    if per == "run":
        of_row = run_of_row if by == "runs" else np.where(run_of_row < 0, -1, 0)
        count = runs.count if by == "runs" else 1
        return Samples(of_row, np.ones(count), np.empty(0, dtype=np.int64))
    if by == "runs":
        of_step, count = steps.run, runs.count
    elif by == "steps":
        count = min(len(steps), _MOST_SAMPLES)
        of_step = np.arange(len(steps), dtype=np.int64) * count // len(steps)
    else:
        of_step, count = np.zeros(len(steps), dtype=np.int64), 1
    parts = np.bincount(of_step, minlength=count).astype(np.float64)
    of_row = np.where(steps.of_row >= 0, of_step[np.maximum(steps.of_row, 0)], -1)
    return Samples(of_row, parts, of_step)
