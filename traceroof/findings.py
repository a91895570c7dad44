"""Rules held against subjects: what fired, what could not be judged, what is silenced, ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof import collect
from traceroof.ceilings import NOMINAL, Attainable
from traceroof.devices import AMD as LIKE_AMD
from traceroof.facts import Facts, Mask, whole
from traceroof.roofline import T_FLOOR_NS
from traceroof.rule import Judgement, Rule, Scope, Severity, State, judge
from traceroof.subjects import Subjects, vocabulary
from traceroof.table import Column
from traceroof.units import Sentence, quantity
from traceroof.wording import AMD, NVIDIA, said

# Severity from the share of the run that the finding can save at most; below the last step a
# finding is left out and only counted.
_SEVERITY_STEPS: tuple[tuple[float, Severity], ...] = (
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
    """One figure that a finding rests on."""

    metric: str
    value: float | str | None
    unit: str
    threshold: str
    basis: str


@dataclass(frozen=True)
class Finding:
    """What one rule says of one subject.

    subject: the kernel, category, timeline or "run"; subject_index: its place in the list of its
    scope, None where it speaks of several. Times are ns over all launches of the subject: the
    bound holds at nominal peaks, the likely figure at what good code reaches. missing: columns
    that a not-evaluable rule lacked, with the command that collects them.
    """

    rule: str
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
    """

    total_ns: float
    attainable: Attainable
    calibrated: bool | Mask
    few_matter: bool
    vendor: str | None
    overall: Attainable | None = None

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
    judged_by_scope = {
        scope: [
            judge(rule, subjects.facts, context.ceilings(scope)[0])
            for rule in rules
            if rule.scope == scope
        ]
        for scope, subjects in scopes.items()
    }
    across = _hidden_across(judged_by_scope, scopes)
    for scope, subjects in scopes.items():
        judged = judged_by_scope[scope]
        for judgement, by in zip(judged, _suppressions(judged, across[scope]), strict=True):
            made, small = _fired(judgement, by, subjects, context)
            findings += made
            hidden += small
            missing = _unjudged(judgement, subjects, context)
            if missing:
                findings.append(missing)
    order: Mapping[State, int] = {"fired": 0, "suppressed": 1, "not-evaluable": 2, "clear": 3}
    findings.sort(
        key=lambda one: (order[one.state], -one.weight, _RANK[one.severity], one.rule, one.subject)
    )
    return tuple(findings), hidden


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
    judged: Sequence[Judgement], hidden: npt.NDArray[np.object_]
) -> list[npt.NDArray[np.object_]]:
    """Per judgement and subject: the rule that silences it, NOBODY where it may speak.

    hidden: the rule of another scope that hides a subject, NOBODY where none does.
    """
    result = [hidden.copy() for _ in judged]
    for loud in judged:
        for pattern in loud.rule.suppresses:
            for position, quiet in enumerate(judged):
                if quiet is not loud and fnmatchcase(quiet.rule.id, pattern):
                    both = loud.fired & quiet.fired & (result[position] == NOBODY)
                    result[position][both] = loud.rule.id
    return result


