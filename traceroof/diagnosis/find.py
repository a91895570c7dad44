"""Rules held against subjects: what fired, what could not be judged, what is silenced, ranked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts, Mask, whole
from traceroof.core.kernel_table import Column, Source
from traceroof.core.units import Sentence, quantity
from traceroof.diagnosis import collect, sensitivity
from traceroof.diagnosis.findings import (
    HIDDEN_ALONE,
    Context,
    DoubtedBy,
    Evidence,
    Finding,
    Lowered,
    NearThreshold,
    ranked,
)
from traceroof.diagnosis.judging import LEAST_REMAINS, broke, judge_all
from traceroof.diagnosis.savings import saved, severity
from traceroof.hardware.vendor_terms import AMD, said
from traceroof.kernels.counter_join import side_of
from traceroof.kernels.utilisation import BASIS_OF, SOURCE_OF_BASIS
from traceroof.rule import (
    GRADES,
    Grade,
    Judgement,
    Rule,
    Scope,
)
from traceroof.scopes.subjects import Subjects, vocabulary

Reals = npt.NDArray[np.float64]

# Few samples make a median uncertain; hardware counters of a replayed kernel do not scatter so.
_FEW_LAUNCHES = 5
_FEW_LAUNCHES_TRUST = 0.5
_UNCALIBRATED_TRUST = 0.8


def find_all(
    rules: Sequence[Rule], scopes: Mapping[Scope, Subjects], context: Context
) -> tuple[tuple[Finding, ...], int]:
    """All findings, ranked, and how many were too small to list."""
    findings: list[Finding] = []
    hidden = 0
    every, broken = judge_all(rules, scopes, context)
    for scope, judged in every.items():
        subjects = scopes[scope]
        for judgement, by in judged:
            try:
                made, small = fired(judgement, by, subjects, context)
                missing = _unjudged(judgement, subjects, context)
            except Exception as error:  # noqa: BLE001 - whatever a plug-in does, the others go on
                broken.append((judgement.rule, broke(judgement.rule, error)))
                continue
            findings += made
            hidden += small
            if missing:
                findings.append(missing)
    findings += [_failed(rule, how) for rule, how in broken]
    return ranked(_weighed(findings, rules)), hidden


def _weighed(findings: Sequence[Finding], rules: Sequence[Rule]) -> list[Finding]:
    """The findings, those on the measurement with what they mean for the others."""
    doubting = {rule.id for rule in rules if rule.doubts}
    if not doubting:
        return list(findings)
    holding = [
        one
        for one in findings
        if one.rule not in doubting and (one.state == "fired" or one.suppressed_by in doubting)
    ]
    saved = [float(one.time_saved_bound_ns or 0) for one in holding]
    weights = saved if any(saved) else [1.0] * len(holding)
    lost: dict[str, float] = {}
    count: dict[str, int] = {}
    for one, weight in zip(holding, weights, strict=True):
        if one.suppressed_by:
            # Nothing of it is left.
            lost[one.suppressed_by] = lost.get(one.suppressed_by, 0.0) + weight
            count[one.suppressed_by] = count.get(one.suppressed_by, 0) + 1
            continue
        for doubt in one.doubted_by:
            lost[doubt.rule] = lost.get(doubt.rule, 0.0) + weight * (1 - doubt.factor)
            count[doubt.rule] = count.get(doubt.rule, 0) + 1
    total = sum(weights) or 1.0
    return [
        replace(
            one,
            lowers=replace(
                one.lowers,
                findings=count.get(one.rule, 0),
                share=lost.get(one.rule, 0.0) / total,
            ),
        )
        if one.lowers and one.state == "fired"
        else one
        for one in findings
    ]


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
    rows = np.flatnonzero(judgement.fired & ~small).tolist()
    judged = _Judged(
        judgement=judgement,
        suppressed_by=suppressed_by,
        subjects=subjects,
        context=context,
        bound=bound,
        likely=likely,
        total=total,
        factors=factors,
        urgent=rule.urgent(rule.sees(facts)) if rule.urgent else np.zeros(len(facts), dtype=bool),
    )
    findings = [
        judged.finding(row, hangs_on)
        for row, hangs_on in zip(rows, sensitivity.near(rule, facts, rows), strict=True)
    ]
    return findings, int((judgement.fired & small).sum())


@dataclass(frozen=True)
class _Judged:
    """One rule held against n subjects, with all that its findings say; arrays have n values."""

    judgement: Judgement
    suppressed_by: npt.NDArray[np.object_]
    subjects: Subjects
    context: Context
    bound: Reals
    likely: Reals
    total: Reals
    factors: Sequence[tuple[str, Reals]]
    urgent: Mask

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
    def because(self) -> str:
        return self.says(self.judgement.rule.because)

    @cached_property
    def fix(self) -> str:
        return self.says(self.judgement.rule.fix)

    def says(self, text: str) -> str:
        """A text of the rule in the vendor's words."""
        return said(text, self.context.words)

    def finding(self, row: int, hangs_on: str | None) -> Finding:
        """What the rule found on one subject."""
        rule, facts = self.judgement.rule, self.subjects.facts
        values = {name: facts.value(name, row) if name in facts else None for name in rule.columns}
        say, sentence = self.says, self.sentence
        silencer, steps = self.suppressed_by[row], self.context.settings.steps
        time = facts.only(("time_ns",)).time_ns[row]
        return Finding(
            rule=rule.id,
            topic=rule.topic_of(facts.value("category", row) if "category" in facts else None),
            title=say(rule.title),
            state="suppressed" if silencer else "fired",
            scope=rule.scope,
            subject=self.subjects.names[row],
            subject_index=row,
            severity=rule.severity or severity(self.bound[row], self.total[row], steps),
            confidence=round(math.prod(float(factor[row]) for _, factor in self.factors), 2),
            kind=rule.kind,
            role=rule.role,
            time_saved_bound_ns=whole(self.bound[row]),
            time_saved_likely_ns=whole(self.likely[row]),
            because=sentence.fill(self.because, values),
            fix=sentence.fill(self.fix, values),
            refute=say(rule.refute),
            evidence=evidence_of(rule, values, facts, row, self.columns, self.thresholds),
            confidence_factors=tuple(
                (name, round(float(factor[row]), 3))
                for name, factor in self.factors
                if factor[row] != 1
            ),
            near_threshold=_near(hangs_on, values, facts, row, self.columns, self.thresholds),
            doubted_by=tuple(
                DoubtedBy(one.rule, round(float(one.factor[row]), 3), one.what)
                for one in self.judgement.doubts
                if round(float(one.factor[row]), 3) < 1
            ),
            lowers=Lowered(0, 0.0, bool(self.urgent[row])) if rule.doubts else None,
            suppressed_by=silencer or None,
            informs=rule.severity == "info",
            bound_share=_share_of(self.bound[row], time, self.judgement.saved[row]),
        )


