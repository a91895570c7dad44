"""What a rule says of its subjects: sentences with figures, evidence, and how sure they are."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts, Mask, whole
from traceroof.core.kernel_table import Column, Source
from traceroof.core.units import Sentence, quantity
from traceroof.diagnosis import sensitivity
from traceroof.diagnosis.findings import (
    HIDDEN_ALONE,
    Context,
    DoubtedBy,
    Evidence,
    Finding,
    Lowered,
    NearThreshold,
)
from traceroof.diagnosis.rule_firing import LEAST_REMAINS
from traceroof.diagnosis.savings import saved, severity
from traceroof.kernels.counter_join import side_of
from traceroof.kernels.utilisation import BASIS_OF, SOURCE_OF_BASIS
from traceroof.rule import (
    GRADES,
    Doubted,
    Grade,
    Judgement,
    Rule,
)
from traceroof.scopes.subjects import Subjects, vocabulary

Reals = npt.NDArray[np.float64]

# Few samples make a median uncertain; hardware counters of a replayed kernel do not scatter so.
_FEW_LAUNCHES = 5
_FEW_LAUNCHES_TRUST = 0.5
_UNCALIBRATED_TRUST = 0.8
_FLOOR_WORDS = "raised again: all doubts together leave a fifth at least"


def fired(
    judgement: Judgement,
    suppressed_by: npt.NDArray[np.object_],
    subjects: Subjects,
    context: Context,
) -> tuple[list[Finding], int]:
    """The findings of one rule, silenced ones included, and how many were too small to list."""
    if not judgement.fired.any():
        return [], 0
    rule, facts = judgement.rule, subjects.facts
    time = facts.only(("time_ns",)).time_ns
    savings = saved(judgement, facts, context)
    bound, likely = savings.bound, savings.likely
    _, calibrated = context.ceilings(rule.scope)
    factors = _factors(
        judgement, facts, savings.rests_on_ceilings & ~np.asarray(calibrated), context
    )
    # A timeline is weighed against itself: eight ranks run side by side, not one after another.
    total = time if rule.scope == "timeline" else np.full(len(facts), context.total_ns)
    # What only informs matters by the time that it speaks of, saved or not.
    informs = np.isnan(bound) | (rule.severity == "info")
    small = np.where(informs, time, bound) < context.hidden_share * total
    if context.alone and rule.scope == "kernel":
        small &= ~(bound >= HIDDEN_ALONE * time)
    rows = np.flatnonzero(judgement.fired & ~small)
    urgent = rule.urgent(rule.sees(facts)) if rule.urgent else np.zeros(len(facts), dtype=bool)
    judged = _Judged(
        judgement=judgement,
        subjects=subjects,
        context=context,
        rows=rows,
        suppressed_by=suppressed_by[rows].tolist(),
        bound=bound[rows].tolist(),
        likely=likely[rows].tolist(),
        time=time[rows].tolist(),
        total=total[rows].tolist(),
        factors=[(name, one[rows].tolist()) for name, one in factors],
        doubts=[(one, one.factor[rows].tolist()) for one in judgement.doubts],
        urgent=urgent[rows].tolist(),
        near=sensitivity.near(rule, facts, rows),
    )
    findings = [judged.finding(at, row) for at, row in enumerate(rows.tolist())]
    return findings, int((judgement.fired & small).sum())


class _Said(NamedTuple):
    title: str
    because: str
    fix: str
    refute: str


@dataclass(frozen=True)
class _Judged:
    """One rule held against subjects, with all that its findings say.

    rows: those that it has findings on, by their place among all subjects. The lists have a value
    for each of these: who silences the rule, what is saved, the time of the subject and the time
    that severity is measured against, each factor of the confidence, the figure that the finding
    hangs on (``sensitivity.near``).
    """

    judgement: Judgement
    subjects: Subjects
    context: Context
    rows: npt.NDArray[np.int64]
    suppressed_by: Sequence[str]
    bound: Sequence[float]
    likely: Sequence[float]
    time: Sequence[float]
    total: Sequence[float]
    factors: Sequence[tuple[str, Sequence[float]]]
    doubts: Sequence[tuple[Doubted, Sequence[float]]]
    urgent: Sequence[bool]
    near: Sequence[str | None]

    # What all findings of the rule share.

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        return vocabulary(self.judgement.rule.scope)

    @cached_property
    def thresholds(self) -> Mapping[str, str]:
        return self.judgement.rule.threshold_words()

    @cached_property
    def sentence(self) -> Sentence:
        return Sentence({name: self.columns[name].unit for name in self.judgement.rule.columns})

    @cached_property
    def said(self) -> _Said:
        """The texts of the rule in the vendor's words."""
        rule, says = self.judgement.rule, self.context.said
        return _Said(*(says(one) for one in (rule.title, rule.because, rule.fix, rule.refute)))

    # Of each finding.

    @cached_property
    def read(self) -> Mapping[str, Sequence[Any]]:
        """Per column that the rule reads: its values."""
        facts, nothing = self.subjects.facts, [None] * len(self.rows)
        return {
            name: facts.values(name, self.rows) if name in facts else nothing
            for name in self.judgement.rule.columns
        }

    @cached_property
    def categories(self) -> Sequence[str | None]:
        facts = self.subjects.facts
        return (
            facts.values("category", self.rows) if "category" in facts else [None] * len(self.rows)
        )

    @cached_property
    def alone(self) -> Sequence[float]:
        """What the rule by itself says is saved, as a part of the subject's time."""
        found: list[float] = self.judgement.saved[self.rows].tolist()
        return found

    def finding(self, at: int, row: int) -> Finding:
        """What the rule found on the subject of its ``at``-th row."""
        rule, facts = self.judgement.rule, self.subjects.facts
        values = {name: one[at] for name, one in self.read.items()}
        says, silencer, bound = self.said, self.suppressed_by[at], self.bound[at]
        steps = self.context.settings.steps
        doubts = [(one, round(factor[at], 3)) for one, factor in self.doubts]
        return Finding(
            rule=rule.id,
            topic=rule.topic_of(self.categories[at]),
            title=says.title,
            state="suppressed" if silencer else "fired",
            scope=rule.scope,
            subject=self.subjects.names[row],
            subject_index=row,
            severity=rule.severity or severity(bound, self.total[at], steps),
            confidence=round(math.prod(factor[at] for _, factor in self.factors), 2),
            kind=rule.kind,
            role=rule.role,
            time_saved_bound_ns=whole(bound),
            time_saved_likely_ns=whole(self.likely[at]),
            because=self.sentence.fill(says.because, values),
            fix=self.sentence.fill(says.fix, values),
            refute=says.refute,
            evidence=evidence_of(rule, values, facts, row, self.columns, self.thresholds),
            confidence_factors=tuple(
                (name, round(factor[at], 3)) for name, factor in self.factors if factor[at] != 1
            ),
            near_threshold=_near(self.near[at], values, facts, row, self.columns, self.thresholds),
            doubted_by=tuple(
                DoubtedBy(one.rule, factor, one.what) for one, factor in doubts if factor < 1
            ),
            lowers=Lowered(0, 0.0, self.urgent[at]) if rule.doubts else None,
            suppressed_by=silencer or None,
            informs=rule.severity == "info",
            bound_share=_share_of(bound, self.time[at], self.alone[at]),
        )


