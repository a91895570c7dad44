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
    """What could not be judged, what is missing, and the one command that would change that."""

    what: str
    missing: tuple[str, ...]
    command: str | None


def not_judged(diagnosis: Diagnosis) -> NotJudged | None:
    """The classes and rules that lack something, as one line; None where nothing does."""
    unclassed = [one for one in diagnosis.kernels if one.primary_class == "not-evaluable"]
    lacking = [one for one in diagnosis.not_evaluable() if one.scope == "kernel"]
    if not unclassed and not lacking:
        return None
    parts = []
    if unclassed:
        parts.append(_classes(diagnosis, unclassed))
    if lacking:
        parts.append(count(len({one.rule for one in lacking}), "rule"))
    # What a class lacks first: it decides most.
    missing = dict.fromkeys(
        [name for one in unclassed for name in one.missing]
        + [name for one in lacking for name in one.missing]
    )
    kernels = unclassed or [one for one in diagnosis.kernels if (one.share or 1.0) >= HIDDEN_SHARE]
    wanted = [name for one in unclassed for name in one.missing] if unclassed else list(missing)
    return NotJudged(
        " and ".join(parts),
        tuple(missing),
        collect.command(
            wanted,
            [one.kernel for one in kernels],
            vendor=diagnosis.tool,
            launches=max((one.launches for one in kernels), default=0),
        ),
    )


def _classes(diagnosis: Diagnosis, unclassed: Sequence[KernelGroup]) -> str:
    time = sum(one.time_ns or 0 for one in unclassed)
    total = diagnosis.totals.kernel_time_ns
    share = f" ({percent(time / total)} of kernel time)" if total else ""
    return f"the class of {count(len(unclassed), 'kernel')}{share}"
