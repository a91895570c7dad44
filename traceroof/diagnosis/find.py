"""Rules held against subjects: what fired, what could not be judged, what is silenced, ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from traceroof.diagnosis import collect
from traceroof.diagnosis.finding_text import fired
from traceroof.diagnosis.findings import (
    Context,
    Finding,
    ranked,
)
from traceroof.diagnosis.rule_firing import broke, judge_all
from traceroof.hardware.vendor_terms import AMD
from traceroof.rule import (
    Judgement,
    Rule,
    Scope,
)
from traceroof.scopes.subjects import Subjects


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


def _unjudged(judgement: Judgement, subjects: Subjects, context: Context) -> Finding | None:
    """One finding for all subjects of a rule that lack what it needs.

    None where there are none of weight, and where AMD's tool does not collect what is missing:
    such a rule is not for these GPUs.
    """
    rows = np.flatnonzero(judgement.unjudged)
    if not len(rows):
        return None
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
        title=context.said(rule.title),
        subject=named[0] if len(named) == 1 else f"{len(named)} {_PLURAL[rule.scope]}",
        subject_index=int(rows[0]) if len(named) == 1 else None,
        because=f"missing: {', '.join(missing)}",
        missing=missing,
        command=command,
    )


def _failed(rule: Rule, how: str) -> Finding:
    """What stands for a rule that broke."""
    subject = f"the rule {rule.id}"
    return replace(_not_evaluable(rule, title=rule.title, subject=subject, because=how), failed=how)


def _not_evaluable(
    rule: Rule, *, title: str, subject: str, because: str, subject_index: int | None = None,
    missing: tuple[str, ...] = (), command: str | None = None,
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
