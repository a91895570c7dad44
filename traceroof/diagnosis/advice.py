"""What to do, best first: the findings as entries that each name one fix and claim their own time.

An entry is one topic and one fix, with all subjects that it helps. Entries are walked by the saving
that is to be expected; each claims only time that none before it claimed, and one of which little
is left is folded into that which has it. What only describes (the GPU is idle, a kernel's class) is an
entry only where no cause is known. What makes the recording unfit comes first where it puts most of the
rest in doubt.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from traceroof.core.topics import TOPICS, Topic
from traceroof.core.units import percent
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.savings import (
    Demand,
    Ledger,
    Pool,
    demand_of,
    severity,
    together,
)
from traceroof.rule import Severity

# An entry of which less than this part is left says nothing new.
_LEFT = 0.2
# A description is worth an entry while the causes explain less than this part of it.
_EXPLAINED = 0.5
# From this part of the expected saving on, a doubt comes before it.
_UNFIT = 0.5
# Below this part of the busy time, what all advice together is expected to save is not worth a change.
_LITTLE = 0.02


#: What stands in place of a rule where no rule says it.
LITTLE, LACKING = "little-to-gain", "not-enough-metrics"
_NO_RULES = (LITTLE, LACKING)


@dataclass(frozen=True)
class Lacks:
    """What a counter profile did not collect. share: of the kernel time whose class is unknown
    for it, 0-1. missing: the columns. command: what collects them, None where nothing does."""

    share: float
    missing: tuple[str, ...]
    command: str | None


@dataclass(frozen=True)
class Where:
    """Where in the program an entry applies; None where the recording does not tell."""

    module: str | None = None
    operator: str | None = None
    range: str | None = None
    source: str | None = None


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
    where: Where
    found: tuple[Finding, ...]
    folded: tuple[Finding, ...] = ()

    @property
    def lead(self) -> Finding:
        """The finding whose fix is the one to try."""
        return self.found[0]

    @property
    def severity(self) -> Severity:
        """By the share of the time that it saves; what saves none is as severe as its finding."""
        if self.bound_ns is None or self.share is None:
            return self.lead.severity
        return severity(self.share, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "rank": self.rank,
            "topic": self.topic,
            "title": self.title,
            "subjects": list(self.subjects),
            "findings": [name_of(one) for one in self.found if one.rule not in _NO_RULES],
            "bound_ns": self.bound_ns,
            "likely_ns": self.likely_ns,
            "expected_ns": self.expected_ns,
            "share": self.share,
            "share_of": self.share_of,
            "confidence": self.confidence,
            "fix": self.fix,
            "because": self.because,
            "once": self.once,
            "where": {
                "module": self.where.module,
                "operator": self.where.operator,
                "range": self.where.range,
                "source": self.where.source,
            },
            "includes": [name_of(one) for one in self.folded],
        }


def name_of(finding: Finding) -> str:
    """``rule:index`` as ``explain`` takes it: the subject by its number, from 1 on."""
    if finding.subject_index is None:
        return finding.rule
    return f"{finding.rule}:{finding.subject_index + 1}"


@dataclass
class _Draft:
    """An entry in the making."""

    topic: str
    found: list[Finding]
    demand: Demand
    general: bool
    claimed: float = 0.0

    def __post_init__(self) -> None:
        self.found.sort(key=_first)
        self.folded: list[Finding] = []

    @property
    def confidence(self) -> float:
        """Of its findings, weighed by what they save."""
        weights = [one.time_saved_bound_ns or 0 for one in self.found]
        if not any(weights):
            return max(one.confidence for one in self.found)
        weighed = sum(w * one.confidence for w, one in zip(weights, self.found, strict=True))
        return round(weighed / sum(weights), 2)

    @property
    def likely_share(self) -> float | None:
        """The likely saving as a part of the bound; None where nothing more is known."""
        pairs = [
            (one.time_saved_bound_ns, one.time_saved_likely_ns)
            for one in self.found
            if one.time_saved_bound_ns
        ]
        if not pairs or any(likely is None for _, likely in pairs):
            return None
        return sum(likely or 0 for _, likely in pairs) / sum(bound or 0 for bound, _ in pairs)

    def likely(self, bound: float) -> float:
        """What is likely of so much; all of it where nothing more is known."""
        share = self.likely_share
        return bound if share is None else bound * share

    def expected(self, bound: float) -> float:
        """What is to be expected of so much."""
        return self.likely(bound) * self.confidence


def _first(one: Finding) -> tuple[bool, bool, float]:
    """What leads an entry: causes before classes, real savings before options, then by weight."""
    return one.role == "class", not one.weight, -one.weight


def advice_of(
    findings: Sequence[Finding],
    pool: Pool,
    wheres: Mapping[int, Where],
    lacks: Lacks | None = None,
) -> tuple[Entry, ...]:
    """The advice of a run.

    findings: all of them, ranked. pool: the time that they take their savings from. wheres: by
    kernel group, where it comes from. lacks: what was not collected.
    """
    fired = [one for one in findings if one.state == "fired" and one.scope != "compare"]
    drafts = _drafts([one for one in fired if not _of_measurement(one)], pool)
    kept, rest = _claim(drafts, pool)
    _attach(kept, rest)
    unfit = _unfit(fired)
    if not unfit and (little := _little(kept, pool)):
        kept = [little]
    listed = [
        *unfit,
        *sorted(kept, key=lambda one: -one.expected(one.claimed)),
        *(one for one in rest if one.found[0].severity != "info"),
    ]
    listed = listed or _at_walls(rest) or _not_enough(lacks)
    return tuple(_entry(one, pool, wheres, rank) for rank, one in enumerate(listed, 1))


def _topic(finding: Finding) -> Topic:
    return TOPICS.get(finding.topic, Topic(""))


def _once(topic: str) -> bool:
    return topic in TOPICS and TOPICS[topic].once


def _of_measurement(finding: Finding) -> bool:
    return finding.lowers is not None or _topic(finding).measurement


def _drafts(findings: Sequence[Finding], pool: Pool) -> list[_Draft]:
    """The findings by what one person does about them; of a rule on several timelines the one
    that saves most."""
    by_fix: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        topic = _topic(one)
        by_fix.setdefault((one.topic, "" if topic.whole_run else one.rule), []).append(one)
    drafts = []
    for (topic_name, _), found in by_fix.items():
        if found[0].scope == "timeline":
            found = [max(found, key=lambda one: one.weight)]
        general = TOPICS[topic_name].summary if topic_name in TOPICS else False
        general |= all(one.role == "class" for one in found)
        demand = together([demand_of(one, pool) for one in found])
        drafts.append(_Draft(topic_name, found, demand, general))
    return drafts


def _claim(drafts: Sequence[_Draft], pool: Pool) -> tuple[list[_Draft], list[_Draft]]:
    """Let each claim its time, causes before what only describes; those that are left with enough,
    and those that never asked for any. The others are folded into the one that has their time."""
    ledger = Ledger(pool)
    asking = [one for one in drafts if one.demand.total > 0]
    asking.sort(key=lambda one: (one.general, -one.expected(one.demand.total)))
    kept: list[_Draft] = []
    for draft in asking:
        left = ledger.left(draft.demand)
        needed = _EXPLAINED if draft.general else _LEFT
        owner = ledger.owner(draft.demand)
        if kept and left < needed * draft.demand.total:
            into = kept[owner if owner is not None else 0]
            into.folded += draft.found
            continue
        draft.claimed = ledger.claim(draft.demand, len(kept), once=_once(draft.topic))
        kept.append(draft)
    return kept, [one for one in drafts if one.demand.total <= 0]


def _attach(kept: Sequence[_Draft], rest: list[_Draft]) -> None:
    """Findings that save no time of their own go to the first entry on the same subject."""
    of: dict[tuple[str, int | None], _Draft] = {}
    for draft in kept:
        for one in draft.found:
            of.setdefault((one.scope, one.subject_index), draft)
    for draft in list(rest):
        homes = [of.get((one.scope, one.subject_index)) for one in draft.found]
        if all(homes):
            for home, one in zip(homes, draft.found, strict=True):
                if home is not None:
                    home.folded.append(one)
            rest.remove(draft)


def _unfit(fired: Sequence[Finding]) -> list[_Draft]:
    """What makes the measurement unfit for most of what is advised, worst first; what only adds
    noise is a caveat."""
    found: dict[str, list[Finding]] = {}
    for one in fired:
        doubts_most = one.lowers and one.lowers.share >= _UNFIT and _topic(one).unfit
        if one.lowers and (one.lowers.urgent or doubts_most):
            found.setdefault(one.rule, []).append(one)
    drafts = [_Draft(ones[0].topic, ones, together([]), False) for ones in found.values()]
    return sorted(drafts, key=lambda one: -max(f.lowers.share for f in one.found if f.lowers))


def _little(kept: Sequence[_Draft], pool: Pool) -> _Draft | None:
    """All entries as one where together they are not worth much; None where they are."""
    expected = sum(one.expected(one.claimed) for one in kept)
    if not kept or expected >= _LITTLE * pool.busy_ns or any(_once(one.topic) for one in kept):
        return None
    bound = sum(one.claimed for one in kept)
    likely = sum(one.likely(one.claimed) for one in kept)
    sure = sum(one.claimed * one.confidence for one in kept) / bound
    of = "wall time" if pool.reference is not None else "kernel time"
    said = _said(
        LITTLE,
        "nothing-to-gain",
        title="Little to gain from what this recording shows",
        because=(
            f"all that was found saves at most {percent(bound / pool.whole_ns)} of the {of}, and is "
            f"expected to save {percent(expected / pool.whole_ns)}"
        ),
        fix=(
            "Look for less work rather than faster work: another algorithm, a smaller model, fewer "
            "steps. What could not be judged is listed below."
        ),
    )
    said = replace(
        said,
        confidence=round(expected / likely if likely else sure, 2),
        time_saved_bound_ns=round(bound),
        time_saved_likely_ns=round(likely),
    )
    draft = _Draft("nothing-to-gain", [said], together([]), False, claimed=bound)
    draft.folded = [one for entry in kept for one in (*entry.found, *entry.folded)]
    return draft


def _at_walls(rest: Sequence[_Draft]) -> list[_Draft]:
    """Where nothing is to be done: what is as fast as it can be."""
    return [one for one in rest if one.topic == "dram-wall" or _topic(one.found[0]).nothing][:1]


def _not_enough(lacks: Lacks | None) -> list[_Draft]:
    """Where nothing can be said because too little was collected: what to collect."""
    if lacks is None or lacks.share < _UNFIT:
        return []
    missing = ", ".join(lacks.missing[:_NAMED])
    more = len(lacks.missing) - _NAMED
    missing += f" and {more} more" if more > 0 else ""
    said = _said(
        LACKING,
        "not-enough-metrics",
        title="What would decide was not collected",
        because=(
            f"which wall the kernels of {percent(lacks.share)} of the kernel time hit is unknown: "
            f"missing {missing}"
        ),
        fix=f"Collect it: `{lacks.command}`" if lacks.command else "Collect it with a profiler.",
    )
    return [_Draft("not-enough-metrics", [said], together([]), False)]


# More names of columns say less than their number.
_NAMED = 4


def _said(rule: str, topic: str, *, title: str, because: str, fix: str) -> Finding:
    """What no rule says, in the form of a finding on the run."""
    return Finding(
        rule=rule,
        topic=topic,
        title=title,
        state="fired",
        scope="run",
        subject="run",
        subject_index=None,
        severity="info",
        confidence=1.0,
        kind="hard",
        role="cause",
        time_saved_bound_ns=None,
        time_saved_likely_ns=None,
        because=because,
        fix=fix,
        refute="",
    )


def _entry(draft: _Draft, pool: Pool, wheres: Mapping[int, Where], rank: int) -> Entry:
    lead = draft.found[0]
    bound = round(draft.claimed) if draft.claimed else None
    share = draft.likely_share
    likely = round(bound * share) if bound is not None and share is not None else None
    whole = pool.whole_ns
    row = lead.subject_index if lead.scope == "kernel" else None
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
        once=_once(draft.topic),
        where=wheres.get(row, Where()) if row is not None else Where(),
        found=tuple(draft.found),
        folded=tuple(draft.folded),
    )
