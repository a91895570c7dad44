"""What holds for every rule, plug-ins included: its examples, its columns, its text."""

import re
from string import Formatter

import numpy as np
import pytest

from traceroof.plugins import rules
from traceroof.rule import NOMINAL, UNCALIBRATED, Facts, Rule, judge
from traceroof.subjects import vocabulary

RULES = rules()
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@EACH
def test_fires_on_its_examples(rule: Rule) -> None:
    facts = Facts.of(rule.fires, rule.columns)
    judgement = judge(rule, facts)
    assert judgement.fired.tolist() == [True] * len(rule.fires)


@EACH
def test_is_clear_on_its_silent_examples(rule: Rule) -> None:
    judgement = judge(rule, Facts.of(rule.silent, rule.columns))
    assert not judgement.fired.any()
    assert not judgement.unjudged.any(), "a silent example must be judged, not lack a column"


@EACH
def test_is_not_evaluable_without_what_it_needs(rule: Rule) -> None:
    for needed in rule.needs:
        example = {name: value for name, value in rule.fires[0].items() if name != needed}
        judgement = judge(rule, Facts.of((example,), rule.columns))
        assert not judgement.fired.any()
        if judgement.unjudged.any():
            assert needed in judgement.missing[0]


@EACH
def test_fires_without_what_it_only_uses(rule: Rule) -> None:
    example = {name: value for name, value in rule.fires[0].items() if name in rule.needs}
    judgement = judge(rule, Facts.of((example,), rule.columns))
    assert judgement.fired.all() or rule.applies is not None or set(example) != set(rule.fires[0])


@EACH
def test_savings_are_shares_and_likely_is_not_above_the_bound(rule: Rule) -> None:
    facts = Facts.of((*rule.fires, *rule.silent), rule.columns)
    judgement = judge(rule, facts, UNCALIBRATED)
    for shares in (judgement.saved, judgement.likely):
        known = shares[~np.isnan(shares)]
        assert ((known >= 0) & (known <= 1)).all()
    at_peak = judge(rule, facts, NOMINAL)
    np.testing.assert_array_equal(at_peak.saved, at_peak.likely)
    assert ((judgement.trust > 0) & (judgement.trust <= 1)).all()


@EACH
def test_reads_only_columns_of_its_scope(rule: Rule) -> None:
    known = vocabulary(rule.scope)
    assert set(rule.columns) <= set(known), set(rule.columns) - set(known)
    assert set(rule.thresholds or ()) <= set(rule.columns)
    for example in (*rule.fires, *rule.silent):
        assert set(example) <= set(rule.columns), set(example) - set(rule.columns)
    assert not set(rule.needs) & set(rule.uses)


@EACH
def test_texts_use_declared_columns_and_say_enough(rule: Rule) -> None:
    for text in (rule.because, rule.fix):
        fields = {field for _, field, _, _ in Formatter().parse(text) if field}
        assert fields <= set(rule.columns), fields - set(rule.columns)
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.id)
    for text in (rule.title, rule.why, rule.condition, rule.because, rule.fix, rule.refute):
        assert text.strip() == text
        assert text
    assert rule.references
    assert len(rule.fires) >= 2
    assert len(rule.silent) >= 2


def test_ids_are_unique_and_suppressions_name_rules() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    from fnmatch import fnmatchcase

    for rule in RULES:
        for pattern in rule.suppresses:
            assert any(fnmatchcase(one, pattern) for one in ids), (rule.id, pattern)
