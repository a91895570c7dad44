"""What the HTML report shows, as plain data in its order: fixes, kernels, cards, provenance.

Long lists are cut here, each by a rule that does not depend on the machine; what is cut is
counted, and the page says so.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from traceroof.core.kernel_names import demangled, short_names
from traceroof.core.units import percent, quantity
from traceroof.diagnosis.advice import Entry
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import Evidence, Finding
from traceroof.kernels.places import BY
from traceroof.report.html.palette import look
from traceroof.report.html.timeline_figures import gpu_labels
from traceroof.report.run import operator_card, summary

# What rows and fixes may take of a page; the limits only matter for thousands of kernels.
_ROW_BYTES, _MOST_ROWS = 110_000, 600
_FIX_BYTES = 60_000
_MOST_GAPS = 15
_NAME_WIDTH = 72
#: How much of a kernel's name every page holds, for its search and its card.
NAMED = 300


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


# What a fix speaks of, where its subject's name alone does not say it.
_WHOLE: Mapping[str, str] = {"run": "the whole run"}
_SCOPES: Mapping[str, str] = {"category": "category", "timeline": "timeline"}


def fixes(diagnosis: Diagnosis) -> list[Fix]:
    """The advice, an entry each."""
    found = diagnosis.advice[:_MOST_ROWS]
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
                unsaved="saving not estimable",
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


def _numbers(fixes: Iterable[Fix]) -> dict[int, int]:
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


@dataclass(frozen=True)
class Row:
    """A kernel in the table; ``fix`` is the number of its entry among the fixes, 0 for none.
    joined: how sure the counters are its own, empty without."""

    index: int
    name: str
    shape: str
    place: str
    joined: str
    category: str
    primary_class: str
    family: str
    mark: str
    time_ns: int | None
    time: str
    share: str
    bar: float
    launches: str
    median_ns: float | None
    median: str
    compute: str
    memory: str
    dram: str
    fix: int


@dataclass(frozen=True)
class Unlisted:
    """The kernels that the table has no room for."""

    kernels: str
    time: str
    share: str
    launches: str


def rows(
    diagnosis: Diagnosis, fixes: Sequence[Fix], *, each: int = 0, most: int | None = None
) -> tuple[list[Row], Unlisted | None]:
    """The kernels with the most time, as many as there is room for, and the sum of the others.

    each: bytes that a row takes beyond what is known here. most: no more rows than these.
    """
    kernels = diagnosis.kernels[: _MOST_ROWS if most is None else most]
    names = short_names((one.kernel for one in kernels), _NAME_WIDTH)
    several = _repeated(one.kernel for one in kernels)
    fix_of = _numbers(fixes)
    largest = max((one.share or 0 for one in kernels), default=0)
    rows: list[Row] = []
    room = _ROW_BYTES
    seen: set[str] = set()
    for index, one in enumerate(kernels):
        # In a cell a bracket takes four bytes; a name that several rows share is held once.
        room -= 270 + each + len(escape(names[one.kernel]).encode())
        place = one.where.words if one.where.module or one.where.range else ""
        room -= len(escape(place).encode())
        room -= 0 if one.kernel in seen else len(demangled(one.kernel)[:NAMED].encode())
        seen.add(one.kernel)
        if room < 0:
            break
        appearance = look(one.primary_class)
        rows.append(
            Row(
                index=index + 1,
                name=names[one.kernel],
                shape=_launch_shape(one.grid, one.block) if one.kernel in several else "",
                place=place,
                joined=_joined(one),
                category=one.category,
                primary_class=one.primary_class,
                family=appearance.family,
                mark=appearance.mark,
                time_ns=one.time_ns,
                time=quantity(one.time_ns, "ns"),
                share=percent(one.share),
                bar=round(100 * (one.share or 0) / largest, 1) if largest else 0.0,
                launches=f"{one.launches:,}",
                median_ns=one.median_ns,
                median=quantity(one.median_ns, "ns"),
                compute=_use(one.metrics.get("compute_pct")),
                memory=_use(one.metrics.get("memory_pct")),
                dram=_use(one.metrics.get("dram_pct")),
                fix=fix_of.get(index, 0),
            )
        )
    rest = diagnosis.kernels[len(rows) :]
    if not rest:
        return rows, None
    time = sum(one.time_ns or 0 for one in rest)
    whole = diagnosis.totals.kernel_time_ns
    return rows, Unlisted(
        kernels=f"{len(rest):,}",
        time=quantity(time, "ns"),
        share=percent(time / whole if whole else None),
        launches=f"{sum(one.launches for one in rest):,}",
    )


def _joined(kernel: KernelGroup) -> str:
    sure = kernel.metrics.get("join_confidence")
    return f"{sure:.2f}" if isinstance(sure, float) else ""


@dataclass(frozen=True)
class Times:
    """A table of the time by module, operator or range, as the page's macro takes it."""

    title: str
    header: Sequence[tuple[str, bool]]
    rows: Sequence[Sequence[str]]
    kernels: Sequence[int] = ()


