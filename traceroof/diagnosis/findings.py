"""Rules held against subjects: what fired, what could not be judged, what is silenced, ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts, Mask, whole
from traceroof.core.kernel_table import Column
from traceroof.core.units import Sentence, quantity
from traceroof.diagnosis import collect, sensitivity
from traceroof.diagnosis.provenance import origin_of
from traceroof.hardware.ceilings import NOMINAL, Attainable
from traceroof.hardware.devices import AMD as LIKE_AMD
from traceroof.hardware.roofline import T_FLOOR_NS
from traceroof.hardware.vendor_terms import AMD, NVIDIA, said
from traceroof.rule import (
    GRADES,
    Doubt,
    Doubted,
    Grade,
    Judgement,
    Rule,
    Scope,
    Severity,
    State,
    judge,
)
from traceroof.scopes.subjects import Subjects, vocabulary

# Severity from the share of the run that the finding can save at most; below the last step a
# finding is left out and only counted.
SEVERITY_STEPS: tuple[tuple[float, Severity], ...] = (
    (0.10, "high"),
    (0.03, "medium"),
    (0.005, "low"),
)
HIDDEN_SHARE = 0.005

# Few samples make a median uncertain; hardware counters of a replayed kernel do not scatter so.
_FEW_LAUNCHES = 5
_FEW_LAUNCHES_TRUST = 0.5
_UNCALIBRATED_TRUST = 0.8

_TIME_SCOPES: tuple[Scope, ...] = ("timeline", "run")


@dataclass(frozen=True)
class Evidence:
    """One figure that a finding rests on; ``source`` is one of ``origins.ORIGINS``."""

    metric: str
    value: float | str | None
    unit: str
    threshold: str
    basis: str
    source: str


@dataclass(frozen=True)
class NearThreshold:
    """The figure on which a finding hangs: it would be gone if its threshold moved by a tenth.

    metric: the column, or ``sensitivity.SEVERAL``. says: the same in words.
    """

    metric: str
    value: float | str | None
    unit: str
    threshold: str
    says: str


@dataclass(frozen=True)
class DoubtedBy:
    """A rule on the measurement that lowered the confidence of a finding: by which factor, and
    which figure is in doubt."""

    rule: str
    factor: float
    what: str


@dataclass(frozen=True)
class Lowered:
    """What a finding on the measurement means for the others: how many are less sure for it, and
    which share of all time saved (of all findings, where none saves time) that takes away, 0-1.
    urgent: figures are wrong whatever findings rest on them."""

    findings: int
    share: float
    urgent: bool = False

    @property
    def matters(self) -> bool:
        """Whether a reader must know it before the findings themselves."""
        return self.urgent or self.share > MATTERS


# A tenth is what separates the steps of severity; less does not change what comes first.
MATTERS = 0.1


@dataclass(frozen=True)
class Finding:
    """What one rule says of one subject.

    topic: what its fix is about (``core.topics``). subject: the kernel, category, timeline or
    "run"; subject_index: its place in the list of its
    scope, None where it speaks of several. Times are ns over all launches of the subject: the
    bound holds at nominal peaks, the likely figure at what good code reaches. missing: columns
    that a not-evaluable rule lacked, with the command that collects them. confidence_factors: what
    the confidence is the product of, each with its reason; factors of 1 are left out.
    near_threshold: what the finding hangs on, None where it stands if thresholds move by a tenth.
    doubted_by: rules on the measurement that lowered the confidence. lowers: of such a rule's own
    finding, what it means for the others; None for all other findings.
    """

    rule: str
    topic: str
    title: str
    state: State
    scope: Scope
    subject: str
    subject_index: int | None
    severity: Severity
    confidence: float
    kind: str
    role: str
    time_saved_bound_ns: int | None
    time_saved_likely_ns: int | None
    because: str
    fix: str
    refute: str
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[str, ...] = ()
    suppressed_by: str | None = None
    command: str | None = None
    confidence_factors: tuple[tuple[str, float], ...] = ()
    near_threshold: NearThreshold | None = None
    doubted_by: tuple[DoubtedBy, ...] = ()
    lowers: Lowered | None = None

    @property
    def weight(self) -> float:
        """What findings are ranked by: the bound in ns, discounted by the confidence."""
        return (self.time_saved_bound_ns or 0) * self.confidence


@dataclass(frozen=True)
class Context:
    """What the rules of a run share.

    total_ns: the time that severities are measured against. attainable: the ceilings, of each
    kernel group where they differ; overall: those of the whole run. calibrated: whether (where)
    they were measured on this device. few_matter: durations scatter, so few launches say little.
    vendor: whose GPU it is; other tools collect what is missing on AMD's, and other words say it.
    hidden_share: what saves a smaller part of total_ns, 0-1, is only counted.
    """

    total_ns: float
    attainable: Attainable
    calibrated: bool | Mask
    few_matter: bool
    vendor: str | None
    overall: Attainable | None = None
    hidden_share: float = HIDDEN_SHARE

    @property
    def words(self) -> str:
        """In whose words its rules speak."""
        return AMD if self.vendor in LIKE_AMD else NVIDIA

    def ceilings(self, scope: Scope) -> tuple[Attainable, bool | Mask]:
        """What the subjects of a scope can attain, and whether (where) that was measured."""
        if scope == "kernel" or self.overall is None:
            return self.attainable, self.calibrated
        return self.overall, bool(np.size(self.calibrated) and np.all(self.calibrated))


def find_all(
    rules: Sequence[Rule], scopes: Mapping[Scope, Subjects], context: Context
) -> tuple[tuple[Finding, ...], int]:
    """All findings, ranked, and how many were too small to list."""
    findings: list[Finding] = []
    hidden = 0
    for scope, judged in judge_all(rules, scopes, context).items():
        subjects = scopes[scope]
        for judgement, by in judged:
            made, small = fired(judgement, by, subjects, context)
            findings += made
            hidden += small
            missing = _unjudged(judgement, subjects, context)
            if missing:
                findings.append(missing)
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


def ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What holds before what is silenced, most worth first."""
    order: Mapping[State, int] = {"fired": 0, "suppressed": 1, "not-evaluable": 2, "clear": 3}
    return tuple(
        sorted(
            findings,
            key=lambda one: (
                order[one.state], -one.weight, _RANK[one.severity], one.rule, one.subject
            ),
        )
    )  # fmt: skip


