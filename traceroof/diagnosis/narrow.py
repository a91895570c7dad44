"""A diagnosis of some kernels of a run: what holds for them, with the shares of the whole run."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from traceroof.core.facts import Facts
from traceroof.core.selection import Narrowed, choose
from traceroof.core.topics import COMMUNICATION, TOPICS
from traceroof.diagnosis.advice import advice_of
from traceroof.diagnosis.diagnosis import Diagnosis, Grounds
from traceroof.diagnosis.find import unjudged_each
from traceroof.diagnosis.finding_text import fired
from traceroof.diagnosis.findings import Finding, ranked
from traceroof.diagnosis.headline import headline_of_kernels
from traceroof.diagnosis.not_judged import not_judged
from traceroof.diagnosis.rule_firing import judge_all
from traceroof.diagnosis.totals import with_savings
from traceroof.hardware.ceilings import Attainable
from traceroof.scopes.subjects import Subjects


def kernels_meant(diagnosis: Diagnosis, wanted: str) -> tuple[int, ...]:
    """Places of the kernels that ``wanted`` means: a number of the table, a part of a name, or a
    pattern. Raises TraceroofError where there is none."""
    return choose(
        wanted,
        diagnosis.kernels.names,
        one="kernel",
        many="kernels",
        numbered_by="`traceroof diagnose` numbers them; --top N shows more of them",
    )


def narrowed(diagnosis: Diagnosis, wanted: str) -> Diagnosis:
    """The diagnosis of the kernels that ``wanted`` means (``kernels_meant``).

    They alone are listed and advised on, with what was found on their categories and what puts the
    measurement in doubt. Totals and shares stay those of the whole run. Raises TraceroofError where
    no kernel is meant, ValueError without grounds.
    """
    indices = kernels_meant(diagnosis, wanted)
    some = of_kernels(diagnosis, indices)
    beside = _beside(diagnosis, indices)
    doubts = [one for one in diagnosis.fired() if one.lowers]
    findings = ranked([*some.findings, *doubts, *(whole for whole, _ in beside)])
    assert some.grounds is not None
    advice = advice_of(
        ranked([*some.findings, *doubts, *(part for _, part in beside)]),
        some.grounds.pool,
        steps=some.grounds.context.settings.steps,
    )
    totals = replace(diagnosis.totals, time_saved_bound_ns=None, time_saved_likely_ns=None)
    return replace(
        some,
        findings=findings,
        advice=advice,
        totals=with_savings(totals, advice),
        headline=headline_of_kernels(some.kernels, wanted),
        narrowed=Narrowed(wanted.strip(), len(indices), len(diagnosis.kernels)),
    )


def of_kernels(diagnosis: Diagnosis, indices: Sequence[int]) -> Diagnosis:
    """The diagnosis of some kernel groups: they alone, with everything that was found on them.

    Findings too small for the whole run are there, and a rule that could not be judged says so for
    each kernel. Totals, categories and timelines stay those of the run, and so does what shares
    are of. Raises ValueError without grounds.
    """
    grounds = diagnosis.grounds
    if grounds is None:
        raise ValueError("this diagnosis keeps no grounds")
    rows = np.asarray(indices, dtype=np.int64)
    subjects = grounds.scopes["kernel"]
    facts = subjects.facts
    taken = Facts({name: getattr(facts, name)[rows] for name in facts.names()}, len(rows))
    some = Subjects(taken, [subjects.names[row] for row in indices])
    context = grounds.context

    def of_rows(values: Any) -> Any:
        return values[rows] if np.ndim(values) else values

    narrow = replace(
        context,
        attainable=Attainable(
            of_rows(context.attainable.memory), of_rows(context.attainable.compute)
        ),
        calibrated=of_rows(context.calibrated),
        hidden_share=0.0,
    )
    scopes = {**grounds.scopes, "kernel": some}
    found: list[Finding] = []
    for judgement, by in judge_all(grounds.rules, scopes, narrow)[0]["kernel"]:
        found += fired(judgement, by, some, narrow)[0]
        found += unjudged_each(judgement, some, narrow)
    kernels = diagnosis.kernels.only(indices)
    lines = grounds.lines.only(indices)
    listed = tuple(
        lines.named(replace(one, where=kernels[one.subject_index].where))
        if one.subject_index is not None
        else one
        for one in ranked(found)
    )
    pool = grounds.pool.only(indices)
    own = Grounds(grounds.rules, scopes, narrow, pool, lines)
    return replace(
        diagnosis,
        kernels=kernels.changed(
            lambda at, one: replace(one, not_judged=not_judged(kernels, listed, own, only=at))
        ),
        findings=listed,
        not_judged=not_judged(kernels, listed, own),
        advice=advice_of(listed, pool, steps=grounds.context.settings.steps),
        hidden_findings=0,
        grounds=own,
    )


def _beside(diagnosis: Diagnosis, indices: Iterable[int]) -> list[tuple[Finding, Finding]]:
    """What was found on the categories of some kernels, whole, and the part of it that is theirs: a
    finding of a category saves no more of one kernel than its part of the category's time."""
    times: dict[str, int] = {}
    for kernel in (diagnosis.kernels[row] for row in indices):
        times[kernel.category] = times.get(kernel.category, 0) + (kernel.time_ns or 0)
    found = []
    for one in diagnosis.fired():
        category = _category(one)
        whole = next((c.time_ns for c in diagnosis.categories if c.category == category), 0)
        if category in times and whole:
            found.append((one, _part(one, times[category] / whole)))
    return found


def _category(finding: Finding) -> str | None:
    """The category that a finding on no single kernel speaks of."""
    if finding.scope == "category":
        return finding.subject
    topic = TOPICS.get(finding.topic)
    on_kernel = finding.scope == "kernel" or finding.lowers
    return COMMUNICATION if topic and not on_kernel and COMMUNICATION in topic.claims else None


def _part(finding: Finding, share: float) -> Finding:
    def of(ns: int | None) -> int | None:
        return None if ns is None else round(ns * share)

    return replace(
        finding,
        time_saved_bound_ns=of(finding.time_saved_bound_ns),
        time_saved_likely_ns=of(finding.time_saved_likely_ns),
    )