def times(diagnosis: Diagnosis) -> list[Times]:
    """The time by module, operator and range, where they are recorded."""
    header = (("Time", True), ("Share of GPU time", True), ("Launches", True), ("Findings", False))
    made = []
    for by in BY:
        listed = summary.time_by(diagnosis, by)
        if not listed:
            continue
        rows = [
            (
                (one.name or "")[:NAMED],
                quantity(one.time_ns, "ns"),
                percent(one.share),
                f"{one.launches:,}",
                _rules(one.findings),
            )
            for one in listed[:_MOST_TIMES]
        ]
        if left := len(listed) - len(rows):
            rows.append((f"and {left:,} more (diagnose --format json has all)", "", "", "", ""))
        made.append(Times(f"Time by {by}", ((by.capitalize(), False), *header), rows))
    return made


_MOST_TIMES = 15


def _rules(findings: Sequence[str]) -> str:
    """The rules of some findings, each once."""
    counted = Counter(one.partition(":")[0] for one in findings)
    return ", ".join(f"{rule} ({n})" if n > 1 else rule for rule, n in counted.items())


def name_pool(diagnosis: Diagnosis, rows: Sequence[Row]) -> tuple[list[str], list[int]]:
    """The names of the rows' kernels, each once, and which of them each row has."""
    places: dict[str, int] = {}
    of_row = [places.setdefault(one.kernel, len(places)) for one in diagnosis.kernels[: len(rows)]]
    return [demangled(name)[:NAMED] for name in places], of_row


def _repeated(names: Iterable[str]) -> set[str]:
    counted = Counter(names)
    return {name for name, count in counted.items() if count > 1}


def _launch_shape(grid: tuple[int, int, int] | None, block: tuple[int, int, int] | None) -> str:
    shapes = [operator_card.shape(size) for size in (grid, block) if size]
    return " | ".join(shapes)


def _use(value: Any) -> str:
    return quantity(value, "%") if isinstance(value, float | int) else ""


def findings_of_kernels(
    diagnosis: Diagnosis, fixes: Sequence[Fix]
) -> Mapping[int, list[tuple[int, Finding]]]:
    """Kernel -> what was found on it, each with the number of the fix that it belongs to."""
    number_of = _numbers(fixes)
    found: dict[int, list[tuple[int, Finding]]] = {}
    for one in diagnosis.findings:
        at = one.subject_index
        if one.scope == "kernel" and at is not None and one.state in ("fired", "suppressed"):
            number = number_of.get(at, 0) if one.state == "fired" else 0
            found.setdefault(at, []).append((number, one))
    return found


def roofline_command(diagnosis: Diagnosis) -> str | None:
    """The command that collects what a place on the roofline needs."""
    from traceroof.diagnosis import collect

    return collect.command(("intensity", "dram_bytes"), (), vendor=diagnosis.tool)


@dataclass(frozen=True)
class Gap:
    """One of the longest times that a GPU was idle."""

    gpu: str
    time: str
    cause: str
    after: str
    before: str
    host: str


def gaps(diagnosis: Diagnosis) -> list[Gap]:
    """The longest gaps of all GPUs, longest first."""
    listed = [
        (gap, label)
        for label, timeline in zip(gpu_labels(diagnosis), diagnosis.timelines, strict=True)
        for gap in timeline.gaps
    ]
    listed.sort(key=lambda one: -one[0].duration_ns)
    listed = listed[:_MOST_GAPS]
    names = short_names((name for gap, _ in listed for name in (gap.after, gap.before)), 48)
    return [
        Gap(
            gpu=label,
            time=quantity(gap.duration_ns, "ns"),
            cause=gap.cause.replace("_", " "),
            after=names[gap.after],
            before=names[gap.before],
            host=(gap.host or "")[:NAMED],
        )
        for gap, label in listed
    ]


def ranks(diagnosis: Diagnosis) -> list[Sequence[str]]:
    """A line a rank: its times, what it waited for others and they for it."""
    if diagnosis.ranks is None:
        return []
    return [
        (
            str(one.rank),
            *(
                quantity(time, "ns")
                for time in (one.compute_ns, one.communication_ns, one.exposed_communication_ns,
                             one.idle_ns, one.waiting_ns, one.caused_ns)
            ),
            percent(one.last_share),
        )
        for one in diagnosis.ranks.ranks
    ]  # fmt: skip