def judge_all(
    rules: Sequence[Rule], scopes: Mapping[Scope, Subjects], context: Context
) -> Mapping[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]]:
    """Per scope: what each of its rules says, with the rule that silences it on each subject,
    NOBODY where it may speak."""
    judged = {
        scope: [
            judge(rule, subjects.facts, context.ceilings(scope)[0])
            for rule in rules
            if rule.scope == scope
        ]
        for scope, subjects in scopes.items()
    }
    across = _hidden_across(judged, scopes)
    silenced = {
        scope: list(zip(found, _suppressions(found, across[scope]), strict=True))
        for scope, found in judged.items()
    }
    return _doubted(silenced, across, scopes)


def _doubted(
    judged: Mapping[Scope, Sequence[tuple[Judgement, npt.NDArray[np.object_]]]],
    hidden: Mapping[Scope, npt.NDArray[np.object_]],
    scopes: Mapping[Scope, Subjects],
) -> Mapping[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]]:
    """The judgements, each with what the rules on the measurement that fired take off it, and
    silenced where they leave nothing."""
    doubts = [
        (loud.rule, scopes[scope].facts, doubt)
        for scope, found in judged.items()
        for loud, by in found
        if loud.rule.doubts and (loud.fired & (by == NOBODY)).any()
        for doubt in loud.rule.doubts
        if doubt.scope in scopes
    ]
    result: dict[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]] = {}
    for scope, found in judged.items():
        facts = scopes[scope].facts
        length = len(facts)
        taken = [
            (doubt, Doubted(rule.id, doubt.what, _remains(doubt, facts, rule, own)))
            for rule, own, doubt in doubts
            if doubt.scope == scope
        ]
        result[scope] = [
            (replace(one, doubts=tuple(
                made for doubt, made in taken if doubt.concerns(one.rule) and not doubt.silences
             )), by)
            for one, by in found
        ]  # fmt: skip
        voids = [
            [made for doubt, made in taken if doubt.silences and doubt.concerns(one.rule)]
            for one, _ in found
        ]
        if any(voids):
            made = [one for one, _ in result[scope]]
            silent = _suppressions(made, hidden[scope], [_void(one, length) for one in voids])
            result[scope] = list(zip(made, silent, strict=True))
    return result


