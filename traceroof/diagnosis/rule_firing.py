"""Rules held against the subjects of their scope: who fired, who is silenced, who is doubted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from traceroof import plugins
from traceroof.config.settings import BY_CONFIGURATION, Settings
from traceroof.config.values import near
from traceroof.core.facts import Facts
from traceroof.core.units import one_line
from traceroof.diagnosis.findings import Context, Finding
from traceroof.rule import SEVERITIES, Doubt, Doubted, Judgement, Rule, Scope, judge
from traceroof.scopes.subjects import Subjects, vocabulary


def judge_all(
    rules: Sequence[Rule], scopes: Mapping[Scope, Subjects], context: Context
) -> tuple[Mapping[Scope, list[tuple[Judgement, npt.NDArray[np.object_]]]], list[tuple[Rule, str]]]:
    """Per scope: what each of its rules says, with the rule that silences it on each subject,
    NOBODY where it may speak; and the rules that broke, with how."""
    judged: dict[Scope, list[Judgement]] = {scope: [] for scope in scopes}
    broken: list[tuple[Rule, str]] = []
    worded = {scope: subjects.facts.worded() for scope, subjects in scopes.items()}
    for rule in rules:
        if rule.scope not in scopes:
            continue
        try:
            checked(rule)
            made = judge(rule, worded[rule.scope], context.ceilings(rule.scope)[0])
            made = _of_kernels_alone(made, scopes[rule.scope].facts)
            if made.fired.any():
                made.work_out()
            judged[rule.scope].append(made)
        except Exception as error:  # noqa: BLE001 - whatever a plug-in does, the others go on
            broken.append((rule, broke(rule, error)))
    across = _hidden_across(judged, scopes)
    silenced = {
        scope: list(zip(found, _suppressions(found, across[scope]), strict=True))
        for scope, found in judged.items()
    }
    return _doubted(silenced, across, scopes, context.settings), broken


def _of_kernels_alone(judgement: Judgement, facts: Facts) -> Judgement:
    """A rule on kernels says nothing of a range, which holds several and the gaps between them."""
    if judgement.rule.scope != "kernel" or "name_range" not in facts:
        return judgement
    alone = facts.name_range != 1
    return replace(judgement, fired=judgement.fired & alone, unjudged=judgement.unjudged & alone)


def checked(rule: Rule) -> None:
    """Raises AttributeError for a rule that reads a column which its scope does not have."""
    known = vocabulary(rule.scope)
    for name in rule.columns:
        if name not in known:
            raise AttributeError(
                f"it reads {name}, which is not a column; {near(name, list(known))}"
            )


def failing(fired: Sequence[Finding], gate: str) -> list[Finding]:
    """The findings that are as severe as a gate, or more."""
    limit = [str(one) for one in SEVERITIES].index(gate)
    return [one for one in fired if SEVERITIES.index(one.severity) <= limit]


def broke(rule: Rule, error: Exception) -> str:
    """How a rule of a plug-in failed, with its file. A rule of our own that fails is our fault:
    raises ``error`` again."""
    file = plugins.file_of(rule)
    if file.startswith(f"{plugins.RULES}/"):
        raise error
    says = str(error) if isinstance(error, AttributeError) else f"{type(error).__name__}: {error}"
    return f"the rule {rule.id} of {file} failed: {one_line(' '.join(says.split()))}"


def _doubted(
    judged: Mapping[Scope, Sequence[tuple[Judgement, npt.NDArray[np.object_]]]],
    hidden: Mapping[Scope, npt.NDArray[np.object_]],
    scopes: Mapping[Scope, Subjects],
    settings: Settings,
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
            [
                *(made for doubt, made in taken if doubt.silences and doubt.concerns(one.rule)),
                *_unwanted(one.rule, scopes[scope], settings),
            ]
            for one, _ in found
        ]
        if any(voids):
            made = [one for one, _ in result[scope]]
            silent = _suppressions(made, hidden[scope], [_void(one, length) for one in voids])
            result[scope] = list(zip(made, silent, strict=True))
    return result


def _unwanted(rule: Rule, subjects: Subjects, settings: Settings) -> list[Doubted]:
    """What the user does not want to hear of a rule on some subjects."""
    if not settings.off:
        return []
    names, facts = subjects.names, subjects.facts
    categories = facts.only(("category",)).category.tolist() if "category" in facts else names
    unwanted = settings.unwanted(rule.id, names, categories)
    if not unwanted:
        return []
    return [Doubted(BY_CONFIGURATION, "not wanted", np.where(unwanted, 0.0, 1.0))]


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
    # What did not fire has nothing to silence, and is not written to.
    result = [hidden.copy() if one.fired.any() else hidden for one in judged]
    speaks = [one.fired for one in judged]
    if voids is not None:
        result = [
            np.where(void != NOBODY, void, hidden) if one.fired.any() else hidden
            for one, void in zip(judged, voids, strict=True)
        ]
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
    quiet = [place for place, one in enumerate(judged) if one.rule.yields and one.fired.any()]
    if not quiet:
        return
    causes = [
        (place, one)
        for place, one in enumerate(judged)
        if one.rule.role == "cause"
        and not one.rule.yields
        and one.rule.saves is not None
        # Where the time is explains nothing.
        and one.rule.severity != "info"
        and one.fired.any()
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
