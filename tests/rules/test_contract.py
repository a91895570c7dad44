"""What holds for every rule, plug-ins included: its examples, its columns, its text."""

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any

import numpy as np
import pytest

from traceroof.core.topics import TOPICS
from traceroof.kernels.categories import CATEGORIES
from traceroof.plugins import rules
from traceroof.rule import NOMINAL, UNCALIBRATED, Facts, Rule, Scope, judge
from traceroof.scopes.subjects import vocabulary

RULES = rules()
EACH = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


@EACH
def test_has_a_topic_of_the_vocabulary(rule: Rule) -> None:
    """And where it depends on the category, one for all others, and only categories that exist."""
    assert set(rule.topics) <= set(TOPICS)
    if not isinstance(rule.topic, str):
        assert set(rule.topic) <= {"", *CATEGORIES}
        assert "" in rule.topic
        assert rule.scope in ("kernel", "category")


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


class Noted(Facts):
    """Facts that note which columns are read."""

    def __getattr__(self, name: str) -> Any:
        self.__dict__.setdefault("noted", set()).add(name)
        return super().__getattr__(name)


def condition_reads(rule: Rule) -> set[str]:
    """The columns on which the rule's outcome rests, not only its savings and texts."""
    facts = Facts.of((*rule.fires, *rule.silent), rule.columns)
    noted = Noted({name: getattr(facts, name) for name in rule.columns}, len(facts))
    rule.when(noted)
    if rule.applies:
        rule.applies(noted)
    found: set[str] = noted.__dict__.get("noted", set())
    return found


def a_little_moved(value: float) -> tuple[float, ...]:
    """5 % less and more, and for a count the next ones."""
    near = (value * 0.95, value * 1.05)
    return (*near, value - 1, value + 1) if value == round(value) and abs(value) <= 20 else near


def is_near_its_threshold(
    rule: Rule, examples: Sequence[Mapping[str, Any]], column: str, outcome: bool
) -> bool:
    """Whether an example gets this outcome when the column moves a little."""
    rows = tuple(
        {**example, column: value}
        for example in examples
        if isinstance(example.get(column), int | float)
        for value in a_little_moved(example[column])
    )
    judged = judge(rule, Facts.of(rows, rule.columns))
    return bool((judged.fired if outcome else ~judged.fired).any())


# A number in the words, but a neighbouring value is twice as large: alignments are powers of two.
_STEPPED = {("tc-misaligned-dims", "name_alignment")}


@EACH
def test_examples_lie_on_both_sides_of_every_threshold(rule: Rule) -> None:
    """For every column with a number for a threshold that the condition reads: one example fires
    within 5 % (or one count) of it and another is silent as near. Zero has nothing near it: there
    an example at zero, and one that is not."""
    read = condition_reads(rule)
    for column, threshold in (rule.thresholds or {}).items():
        if column not in read or (rule.id, column) in _STEPPED:
            continue
        given = [one[column] for one in (*rule.fires, *rule.silent) if column in one]
        if not re.search(r"\d", threshold) or any(isinstance(one, str) for one in given):
            continue
        if threshold == "> 0":
            assert 0 in given
            assert max(given) > 0
            continue
        assert is_near_its_threshold(rule, rule.fires, column, False), f"fires: {column}"
        assert is_near_its_threshold(rule, rule.silent, column, True), f"silent: {column}"


@EACH
def test_an_example_shows_what_makes_the_difference(rule: Rule) -> None:
    """A threshold with an example on either side, or a pair of examples that differ in one column."""
    both_sides = any(
        is_near_its_threshold(rule, rule.fires, column, False)
        and is_near_its_threshold(rule, rule.silent, column, True)
        for column in condition_reads(rule)
    )
    assert both_sides or any(
        sum(one.get(name) != other.get(name) for name in {*one, *other}) == 1
        for one in rule.fires
        for other in rule.silent
    )


@EACH
def test_judges_each_subject_by_itself(rule: Rule) -> None:
    """The outcome, the savings and the trust of a subject do not depend on the others."""
    examples = (*rule.fires, *rule.silent)
    together = judge(rule, Facts.of(examples, rule.columns))
    for row, example in enumerate(examples):
        alone = judge(rule, Facts.of((example,), rule.columns))
        for name in ("fired", "unjudged", "saved", "likely", "trust"):
            np.testing.assert_array_equal(
                getattr(alone, name), getattr(together, name)[row : row + 1]
            )


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
    assert rule.thresholds, "evidence says what it was held against"
    assert len(rule.fires) >= 2
    assert len(rule.silent) >= 2


@pytest.mark.parametrize("scope", ["kernel", "category", "timeline", "run", "compare"])
def test_every_percentage_has_a_basis(scope: Scope) -> None:
    """Fixed by its column, or said for each subject by another one."""
    by_row = {"compute_pct", "dram_pct", "l1_pct"}
    percentages = [one for one in vocabulary(scope).values() if one.unit == "%"]
    assert [one.name for one in percentages if not one.basis and one.name not in by_row] == []


def test_ids_are_unique_and_suppressions_name_rules() -> None:
    ids = [rule.id for rule in RULES]
    assert len(ids) == len(set(ids))
    from fnmatch import fnmatchcase

    for rule in RULES:
        for pattern in rule.suppresses:
            assert any(fnmatchcase(one, pattern) for one in ids), (rule.id, pattern)


# What a person can measure, and the word that says what must then be seen.
_MEASURED = re.compile(
    r"\b(tim(?:e|es|ed)|steps?|faster|slow(?:er)?|shorter|long(?:er)?|clocks?|bytes|launch(?:es)?|shares?|"
    r"rates?|occupancy|registers|use|wavefronts?|gaps?|waits?|waiting|idle|counts?|ratio|opcodes?|"
    r"instructions?|percentages|sectors|threads|cycles|spills?|accesses|kernels?|peaks?|memory|"
    r"copies|fills|transposes|additions|casts?|difference|elements|shapes|sizes|tokens|pauses)\b",
    re.IGNORECASE,
)
_SEEN = re.compile(r"\b(must|if|falls?|should|agree|rises?|confirms|refutes)\b", re.IGNORECASE)


@EACH
def test_what_would_refute_it_can_be_measured(rule: Rule) -> None:
    """Each card says what to change or to look at, something measurable, and what must be seen."""
    assert _MEASURED.search(rule.refute), rule.refute
    assert _SEEN.search(rule.refute), rule.refute
    assert rule.refute.endswith((".", ". ]"))
