"""Rules held against the subjects of their scope: who fired, who is silenced, who is doubted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from traceroof.core.facts import Facts
from traceroof.diagnosis.findings import Context
from traceroof.rule import Doubt, Doubted, Judgement, Rule, Scope, judge
from traceroof.scopes.subjects import Subjects


def judge_all(
    rules: Sequence[Rule], scopes: Mapping[Scope, Subjects], context: Context
) -> Mapping[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]]:
    """Per scope: what each of its rules says, with the rule that silences it on each subject,
    NOBODY where it may speak."""
    judged = {
        scope: [
            judge(rule, subjects.facts, context.ceilings(scope)[0])
            for rule in rules
            if rule.scope == scope
        ]
        for scope, subjects in scopes.items()
    }
    across = _hidden_across(judged, scopes)
    silenced = {
        scope: list(zip(found, _suppressions(found, across[scope]), strict=True))
        for scope, found in judged.items()
    }
    return _doubted(silenced, across, scopes)


def _doubted(
    judged: Mapping[Scope, Sequence[tuple[Judgement, npt.NDArray[np.object_]]]],
    hidden: Mapping[Scope, npt.NDArray[np.object_]],
    scopes: Mapping[Scope, Subjects],
) -> Mapping[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]]:
    """The judgements, each with what the rules on the measurement that fired take off it, and
    silenced where they leave nothing."""
    doubts = [
        (loud.rule, scopes[scope].facts, doubt)
        for scope, found in judged.items()
        for loud, by in found
        if loud.rule.doubts and (loud.fired & (by == NOBODY)).any()
        for doubt in loud.rule.doubts
        if doubt.scope in scopes
    ]
    result: dict[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]] = {}
    for scope, found in judged.items():
        facts = scopes[scope].facts
        length = len(facts)
        taken = [
            (doubt, Doubted(rule.id, doubt.what, _remains(doubt, facts, rule, own)))
            for rule, own, doubt in doubts
            if doubt.scope == scope
        ]
        result[scope] = [
            (replace(one, doubts=tuple(
                made for doubt, made in taken if doubt.concerns(one.rule) and not doubt.silences
             )), by)
            for one, by in found
        ]  # fmt: skip
        voids = [
            [made for doubt, made in taken if doubt.silences and doubt.concerns(one.rule)]
            for one, _ in found
        ]
        if any(voids):
            made = [one for one, _ in result[scope]]
            silent = _suppressions(made, hidden[scope], [_void(one, length) for one in voids])
            result[scope] = list(zip(made, silent, strict=True))
    return result


def _void(doubts: Sequence[Doubted], length: int) -> npt.NDArray[np.object_]:
    """Per subject: the rule whose doubt leaves nothing of a finding, NOBODY where none does."""
    result = np.full(length, NOBODY, dtype=object)
    for one in doubts:
        result[one.factor == 0] = one.rule
    return result


def _remains(doubt: Doubt, facts: Facts, rule: Rule, own: Facts) -> npt.NDArray[np.float64]:
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = doubt.factor(facts.only(doubt.reads), rule.sees(own))
    # What is unknown is no reason for doubt.
    factor = np.nan_to_num(np.asarray(factor, dtype=np.float64), nan=1.0)
    least = 0.0 if doubt.silences else LEAST_REMAINS
    return np.array(np.broadcast_to(np.clip(factor, least, 1.0), (len(facts),)))


# However bad the measurement, a finding that is not silenced says something.
LEAST_REMAINS = 0.2

NOBODY = ""


def _hidden_across(
    judged: Mapping[Scope, Sequence[Judgement]], scopes: Mapping[Scope, Subjects]
) -> Mapping[Scope, npt.NDArray[np.object_]]:
    """Per scope and subject: the rule of another scope that hides it, NOBODY where none does."""
    result = {
        scope: np.full(len(subjects.facts), NOBODY, dtype=object)
        for scope, subjects in scopes.items()
    }
    for scope, found in judged.items():
        time = np.nan_to_num(scopes[scope].facts.only(("time_ns",)).time_ns)
        for loud in found:
            if not loud.rule.hides or 2 * time[loud.fired].sum() < time.sum() or not time.sum():
                continue
            for quiet, where in loud.rule.hides.items():
                if quiet in scopes:
                    result[quiet][where(scopes[quiet].facts)] = loud.rule.id
    return result


def _suppressions(
    judged: Sequence[Judgement],
    hidden: npt.NDArray[np.object_],
    voids: Sequence[npt.NDArray[np.object_]] | None = None,
) -> list[npt.NDArray[np.object_]]:
    """Per judgement and subject: the rule that silences it, NOBODY where it may speak.

    hidden: the rule of another scope that hides a subject, NOBODY where none does. voids: per
    judgement, the rule on the measurement that leaves nothing of it; it then silences nobody.
    """
    result = [hidden.copy() for _ in judged]
    speaks = [one.fired for one in judged]
    if voids is not None:
        result = [np.where(one != NOBODY, one, hidden) for one in voids]
        speaks = [one.fired & (void == NOBODY) for one, void in zip(judged, voids, strict=True)]
    for loud, heard in zip(judged, speaks, strict=True):
        if not heard.any():
            continue
        for pattern in loud.rule.suppresses:
            for position, quiet in enumerate(judged):
                if quiet is not loud and fnmatchcase(quiet.rule.id, pattern):
                    both = heard & quiet.fired & (result[position] == NOBODY)
                    result[position][both] = loud.rule.id
    _give_way(judged, result)
    return result


# A description says nothing more than a cause that explains half of what it saves, or a tenth of
# the time.
_EXPLAINED, _ENOUGH = 0.5, 0.1


def _give_way(judged: Sequence[Judgement], result: Sequence[npt.NDArray[np.object_]]) -> None:
    """Silence what only describes a subject where a cause explains it; changes ``result``."""
    quiet = [place for place, one in enumerate(judged) if one.rule.yields]
    if not quiet:
        return
    causes = [
        (place, one)
        for place, one in enumerate(judged)
        if one.rule.role == "cause" and not one.rule.yields and one.rule.saves is not None
    ]
    with np.errstate(invalid="ignore"):
        for silenced in quiet:
            general = judged[silenced]
            for place, cause in causes:
                heard = cause.fired & general.fired & (result[place] == NOBODY)
                needed = np.fmin(_ENOUGH, _EXPLAINED * _expected(general))
                explains = ~(_expected(cause) < needed)
                heard &= explains & (result[silenced] == NOBODY)
                result[silenced][heard] = cause.rule.id


def _expected(judgement: Judgement) -> npt.NDArray[np.float64]:
    return np.where(np.isnan(judgement.likely), judgement.saved, judgement.likely)
