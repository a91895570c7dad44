"""What every report says in words: the headline, the savings, what could not be judged."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from traceroof.core import recording
from traceroof.core.kernel_names import short_names
from traceroof.core.units import (
    count,
    one_line,
    percent,
    quantity,
)
from traceroof.diagnosis import collect
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import HIDDEN_SHARE, Finding, Lowered
from traceroof.errors import TraceroofError
from traceroof.rule import SEVERITIES, Severity

#: What kind of times a run has.
TIMES = {
    "counter-tool": "times measured one kernel at a time by a counter tool",
    "timeline": "times from a timeline",
}


def about(diagnosis: Diagnosis) -> str:
    """The run, its devices and what kind of times it has, in one line."""
    devices = ", ".join(dict.fromkeys(_devices(diagnosis))) or "GPU not named in the file"
    return one_line(f"{diagnosis.run_name} · {devices} · {TIMES[diagnosis.time_basis]}")


def _devices(diagnosis: Diagnosis) -> Iterable[str]:
    for device in diagnosis.devices:
        capability = device.info.compute_capability or device.info.gfx_target
        if device.name:
            yield device.name
        elif capability:
            yield f"a GPU of {'CC ' if capability[0].isdigit() else ''}{capability}"


def total(diagnosis: Diagnosis) -> str:
    """Time, launches, and what the findings could save together."""
    totals = diagnosis.totals
    if not totals.launches:
        others = sum(one.launches for one in diagnosis.categories)
        time = quantity(sum(one.time_ns for one in diagnosis.categories), "ns")
        return f"No kernels: {count(others, 'copy or fill', 'copies and fills')} of {time} in all."
    launches = count(totals.launches, "launch", "launches")
    groups = count(len(diagnosis.kernels), "kernel")
    # No known duration at all: the sum is not zero but unknown.
    known = totals.kernel_time_ns or not totals.unknown_durations
    time = quantity(totals.kernel_time_ns, "ns") if known else "An unknown time"
    text = f"{time} in {launches} of {groups}."
    if totals.time_saved_bound_ns:
        share = saved_share(totals.time_saved_bound_ns, whole(diagnosis))
        text += (
            f" The findings on kernels save at most {quantity(totals.time_saved_bound_ns, 'ns')} "
            f"({share} of {whole_words(diagnosis)}), "
            f"likely {quantity(totals.time_saved_likely_ns, 'ns')}"
            f"{'' if diagnosis.timelines else '; overlap unknown'}."
        )
    return text


def whole(diagnosis: Diagnosis) -> int:
    """The time that savings are a part of and severities are decided by, in ns: the span of all
    timelines, without any all kernel time."""
    return diagnosis.totals.span_ns or diagnosis.totals.kernel_time_ns


def whole_words(diagnosis: Diagnosis) -> str:
    """What ``whole`` is, for a reader."""
    return "the time that went by" if diagnosis.totals.span_ns else "kernel time"


def whole_of(diagnosis: Diagnosis, finding: Finding) -> int:
    """The time that a saving is a part of, in ns: of a timeline its own span, else ``whole``."""
    if finding.scope == "timeline" and finding.subject_index is not None:
        return diagnosis.timelines[finding.subject_index].span_ns
    return whole(diagnosis)


def saved_share(bound_ns: int, whole_ns: int) -> str:
    """'12.0 %'; kernels side by side can promise more than all of the time: no more is saved."""
    return percent(min(bound_ns / whole_ns, 1.0)) if whole_ns else ""


def savings(finding: Finding, whole_ns: int) -> str:
    """'saves at most 1.2 ms (12 %), likely 0.8 ms'; empty where there is nothing to say."""
    bound, likely = finding.time_saved_bound_ns, finding.time_saved_likely_ns
    return _savings(bound, likely, whole_ns, option=finding.kind == "option")


def _savings(bound: int | None, likely: int | None, whole_ns: int, *, option: bool) -> str:
    if not bound:
        return ""
    share = f" ({saved_share(bound, whole_ns)})" if whole_ns else ""
    text = f"{'could save' if option else 'saves'} at most {quantity(bound, 'ns')}{share}"
    if likely is not None:
        text += f", likely {quantity(likely, 'ns')}"
    return text + (", as an option that changes results" if option else "")


@dataclass(frozen=True)
class Advice:
    """Everything that fired on one subject: what is worth trying there, and why.

    findings: what to try first comes first (see ``advice``). others: on how many more timelines
    the same rule fired, with less to save there.
    """

    findings: tuple[Finding, ...]
    others: int = 0

    @property
    def lead(self) -> Finding:
        """The finding whose fix is the one to try."""
        return self.findings[0]

    @property
    def largest(self) -> Finding:
        """The finding that saves most, options aside: bounds of one subject do not add up."""
        return max(self._counted, key=lambda one: one.time_saved_bound_ns or -1)

    @property
    def _counted(self) -> Sequence[Finding]:
        """The findings that the totals count: all but options, where there are others."""
        return [one for one in self.findings if one.kind != "option"] or [self.lead]

    @property
    def bound_ns(self) -> int | None:
        """What all findings on the subject save at most, as the totals count it."""
        return self.largest.time_saved_bound_ns

    @property
    def likely_ns(self) -> int | None:
        """What they save likely: the largest of their likely figures."""
        likely = [one.time_saved_likely_ns for one in self._counted]
        return max((one for one in likely if one is not None), default=None)

    @property
    def severity(self) -> Severity:
        """That of the most severe finding; an option counts where there is nothing else."""
        return min((one.severity for one in self._counted), key=SEVERITIES.index)

    @property
    def weight(self) -> float:
        """What subjects are ranked by; a mere option (another element type) ranks last."""
        return max(0.0 if one.kind == "option" else one.weight for one in self.findings)

    @property
    def where(self) -> str:
        """The subject, and on how many more it is the same."""
        more = f" and {self.others} more" if self.others else ""
        return f"{self.lead.subject}{more}"


# A cause is told before the class that it explains while it saves at least this part as much.
_CAUSE_FIRST = 0.5


def _ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What saves time before options and mere information; causes before the class they explain."""
    most = max((one.weight for one in findings if one.kind != "option"), default=0.0)

    def place(one: Finding) -> tuple[bool, bool, bool, float]:
        minor = one.weight < _CAUSE_FIRST * most
        return (
            one.kind == "option" or not one.weight, minor, one.role == "class", -one.weight
        )  # fmt: skip

    return tuple(sorted(findings, key=place))


