"""Which launches a finding speaks of, and so where in the program it is."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from traceroof.diagnosis.findings import Finding
from traceroof.kernels.places import BY, NOWHERE, By, Members, Place, Places, PlaceTime, Weights
from traceroof.patterns.fusion import PATTERNS
from traceroof.rule import Rule


@dataclass(frozen=True)
class Concerned:
    """The launches behind each subject.

    categories: of each variant. patterns: pattern -> the launches that belong to it. rules: that findings may
    come from.
    """

    places: Places
    categories: Sequence[str]
    patterns: Mapping[str, Members]
    rules: Sequence[Rule]
    _known: dict[object, Weights] = field(default_factory=dict)
    _places: dict[int, Place] = field(default_factory=dict)

    def where(self, group: int) -> Place:
        """Where a kernel group comes from."""
        if group not in self._places:
            self._places[group] = self.places.place(self._of_group(group))
        return self._places[group]

    def with_wheres(self, found: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings, each with where its launches come from."""
        places = (
            (one, self.where(one.subject_index))
            if one.scope == "kernel" and one.subject_index is not None
            else (one, self.place((one,)))
            for one in found
        )
        return tuple(one if at is NOWHERE else replace(one, where=at) for one, at in places)

    def place(self, found: Sequence[Finding]) -> Place:
        """Where the launches of all these findings together come from."""
        subjects = {self._subject(one): self.weights(one) for one in found}
        together: dict[int, tuple[float, float]] = {}
        for weights in subjects.values():
            for spot, (launches, time) in weights.items():
                before = together.get(spot, (0.0, 0.0))
                together[spot] = (before[0] + launches, before[1] + time)
        return self.places.place(together)

    def tables(self, found: Mapping[str, Finding]) -> Mapping[By, tuple[PlaceTime, ...]]:
        """Time by module, operator and range, each with its findings by name."""
        weights = {name: self.weights(one) for name, one in found.items()}
        weights = {name: one for name, one in weights.items() if one}
        return {by: self.places.table(by, weights) for by in BY}

    def weights(self, finding: Finding) -> Weights:
        """The launches that a finding speaks of; none for a timeline or the run as a whole."""
        subject = self._subject(finding)
        if subject is None:
            return {}
        scope, what = subject
        if scope == "kernel":
            return self._of_group(int(what))
        if subject not in self._known:
            if scope == "category":
                rows = np.flatnonzero(np.array([one == what for one in self.categories], bool))
                self._known[subject] = self.places.weights(rows)
            else:
                members = self.patterns.get(str(what))
                self._known[subject] = self.places.weighed(*members) if members else {}
        return self._known[subject]

    def _of_group(self, group: int) -> Weights:
        if group not in self._known:
            self._known[group] = self.places.weights(self.places.rows_of(group))
        return self._known[group]

    def _subject(self, finding: Finding) -> tuple[str, int | str] | None:
        if finding.scope == "kernel":
            index = finding.subject_index
            return None if index is None else ("kernel", index)
        if finding.scope == "category" and finding.subject_index is not None:
            return "category", finding.subject
        pattern = self._pattern_of.get(finding.rule) if finding.state != "not-evaluable" else None
        return ("pattern", pattern) if pattern else None

    @cached_property
    def _pattern_of(self) -> Mapping[str, str]:
        """Rule -> the pattern of launches that it judges."""
        return {
            rule.id: pattern
            for rule in self.rules
            for pattern in PATTERNS
            if rule.scope == "run" and f"{pattern}_pct" in rule.needs
        }
