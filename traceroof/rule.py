"""The contract of a rule: one bottleneck, or one family of the same shape, one module in ``rules/``.

A rule reads a table of subjects (kernel groups, categories, timelines, the run) one column at a
time, so that one expression judges them all. Its module holds ``RULES``, a tuple of ``Rule``.
``docs/writing-a-rule.md`` shows a complete one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import (
    Column,
    Facts,
    Mask,
    unknown,
)
from traceroof.core.thresholds import Threshold, above, at_least, at_most, below
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import NOMINAL, UNCALIBRATED, Attainable

__all__ = [
    "GRADES",
    "NOMINAL",
    "SEVERITIES",
    "SEVERITY_STEPS",
    "UNCALIBRATED",
    "Attainable",
    "Doubt",
    "Facts",
    "Judgement",
    "Rule",
    "Scope",
    "Severity",
    "State",
    "Threshold",
    "above",
    "at_least",
    "at_most",
    "below",
    "judge",
]

Scope = Literal["kernel", "category", "timeline", "run", "compare"]
State = Literal["fired", "clear", "not-evaluable", "suppressed"]
Severity = Literal["high", "medium", "low", "info"]
Kind = Literal["hard", "conditional", "option"]
Grade = Literal["observed", "derived", "inferred"]
Layer = Literal["model", "framework", "operator", "hardware"]
Role = Literal["class", "cause"]

SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low", "info")

#: From which share of the time, 0-1, on a finding is that severe; below the last it is only counted.
SEVERITY_STEPS: Mapping[Severity, float] = {"high": 0.10, "medium": 0.03, "low": 0.005}

#: How far a finding is to be trusted before the quality of its inputs counts, 0-1:
#: read from a hardware counter, a model held against a measured time, a name or a shape.
GRADES: Mapping[Grade, float] = {"observed": 0.9, "derived": 0.7, "inferred": 0.5}


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """What a rule on the measurement itself takes off the confidence of other findings.

    scope: of the findings that it makes less sure. factor: what remains of their confidence, 0-1,
    one number a subject of that scope, from the subject's own columns (first argument) and those
    of the rule that fired (second: one subject for a rule on the run); 1 leaves it alone.
    reads: the columns of that scope which ``factor`` reads. columns: only findings of rules that
    read one of these, ``roof_*`` patterns; empty for all that name a time saved. what: the figure
    that is in doubt, in words. silences: where the factor is 0 the figure says nothing, and rules
    that need one of the columns (it is not enough to use one) are suppressed there; elsewhere such
    a doubt takes nothing.
    """

    scope: Scope
    factor: Callable[[Facts, Facts], Column]
    what: str
    reads: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    silences: bool = False

    def concerns(self, rule: "Rule") -> bool:
        """Whether findings of this rule rest on what is in doubt."""
        if rule.scope != self.scope or rule.doubts:
            return False
        if not self.columns:
            return rule.saves is not None
        read = rule.needs if self.silences else rule.columns
        return any(fnmatchcase(name, one) for one in self.columns for name in read)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One bottleneck, as a card.

    id: kebab case, unique.
    title: what is wrong, in a few words.
    topic: what the fix is about, one of ``traceroof.core.topics``; where that depends on the
        operator category of the subject, a topic per category, under "" that of all others.
    scope: which table of subjects it judges.
    why: what happens inside the machine, two or three sentences.
    condition: the condition in words and numbers, as people read it; ``{name}`` is the number of
        a threshold.
    needs: columns that must be known; a subject that lacks one is not-evaluable.
    uses: columns that sharpen the rule where they are known.
    applies: which subjects the question makes sense for (others are clear); all when None.
    when: the condition over the columns; ``k.meets("waves")`` asks a threshold.
    title to refute speak NVIDIA's words, which ``wording`` turns into AMD's; a clause for one
        vendor is ``[nvidia: …]`` or ``[amd: …]``.
    because: evidence sentence; ``{column}`` and ``{column:.0f}`` are filled from needs and uses,
        and a clause in square brackets is left out where a column in it is unknown.
    fix: what to try.
    refute: what to measure that would show the finding wrong.
    saves: share of the subject's time that goes at most, 0-1, given what is attainable; None
        when nothing can be said. Evaluated twice, nominal and calibrated (DESIGN §5).
    likely: the same share for the likely figure, where it rests on more than ceilings.
    kind: hard (intervals, roofline, removable kernels), conditional (holds only if instruction
        and byte counts stay), option (changes results or trade-offs).
    grade: where the evidence comes from; see GRADES.
    severity: fixed severity; None derives it from the time saved.
    trust: factor on the confidence from the quality of the inputs, 0-1.
    role: "class" says which wall a kernel hit, "cause" says why; people read the cause first.
    suppresses: rule ids (``stall-*`` patterns) that say nothing more on the same subject.
    yields: it only describes a kernel: silenced by a cause on the same subject that likely saves half
        as much or more.
    hides: another scope -> its subjects on which nothing is worth saying once this rule fired on
        half of the run's time or more.
    doubts: what it makes less sure, for rules on the measurement itself.
    urgent: where such a rule must be told before everything else, whatever it lowers.
    thresholds: name -> the number that the condition holds a column against; the name is the
        column's where there is one threshold on it. For a column of words: what it is compared
        with, in words.
    layer, effort, risk: what the fix touches.
    references: where the rule and its threshold come from.
    fires, silent: examples, column -> value; they are the tests and the documentation.
    """

    id: str
    topic: str | Mapping[str, str]
    title: str
    scope: Scope
    why: str
    condition: str
    needs: tuple[str, ...]
    when: Callable[[Facts], Mask]
    because: str
    fix: str
    refute: str
    kind: Kind
    grade: Grade
    layer: Layer
    references: tuple[str, ...]
    fires: tuple[Mapping[str, Any], ...]
    silent: tuple[Mapping[str, Any], ...]
    uses: tuple[str, ...] = ()
    applies: Callable[[Facts], Mask] | None = None
    saves: Callable[[Facts, Attainable], Column] | None = None
    likely: Callable[[Facts, Attainable], Column] | None = None
    severity: Severity | None = None
    trust: Callable[[Facts], Column] | None = None
    role: Role = "cause"
    suppresses: tuple[str, ...] = ()
    yields: bool = False
    hides: Mapping[Scope, Callable[[Facts], Mask]] | None = None
    doubts: tuple[Doubt, ...] = ()
    urgent: Callable[[Facts], Mask] | None = None
    thresholds: Mapping[str, Threshold | str] | None = None
    effort: Literal["config", "one-line", "refactor", "kernel"] = "kernel"
    risk: Literal["none", "numerics", "memory"] = "none"

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the rule may read, needs first."""
        return (*self.needs, *self.uses)

    @property
    def topics(self) -> tuple[str, ...]:
        """Every topic that its findings may have."""
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic.values())

    def topic_of(self, category: str | None) -> str:
        """The topic of a finding on a subject of this operator category (None: it has none)."""
        if isinstance(self.topic, str):
            return self.topic
        return self.topic.get(category or "") or self.topic[""]

    @property
    def limits(self) -> dict[str, Threshold]:
        """The thresholds that the condition reads, by name."""
        found = (self.thresholds or {}).items()
        return {name: one for name, one in found if isinstance(one, Threshold)}

    def sees(self, facts: Facts) -> Facts:
        """What the rule may read of these facts: its columns and its thresholds."""
        return facts.only(self.columns, self.limits)

    def condition_words(self) -> str:
        """The condition with the numbers of its thresholds."""
        return self.condition.format(
            **{name: one.amount(name) for name, one in self.limits.items()}
        )

    def threshold_words(self) -> dict[str, str]:
        """Per column: what it is held against, as printed beside its value."""
        found: dict[str, list[str]] = {}
        for name, one in (self.thresholds or {}).items():
            if isinstance(one, Threshold):
                for column in (one.beside or (one.column or name,)) if one.told else ():
                    found.setdefault(column, []).append(one.text(name))
            else:
                found.setdefault(name, []).append(one)
        return {column: ", ".join(texts) for column, texts in found.items()}

    def with_limits(self, values: Mapping[str, float]) -> "Rule":
        """The same rule with other numbers for some of its thresholds, by name.

        Raises TraceroofError for a name that the rule has no threshold for.
        """
        limits = self.limits
        for name in values:
            if name not in limits:
                known = ", ".join(limits) or "none"
                raise TraceroofError(
                    f"{self.id} has no threshold {name}", f"its thresholds: {known}"
                )
        changed = {
            name: replace(limits[name], value=value, usual=limits[name].value)
            for name, value in values.items()
        }
        return replace(self, thresholds={**(self.thresholds or {}), **changed})


@dataclass(frozen=True)
class Judgement:
    """What one rule says of n subjects. What it saves is worked out when it is asked for: most rules
    fire on nothing.

    fired, unjudged: masks of length n; a subject in neither is clear. seen: what the rule reads.
    attainable: the ceilings of ``likely``. doubts: what rules on the measurement take off its
    confidence, one number a subject.
    """

    rule: Rule
    fired: Mask
    unjudged: Mask
    seen: Facts
    attainable: Attainable
    doubts: tuple["Doubted", ...] = ()

    def missing(self, row: int) -> tuple[str, ...]:
        """The needed columns that are unknown of one subject (none where it was judged)."""
        return self.missing_among(np.array([row]))

    def missing_among(self, rows: npt.NDArray[np.int64]) -> tuple[str, ...]:
        """The needed columns that are unknown of some subjects, in the order in which they are met;
        of those that were judged, none."""
        rows = rows[self.unjudged[rows]]
        met: dict[str, int] = {}
        for name in self.rule.needs:
            gaps = unknown(np.asarray(getattr(self.seen, name))[rows])
            if gaps.any():
                met[name] = int(gaps.argmax())
        return tuple(sorted(met, key=lambda name: met[name]))

    @cached_property
    def saved(self) -> npt.NDArray[np.float64]:
        """Share of each subject's time that is saved at most, 0-1, NaN where nothing can be said."""
        return self._share(self.rule.saves, NOMINAL)

    @cached_property
    def likely(self) -> npt.NDArray[np.float64]:
        """The same at what is attainable."""
        return self._share(self.rule.likely or self.rule.saves, self.attainable)

    @cached_property
    def likely_at_peak(self) -> npt.NDArray[np.float64]:
        """What would be likely were the nominal peaks attainable: where it is the same as
        ``likely``, no ceiling enters."""
        return self._share(self.rule.likely or self.rule.saves, NOMINAL)

    @cached_property
    def trust(self) -> npt.NDArray[np.float64]:
        """Confidence in each subject, 0-1, without doubts."""
        grade = np.full(len(self.fired), GRADES[self.rule.grade])
        with np.errstate(divide="ignore", invalid="ignore"):
            return grade * self.rule.trust(self.seen) if self.rule.trust else grade

    def work_out(self) -> None:
        """Work out all of it now: what a rule's own functions raise is raised here."""
        for name in ("saved", "likely", "likely_at_peak", "trust"):
            getattr(self, name)

    def _share(
        self, saves: Callable[[Facts, Attainable], Column] | None, attainable: Attainable
    ) -> npt.NDArray[np.float64]:
        if saves is None:
            return np.full(len(self.fired), np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.asarray(saves(self.seen, attainable), dtype=np.float64)
        share = np.where(np.isfinite(share), share, np.nan)
        return np.clip(share, 0.0, 1.0)


@dataclass(frozen=True)
class Doubted:
    """What remains of the confidence of n subjects because of a rule that fired, and why."""

    rule: str
    what: str
    factor: npt.NDArray[np.float64]


# A counter of zero divides to no figure, which no condition meets.
@np.errstate(divide="ignore", invalid="ignore")
def judge(rule: Rule, facts: Facts, attainable: Attainable = UNCALIBRATED) -> Judgement:
    """Hold one rule against all subjects of its scope."""
    length = len(facts)
    seen = rule.sees(facts)
    concerned = rule.applies(seen) if rule.applies else np.ones(length, dtype=bool)
    unjudged = np.zeros(length, dtype=bool)
    for name in rule.needs:
        unjudged |= unknown(getattr(seen, name))
    unjudged &= concerned
    fired = np.asarray(rule.when(seen), dtype=bool) & concerned & ~unjudged
    return Judgement(rule, fired, unjudged, seen, attainable)
