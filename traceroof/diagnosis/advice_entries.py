"""Entries of the advice in the making: findings by what one person does about them, and who claims
which time."""

from collections.abc import Sequence
from dataclasses import dataclass

from traceroof.core.topics import TOPICS, Topic
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.savings import Demand, Ledger, Pool, demand_of, together

# An entry of which less than this part is left says nothing new.
_LEFT = 0.2
# A description is worth an entry while the causes explain less than this part of it.
_EXPLAINED = 0.5


@dataclass
class Draft:
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


def topic_of(finding: Finding) -> Topic:
    return TOPICS.get(finding.topic, Topic(""))


def passes_once(topic: str) -> bool:
    return topic in TOPICS and TOPICS[topic].once


def of_measurement(finding: Finding) -> bool:
    return finding.lowers is not None or topic_of(finding).measurement


def drafts_of(findings: Sequence[Finding], pool: Pool) -> list[Draft]:
    """The findings by what one person does about them; of a rule on several timelines the one
    that saves most."""
    by_fix: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        topic = topic_of(one)
        by_fix.setdefault((one.topic, "" if topic.whole_run else one.rule), []).append(one)
    drafts = []
    for (topic_name, _), found in by_fix.items():
        if found[0].scope == "timeline":
            found = [max(found, key=lambda one: one.weight)]
        general = TOPICS[topic_name].summary if topic_name in TOPICS else False
        general |= all(one.role == "class" for one in found)
        demand = together([demand_of(one, pool) for one in found if not one.informs])
        drafts.append(Draft(topic_name, found, demand, general))
    return drafts


def claim(drafts: Sequence[Draft], pool: Pool) -> tuple[list[Draft], list[Draft]]:
    """Let each claim its time, causes before what only describes; those that are left with enough,
    and those that never asked for any. The others are folded into the one that has their time."""
    ledger = Ledger(pool)
    asking = [one for one in drafts if one.demand.total > 0]
    asking.sort(key=lambda one: (one.general, -one.expected(one.demand.total)))
    kept: list[Draft] = []
    for draft in asking:
        left = ledger.left(draft.demand)
        needed = _EXPLAINED if draft.general else _LEFT
        owner = ledger.owner(draft.demand)
        if kept and left < needed * draft.demand.total:
            into = kept[owner if owner is not None else 0]
            into.folded += draft.found
            continue
        draft.claimed = ledger.claim(draft.demand, len(kept), once=passes_once(draft.topic))
        kept.append(draft)
    return kept, [one for one in drafts if one.demand.total <= 0]


def attach(kept: Sequence[Draft], rest: list[Draft]) -> None:
    """Findings that save no time of their own go to the first entry on the same subject."""
    of: dict[tuple[str, int | None], Draft] = {}
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