def _void(doubts: Sequence[Doubted], length: int) -> npt.NDArray[np.object_]:
    """Per subject: the rule whose doubt leaves nothing of a finding, NOBODY where none does."""
    result = np.full(length, NOBODY, dtype=object)
    for one in doubts:
        result[one.factor == 0] = one.rule
    return result


def _remains(doubt: Doubt, facts: Facts, rule: Rule, own: Facts) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = doubt.factor(facts.only(doubt.reads), own.only(rule.columns))
    # What is unknown is no reason for doubt.
    factor = np.nan_to_num(np.asarray(factor, dtype=np.float64), nan=1.0)
    least = 0.0 if doubt.silences else _LEAST_REMAINS
    return np.array(np.broadcast_to(np.clip(factor, least, 1.0), (len(facts),)))


# However bad the measurement, a finding that is not silenced says something.
_LEAST_REMAINS = 0.2
_FLOOR_WORDS = "raised again: all doubts together leave a fifth at least"


_RANK: Mapping[Severity, int] = {"high": 0, "medium": 1, "low": 2, "info": 3}


NOBODY = ""


def _hidden_across(
    judged: Mapping[Scope, Sequence[Judgement]], scopes: Mapping[Scope, Subjects]
) -> Mapping[Scope, npt.NDArray[np.object_]]:
    """Per scope and subject: the rule of another scope that hides it, NOBODY where none does."""
    result = {
        scope: np.full(len(subjects.facts), NOBODY, dtype=object)
        for scope, subjects in scopes.items()
    }
    for scope, found in judged.items():
        time = np.nan_to_num(scopes[scope].facts.only(("time_ns",)).time_ns)
        for loud in found:
            if not loud.rule.hides or 2 * time[loud.fired].sum() < time.sum() or not time.sum():
                continue
            for quiet, where in loud.rule.hides.items():
                if quiet in scopes:
                    result[quiet][where(scopes[quiet].facts)] = loud.rule.id
    return result


def _suppressions(
    judged: Sequence[Judgement],
    hidden: npt.NDArray[np.object_],
    voids: Sequence[npt.NDArray[np.object_]] | None = None,
) -> list[npt.NDArray[np.object_]]:
    """Per judgement and subject: the rule that silences it, NOBODY where it may speak.

    hidden: the rule of another scope that hides a subject, NOBODY where none does. voids: per
    judgement, the rule on the measurement that leaves nothing of it; it then silences nobody.
    """
    result = [hidden.copy() for _ in judged]
    speaks = [one.fired for one in judged]
    if voids is not None:
        result = [np.where(one != NOBODY, one, hidden) for one in voids]
        speaks = [one.fired & (void == NOBODY) for one, void in zip(judged, voids, strict=True)]
    for loud, heard in zip(judged, speaks, strict=True):
        for pattern in loud.rule.suppresses:
            for position, quiet in enumerate(judged):
                if quiet is not loud and fnmatchcase(quiet.rule.id, pattern):
                    both = heard & quiet.fired & (result[position] == NOBODY)
                    result[position][both] = loud.rule.id
    return result