def once(findings: Sequence[Finding]) -> list[tuple[Finding, int]]:
    """The findings in order, and on how many more timelines each holds: of a rule that fired on
    several timelines the worst stands for all."""
    on: dict[str, list[Finding]] = {}
    for one in findings:
        if one.scope == "timeline":
            on.setdefault(one.rule, []).append(one)
    worst = {rule: max(found, key=lambda one: one.weight) for rule, found in on.items()}
    return [
        (one, len(on[one.rule]) - 1 if one.scope == "timeline" else 0)
        for one in findings
        if one.scope != "timeline" or one is worst[one.rule]
    ]


def gain(diagnosis: Diagnosis, one: Advice) -> str:
    """What an entry saves: the largest of its subject, and what part of it its first fix can
    have."""
    largest = one.largest
    text = _savings(
        one.bound_ns,
        one.likely_ns,
        whole_of(diagnosis, largest),
        option=largest.kind == "option",
    )
    first = by_first(one)
    return f"{text}, {first}" if text and first else text


def by_first(one: Advice) -> str:
    """'by this fix at most 1.2 ms' where another finding on the subject promises more."""
    first = one.lead.time_saved_bound_ns
    smaller = first and first < (one.bound_ns or 0)
    return f"by this fix at most {quantity(first, 'ns')}" if smaller else ""


def advice(diagnosis: Diagnosis) -> list[Advice]:
    """The fired findings by subject, best first: by the largest bound times confidence.

    Timelines and runs are told by rule: what is wrong with them has one cause each, and the ranks
    of a run mostly have it in common.
    """
    by_subject: dict[tuple[str, int | None, str], list[Finding]] = {}
    found = []
    for finding, others in once(diagnosis.fired()):
        if finding.lowers and finding.lowers.matters:
            continue  # what must be known before: ``care``
        if finding.scope in ("timeline", "run"):
            found.append(Advice((finding,), others))
        else:
            key = (finding.scope, finding.subject_index, finding.subject)
            by_subject.setdefault(key, []).append(finding)
    found += [Advice(_ranked(findings)) for findings in by_subject.values()]
    found.sort(key=lambda one: -one.weight)
    return found


@dataclass(frozen=True)
class Care:
    """What is wrong with the measurement, and what that means for the findings."""

    finding: Finding
    others: int
    means: str


def care(diagnosis: Diagnosis) -> list[Care]:
    """What a reader must know of the measurement before its findings, what weighs most first.

    Findings on the measurement that matter less are told with all others, at their end.
    """
    found = [
        Care(finding, others, _means(finding.lowers))
        for finding, others in once(diagnosis.fired())
        if finding.lowers and finding.lowers.matters
    ]
    found.sort(key=_heaviest)
    return found


def _heaviest(one: Care) -> tuple[bool, float]:
    lowers = one.finding.lowers
    return (not lowers.urgent, -lowers.share) if lowers else (True, 0.0)


def _means(lowers: Lowered) -> str:
    if not lowers.findings:
        return "puts every figure that rests on it in doubt, classes and rooflines included"
    return (
        f"lowers the confidence of {count(lowers.findings, 'finding')}; "
        f"together, findings weigh {percent(lowers.share)} less"
    )


def confidence(finding: Finding) -> str:
    """'confidence 0.57, lowered by run-variance'."""
    by = ", ".join(dict.fromkeys(one.rule for one in finding.doubted_by))
    return f"confidence {finding.confidence}{f', lowered by {by}' if by else ''}"