def _share_of(bound: float, time: float, alone: float) -> float | None:
    """The bound as a part of the subject's time, by the rule alone where that time is unknown."""
    share = bound / time if time > 0 else alone
    return None if np.isnan(share) else round(float(share), 4)


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


def _unjudged(judgement: Judgement, subjects: Subjects, context: Context) -> Finding | None:
    """One finding for all subjects of a rule that lack what it needs.

    None where there are none of weight, and where AMD's tool does not collect what is missing:
    such a rule is not for these GPUs.
    """
    rows = np.flatnonzero(judgement.unjudged)
    time = np.nan_to_num(subjects.facts.only(("time_ns",)).time_ns)
    rows = rows[time[rows] >= context.hidden_share * context.total_ns]
    if not len(rows):
        return None
    rule = judgement.rule
    missing = judgement.missing_among(rows)
    named = [subjects.names[row] for row in rows.tolist()]
    command = collect.command(missing, named if rule.scope == "kernel" else (), vendor=context.tool)
    of_amd = context.words == AMD and (rule.scope == "kernel" or bool(rule.doubts))
    if of_amd and not collect.collects(missing, context.tool):
        return None
    return _not_evaluable(
        rule,
        title=said(rule.title, context.words),
        subject=named[0] if len(named) == 1 else f"{len(named)} {_PLURAL[rule.scope]}",
        subject_index=int(rows[0]) if len(named) == 1 else None,
        because=f"missing: {', '.join(missing)}",
        missing=missing,
        command=command,
    )


def _failed(rule: Rule, how: str) -> Finding:
    """What stands for a rule that broke."""
    return _not_evaluable(
        rule, title=rule.title, subject=f"the rule {rule.id}", because=how, failed=how
    )


def _not_evaluable(
    rule: Rule, *, title: str, subject: str, because: str, subject_index: int | None = None,
    missing: tuple[str, ...] = (), command: str | None = None, failed: str | None = None,
) -> Finding:  # fmt: skip
    """A finding that judges nothing, and why."""
    return Finding(
        rule=rule.id,
        topic=rule.topic_of(None),
        title=title,
        state="not-evaluable",
        scope=rule.scope,
        subject=subject,
        subject_index=subject_index,
        severity="info",
        confidence=0.0,
        kind=rule.kind,
        role=rule.role,
        time_saved_bound_ns=None,
        time_saved_likely_ns=None,
        because=because,
        fix="",
        refute="",
        missing=missing,
        command=command,
        failed=failed,
    )


def unjudged_each(judgement: Judgement, subjects: Subjects, context: Context) -> list[Finding]:
    """One finding a subject on which a rule lacks what it needs, however short the subject."""
    found = []
    for row in np.flatnonzero(judgement.unjudged).tolist():
        alone = np.zeros(len(judgement.unjudged), dtype=bool)
        alone[row] = True
        one = _unjudged(replace(judgement, unjudged=alone), subjects, context)
        found += [one] if one else []
    return found


_PLURAL: Mapping[Scope, str] = {
    "kernel": "kernels",
    "category": "categories",
    "timeline": "timelines",
    "run": "runs",
    "compare": "comparisons",
}
