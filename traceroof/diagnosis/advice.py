"""What to do, best first: the findings as entries that each name one fix and claim their own time.

An entry is one topic and one fix, with all subjects that it helps. Entries are walked by the saving
that is to be expected; each claims only time that none before it claimed, and one of which little
is left is folded into that which has it. What only describes (the GPU is idle, a kernel's class) is an
entry only where no cause is known. What makes the recording unfit comes first where it puts most of the
rest in doubt.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from traceroof.diagnosis.advice_entries import (
    Draft,
    attach,
    claim,
    drafts_of,
    of_measurement,
    passes_once,
    topic_of,
)
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.nothing_to_gain import (
    UNSAID,
    OpenTime,
    leading,
    little,
    settled,
    undecided,
    untold,
)
from traceroof.diagnosis.savings import (
    Pool,
    severity,
    together,
)
from traceroof.kernels.places import Place
from traceroof.rule import SEVERITY_STEPS, Severity

# From this part of the expected saving on, a doubt comes before it.
_UNFIT = 0.5
# Below this part of the busy time, one entry is not worth a line.
_NOTHING = 0.0005


@dataclass(frozen=True)
class Entry:
    """One thing to do. Times are ns of the wall time (of the kernel time without a timeline).

    subjects: the kernels, categories or timelines that it helps, most saving first. bound_ns: what it
    saves at most beyond the entries before it; expected_ns: likely (else bound) times confidence,
    which is what entries are ordered by. share: of ``share_of``, the bound. once: the time passes once per
    process, so it is outside the sum. found: the findings of the entry; folded: those that it
    explains.
    """

    rank: int
    topic: str
    title: str
    subjects: tuple[str, ...]
    bound_ns: int | None
    likely_ns: int | None
    expected_ns: int | None
    share: float | None
    share_of: str
    confidence: float
    fix: str
    because: str
    once: bool
    where: Place
    found: tuple[Finding, ...]
    folded: tuple[Finding, ...] = ()
    steps: Mapping[Severity, float] = field(default_factory=lambda: SEVERITY_STEPS)

    @property
    def lead(self) -> Finding:
        """The finding whose fix is the one to try."""
        return self.found[0]

    @property
    def severity(self) -> Severity:
        """By the share of the time that it saves; what saves none is as severe as its finding."""
        if self.bound_ns is None or self.share is None:
            return self.lead.severity
        return severity(self.share, 1.0, self.steps)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "rank": self.rank,
            "topic": self.topic,
            "title": self.title,
            "subjects": list(self.subjects),
            "findings": [name_of(one) for one in self.found if one.rule not in UNSAID],
            "bound_ns": self.bound_ns,
            "likely_ns": self.likely_ns,
            "expected_ns": self.expected_ns,
            "share": self.share,
            "share_of": self.share_of,
            "confidence": self.confidence,
            "fix": self.fix,
            "because": self.because,
            "once": self.once,
            "where": asdict(self.where),
            "includes": [name_of(one) for one in self.folded],
        }


def name_of(finding: Finding) -> str:
    """``rule:index`` as ``explain`` takes it: the subject by its number, from 1 on."""
    if finding.subject_index is None:
        return finding.rule
    return f"{finding.rule}:{finding.subject_index + 1}"


def advice_of(
    findings: Sequence[Finding],
    pool: Pool,
    where: Callable[[Sequence[Finding]], Place] | None = None,
    steps: Mapping[Severity, float] = SEVERITY_STEPS,
    unexplained: OpenTime | None = None,
) -> tuple[Entry, ...]:
    """The advice of a run.

    findings: all of them, ranked. pool: the time that they take their savings from. where: what the
    launches of several findings have in common; by default where the first is. steps: from which share
    of the time on an entry is how severe. unexplained: the kernels of a timeline without a class.
    """
    fired = [one for one in findings if one.state == "fired" and one.scope != "compare"]
    drafts = drafts_of([one for one in fired if not of_measurement(one)], pool)
    kept, rest = claim(drafts, pool)
    worthless = [one for one in kept if one.expected(one.claimed) < _NOTHING * pool.busy_ns]
    kept = [one for one in kept if one not in worthless]
    attach(kept, rest)
    unknown = [one for one in rest if not one.found[0].informs]
    unknown.sort(key=lambda one: -max(finding.weight_alone for finding in one.found))
    unfit = _unfit(fired)
    if any(one.topic == "too-short-to-judge" for one in unfit):
        # What little there is says nothing, but for what passes once.
        kept, unknown = [one for one in kept if passes_once(one.topic)], []
        unexplained = None
    if any(one.topic == "input-copy" for one in unfit):
        # Copies hold most of the time, so that the counters of kernels tell little.
        unexplained = None
    before, behind = unexplained.placed(kept, pool) if unexplained else ([], [])
    if first := leading(unknown, kept, pool):
        before, behind = first, [*before, *behind]
        unknown = [one for one in unknown if one not in first]
    if not unfit and (small := little(kept, pool)):
        kept = [small]
        if before and pool.reference is not None:
            # That the GPU is kept busy is a verdict; what its kernels could gain is not known.
            before, behind = [], before
        elif blind := undecided(rest, pool) or next(iter(before), None):
            blind.folded += small.folded
            kept = [] if before else [blind]
    elif not unfit and kept and not before and (blind := undecided(rest, pool, kept)):
        before = [blind]
    kept.sort(key=lambda one: -one.expected(one.claimed))
    if not kept and unknown and not unfit and not pool.kernels_ns:
        # Causes without a figure, where neither the time nor the class of any kernel is known.
        before = [*before, *untold(rest)]
    listed = [*unfit, *before, *kept, *unknown, *behind] or settled([*rest, *worthless], pool)
    made = (_entry(one, pool, where or _of_first, rank) for rank, one in enumerate(listed, 1))
    return tuple(replace(one, steps=steps) for one in made)


def _unfit(fired: Sequence[Finding]) -> list[Draft]:
    """What makes the measurement unfit for most of what is advised, worst first; what only adds
    noise is a caveat."""
    found: dict[str, list[Finding]] = {}
    for one in fired:
        doubts_most = one.lowers and one.lowers.share >= _UNFIT and topic_of(one).unfit
        if one.lowers and (one.lowers.urgent or doubts_most):
            found.setdefault(one.rule, []).append(one)
    drafts = [Draft(ones[0].topic, ones, together([]), False) for ones in found.values()]
    return sorted(drafts, key=lambda one: -max(f.lowers.share for f in one.found if f.lowers))


def _of_first(found: Sequence[Finding]) -> Place:
    return found[0].where


def _entry(
    draft: Draft, pool: Pool, where: Callable[[Sequence[Finding]], Place], rank: int
) -> Entry:
    lead = draft.found[0]
    bound = round(draft.claimed) if draft.claimed else None
    share = draft.likely_share
    likely = round(bound * share) if bound is not None and share is not None else None
    whole = pool.whole_ns
    return Entry(
        rank=rank,
        topic=draft.topic,
        title=lead.title,
        subjects=tuple(dict.fromkeys(one.subject for one in draft.found)),
        bound_ns=bound,
        likely_ns=likely,
        expected_ns=None if bound is None else round(draft.expected(bound)),
        share=bound / whole if bound is not None and whole else None,
        share_of="wall" if pool.reference is not None else "kernel",
        confidence=draft.confidence,
        fix=lead.fix,
        because=lead.because,
        once=passes_once(draft.topic),
        where=where(draft.found),
        found=tuple(draft.found),
        folded=tuple(draft.folded),
    )
