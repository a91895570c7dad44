"""What a reader must know of the measurement before the findings."""

from dataclasses import dataclass

from traceroof.core.units import count, percent
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding, Lowered


@dataclass(frozen=True)
class Care:
    """What is wrong with the measurement, and what that means for the findings. others: on how many
    more timelines."""

    finding: Finding
    others: int
    means: str


def care(diagnosis: Diagnosis) -> list[Care]:
    """What a reader must know of the measurement, what weighs most first; what is an entry of the
    advice is told there."""
    told = {finding.rule for entry in diagnosis.advice for finding in entry.found}
    by_rule: dict[str, list[Finding]] = {}
    for one in diagnosis.fired():
        if one.lowers and one.lowers.matters and one.rule not in told:
            by_rule.setdefault(one.rule, []).append(one)
    found = [Care(ones[0], len(ones) - 1, _means(ones[0].lowers)) for ones in by_rule.values()]
    found.sort(key=_heaviest)
    return found


def _heaviest(one: Care) -> tuple[bool, float]:
    lowers = one.finding.lowers
    return (not lowers.urgent, -lowers.share) if lowers else (True, 0.0)


def _means(lowers: Lowered | None) -> str:
    if lowers is None or not lowers.findings:
        return "puts every figure that rests on it in doubt, classes and rooflines included"
    return (
        f"lowers the confidence of {count(lowers.findings, 'finding')}; "
        f"the average over all findings, weighted by saving, falls by {percent(lowers.share)}"
    )