def entry(diagnosis: Diagnosis, number: int) -> str:
    """What entry ``number`` of the advice is about, as ``explain`` takes it: ``RULE:SUBJECT``.

    Raises TraceroofError where there are not so many.
    """
    listed = advice(diagnosis)
    if not 1 <= number <= len(listed):
        raise TraceroofError(
            f"there is no entry {number}: {count(len(listed), 'thing is', 'things are')} worth "
            "trying in this run",
            "`traceroof diagnose` numbers them; a rule can be named instead",
        )
    lead = listed[number - 1].lead
    return lead.rule if lead.subject_index is None else f"{lead.rule}:{lead.subject_index + 1}"


def labels(diagnosis: Diagnosis, indices: Iterable[int], width: int) -> Mapping[int, str]:
    """Short, distinct names of kernel groups: equal names are told apart by their launch shape."""
    wanted = list(dict.fromkeys(indices))
    kernels = diagnosis.kernels
    alike = Counter(kernels[index].kernel for index in wanted)
    shapes = {
        index: f" ({_shape(kernels[index])})"
        for index in wanted
        if alike[kernels[index].kernel] > 1 and kernels[index].grid
    }
    room = width - max(map(len, shapes.values()), default=0)
    plain = short_names((kernels[index].kernel for index in wanted if index not in shapes), width)
    shaped = short_names((kernels[index].kernel for index in shapes), room)
    return {
        index: shaped[kernels[index].kernel] + shapes[index]
        if index in shapes
        else plain[kernels[index].kernel]
        for index in wanted
    }


def _shape(kernel: KernelGroup) -> str:
    """The grid without the axes that have one block: 128x64."""
    x, y, z = kernel.grid or (0, 0, 0)
    return f"{x}x{y}x{z}" if z > 1 else f"{x}x{y}" if y > 1 else f"{x}"


@dataclass(frozen=True)
class NotJudged:
    """Something that could not be judged, why, and the command that would change that."""

    what: str
    missing: tuple[str, ...]
    command: str | None


def not_judged(diagnosis: Diagnosis) -> list[NotJudged]:
    """What could not be judged: the class of kernels first, then the rules, as one entry each."""
    entries: list[NotJudged] = []
    unclassed = [one for one in diagnosis.kernels if one.primary_class == "not-evaluable"]
    if unclassed:
        entries.append(_unclassed(diagnosis, unclassed))
    lacking = [one for one in diagnosis.not_evaluable() if one.scope == "kernel"]
    if lacking:
        entries.append(_lacking(diagnosis, lacking))
    return entries


def _lacking(diagnosis: Diagnosis, findings: Sequence[Finding]) -> NotJudged:
    rules = sorted({one.rule for one in findings})
    missing = tuple(dict.fromkeys(name for one in findings for name in one.missing))
    kernels = [one.kernel for one in diagnosis.kernels if (one.share or 1.0) >= HIDDEN_SHARE]
    named = ", ".join(rules[:_RULES_NAMED])
    if len(rules) > _RULES_NAMED:
        named += f" and {len(rules) - _RULES_NAMED} more"
    of = "some kernels" if len(diagnosis.kernels) > 1 else "the kernel"
    return NotJudged(
        f"{count(len(rules), 'rule')} for {of} ({named})",
        missing,
        collect.command(missing, kernels, vendor=diagnosis.vendor),
    )


# More names than this say less than their number.
_RULES_NAMED = 3


def _unclassed(diagnosis: Diagnosis, unclassed: Sequence[KernelGroup]) -> NotJudged:
    time = sum(one.time_ns or 0 for one in unclassed)
    total = diagnosis.totals.kernel_time_ns
    share = f" ({percent(time / total)} of kernel time)" if total else ""
    missing = tuple(dict.fromkeys(name for one in unclassed for name in one.missing))
    names = [one.kernel for one in unclassed]
    plural = "s" if len(unclassed) > 1 else ""
    return NotJudged(
        f"the class of {len(unclassed):,} kernel{plural}{share}",
        missing,
        collect.command(missing, names, vendor=diagnosis.vendor),
    )


def ceilings(diagnosis: Diagnosis) -> str:
    """Which ceilings the likely figures stand for, and how to measure those that are assumed; empty
    where no figure needs one."""
    likely = any(
        one.time_saved_likely_ns is not None and one.scope in ("kernel", "category")
        for one in diagnosis.fired()
    )
    if not likely and not any(kernel.roofline for kernel in diagnosis.kernels):
        return ""
    measured = any(
        name in kernel.metrics
        for kernel in diagnosis.kernels
        for name in ("dram_attainable", "flop_attainable")
    )
    advice = "" if measured else "; `traceroof calibrate` measures what this GPU reaches"
    return f"Likely: {diagnosis.ceilings.partition('likely: ')[2]}{advice}."


def note_lines(diagnosis: Diagnosis) -> list[str]:
    """The notes of the run and of every file, each said once."""
    lines = [*diagnosis.notes, *recording.note_lines(diagnosis.sources)]
    return list(dict.fromkeys(one_line(line) for line in lines))
