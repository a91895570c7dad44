"""What to measure next: the one capture that would decide most of what a diagnosis leaves open.

Time is open where nothing explains it: all of a kernel's time without a class, else what lies above its
roofline. Of the captures that would tell something, the one with the most open time is the next.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from traceroof.core.topics import COMMUNICATION, TOPICS
from traceroof.core.units import count, percent
from traceroof.diagnosis import collect
from traceroof.diagnosis.findings import HIDDEN_SHARE, Finding

if TYPE_CHECKING:
    from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup

# What a counter tool has nothing to say of.
_TIMED_ALONE = ("communication", "copy", "launch-bound")
_NOT_EVALUABLE = "not-evaluable"


@dataclass(frozen=True)
class Capture:
    """One capture, and what it would decide.

    command: None where it has to be taken anew in a way that no command says: then ``fix`` does.
    because: what is open. kernels: numbers of the kernels that it speaks of, rules: those that could
    then be judged, missing: the columns that it collects. open_ns: the time that it would decide;
    share: of the kernel time, 0-1 (of the wall time where it is of no kernel: share_of). adds: its
    file is given together with those of the run; else it replaces them.
    """

    command: str | None
    because: str
    kernels: tuple[int, ...] = ()
    rules: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    open_ns: int | None = None
    share: float | None = None
    share_of: str = "kernel"
    adds: bool = True
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def next_capture(diagnosis: "Diagnosis") -> Capture | None:
    """The capture that would decide most; None where nothing is open that a capture could tell."""
    lead = diagnosis.advice[0].lead if diagnosis.advice else None
    if lead is not None and lead.lowers is not None:
        return Capture(None, lead.because, rules=(lead.rule,), adds=False, fix=lead.fix)
    found = [
        *_of_classes(diagnosis),
        *_of_rules(diagnosis),
        *(_of_the_run(diagnosis, one) for one in diagnosis.not_evaluable() if _of_run(one)),
    ]
    told = [one for one in found if one.command and one.open_ns]
    return max(told, key=lambda one: one.open_ns or 0, default=None)


def _of_classes(diagnosis: "Diagnosis") -> Iterable[Capture]:
    """What gives a class to the kernels that have none."""
    kernels = [one for one in diagnosis.kernels if one.primary_class == _NOT_EVALUABLE]
    missing = tuple(dict.fromkeys(name for one in kernels for name in one.missing))
    if missing:
        said = count(len(kernels), "kernel has", "kernels have")
        yield _counters(diagnosis, kernels, missing, (), f"{said} no class yet")


def _of_rules(diagnosis: "Diagnosis") -> Iterable[Capture]:
    """What lets rules judge the kernels that have a class."""
    lacking = _on_kernels(diagnosis)
    kernels = [
        one
        for one in diagnosis.kernels
        if one.primary_class not in (_NOT_EVALUABLE, *_TIMED_ALONE)
        and (diagnosis.narrowed or (one.share or 1.0) >= HIDDEN_SHARE)
    ]
    missing = tuple(dict.fromkeys(name for one in lacking for name in one.missing))
    if kernels and missing:
        rules = tuple(dict.fromkeys(one.rule for one in lacking))
        said = count(len(kernels), "kernel lacks", "kernels lack")
        yield _counters(
            diagnosis, kernels, missing, rules, f"{said} what {count(len(rules), 'rule')} need"
        )


def _on_kernels(diagnosis: "Diagnosis") -> list[Finding]:
    """What could not be judged of a kernel, and could be with what the vendor's tool collects."""
    return [
        one
        for one in diagnosis.not_evaluable()
        if one.scope == "kernel" and one.missing and collect.collects(one.missing, diagnosis.tool)
    ]


def _counters(
    diagnosis: "Diagnosis",
    kernels: Sequence["KernelGroup"],
    missing: tuple[str, ...],
    rules: tuple[str, ...],
    state: str,
) -> Capture:
    command = collect.command(
        missing,
        [one.kernel for one in kernels],
        vendor=diagnosis.tool,
        launches=max(one.launches for one in kernels),
    )
    open_ns = sum(map(_open_ns, kernels))
    whole = diagnosis.totals.kernel_time_ns
    share = open_ns / whole if whole else None
    time = f": {percent(share)} of kernel time" if share is not None else ""
    return Capture(
        command=command,
        because=f"{state}{time} is open",
        kernels=tuple(one.number for one in kernels[: collect.MOST_KERNELS]),
        rules=rules,
        missing=missing,
        open_ns=open_ns,
        share=share,
        adds=not collect.is_frameworks(command or ""),
    )


def _open_ns(kernel: "KernelGroup") -> int:
    """The time of a kernel that nothing explains yet."""
    time = kernel.time_ns or 0
    reached = (kernel.roofline or {}).get("utilisation")
    if kernel.primary_class == _NOT_EVALUABLE or reached is None:
        return time
    return round(time * max(1.0 - float(reached), 0.0))


def _of_run(finding: Finding) -> bool:
    return finding.scope in ("category", "timeline", "run") and bool(finding.command)


def _of_the_run(diagnosis: "Diagnosis", finding: Finding) -> Capture:
    """What lets a rule judge a category, a timeline or the run."""
    totals = diagnosis.totals
    whole = totals.wall_ns or totals.kernel_time_ns
    open_ns = _time_of(diagnosis, finding)
    return Capture(
        command=finding.command,
        because=f"{finding.title[:1].lower()}{finding.title[1:]}: it cannot be told yet",
        rules=(finding.rule,),
        missing=finding.missing,
        open_ns=open_ns,
        share=open_ns / whole if whole else None,
        share_of="wall" if totals.wall_ns else "kernel",
        adds=not collect.is_frameworks(finding.command or ""),
    )


def _time_of(diagnosis: "Diagnosis", finding: Finding) -> int:
    """The time that a finding on no single kernel could explain: what its topic claims."""
    if finding.scope == "category" and finding.subject_index is not None:
        return diagnosis.categories[finding.subject_index].time_ns
    topic, totals = TOPICS.get(finding.topic), diagnosis.totals
    claims = topic.claims if topic else ()
    idle = any(one.startswith("idle:") for one in claims)
    return (totals.gpu_idle_ns or 0 if idle else 0) + (
        totals.exposed_communication_ns or 0 if COMMUNICATION in claims else 0
    )