def _share_of(bound: float, time: float, alone: float) -> float | None:
    """The bound as a part of the subject's time, by the rule alone where that time is unknown."""
    share = bound / time if time > 0 else alone
    return None if math.isnan(share) else round(share, 4)


def _near(
    metric: str | None,
    values: Mapping[str, Any],
    facts: Facts,
    row: int,
    columns: Mapping[str, Column],
    thresholds: Mapping[str, str],
) -> NearThreshold | None:
    """What ``sensitivity.near`` found, with its figures and in words."""
    if metric is None:
        return None
    if metric == sensitivity.SEVERAL:
        return NearThreshold(metric, None, "", "", "near several thresholds at once")
    value, unit = values[metric], columns[metric].unit
    threshold = thresholds.get(metric, "")
    if metric == "primary_class":
        other = facts.value(sensitivity.CLASS_NEAR, row)
        says = f"near the threshold of its class ({value}, nearly {other})"
        return NearThreshold(metric, value, unit, threshold, says)
    against = f": {threshold}" if threshold else ""
    says = f"near the threshold ({metric} {quantity(value, unit)}{against})"
    return NearThreshold(metric, value, unit, threshold, says)


_GRADE_WORDS: Mapping[Grade, str] = {
    "observed": "observed: read from counters or a timeline",
    "derived": "derived: a model held against a measured time",
    "inferred": "inferred: from names, shapes or the order of launches",
}


