"""The arithmetic of a finding, with the numbers in it: how a rule came to what it says.

A rule is held once more against one subject whose columns remember how they are combined
(``arithmetic``): what is printed is the formula that decided, not a description of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.config.settings import BY_CONFIGURATION
from traceroof.core.facts import Facts, is_unknown_value
from traceroof.core.selection import choose, known_rule
from traceroof.core.tracing import (
    CEILING,
    COLUMN,
    NUMBER,
    Term,
    Traced,
    term_of,
)
from traceroof.core.units import count, percent, quantity
from traceroof.diagnosis import collect
from traceroof.diagnosis.advice import name_of
from traceroof.diagnosis.diagnosis import Diagnosis, Grounds
from traceroof.diagnosis.finding_text import evidence_of, fired
from traceroof.diagnosis.findings import Evidence, Finding
from traceroof.diagnosis.formulas import (
    UNKNOWN,
    Check,
    checks,
    number,
    written,
)
from traceroof.diagnosis.nothing_to_gain import UNSAID
from traceroof.diagnosis.rule_firing import NOBODY, judge_all
from traceroof.diagnosis.savings import SPARE, capped, spare_ns
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import NOMINAL, Attainable
from traceroof.hardware.vendor_terms import said
from traceroof.rule import Judgement, Rule, Scope
from traceroof.scopes.subjects import Subjects, vocabulary

SCHEMA = "traceroof/explanation/1"

_MANY: Mapping[Scope, tuple[str, str]] = {
    "kernel": ("kernel", "kernels"),
    "category": ("category", "categories"),
    "timeline": ("timeline", "timelines"),
    "run": ("run", "runs"),
    "compare": ("comparison", "comparisons"),
}


@dataclass(frozen=True)
class Step:
    """One step of a calculation: what it gives, by which formula, with which numbers."""

    label: str
    formula: str
    figures: str
    result: str


@dataclass(frozen=True)
class Explanation:
    """How one rule came to what it says of one subject.

    number: of the subject among those of its scope, from 1 on. says: the outcome in a sentence.
    concerns: what makes the rule apply to this subject; condition: what must hold, ``words`` the
    same in the words of its card. inputs: the columns with a known value; unknown: the others. bound, likely: the two savings, step by step,
    empty where the rule claims none; ceilings: what the likely one is held against. severity: the
    class of the saving and why.
    finding: what is reported, None unless the condition holds. outcomes: how the other subjects
    fared. traced: whether the rule's own formula could be followed.
    """

    rule: str
    title: str
    why: str
    scope: Scope
    subject: str
    number: int
    state: str
    says: str
    concerns: tuple[Check, ...]
    words: str
    condition: tuple[Check, ...]
    inputs: tuple[Evidence, ...]
    unknown: tuple[str, ...]
    bound: tuple[Step, ...]
    likely: tuple[Step, ...]
    ceilings: str
    severity: str
    trust: Step | None
    finding: Finding | None
    missing: tuple[str, ...]
    command: str | None
    fix: str
    refute: str
    references: tuple[str, ...]
    outcomes: str
    traced: bool = True


@dataclass(frozen=True)
class Explanations:
    """Answers to one question about a run."""

    run_name: str
    answers: tuple[Explanation, ...]
    left_out: int = 0

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """The JSON form ``traceroof/explanation/1``."""
        return {
            "schema": SCHEMA,
            "run": {"name": self.run_name},
            "explanations": [asdict(one) for one in self.answers[:top]],
            "left_out": self.left_out + len(self.answers[top or len(self.answers) :]),
        }


#: So many subjects of one rule are explained at once.
MOST = 3


def entry(diagnosis: Diagnosis, number: int) -> str:
    """What entry ``number`` of the advice is about, as ``explain`` takes it: ``RULE:SUBJECT``.

    Raises TraceroofError where there are not so many.
    """
    listed = diagnosis.advice
    if not 1 <= number <= len(listed):
        raise TraceroofError(
            f"there is no entry {number}: {count(len(listed), 'thing is', 'things are')} worth "
            "trying in this run",
            "`traceroof diagnose` numbers them; a rule can be named instead",
        )
    lead = listed[number - 1].lead
    if lead.rule in UNSAID:
        raise TraceroofError(f"entry {number} rests on no rule: {lead.because}", "explain another")
    return name_of(lead)


def explain(diagnosis: Diagnosis, wanted: str, *, most: int = MOST) -> Explanations:
    """How a rule came to what it says: ``wanted`` is ``RULE`` or ``RULE:SUBJECT``.

    SUBJECT is a number or (a part of) a name; without one, it is the subject on which the rule
    found most, or the one with the most time. Raises TraceroofError where there is no such rule or
    subject, or nothing of that scope in the run; ValueError without grounds.
    """
    grounds = diagnosis.grounds
    if grounds is None:
        raise ValueError("this diagnosis keeps no grounds")
    rule_id, _, subject = wanted.partition(":")
    rule = known_rule(rule_id.strip(), {one.id: one for one in grounds.rules})
    scope = rule.scope
    if scope not in grounds.scopes:
        raise TraceroofError(
            f"{rule.id} judges what changed between two runs",
            "`traceroof compare BASE HEAD` holds it against them",
        )
    subjects = grounds.scopes[scope]
    one, many = _MANY[scope]
    if not len(subjects.facts):
        raise TraceroofError(
            f"{rule.id} judges {many}, and this run has none",
            "`traceroof formats` says which files have them",
        )
    judged, broken = judge_all(grounds.rules, grounds.scopes, grounds.context)
    for one_broken, how in broken:
        if one_broken.id == rule.id:
            raise TraceroofError(how)
    judgement, silencers = next(pair for pair in judged[scope] if pair[0].rule.id == rule.id)
    every = replace(grounds.context, hidden_share=-1.0)
    found = tuple(fired(judgement, silencers, subjects, every)[0])
    view = _View(grounds, rule, subjects, judgement, silencers, found)
    if subject:
        hint = f"`traceroof diagnose` numbers the {many}"
        rows = choose(subject, subjects.names, one=one, many=many, numbered_by=hint)
    else:
        rows = (view.foremost(),)
    return Explanations(
        diagnosis.run_name, tuple(view.of(row) for row in rows[:most]), len(rows[most:])
    )


@dataclass(frozen=True)
class _View:
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

    def of(self, row: int) -> Explanation:
        """The explanation for one subject."""
        rule, context = self.rule, self.grounds.context
        facts = _traced(self.subjects.facts, row, (*rule.columns, *SPARE), rule.scope)
        seen = rule.sees(facts)
        concerns = _followed(rule.applies, True, seen) if rule.applies else None
        condition = _followed(rule.when, bool(self.judgement.fired[row]), seen)
        finding = next((one for one in self.findings if one.subject_index == row), None)
        values = {name: self.subjects.facts.only((name,)).value(name, row) for name in rule.columns}
        missing = self.judgement.missing(row)
        named = [self.subjects.names[row]] if rule.scope == "kernel" else []
        state, says = self._outcome(row, finding, concerns, condition)
        bound, saved = self._bound(row, facts) if finding else ((), None)
        return Explanation(
            rule=rule.id,
            title=said(rule.title, context.words),
            why=said(rule.why, context.words),
            scope=rule.scope,
            subject=self.subjects.names[row],
            number=row + 1,
            state=state,
            says=says,
            concerns=checks(concerns) if concerns else (),
            words=rule.condition_words(),
            condition=checks(condition),
            inputs=evidence_of(
                rule,
                values,
                self.subjects.facts,
                row,
                vocabulary(rule.scope),
                rule.threshold_words(),
            ),
            unknown=tuple(name for name, value in values.items() if value is None),
            bound=bound,
            likely=self._likely(row, facts, finding, saved) if finding else (),
            ceilings=self._ceilings(row) if finding and rule.saves else "",
            severity=self._severity(row, finding) if finding else "",
            trust=_trust(rule, seen) if finding else None,
            finding=finding,
            missing=missing,
            command=collect.command(missing, named, vendor=context.tool) if missing else None,
            fix=finding.fix if finding else "",
            refute=said(rule.refute, context.words),
            references=rule.references,
            outcomes=self._outcomes(),
            traced=condition.op != NUMBER,
        )

    def _outcome(
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
            weight = self._time(row)
        total = self._whole(row)
        return weight is not None and weight < self._least * total

    @property
    def _least(self) -> float:
        """From which share of the run on a finding is listed."""
        return self.grounds.context.settings.steps["low"]

    def _time(self, row: int) -> int | None:
        value = self.subjects.facts.only(("time_ns",)).value("time_ns", row)
        return None if value is None else round(value)

    def _whole(self, row: int) -> float:
        """What the saving is a part of, ns: the run, of a timeline its own span."""
        own = self.rule.scope == "timeline"
        return float(self._time(row) or 0) if own else self.grounds.context.total_ns

    def _severity(self, row: int, finding: Finding) -> str:
        if self.rule.severity:
            return f"{finding.severity}: always, whatever it saves"
        whole = self._whole(row)
        if finding.time_saved_bound_ns is None or not whole:
            return f"{finding.severity}: what it saves is not known"
        of_user = self.grounds.context.settings
        steps = ", ".join(f"{name} from {step * 100:g} %" for name, step in of_user.steps.items())
        steps += "; configured" if of_user.severity else ""
        share = percent(finding.time_saved_bound_ns / whole)
        return f"{finding.severity}: {share} of {quantity(whole, 'ns')} ({steps})"

    def _bound(self, row: int, facts: Facts) -> tuple[tuple[Step, ...], float | None]:
        """The steps to what is saved at most, and that in ns."""
        if self.rule.saves is None:
            return (), None
        return self._savings(row, facts, self.rule.saves, NOMINAL, self.judgement.saved)

    def _likely(
        self, row: int, facts: Facts, finding: Finding, bound: float | None
    ) -> tuple[Step, ...]:
        saves = self.rule.likely or self.rule.saves
        if saves is None or finding.time_saved_likely_ns is None:
            return ()
        attainable = self.grounds.context.ceilings(self.rule.scope)[0]
        steps, likely = self._savings(row, facts, saves, attainable, self.judgement.likely)
        if bound is not None and likely is not None and likely > bound:
            return (*steps, Step("no more than at most", "", "", quantity(round(bound), "ns")))
        return steps

    def _ceilings(self, row: int) -> str:
        """What is attainable of the nominal peaks, and who says so."""
        attainable = self.grounds.context.ceilings(self.rule.scope)[0]
        if self.rule.scope != "kernel":
            memory, compute = (
                float(np.mean(share)) for share in (attainable.memory, attainable.compute)
            )
            return (
                f"memory ceiling {number(memory)}, compute ceiling {number(compute)} of nominal "
                "(over all kernels, by their time)"
            )
        see = self.subjects.facts.only(("dram_from", "flop_from"))
        parts = []
        for name, share, origin in (
            ("memory", attainable.memory, see.value("dram_from", row)),
            ("compute", attainable.compute, see.value("flop_from", row)),
        ):
            value = _at(share, row)
            words = _FROM.get(str(origin), _FROM["assumed"])
            parts.append(f"{name} ceiling {number(value)} of nominal ({words})")
        return ", ".join(parts)

    def _savings(
        self,
        row: int,
        facts: Facts,
        saves: Callable[[Facts, Attainable], Any],
        ceilings: Attainable,
        judged: npt.NDArray[np.float64],
    ) -> tuple[tuple[Step, ...], float | None]:
        """Share, time and cap of one of the two figures, and what they come to, ns."""
        attainable = _leaves(ceilings, row)
        term = _followed(saves, float(judged[row]), self.rule.sees(facts), attainable)
        if is_unknown_value(term.value):
            lacking = [leaf.name for leaf in term.leaves() if is_unknown_value(leaf.value)]
            why = f" for want of {', '.join(dict.fromkeys(lacking))}" if lacking else ""
            formula = written(term)
            formula = "" if formula == UNKNOWN else formula
            return (Step("share of the time", formula, "", f"{UNKNOWN}{why}"),), None
        share = float(np.clip(term.value, 0.0, 1.0))
        within = "" if share == term.value else f", kept within 0 and 1: {number(share)}"
        result = number(float(term.value)) + within
        steps = [Step("share of the time", written(term), written(term, values=True), result)]
        time = self._time(row)
        if time is None:
            return (*steps, Step("time saved", "share × time", "", UNKNOWN)), None
        saved = share * time
        steps.append(
            Step(
                "time saved",
                "share × time",
                f"{number(share)} × {quantity(time, 'ns')}",
                quantity(round(saved), "ns"),
            )
        )
        if capped(self.rule):
            with np.errstate(all="ignore"):
                spare = term_of(spare_ns(facts, attainable))
            if is_unknown_value(spare.value) or spare.value >= saved:
                return tuple(steps), saved
            saved = float(spare.value)
            steps.append(
                Step(
                    "no more than what its own bytes and operations leave",
                    written(spare),
                    written(spare, values=True),
                    quantity(round(saved), "ns"),
                )
            )
        return tuple(steps), saved

    def _outcomes(self) -> str:
        """How all subjects of the scope fared, in one line."""
        one, many = _MANY[self.rule.scope]
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


_PLACES = 8

_FROM = {
    "measured": "measured on this device by the profiler",
    "calibrated": "calibrated",
    "published": "as others measured it on this model",
    "assumed": "assumed: what large kernels usually reach",
}


def _followed(function: Callable[..., Any], otherwise: Any, *args: Any) -> Term:
    """How a function of a rule came to its result; the bare result where numpy cannot tell."""
    try:
        with np.errstate(all="ignore"):
            return term_of(function(*args))
    except (TypeError, ValueError, AttributeError, IndexError, KeyError):
        return Term(NUMBER, (), otherwise)


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


def _at(share: float | npt.NDArray[Any], row: int) -> float:
    values = np.asarray(share)
    return float(values[row] if values.ndim else values)


def _leaves(attainable: Attainable, row: int) -> Attainable:
    """The ceilings of one subject as leaves of a calculation."""

    def leaf(share: Any, name: str) -> Traced:
        return Traced.of(_at(share, row), CEILING, name)

    return Attainable(leaf(attainable.memory, "memory"), leaf(attainable.compute, "compute"))


def _traced(facts: Facts, row: int, names: Sequence[str], scope: Scope) -> Facts:
    """One subject, its columns as leaves of a calculation."""
    one = facts.only(tuple(dict.fromkeys(names)))
    known = vocabulary(scope)
    columns = {}
    for name in one.names():
        values = getattr(one, name)
        value = values[row]
        unit = known[name].unit if name in known else ""
        # An unknown text is None, an unknown number NaN, as in the column itself.
        number_or_text = value if values.dtype == object else float(value)
        columns[name] = Traced.of(number_or_text, COLUMN, name, unit)
    return Facts(columns, 1)


def _trust(rule: Rule, seen: Facts) -> Step | None:
    """How the rule rates the quality of what it reads; None where it always says the same."""
    if rule.trust is None:
        return None
    with np.errstate(all="ignore"):
        term = term_of(rule.trust(seen))
    if not list(term.leaves()) or term.value == 1:
        return None
    return Step(
        "quality of what the rule reads",
        written(term),
        written(term, values=True),
        number(float(term.value)),
    )
