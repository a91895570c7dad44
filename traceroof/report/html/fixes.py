"""The fixes of the page: the entries of the advice with their reasons, as many as fit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from traceroof.core.kernel_names import short_names
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Evidence, Finding
from traceroof.report.run import summary

# What fixes may take of a page; the limit only matters for thousands of kernels.
_FIX_BYTES, _MOST_FIXES = 60_000, 600
_NAME_WIDTH = 72


@dataclass(frozen=True)
class Reason:
    """One finding as a reason for a fix."""

    rule: str
    title: str
    because: str
    saved: str
    evidence: str
    near: str
    refute: str


@dataclass(frozen=True)
class Fix:
    """One entry of the advice. Bars are in percent of the largest bound listed;
    ``unsaved`` is said where there is no bound."""

    number: int
    kernel: int | None
    kernels: tuple[int, ...]
    where: str
    place: str
    detail: str
    title: str
    advice: str
    severity: str
    kind: str
    confidence: str
    unsaved: str
    bound: str
    share: str
    likely: str
    expected: str
    once: bool
    bound_bar: float
    likely_bar: float
    reasons: tuple[Reason, ...]
    rules: tuple[str, ...]
    source: str
    commands: tuple[str, ...]


# What a fix speaks of, where its subject's name alone does not say it.
_WHOLE: Mapping[str, str] = {"run": "the whole run"}
_SCOPES: Mapping[str, str] = {"category": "category", "timeline": "timeline"}


def fixes(diagnosis: Diagnosis) -> list[Fix]:
    """The advice, an entry each."""
    found = diagnosis.advice[:_MOST_FIXES]
    names = short_names((one.lead.subject for one in found), _NAME_WIDTH)
    most = max((one.bound_ns or 0 for one in found), default=0)
    fixes = []
    for one in found:
        lead, bound, likely = one.lead, one.bound_ns, one.likely_ns
        kernel = lead.subject_index if lead.scope == "kernel" else None
        group = diagnosis.kernels[kernel] if kernel is not None else None
        more = len(one.subjects) - 1
        detail = group.primary_class if group else _SCOPES.get(lead.scope, "")
        fixes.append(
            Fix(
                number=one.rank,
                kernel=kernel,
                kernels=_kernels(one),
                where=names[lead.subject] if group else _subject(one),
                place=one.where.words,
                detail=f"{detail}, and {more} more" if more and group else detail,
                title=one.title,
                advice=one.fix,
                severity=one.severity,
                kind=lead.kind,
                confidence=summary.confidence(one),
                unsaved=summary.gain(one) or "saving not estimable",
                expected="" if one.once else quantity(one.expected_ns, "ns") if bound else "",
                bound=quantity(bound, "ns") if bound else "",
                share=percent(one.share) if bound else "",
                likely=quantity(likely, "ns") if likely is not None else "",
                once=one.once,
                bound_bar=_bar(bound, most),
                likely_bar=_bar(likely, most),
                reasons=tuple(
                    _reason(finding) for finding in (*one.found, *one.folded)[:_MOST_REASONS]
                ),
                rules=tuple(dict.fromkeys(each.rule for each in (*one.found, *one.folded))),
                source=one.where.source or "",
                commands=tuple(
                    option if at else f"{summary.command(diagnosis)} {option}"
                    for at, option in enumerate(summary.commands(one))
                ),
            )
        )
    return fixes


# Reasons that an entry lists; the JSON form has all.
_MOST_REASONS = 12


def _kernels(entry: Entry) -> tuple[int, ...]:
    """The kernels that an entry speaks of, those that it explains included."""
    found = (*entry.found, *entry.folded)
    rows = [one.subject_index for one in found if one.scope == "kernel"]
    return tuple(dict.fromkeys(row for row in rows if row is not None))


def numbers(fixes: Iterable[Fix]) -> dict[int, int]:
    """Kernel -> the number of the first fix that speaks of it."""
    numbers: dict[int, int] = {}
    for fix in fixes:
        for row in fix.kernels:
            numbers.setdefault(row, fix.number)
    return numbers


def that_fit(fixes: Sequence[Fix]) -> list[Fix]:
    """The first fixes, as many as there is room for."""
    kept: list[Fix] = []
    room = _FIX_BYTES
    for fix in fixes:
        room -= 700 + len(fix.advice) + len(fix.where) + len(fix.place)
        room -= sum(
            120 + len(one.because) + len(one.evidence) + len(one.near) + len(one.refute)
            for one in fix.reasons
        )
        if room < 0:
            break
        kept.append(fix)
    return kept


def _subject(entry: Entry) -> str:
    """What an entry that is on no kernel speaks of; nothing where its place says it better."""
    if entry.lead.scope in _WHOLE and entry.where.words:
        return ""
    return _WHOLE.get(entry.lead.scope, entry.lead.subject)


def _bar(part: int | None, whole: int) -> float:
    return round(100 * part / whole, 1) if part and whole else 0.0


def _reason(finding: Finding) -> Reason:
    return Reason(
        rule=finding.rule,
        title=finding.title,
        because=finding.because,
        saved=summary.savings(finding),
        evidence=", ".join(
            f"{one.metric} {quantity(one.value, one.unit)} ({_held(one)})"
            for one in finding.evidence
            if one.threshold
        ),
        near=finding.near_threshold.says if finding.near_threshold else "",
        refute=finding.refute,
    )


def _held(one: Evidence) -> str:
    return f"{one.threshold}; {one.side}" if one.side else one.threshold


def findings_of_kernels(
    diagnosis: Diagnosis, fixes: Sequence[Fix]
) -> Mapping[int, list[tuple[int, Finding]]]:
    """Kernel -> what was found on it, each with the number of the fix that it belongs to."""
    number_of = numbers(fixes)
    found: dict[int, list[tuple[int, Finding]]] = {}
    for one in diagnosis.findings:
        at = one.subject_index
        if one.scope == "kernel" and at is not None and one.state in ("fired", "suppressed"):
            number = number_of.get(at, 0) if one.state == "fired" else 0
            found.setdefault(at, []).append((number, one))
    return found