def _factors(
    judgement: Judgement, facts: Facts, assumed: Mask, context: Context
) -> list[tuple[str, npt.NDArray[np.float64]]]:
    """What the confidence of each subject is the product of, each factor with its reason.

    assumed: where the likely figure rests on ceilings that nobody measured.
    """
    rule, length = judgement.rule, len(facts)
    grade = GRADES[rule.grade]
    factors = [
        (_GRADE_WORDS[rule.grade], np.full(length, grade)),
        ("quality of what the rule reads", judgement.trust / grade),
        ("ceilings not measured on this device",
         np.where(assumed, _UNCALIBRATED_TRUST, 1.0)),
    ]  # fmt: skip
    if context.few_matter and rule.scope == "kernel":
        few = facts.launches < _FEW_LAUNCHES
        factors.append(
            (f"fewer than {_FEW_LAUNCHES} launches", np.where(few, _FEW_LAUNCHES_TRUST, 1.0))
        )
    if "join_confidence" in facts and rule.scope == "kernel":
        # What the timeline itself says needs no partner.
        sure = np.nan_to_num(facts.join_confidence, nan=1.0)
        reads = any(vocabulary("kernel")[name].source == "counter" for name in rule.needs)
        factors.append(("counters joined by name", sure if reads else np.ones(length)))
    factors += [(f"{one.rule}: {one.what}", one.factor) for one in judgement.doubts]
    remains = np.prod([one.factor for one in judgement.doubts], axis=0)
    if np.any(remains < LEAST_REMAINS):
        factors.append((_FLOOR_WORDS, np.maximum(LEAST_REMAINS / remains, 1.0)))
    return factors


def evidence_of(
    rule: Rule,
    values: Mapping[str, Any],
    facts: Facts,
    row: int,
    columns: Mapping[str, Column],
    thresholds: Mapping[str, str],
) -> tuple[Evidence, ...]:
    """The figures that a rule reads of one subject, each with what it is held against, in the words
    of thresholds (``Rule.threshold_words``)."""
    joined = rule.scope == "kernel" and "join_confidence" in facts
    return tuple(
        Evidence(
            metric=name,
            value=value,
            unit=columns[name].unit,
            threshold=thresholds.get(name, ""),
            basis=(basis := basis_of(columns[name], facts, row)),
            source=source_of(columns[name], basis),
            side=side_of(name, facts.join_confidence[row]) if joined else "",
        )
        for name, value in values.items()
        if value is not None
    )


def basis_of(column: Column, facts: Facts, row: int) -> str:
    """What the value of a column is measured against, for one subject."""
    named = BASIS_OF.get(column.name, "pipe_basis" if column.basis == "row" else None)
    if named is None:
        return column.basis
    if named not in facts:
        return ""
    return str(facts.value(named, row) or "")


def source_of(column: Column, basis: str) -> Source:
    """Where the value of a column that was measured against this basis comes from."""
    if column.name in BASIS_OF:
        return SOURCE_OF_BASIS.get(basis, "derived")
    return column.source
