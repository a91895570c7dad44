"""What a rule says is saved, step by step, and the ceilings that it is held against."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts, is_unknown_value
from traceroof.core.tracing import (
    CEILING,
    NUMBER,
    Term,
    Traced,
    term_of,
)
from traceroof.core.units import quantity
from traceroof.diagnosis.explained_rule import ExplainedRule
from traceroof.diagnosis.explanation import Step
from traceroof.diagnosis.findings import Finding
from traceroof.diagnosis.formulas import (
    UNKNOWN,
    number,
    written,
)
from traceroof.diagnosis.savings import capped, spare_ns
from traceroof.hardware.ceilings import NOMINAL, Attainable
from traceroof.rule import Rule

_FROM = {
    "measured": "measured on this device by the profiler",
    "calibrated": "calibrated",
    "published": "as others measured it on this model",
    "assumed": "assumed: what large kernels usually reach",
}


def bound(
    explained: ExplainedRule, row: int, facts: Facts
) -> tuple[tuple[Step, ...], float | None]:
    """The steps to what is saved at most, and that in ns."""
    if explained.rule.saves is None:
        return (), None
    return _savings(explained, row, facts, explained.rule.saves, NOMINAL, explained.judgement.saved)


def likely(
    explained: ExplainedRule, row: int, facts: Facts, finding: Finding, bound: float | None
) -> tuple[Step, ...]:
    """The steps to what is likely saved; empty where the rule claims nothing."""
    saves = explained.rule.likely or explained.rule.saves
    if saves is None or finding.time_saved_likely_ns is None:
        return ()
    attainable = explained.grounds.context.ceilings(explained.rule.scope)[0]
    steps, likely = _savings(explained, row, facts, saves, attainable, explained.judgement.likely)
    if bound is not None and likely is not None and likely > bound:
        return (*steps, Step("no more than at most", "", "", quantity(round(bound), "ns")))
    return steps


def ceilings(explained: ExplainedRule, row: int) -> str:
    """What is attainable of the nominal peaks, and who says so."""
    attainable = explained.grounds.context.ceilings(explained.rule.scope)[0]
    if explained.rule.scope != "kernel":
        memory, compute = (
            float(np.mean(share)) for share in (attainable.memory, attainable.compute)
        )
        return (
            f"memory ceiling {number(memory)}, compute ceiling {number(compute)} of nominal "
            "(over all kernels, by their time)"
        )
    see = explained.subjects.facts.only(("dram_from", "flop_from"))
    parts = []
    for name, share, origin in (
        ("memory", attainable.memory, see.value("dram_from", row)),
        ("compute", attainable.compute, see.value("flop_from", row)),
    ):
        value = _at(share, row)
        words = _FROM.get(str(origin), _FROM["assumed"])
        parts.append(f"{name} ceiling {number(value)} of nominal ({words})")
    return ", ".join(parts)


def _savings(
    explained: ExplainedRule,
    row: int,
    facts: Facts,
    saves: Callable[[Facts, Attainable], Any],
    ceilings: Attainable,
    judged: npt.NDArray[np.float64],
) -> tuple[tuple[Step, ...], float | None]:
    """Share, time and cap of one of the two figures, and what they come to, ns."""
    attainable = _leaves(ceilings, row)
    term = followed(saves, float(judged[row]), explained.rule.sees(facts), attainable)
    if is_unknown_value(term.value):
        lacking = [leaf.name for leaf in term.leaves() if is_unknown_value(leaf.value)]
        why = f" for want of {', '.join(dict.fromkeys(lacking))}" if lacking else ""
        formula = written(term)
        formula = "" if formula == UNKNOWN else formula
        return (Step("share of the time", formula, "", f"{UNKNOWN}{why}"),), None
    share = float(np.clip(term.value, 0.0, 1.0))
    within = "" if share == term.value else f", kept within 0 and 1: {number(share)}"
    result = number(float(term.value)) + within
    steps = [Step("share of the time", written(term), written(term, values=True), result)]
    time = explained.time(row)
    if time is None:
        return (*steps, Step("time saved", "share × time", "", UNKNOWN)), None
    saved = share * time
    steps.append(
        Step(
            "time saved",
            "share × time",
            f"{number(share)} × {quantity(time, 'ns')}",
            quantity(round(saved), "ns"),
        )
    )
    if capped(explained.rule):
        with np.errstate(all="ignore"):
            spare = term_of(spare_ns(facts, attainable))
        if is_unknown_value(spare.value) or spare.value >= saved:
            return tuple(steps), saved
        saved = float(spare.value)
        steps.append(
            Step(
                "no more than what its own bytes and operations leave",
                written(spare),
                written(spare, values=True),
                quantity(round(saved), "ns"),
            )
        )
    return tuple(steps), saved


def followed(function: Callable[..., Any], otherwise: Any, *args: Any) -> Term:
    """How a function of a rule came to its result; the bare result where numpy cannot tell."""
    try:
        with np.errstate(all="ignore"):
            return term_of(function(*args))
    except (TypeError, ValueError, AttributeError, IndexError, KeyError):
        return Term(NUMBER, (), otherwise)


def _at(share: float | npt.NDArray[Any], row: int) -> float:
    values = np.asarray(share)
    return float(values[row] if values.ndim else values)


def _leaves(attainable: Attainable, row: int) -> Attainable:
    """The ceilings of one subject as leaves of a calculation."""

    def leaf(share: Any, name: str) -> Traced:
        return Traced.of(_at(share, row), CEILING, name)

    return Attainable(leaf(attainable.memory, "memory"), leaf(attainable.compute, "compute"))


def trust(rule: Rule, seen: Facts) -> Step | None:
    """How the rule rates the quality of what it reads; None where it always says the same."""
    if rule.trust is None:
        return None
    with np.errstate(all="ignore"):
        term = term_of(rule.trust(seen))
    if not list(term.leaves()) or term.value == 1:
        return None
    return Step(
        "quality of what the rule reads",
        written(term),
        written(term, values=True),
        number(float(term.value)),
    )