def fired(
    judgement: Judgement,
    suppressed_by: npt.NDArray[np.object_],
    subjects: Subjects,
    context: Context,
) -> tuple[list[Finding], int]:
    """The findings of one rule, silenced ones included, and how many were too small to list."""
    rule, facts = judgement.rule, subjects.facts
    time = facts.only(("time_ns",)).time_ns
    bound = judgement.saved * time
    likely, at_peak = judgement.likely * time, judgement.likely_at_peak * time
    if capped(rule):
        # A bound that the rule cannot give stays unknown: what could be spared is no finding.
        spare = spare_ns(facts, NOMINAL)
        bound, at_peak = np.minimum(bound, spare), np.minimum(at_peak, spare)
        likely = np.minimum(likely, spare_ns(facts, context.attainable))
    likely, at_peak = np.minimum(likely, bound), np.minimum(at_peak, bound)
    # Whether what is attainable enters the figure at all.
    ceilings = ~np.isclose(likely, at_peak, equal_nan=True)
    if rule.scope in _TIME_SCOPES:
        # Measured intervals: nothing more likely than the bound is known.
        likely = np.where(judgement.saved != judgement.likely, likely, np.nan)
    _, calibrated = context.ceilings(rule.scope)
    factors = _factors(judgement, facts, ceilings & ~np.asarray(calibrated), context)
    trust = np.prod([factor for _, factor in factors], axis=0)
    columns = vocabulary(rule.scope)
    # A timeline is weighed against itself: eight ranks run side by side, not one after another.
    total = time if rule.scope == "timeline" else np.full(len(facts), context.total_ns)
    # What only informs matters by the time that it speaks of, saved or not.
    informs = np.isnan(bound) | (rule.severity == "info")
    small = np.where(informs, time, bound) < context.hidden_share * total
    rows = np.flatnonzero(judgement.fired & ~small).tolist()
    urgent = (
        rule.urgent(facts.only(rule.columns)) if rule.urgent else np.zeros(len(facts), dtype=bool)
    )
    findings: list[Finding] = []
    for row, hangs_on in zip(rows, sensitivity.near(rule, facts, rows), strict=True):
        values = {name: facts.value(name, row) for name in rule.columns if name in facts}
        values = {name: values.get(name) for name in rule.columns}
        sentence = Sentence({name: columns[name].unit for name in rule.columns})
        say = partial(said, vendor=context.words)
        silencer = suppressed_by[row]
        findings.append(
            Finding(
                rule=rule.id,
                topic=rule.topic_of(facts.value("category", row) if "category" in facts else None),
                title=say(rule.title),
                state="suppressed" if silencer else "fired",
                scope=rule.scope,
                subject=subjects.names[row],
                subject_index=row,
                severity=rule.severity or _severity(bound[row], total[row]),
                confidence=round(float(trust[row]), 2),
                kind=rule.kind,
                role=rule.role,
                time_saved_bound_ns=whole(bound[row]),
                time_saved_likely_ns=whole(likely[row]),
                because=sentence.fill(say(rule.because), values),
                fix=sentence.fill(say(rule.fix), values),
                refute=say(rule.refute),
                evidence=evidence_of(rule, values, facts, row, columns),
                confidence_factors=tuple(
                    (name, round(float(factor[row]), 3))
                    for name, factor in factors
                    if factor[row] != 1
                ),
                near_threshold=_near(hangs_on, rule, values, facts, row, columns),
                doubted_by=tuple(
                    DoubtedBy(one.rule, round(float(one.factor[row]), 3), one.what)
                    for one in judgement.doubts
                    if round(float(one.factor[row]), 3) < 1
                ),
                lowers=Lowered(0, 0.0, bool(urgent[row])) if rule.doubts else None,
                suppressed_by=silencer or None,
            )
        )
    return findings, int((judgement.fired & small).sum())


def _near(
    metric: str | None,
    rule: Rule,
    values: Mapping[str, Any],
    facts: Facts,
    row: int,
    columns: Mapping[str, Column],
) -> NearThreshold | None:
    """What ``sensitivity.near`` found, with its figures and in words."""
    if metric is None:
        return None
    if metric == sensitivity.SEVERAL:
        return NearThreshold(metric, None, "", "", "near several thresholds at once")
    value, unit = values[metric], columns[metric].unit
    threshold = (rule.thresholds or {}).get(metric, "")
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
        ("ceilings assumed, not measured on this device",
         np.where(assumed, _UNCALIBRATED_TRUST, 1.0)),
    ]  # fmt: skip
    if context.few_matter and rule.scope == "kernel":
        few = facts.launches < _FEW_LAUNCHES
        factors.append(
            (f"fewer than {_FEW_LAUNCHES} launches", np.where(few, _FEW_LAUNCHES_TRUST, 1.0))
        )
    factors += [(f"{one.rule}: {one.what}", one.factor) for one in judgement.doubts]
    remains = np.prod([one.factor for one in judgement.doubts], axis=0)
    if np.any(remains < _LEAST_REMAINS):
        factors.append((_FLOOR_WORDS, np.maximum(_LEAST_REMAINS / remains, 1.0)))
    return factors


