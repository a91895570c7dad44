"""The runs of one workload in order, the series of their figures, and where each changed.

``History`` is complete before any renderer sees it; ``to_dict`` is the JSON ``traceroof/history/1``.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.config.values import fits, near
from traceroof.core.units import count
from traceroof.errors import TraceroofError
from traceroof.history.change_points import LEAST_RUNS, ChangePoint, Levels, levels_of
from traceroof.history.metrics import METRICS
from traceroof.store.summaries import Kept, Level, Origin, Per
from traceroof.store.summaries import Series as Key

SCHEMA = "traceroof/history/1"
Reals = npt.NDArray[np.float64]

#: Smaller changes are left out.
LEAST_PERCENT = 1.0
# What is shown where nothing is asked for, by the time in the newest run.
_KERNELS, _LEAST_KERNEL, _LEAST_CATEGORY = 12, 0.01, 0.01
# Changes of several series this near to one another are shown as one event.
_SAME_EVENT = 2


@dataclass(frozen=True)
class Point:
    """A run of the history."""

    run: str
    name: str
    when: str
    origin: Origin

    @property
    def code(self) -> str:
        """The commit in short, with + where files differed from it; empty where it is not known."""
        commit = self.origin.commit
        if not commit:
            return ""
        short = commit[:_SHORT] if _is_hash(commit) else commit
        return f"{short}+" if self.origin.dirty else short

    def to_dict(self) -> dict[str, Any]:
        return {"run": self.run, "name": self.name, "when": self.when, **asdict(self.origin)}


_SHORT = 10


def _is_hash(text: str) -> bool:
    return len(text) >= _SHORT and set(text.lower()) <= set("0123456789abcdef")


@dataclass(frozen=True)
class Change:
    """A change of one series between two runs. at: index of the run that has it first."""

    level: Level
    series: str
    at: int
    last: Point
    first: Point
    point: ChangePoint

    @property
    def slower(self) -> bool:
        """Whether more time passes."""
        return self.point.ratio > 0 and self.is_time

    @property
    def is_time(self) -> bool:
        return self.level != "metric" or METRICS[self.series][0] == "ns"

    @property
    def same_code(self) -> bool:
        """Whether both runs measured the same commit: then it is not the code that changed."""
        before, after = self.last.origin, self.first.origin
        return bool(before.commit) and (before.commit, before.dirty) == (after.commit, after.dirty)

    def to_dict(self) -> dict[str, Any]:
        return {
            "level": self.level,
            "series": self.series,
            "at": self.at,
            "before": self.point.before,
            "after": self.point.after,
            "change_pct": self.point.ratio * 100,
            "error_pct": self.point.error * 100,
            "slower": self.slower,
            "same_commit": self.same_code,
            "last_before": self.last.to_dict(),
            "first_after": self.first.to_dict(),
        }


@dataclass(frozen=True)
class Event:
    """Changes of several series between the same runs, the most important first."""

    changes: tuple[Change, ...]

    @property
    def lead(self) -> Change:
        return self.changes[0]


@dataclass(frozen=True)
class Series:
    """One figure over the runs; NaN where a run does not have it. runs: indices of those that do,
    of which levels are."""

    level: Level
    name: str
    unit: str
    values: Reals
    launches: Reals
    runs: npt.NDArray[np.int64]
    levels: Levels
    changes: tuple[Change, ...]

    @property
    def known(self) -> Reals:
        return np.asarray(self.values[self.runs])

    def level_at(self) -> Reals:
        """The level of each known run: the median of its piece."""
        bounds = [*self.levels.starts, len(self.runs)]
        pieces = itertools.pairwise(bounds)
        return np.concatenate([np.full(b - a, np.median(self.known[a:b])) for a, b in pieces])

    def to_dict(self) -> dict[str, Any]:
        noise = self.levels.noise
        return {
            "level": self.level,
            "name": self.name,
            "unit": self.unit,
            "values": _plain(self.values),
            "launches": _plain(self.launches),
            "noise_pct": None if np.isnan(noise) else noise * 100,
            "correlation": self.levels.correlation,
            "changes": [one.at for one in self.changes],
        }


def _plain(values: Reals) -> list[float | None]:
    return [None if np.isnan(one) else one for one in values.tolist()]


@dataclass(frozen=True)
class History:
    """The runs of one workload, oldest first, and its series, the most important first."""

    workload: str
    device: str
    time_basis: str
    per: Per
    branch: str | None
    runs: tuple[Point, ...]
    series: tuple[Series, ...]
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    def events(self) -> list[Event]:
        """The changes by the runs between which they lie, newest first."""
        rank = {(one.level, one.name): at for at, one in enumerate(self.series)}
        found: list[list[Change]] = []
        for one in sorted(self.changes, key=lambda one: (one.at, rank[one.level, one.series])):
            if found and one.at - found[-1][0].at <= _SAME_EVENT:
                found[-1].append(one)
            else:
                found.append([one])
        by_rank = (sorted(one, key=lambda c: rank[c.level, c.series]) for one in found)
        return [Event(tuple(one)) for one in by_rank][::-1]

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON form: values of series stand side by side with ``runs``; top cuts series."""
        return {
            "schema": SCHEMA,
            "workload": self.workload,
            "device": self.device,
            "time_basis": self.time_basis,
            "per": self.per,
            "branch": self.branch,
            "runs": [one.to_dict() for one in self.runs],
            "series": [one.to_dict() for one in self.series[:top]],
            "changes": [one.to_dict() for one in self.changes],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Wanted:
    """What history is asked for. series: metrics, categories or parts of kernels' names. name: of
    the runs, or a pattern; None is that of the newest. last: only so many of the newest runs."""

    series: Sequence[str] = ()
    name: str | None = None
    device: str | None = None
    branch: str | None = None
    last: int | None = None
    least_percent: float = LEAST_PERCENT


def history_of(kept: Sequence[Kept], keys: Mapping[int, Key], wanted: Wanted) -> History:
    """The history of one workload. Raises TraceroofError where no run or series is meant."""
    chosen, notes = _chosen(kept, wanted)
    matrix = _Matrix.of(chosen, keys)
    picked = _named(matrix, wanted.series) if wanted.series else _important(matrix)
    points = tuple(Point(one.run, one.name, _when(one), one.origin) for one in chosen)
    series = tuple(_series(matrix, at, points, len(picked), wanted) for at in picked)
    if len(points) < 2 * LEAST_RUNS:
        notes.append(
            f"{count(len(points), 'run')} alone; changes are looked for from {2 * LEAST_RUNS} runs on"
        )
    newest = chosen[-1]
    return History(
        workload=wanted.name or newest.name,
        device=newest.device,
        time_basis=newest.time_basis,
        per=newest.per,
        branch=wanted.branch,
        runs=points,
        series=series,
        changes=tuple(change for one in series for change in one.changes),
        notes=tuple(notes),
    )


def _when(one: Kept) -> str:
    # A clean run belongs to its commit, whenever it was ingested; with changes it is newer than that.
    committed = None if one.origin.dirty else one.origin.committed
    return committed or one.created


def _chosen(kept: Sequence[Kept], wanted: Wanted) -> tuple[list[Kept], list[str]]:
    """The runs that are comparable, oldest first, and what was left out."""
    if not kept:
        raise TraceroofError("the store holds no run", "`traceroof ingest PATH` adds one")
    found = list(kept)
    if wanted.branch is not None:
        there = sorted({one.origin.branch for one in kept if one.origin.branch})
        found = [one for one in found if one.origin.branch == wanted.branch]
        if not found:
            raise TraceroofError(
                f"no run is of branch {wanted.branch}", near(wanted.branch, there) or _NO_BRANCH
            )
    if wanted.device is not None:
        there = sorted({one.device for one in found})
        found = [one for one in found if fits(wanted.device, one.device)]
        if not found:
            raise TraceroofError(f"no run is of {wanted.device}", near(wanted.device, there))
    newest = max(found, key=lambda one: one.sequence)
    name = newest.name if wanted.name is None else wanted.name
    named = [one for one in found if one.name == name or fnmatchcase(one.name, name)]
    if not named:
        there = sorted({one.name for one in found})
        raise TraceroofError(f"no run is called {name}", near(name, there))
    newest = max(named, key=lambda one: one.sequence)
    alike = [one for one in named if _alike(one) == _alike(newest)]
    notes = []
    if other := len(named) - len(alike):
        notes.append(
            f"left out: {count(other, 'run')} of this name on another GPU, of another kind of times, "
            f"or per {'run' if newest.per == 'step' else 'step'}"
        )
    if wanted.name is None and len(alike) < 2 * LEAST_RUNS and len(found) > len(named):
        names = Counter(one.name for one in found if one.name != name).most_common(3)
        listed = ", ".join(f"{text} ({number})" for text, number in names)
        notes.append(f"runs of other names are left out: {listed}; --name chooses")
    alike.sort(key=lambda one: (_when(one), one.sequence))
    return (alike[-wanted.last :] if wanted.last else alike), notes


_NO_BRANCH = "`ingest` records the branch; --branch there names another"


def _alike(one: Kept) -> tuple[str, str, str]:
    return one.device, one.time_basis, one.per


@dataclass(frozen=True)
class _Matrix:
    """All series of the runs: values and launches (series, runs), NaN where there is none."""

    keys: tuple[Key, ...]
    values: Reals
    launches: Reals

    @classmethod
    def of(cls, runs: Sequence[Kept], keys: Mapping[int, Key]) -> "_Matrix":
        numbers = sorted(keys)
        place = np.full(max(numbers, default=0) + 1, -1, dtype=np.int64)
        place[numbers] = np.arange(len(numbers))
        values, launches = (np.full((len(numbers), len(runs)), np.nan) for _ in range(2))
        for column, one in enumerate(runs):
            series = np.array(one.series, dtype=np.int64)
            known = (series >= 0) & (series < len(place))
            row = place[series[known]]
            values[row, column] = np.array(one.values, dtype=float)[known]
            launches[row, column] = np.array(one.launches, dtype=float)[known]
        there = ~np.isnan(values).all(axis=1)
        kept = tuple(
            keys[number] for number, is_there in zip(numbers, there, strict=True) if is_there
        )
        return cls(kept, values[there], launches[there])

    def newest(self, level: Level) -> list[int]:
        """The series of a level that the newest run has, most time first."""
        last = self.values[:, -1]
        found = [at for at, key in enumerate(self.keys) if key.level == level and last[at] > 0]
        return sorted(found, key=lambda at: -last[at])


_ORDER = tuple(METRICS)


def _important(matrix: _Matrix) -> list[int]:
    """The metrics, and the categories and kernels with the most time in the newest run."""
    metrics = [at for at, key in enumerate(matrix.keys) if key.level == "metric"]
    metrics.sort(key=lambda at: _ORDER.index(matrix.keys[at].name))
    found = metrics
    for level, least, most in (("category", _LEAST_CATEGORY, None),
                               ("kernel", _LEAST_KERNEL, _KERNELS)):  # fmt: skip
        listed = matrix.newest(level)  # type: ignore[arg-type]
        whole = float(sum(matrix.values[at, -1] for at in listed))
        found = found + [at for at in listed if matrix.values[at, -1] >= least * whole][:most]
    return found


def _named(matrix: _Matrix, wanted: Iterable[str]) -> list[int]:
    """The series that are meant: a metric or category by its name, else kernels by a part of it."""
    found: list[int] = []
    for text in wanted:
        exact = [at for at, key in enumerate(matrix.keys) if key.level != "kernel"
                 and key.name == text.lower()]  # fmt: skip
        of_kernels = [at for at, key in enumerate(matrix.keys)
                      if key.level == "kernel" and fits(text, key.name)]  # fmt: skip
        of_kernels.sort(key=lambda at: -float(np.nan_to_num(matrix.values[at]).sum()))
        if not (exact or of_kernels):
            known = sorted({key.name for key in matrix.keys if key.level != "kernel"})
            raise TraceroofError(
                f"no metric, category or kernel of these runs is called {text}",
                near(text.lower(), known),
            )
        found += exact or of_kernels[:_KERNELS]
    return list(dict.fromkeys(found))


def _series(
    matrix: _Matrix, at: int, points: Sequence[Point], several: int, wanted: Wanted
) -> Series:
    key, values = matrix.keys[at], matrix.values[at]
    runs = np.flatnonzero(values > 0)
    levels = levels_of(values[runs], series=several, least=wanted.least_percent / 100)
    changes = tuple(
        Change(key.level, key.name, int(runs[one.at]), points[runs[one.at - 1]],
               points[runs[one.at]], one)
        for one in levels.changes
    )  # fmt: skip
    unit = METRICS[key.name][0] if key.level == "metric" else "ns"
    return Series(key.level, key.name, unit, values, matrix.launches[at], runs, levels, changes)


def within(history: History, newest: int) -> History:
    """The history with those changes alone that lie in so many of its newest runs."""
    first = len(history.runs) - newest
    kept = tuple(one for one in history.changes if one.at >= first)
    return replace(history, changes=kept)
