"""What the parts of a page of changes share: which kernel is which on the other side."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from traceroof.compare import Comparison
from traceroof.compare.changes import Change
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.report.html.change_words import (
    MARKS,
    Line,
    arrow,
    delta,
    groups_of,
    sides_of,
    time_of,
)


@dataclass(frozen=True)
class Pairs:
    """A comparison with its kernels by their places on both sides."""

    comparison: Comparison

    @property
    def unit(self) -> str:
        """What a time is given for: 'per step', 'per run'."""
        return f"per {self.comparison.per}"

    def _run(self, side: Literal["base", "head"]) -> Diagnosis:
        return self.comparison.base if side == "base" else self.comparison.head

    @cached_property
    def _changes(self) -> Mapping[int, Change]:
        """Identity of each kernel group of either side -> its change."""
        return {
            id(group): one
            for one in self.comparison.kernels
            for side in ("base", "head")
            for group in groups_of(one, side)
        }

    @cached_property
    def _change_of(self) -> Mapping[int, int]:
        """The same as a number, equal on both sides."""
        return {key: id(change) for key, change in self._changes.items()}

    @cached_property
    def _indices(self) -> Mapping[str, Mapping[int, int]]:
        return {
            side: {id(group): at for at, group in enumerate(self._run(side).kernels)}
            for side in ("base", "head")
        }

    def index(self, side: Literal["base", "head"], group: KernelGroup) -> int:
        """The place of a kernel group in its diagnosis."""
        return self._indices[side][id(group)]

    def _scale(self, side: Literal["base", "head"]) -> float | None:
        """What part of the kernel time of the whole recording is in one step or run."""
        kernels = self.comparison.kernel_time
        timed = kernels.base if side == "base" else kernels.head
        whole = self._run(side).totals.kernel_time_ns
        return timed.median_ns / whole if timed.median_ns is not None and whole else None

    def _timed(self, what: str, change: Change, *, prefix: str = "", why: str = "") -> Line:
        base, now = sides_of(change)
        if prefix:
            changed = "" if change.delta_ns is None else delta(change)
            return Line(what, "", prefix + arrow(base, now), changed, MARKS[change.verdict])
        return Line(what, time_of(base), time_of(now), delta(change), MARKS[change.verdict], why)

    def points(self, base: float | None, now: float | None) -> str:
        """A difference of shares in percentage points; empty where there is none to give."""
        if base is None or now is None or not self.comparison.compared:
            return ""
        points = round((now - base) * 100, 1)
        return f"{points:+.1f} points" if points else "0.0 points"
