"""One rule and all subjects of its scope: how it fared on each, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceroof.config.settings import BY_CONFIGURATION
from traceroof.core.tracing import (
    Term,
)
from traceroof.core.units import count, percent, quantity
from traceroof.diagnosis.diagnosis import Grounds
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.formulas import (
    UNKNOWN,
    checks,
)
from traceroof.diagnosis.rule_firing import NOBODY
from traceroof.rule import Judgement, Rule, Scope
from traceroof.scopes.subjects import Subjects

MANY: Mapping[Scope, tuple[str, str]] = {
    "kernel": ("kernel", "kernels"),
    "category": ("category", "categories"),
    "timeline": ("timeline", "timelines"),
    "run": ("run", "runs"),
    "compare": ("comparison", "comparisons"),
}

_PLACES = 8


@dataclass(frozen=True)
class ExplainedRule:
    """One rule and all subjects of its scope, with what it found on them, however small."""

    grounds: Grounds
    rule: Rule
    subjects: Subjects
    judgement: Judgement
    silencers: npt.NDArray[np.object_]
    findings: tuple[Finding, ...]

    def foremost(self) -> int:
        """The subject that matters most to the rule: where it found most, else what it could not
        judge, else the longest."""
        found = [one for one in self.findings if one.state == "fired"] or self.findings
        if found:
            best = max(found, key=lambda one: one.weight)
            return best.subject_index or 0
        time = np.nan_to_num(self.subjects.facts.only(("time_ns",)).time_ns)
        unjudged = self.judgement.unjudged
        return int(np.argmax(np.where(unjudged, time, -1.0) if unjudged.any() else time))

    def outcome(
        self, row: int, finding: Finding | None, concerns: Term | None, condition: Term
    ) -> tuple[str, str]:
        """The state of the rule on one subject, and the same in a sentence."""
        if finding is None:
            if self.judgement.unjudged[row]:
                missing = ", ".join(self.judgement.missing(row))
                return "not-evaluable", f"could not be judged: {missing} unknown"
            if concerns is not None and not concerns.value:
                return "clear", f"does not apply: {_failing(concerns)}"
            return "clear", f"did not fire: {_failing(condition)}"
        if finding.suppressed_by:
            return "suppressed", self._silenced(finding.suppressed_by)
        if self._small(row, finding):
            return "fired", (
                f"fired, but is not listed: less than {percent(self._least)} of the run"
            )
        return "fired", f"fired: {finding.because}"

    def _silenced(self, by: str) -> str:
        """Why a rule that fired is silent: another says it better, or its figure says nothing."""
        if by == BY_CONFIGURATION:
            return "fired, but is not wanted here: see `traceroof config`"
        doubts = [doubt for rule in self.grounds.rules if rule.id == by for doubt in rule.doubts]
        what = next((one.what for one in doubts if one.silences and one.concerns(self.rule)), None)
        if what:
            return f"fired, but is suppressed by {by}: {what}"
        return f"fired, but {by} says it better"

    def _small(self, row: int, finding: Finding) -> bool:
        weight = finding.time_saved_bound_ns
        if weight is None or self.rule.severity == "info":
            weight = self.time(row)
        total = self.whole(row)
        return weight is not None and weight < self._least * total

    @property
    def _least(self) -> float:
        """From which share of the run on a finding is listed."""
        return self.grounds.context.settings.steps["low"]

    def time(self, row: int) -> int | None:
        """The time of one subject, ns; None where unknown."""
        value = self.subjects.facts.only(("time_ns",)).value("time_ns", row)
        return None if value is None else round(value)

    def whole(self, row: int) -> float:
        """What the saving is a part of, ns: the run, of a timeline its own span."""
        own = self.rule.scope == "timeline"
        return float(self.time(row) or 0) if own else self.grounds.context.total_ns

    def severity(self, row: int, finding: Finding) -> str:
        """The class of what is saved, and why."""
        if self.rule.severity:
            return f"{finding.severity}: always, whatever it saves"
        whole = self.whole(row)
        if finding.time_saved_bound_ns is None or not whole:
            return f"{finding.severity}: what it saves is not known"
        of_user = self.grounds.context.settings
        steps = ", ".join(f"{name} from {step * 100:g} %" for name, step in of_user.steps.items())
        steps += "; configured" if of_user.severity else ""
        share = percent(finding.time_saved_bound_ns / whole)
        return f"{finding.severity}: {share} of {quantity(whole, 'ns')} ({steps})"

    def outcomes(self) -> str:
        """How all subjects of the scope fared, in one line."""
        one, many = MANY[self.rule.scope]
        silenced = self.judgement.fired & (self.silencers != NOBODY)
        spoken = self.judgement.fired & ~silenced
        clear = ~self.judgement.fired & ~self.judgement.unjudged
        parts = [
            f"{words} {'on ' if words != 'not evaluable' else 'for '}{int(mask.sum()):,}"
            for words, mask in (
                ("fired", spoken),
                ("silenced", silenced),
                ("clear", clear),
                ("not evaluable", self.judgement.unjudged),
            )
            if mask.any()
        ]
        places = np.flatnonzero(spoken).tolist()
        where = ""
        if len(places) > 1 and self.rule.scope != "run":
            numbers = ", ".join(f"#{place + 1}" for place in places[:_PLACES])
            more = f" and {len(places) - _PLACES} more" if len(places) > _PLACES else ""
            where = f"; fired on {numbers}{more}"
        return f"{', '.join(parts)} of {count(len(self.subjects.facts), one, many)}{where}"


def _failing(condition: Term) -> str:
    """The first comparison of a condition that does not hold, with its figures."""
    check = next((one for one in checks(condition) if not one.holds), None)
    if check is None:
        return "its condition does not hold"
    if check.parts:
        return "none of what it looks for holds"
    if check.figures == UNKNOWN:
        return f"{check.text.removesuffix(' is known')} is unknown"
    return f"{check.text} does not hold ({check.figures})"
