"""The arithmetic of a finding, with the numbers in it: how a rule came to what it says.

A rule is held once more against one subject whose columns remember how they are combined
(``arithmetic``): what is printed is the formula that decided, not a description of it.
"""

from collections.abc import Sequence
from dataclasses import replace

from traceroof.core.facts import Facts
from traceroof.core.selection import choose, known_rule
from traceroof.core.tracing import (
    COLUMN,
    NUMBER,
    Traced,
)
from traceroof.core.units import count
from traceroof.diagnosis import collect, explained_savings
from traceroof.diagnosis.advice import name_of
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.explained_rule import MANY, ExplainedRule
from traceroof.diagnosis.explanation import Explanation, Explanations
from traceroof.diagnosis.finding_text import evidence_of, fired
from traceroof.diagnosis.formulas import (
    checks,
)
from traceroof.diagnosis.nothing_to_gain import UNSAID
from traceroof.diagnosis.rule_firing import judge_all
from traceroof.diagnosis.savings import SPARE
from traceroof.errors import TraceroofError
from traceroof.rule import Scope
from traceroof.scopes.subjects import vocabulary

#: So many subjects of one rule are explained at once.
MOST = 3


def entry(diagnosis: Diagnosis, number: int) -> str:
    """What entry ``number`` of the advice is about, as ``explain`` takes it: ``RULE:SUBJECT``.

    Raises TraceroofError where there are not so many.
    """
    listed = diagnosis.advice
    if not 1 <= number <= len(listed):
        raise TraceroofError(
            f"there is no entry {number}: {count(len(listed), 'thing is', 'things are')} worth "
            "trying in this run",
            "`traceroof diagnose` numbers them; a rule can be named instead",
        )
    lead = listed[number - 1].lead
    if lead.rule in UNSAID:
        raise TraceroofError(f"entry {number} rests on no rule: {lead.because}", "explain another")
    return name_of(lead)


def explain(diagnosis: Diagnosis, wanted: str, *, most: int = MOST) -> Explanations:
    """How a rule came to what it says: ``wanted`` is ``RULE`` or ``RULE:SUBJECT``.

    SUBJECT is a number or (a part of) a name; without one, it is the subject on which the rule
    found most, or the one with the most time. Raises TraceroofError where there is no such rule or
    subject, or nothing of that scope in the run; ValueError without grounds.
    """
    grounds = diagnosis.grounds
    if grounds is None:
        raise ValueError("this diagnosis keeps no grounds")
    rule_id, _, subject = wanted.partition(":")
    rule = known_rule(rule_id.strip(), {one.id: one for one in grounds.rules})
    scope = rule.scope
    if scope not in grounds.scopes:
        raise TraceroofError(
            f"{rule.id} judges what changed between two runs",
            "`traceroof compare BASE HEAD` holds it against them",
        )
    subjects = grounds.scopes[scope]
    one, many = MANY[scope]
    if not len(subjects.facts):
        raise TraceroofError(
            f"{rule.id} judges {many}, and this run has none",
            "`traceroof formats` says which files have them",
        )
    judged, broken = judge_all(grounds.rules, grounds.scopes, grounds.context)
    for one_broken, how in broken:
        if one_broken.id == rule.id:
            raise TraceroofError(how)
    judgement, silencers = next(pair for pair in judged[scope] if pair[0].rule.id == rule.id)
    every = replace(grounds.context, hidden_share=-1.0)
    found = tuple(fired(judgement, silencers, subjects, every)[0])
    explained = ExplainedRule(grounds, rule, subjects, judgement, silencers, found)
    if subject:
        hint = f"`traceroof diagnose` numbers the {many}"
        rows = choose(subject, subjects.names, one=one, many=many, numbered_by=hint)
    else:
        rows = (explained.foremost(),)
    return Explanations(
        diagnosis.run_name,
        tuple(_explanation(explained, row) for row in rows[:most]),
        len(rows[most:]),
    )


def _explanation(explained: ExplainedRule, row: int) -> Explanation:
    """The explanation for one subject."""
    rule, context = explained.rule, explained.grounds.context
    facts = _traced(explained.subjects.facts, row, (*rule.columns, *SPARE), rule.scope)
    seen = rule.sees(facts)
    concerns = explained_savings.followed(rule.applies, True, seen) if rule.applies else None
    condition = explained_savings.followed(rule.when, bool(explained.judgement.fired[row]), seen)
    finding = next((one for one in explained.findings if one.subject_index == row), None)
    values = {
        name: explained.subjects.facts.only((name,)).value(name, row) for name in rule.columns
    }
    missing = explained.judgement.missing(row)
    named = [explained.subjects.names[row]] if rule.scope == "kernel" else []
    state, says = explained.outcome(row, finding, concerns, condition)
    bound, saved = explained_savings.bound(explained, row, facts) if finding else ((), None)
    return Explanation(
        rule=rule.id,
        title=context.said(rule.title),
        why=context.said(rule.why),
        scope=rule.scope,
        subject=explained.subjects.names[row],
        number=row + 1,
        state=state,
        says=says,
        concerns=checks(concerns) if concerns else (),
        words=rule.condition_words(),
        condition=checks(condition),
        inputs=evidence_of(
            rule,
            values,
            explained.subjects.facts,
            row,
            vocabulary(rule.scope),
            rule.threshold_words(),
        ),
        unknown=tuple(name for name, value in values.items() if value is None),
        bound=bound,
        likely=explained_savings.likely(explained, row, facts, finding, saved) if finding else (),
        ceilings=explained_savings.ceilings(explained, row) if finding and rule.saves else "",
        severity=explained.severity(row, finding) if finding else "",
        trust=explained_savings.trust(rule, seen) if finding else None,
        finding=finding,
        missing=missing,
        command=collect.command(missing, named, vendor=context.tool) if missing else None,
        fix=finding.fix if finding else "",
        refute=context.said(rule.refute),
        references=rule.references,
        outcomes=explained.outcomes(),
        traced=condition.op != NUMBER,
    )


def _traced(facts: Facts, row: int, names: Sequence[str], scope: Scope) -> Facts:
    """One subject, its columns as leaves of a calculation."""
    one = facts.only(tuple(dict.fromkeys(names)))
    known = vocabulary(scope)
    columns = {}
    for name in one.names():
        values = getattr(one, name)
        value = values[row]
        unit = known[name].unit if name in known else ""
        # An unknown text is None, an unknown number NaN, as in the column itself.
        number_or_text = value if values.dtype == object else float(value)
        columns[name] = Traced.of(number_or_text, COLUMN, name, unit)
    return Facts(columns, 1)