def capped(rule: Rule) -> bool:
    """Whether a rule's savings end where the kernel's own bytes and operations need the time."""
    return rule.scope == "kernel" and rule.kind == "conditional"


#: Columns that ``spare_ns`` reads.
SPARE = ("time_ns", "launches", "dram_bytes", "dram_peak_bytes_per_s", "flop_pct", "duration_ns")


def spare_ns(facts: Facts, attainable: Attainable) -> npt.NDArray[np.float64]:
    """Time of a group above what its own bytes and operations need, all launches; NaN unknown."""
    see = facts.only(SPARE)
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = see.dram_bytes / (see.dram_peak_bytes_per_s * attainable.memory) * 1e9
        by_flops = see.flop_pct / 100 * see.duration_ns / attainable.compute
        # The time covers launches with a known duration only.
        timed = np.where(see.duration_ns > 0, see.time_ns / see.duration_ns, see.launches)
    # Only a measured figure may cap: with neither known the floor alone remains.
    least = np.fmax(np.fmax(by_bytes, by_flops), T_FLOOR_NS)
    spare = see.time_ns - least * timed
    return np.asanyarray(np.maximum(spare, 0.0))


def _severity(bound: float, total_ns: float) -> Severity:
    if np.isnan(bound) or not total_ns:
        return "info"
    for step, severity in SEVERITY_STEPS:
        if bound >= step * total_ns:
            return severity
    return "info"


def evidence_of(
    rule: Rule,
    values: Mapping[str, Any],
    facts: Facts,
    row: int,
    columns: Mapping[str, Column],
) -> tuple[Evidence, ...]:
    """The figures that a rule reads of one subject, each with what it is held against."""
    thresholds = rule.thresholds or {}
    return tuple(
        Evidence(
            metric=name,
            value=value,
            unit=columns[name].unit,
            threshold=thresholds.get(name, ""),
            basis=(basis := basis_of(columns[name], facts, row)),
            source=origin_of(columns[name], basis),
        )
        for name, value in values.items()
        if value is not None
    )


def basis_of(column: Column, facts: Facts, row: int) -> str:
    """What the value of a column is measured against, for one subject."""
    named = {
        "dram_pct": "dram_basis",
        "compute_pct": "compute_basis",
        "l1_pct": "l1_basis",
    }.get(column.name, "pipe_basis" if column.basis == "row" else None)
    if named is None:
        return column.basis
    if named not in facts:
        return ""
    return str(facts.value(named, row) or "")


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
    missing = tuple(dict.fromkeys(name for row in rows.tolist() for name in judgement.missing[row]))
    named = [subjects.names[row] for row in rows.tolist()]
    command = collect.command(
        missing, named if rule.scope == "kernel" else (), vendor=context.vendor
    )
    of_amd = context.words == AMD and (rule.scope == "kernel" or bool(rule.doubts))
    if of_amd and not collect.collects(missing, context.vendor):
        return None
    return Finding(
        rule=rule.id,
        topic=rule.topic_of(None),
        title=said(rule.title, context.words),
        state="not-evaluable",
        scope=rule.scope,
        subject=named[0] if len(named) == 1 else f"{len(named)} {_PLURAL[rule.scope]}",
        subject_index=int(rows[0]) if len(named) == 1 else None,
        severity="info",
        confidence=0.0,
        kind=rule.kind,
        role=rule.role,
        time_saved_bound_ns=None,
        time_saved_likely_ns=None,
        because=f"missing: {', '.join(missing)}",
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