def _fired(
    judgement: Judgement,
    suppressed_by: npt.NDArray[np.object_],
    subjects: Subjects,
    context: Context,
) -> tuple[list[Finding], int]:
    rule, facts = judgement.rule, subjects.facts
    time = facts.only(("time_ns",)).time_ns
    bound = judgement.saved * time
    likely = judgement.likely * time
    if rule.scope == "kernel" and rule.kind == "conditional":
        # A bound that the rule cannot give stays unknown: what could be spared is no finding.
        bound = np.minimum(bound, _spare_ns(facts, NOMINAL))
        likely = np.minimum(likely, _spare_ns(facts, context.attainable))
    likely = np.minimum(likely, bound)
    trust = judgement.trust.copy()
    ceilings = np.full(len(facts), rule.saves is not None)
    if rule.scope in _TIME_SCOPES:
        # Measured intervals: no ceiling enters, and nothing more likely than the bound is known.
        ceilings &= judgement.saved != judgement.likely
        likely = np.where(ceilings, likely, np.nan)
    _, calibrated = context.ceilings(rule.scope)
    trust[ceilings & ~np.asarray(calibrated)] *= _UNCALIBRATED_TRUST
    if context.few_matter and rule.scope == "kernel":
        trust[facts.launches < _FEW_LAUNCHES] *= _FEW_LAUNCHES_TRUST
    columns = vocabulary(rule.scope)
    # A timeline is weighed against itself: eight ranks run side by side, not one after another.
    total = time if rule.scope == "timeline" else np.full(len(facts), context.total_ns)
    findings: list[Finding] = []
    hidden = 0
    for row in np.flatnonzero(judgement.fired).tolist():
        # What only informs matters by the time that it speaks of, saved or not.
        informs = rule.severity == "info" or np.isnan(bound[row])
        weight = time[row] if informs else bound[row]
        if not np.isnan(weight) and weight < HIDDEN_SHARE * total[row]:
            hidden += 1
            continue
        values = {name: facts.value(name, row) for name in rule.columns if name in facts}
        values = {name: values.get(name) for name in rule.columns}
        sentence = Sentence({name: columns[name].unit for name in rule.columns})
        say = partial(said, vendor=context.words)
        silencer = suppressed_by[row]
        findings.append(
            Finding(
                rule=rule.id,
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
                evidence=_evidence(rule, values, facts, row, columns),
                suppressed_by=silencer or None,
            )
        )
    return findings, hidden


def _spare_ns(facts: Facts, attainable: Attainable) -> npt.NDArray[np.float64]:
    """Time of a group above what its own bytes and operations need, all launches; NaN unknown."""
    see = facts.only(
        ("time_ns", "launches", "dram_bytes", "dram_peak_bytes_per_s", "flop_pct", "duration_ns")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        by_bytes = see.dram_bytes / (see.dram_peak_bytes_per_s * attainable.memory) * 1e9
        by_flops = see.flop_pct / 100 * see.duration_ns / attainable.compute
        # The time covers launches with a known duration only.
        timed = np.where(see.duration_ns > 0, see.time_ns / see.duration_ns, see.launches)
    # Only a measured figure may cap: with neither known the floor alone remains.
    least = np.fmax(np.fmax(by_bytes, by_flops), T_FLOOR_NS)
    spare = see.time_ns - least * timed
    return np.asarray(np.maximum(spare, 0.0))


def _severity(bound: float, total_ns: float) -> Severity:
    if np.isnan(bound) or not total_ns:
        return "info"
    for step, severity in _SEVERITY_STEPS:
        if bound >= step * total_ns:
            return severity
    return "info"


def _evidence(
    rule: Rule,
    values: Mapping[str, Any],
    facts: Facts,
    row: int,
    columns: Mapping[str, Column],
) -> tuple[Evidence, ...]:
    thresholds = rule.thresholds or {}
    return tuple(
        Evidence(
            metric=name,
            value=value,
            unit=columns[name].unit,
            threshold=thresholds.get(name, ""),
            basis=basis_of(columns[name], facts, row),
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
    rows = rows[time[rows] >= HIDDEN_SHARE * context.total_ns]
    if not len(rows):
        return None
    rule = judgement.rule
    missing = tuple(dict.fromkeys(name for row in rows.tolist() for name in judgement.missing[row]))
    named = [subjects.names[row] for row in rows.tolist()]
    command = collect.command(
        missing, named if rule.scope == "kernel" else (), vendor=context.vendor
    )
    of_amd = context.words == AMD and rule.scope == "kernel"
    if of_amd and not collect.collects(missing, context.vendor):
        return None
    return Finding(
        rule=rule.id,
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


_PLURAL: Mapping[Scope, str] = {
    "kernel": "kernels",
    "category": "categories",
    "timeline": "timelines",
    "run": "runs",
    "compare": "comparisons",
}


def describe_savings(finding: Finding) -> str:
    """'at most 1.2 ms, likely 0.8 ms', or what can be said instead."""
    if finding.time_saved_bound_ns is None:
        return "not estimable"
    bound = quantity(finding.time_saved_bound_ns, "ns")
    if finding.time_saved_likely_ns is None:
        return f"at most {bound}"
    return f"at most {bound}, likely {quantity(finding.time_saved_likely_ns, 'ns')}"
