"""What a diagnosis does not know: doubts about the measurement, and what could not be judged."""

from collections.abc import Sequence
from dataclasses import dataclass

from traceroof.core.units import count, percent
from traceroof.diagnosis import collect
from traceroof.diagnosis.diagnosis import Diagnosis, KernelGroup
from traceroof.diagnosis.findings import HIDDEN_SHARE, Finding, Lowered


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
        f"together, findings weigh {percent(lowers.share)} less"
    )


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
