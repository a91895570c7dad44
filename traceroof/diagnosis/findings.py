"""What rules say of subjects: the findings, and what they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceroof.config import NONE, Settings
from traceroof.core.facts import Mask
from traceroof.diagnosis.framework_terms import in_terms_of
from traceroof.hardware.ceilings import Attainable
from traceroof.hardware.devices import AMD as LIKE_AMD
from traceroof.hardware.vendor_terms import AMD, INTEL, NVIDIA, said
from traceroof.kernels.places import NOWHERE, Place
from traceroof.rule import SEVERITY_STEPS, Scope, Severity, State

# Severity from the share of the run that the finding can save at most; below the last step a
# finding is left out and only counted.
HIDDEN_SHARE = SEVERITY_STEPS["low"]
#: Of a kernel's own time, where it was profiled for its own sake.
HIDDEN_ALONE = 0.05


@dataclass(frozen=True)
class Evidence:
    """One figure that a finding rests on; ``source`` is one of ``kernel_table.SOURCES``. side: of a
    timeline with counters, which of the two it comes from (``counter_join.side_of``)."""

    metric: str
    value: float | str | None
    unit: str
    threshold: str
    basis: str
    source: str
    side: str = ""


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
class LinePart:
    """What one source line has of a finding, or one instruction where no line is known.

    place: as people read it, ``gemv.cu:41``. share: of what the rule judges, 0-1. bound_ns: the
    same share of the finding's bound. says: what the line does.
    """

    place: str
    file: str | None
    line: int | None
    function: str | None
    address: int | None
    share: float
    bound_ns: int | None
    says: str


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
    finding, what it means for the others; None for all other findings. bound_share: the bound as a
    part of the subject's own time, known even where that time is not. informs: its rule only informs,
    whatever it could save. where: where its launches come from.
    lines: the source lines that have most of it.
    failed: how a rule of a plug-in broke, with its file; such a finding is not evaluable.
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
    bound_share: float | None = None
    informs: bool = False
    where: Place = NOWHERE
    failed: str | None = None
    lines: tuple[LinePart, ...] = ()

    @property
    def weight(self) -> float:
        """What findings are ranked by, ns: the saving that is likely, else the bound, times the
        confidence."""
        saved = self.time_saved_likely_ns
        return ((self.time_saved_bound_ns if saved is None else saved) or 0) * self.confidence

    @property
    def weight_alone(self) -> float:
        """The same as a part of the subject's time, for subjects whose time is unknown."""
        return (self.bound_share or 0) * self.confidence


@dataclass(frozen=True)
class NotJudged:
    """What could not be judged. missing: every column that some class or rule lacks. decides: the
    rules that the command would decide, the most telling first; "class" is the class. columns: what it
    collects, kernels: the numbers of those that it collects it of."""

    what: str
    missing: tuple[str, ...]
    decides: tuple[str, ...]
    command: str | None
    columns: tuple[str, ...] = ()
    kernels: tuple[int, ...] = ()


@dataclass(frozen=True)
class Context:
    """What the rules of a run share.

    settings: what the user set: the steps of severity, and findings that are not wanted.

    total_ns: the time that severities are measured against. attainable: the ceilings, of each
    kernel group where they differ; overall: those of the whole run. calibrated: whether (where)
    they were measured on this device. few_matter: durations scatter, so few launches say little.
    framework: what the program is written in (``framework_terms``).
    vendor: whose GPU it is; other tools collect what is missing on AMD's, and other words say it.
    tool: which vendor's tool collects what is missing (``collect.tool_for``).
    hidden_share: what saves a smaller part of total_ns, 0-1, is only counted; where each kernel was
    profiled for its own sake (alone), only if it is a small part of its own time as well.
    """

    total_ns: float
    attainable: Attainable
    calibrated: bool | Mask
    few_matter: bool
    vendor: str | None
    overall: Attainable | None = None
    hidden_share: float = HIDDEN_SHARE
    tool: str | None = None
    alone: bool = False
    settings: Settings = NONE
    framework: str = ""

    def said(self, text: str) -> str:
        """A text of a rule in the words of the vendor and the framework."""
        return said(in_terms_of(text, self.framework), self.words)

    @property
    def words(self) -> str:
        """In whose words its rules speak."""
        if self.vendor == INTEL:
            return INTEL
        return AMD if self.vendor in LIKE_AMD else NVIDIA

    def ceilings(self, scope: Scope) -> tuple[Attainable, bool | Mask]:
        """What the subjects of a scope can attain, and whether (where) that was measured."""
        if scope == "kernel" or self.overall is None:
            return self.attainable, self.calibrated
        return self.overall, bool(np.size(self.calibrated) and np.all(self.calibrated))


_RANK: Mapping[Severity, int] = {"high": 0, "medium": 1, "low": 2, "info": 3}


def ranked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What holds before what is silenced, most worth first."""
    order: Mapping[State, int] = {"fired": 0, "suppressed": 1, "not-evaluable": 2, "clear": 3}
    return tuple(
        sorted(
            findings,
            key=lambda one: (
                order[one.state], -one.weight, -one.weight_alone, _RANK[one.severity], one.rule,
                one.subject,
            ),
        )
    )  # fmt: skip
