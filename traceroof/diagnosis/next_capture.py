"""What to measure next: the one capture that would decide most of what a diagnosis leaves open.

Time is open where nothing explains it: all of a kernel's time without a class, else what lies above its
roofline. Of the captures that would tell something, the one with the most open time is the next.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from traceroof.core.topics import COMMUNICATION, TOPICS
from traceroof.core.units import count, percent
from traceroof.diagnosis import collect
from traceroof.diagnosis.findings import Finding

if TYPE_CHECKING:
    from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup

_NOT_EVALUABLE = "not-evaluable"


@dataclass(frozen=True)
class Capture:
    """One capture, and what it would decide.

    command: None where it has to be taken anew in a way that no command says: then ``fix`` does.
    because: what is open. kernels: numbers of the kernels that it speaks of, rules: those that it would
    decide ("class" is the class of kernels), missing: the columns that it collects. open_ns: the time that it would decide;
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
        *_of_kernels(diagnosis),
        *(_of_the_run(diagnosis, one) for one in diagnosis.not_evaluable() if _of_run(one)),
    ]
    told = [one for one in found if one.command and one.open_ns]
    return max(told, key=lambda one: one.open_ns or 0, default=None)


def _of_kernels(diagnosis: "Diagnosis") -> Iterable[Capture]:
    """What decides most of the kernels (``not_judged``)."""
    asked = diagnosis.not_judged
    if asked is None or asked.command is None:
        return
    meant = diagnosis.numbered(asked.kernels)
    open_ns = sum(map(_open_ns, meant))
    whole = diagnosis.totals.kernel_time_ns
    share = open_ns / whole if whole else None
    time = f"{percent(share)} of kernel time" if share is not None else "their time"
    frameworks = collect.is_frameworks(asked.command)
    yield Capture(
        command=asked.command,
        because=f"{time} in {count(len(meant), 'kernel')} is open: {', '.join(asked.decides)}",
        kernels=asked.kernels,
        rules=asked.decides,
        missing=asked.columns,
        open_ns=open_ns,
        share=share,
        adds=not frameworks,
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
