"""What holds for every rule, plug-ins included: its examples, its columns, its text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from traceroof.core.facts import unknown
from traceroof.core.kernel_table import TEXT
from traceroof.core.topics import TOPICS
from traceroof.errors import TraceroofError
from traceroof.kernels.categories import CATEGORIES
from traceroof.plugins import rules
from traceroof.rule import NOMINAL, UNCALIBRATED, Facts, Rule, Scope, judge
from traceroof.rules._kernels import HEADROOM, MATRIX_WORK
from traceroof.rules._models import CREDIBLE
from traceroof.rules._tiles import WHOLE_TILES
from traceroof.rules._timelines import LATE_HOST, SHORT_LAUNCHES
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
            assert needed in judgement.missing(0)


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
    if rule.likely is None:
        np.testing.assert_array_equal(at_peak.saved, at_peak.likely)
    both = ~np.isnan(at_peak.saved) & ~np.isnan(at_peak.likely)
    assert (at_peak.likely <= at_peak.saved)[both].all()
    assert ((judgement.trust > 0) & (judgement.trust <= 1)).all()


class Noted(Facts):
    """Facts that note which columns are read."""

    def __getattr__(self, name: str) -> Any:
        self.__dict__.setdefault("noted", set()).add(name)
        return super().__getattr__(name)


def condition_reads(rule: Rule) -> set[str]:
    """The columns on which the rule's outcome rests, not only its savings and texts."""
    facts = Facts.of((*rule.fires, *rule.silent), rule.columns)
    columns = {name: getattr(facts, name) for name in rule.columns}
    noted = Noted(columns, len(facts), rule.limits)
    rule.when(noted)
    if rule.applies:
        rule.applies(noted)
    found: set[str] = noted.__dict__.get("noted", set())
    return found


def outcome(rule: Rule, facts: Facts) -> npt.NDArray[np.bool_]:
    """Whether the rule fires, for each subject."""
    seen = rule.sees(facts)
    with np.errstate(all="ignore"):
        fired = np.asarray(rule.when(seen), dtype=bool)
        if rule.applies:
            fired = fired & np.asarray(rule.applies(seen), dtype=bool)
    for name in rule.needs:
        fired = fired & ~unknown(getattr(seen, name))
    return fired


def sides(rule: Rule, facts: Facts) -> npt.NDArray[np.bool_]:
    """On which side of every threshold each subject is: one row a threshold."""
    seen = rule.sees(facts)
    with np.errstate(all="ignore"):
        met = [np.asarray(seen.meets(name), dtype=bool) for name in rule.limits]
    return np.array(met, dtype=bool).reshape(len(rule.limits), len(facts))


# Counts, percentages and shares one by one, then everything up to hours, terabytes and petaflops.
_LADDER = np.unique(
    np.concatenate((np.arange(131.0), np.arange(0, 1, 0.05), np.geomspace(0.001, 1e16, 250)))
)


def path(rule: Rule, column: str, example: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """Values that a column is moved along: everywhere, and close to every threshold."""
    value = float(example.get(column) or 1)
    bases = [float(one) for one in example.values() if isinstance(one, int | float)]
    near = [value, *(value * step for step in np.linspace(0.8, 1.25, 46))]
    for one in rule.limits.values():
        for base in (1.0, *bases):
            near += [one.value * base, one.value * base * 0.9999, one.value * base * 1.0001]
            near += [base / one.value] if one.value else []
    values = np.unique(np.concatenate((_LADDER, np.array(near))))
    ceiling = vocabulary(rule.scope)[column].unit == "" and 0 <= value <= 1
    return values[values <= 1] if ceiling and value != round(value) else values


def is_flag(rule: Rule, column: str) -> bool:
    """Whether a column only says yes or no, or names a version: nothing lies in between."""
    given = {one[column] for one in (*rule.fires, *rule.silent) if column in one}
    named = column == "compute_capability" or column.startswith("name_")
    return named or (bool(given) and given <= {0, 1})


def is_text(rule: Rule, column: str) -> bool:
    """Whether a column holds words, by its type or by an example."""
    given = (one.get(column) for one in (*rule.fires, *rule.silent))
    kind = vocabulary(rule.scope)[column].type
    return kind in (pa.string(), TEXT) or any(isinstance(value, str) for value in given)


@dataclass(frozen=True)
class Walk:
    """One example while one column moves: its values, the outcomes, the sides of each threshold."""

    column: str
    values: npt.NDArray[np.float64]
    fired: npt.NDArray[np.bool_]
    sides: npt.NDArray[np.bool_]

    def outcomes(self) -> dict[tuple[bool, ...], dict[bool, float]]:
        """Per combination of sides: the outcomes, each with a value of the column that gives it."""
        found: dict[tuple[bool, ...], dict[bool, float]] = {}
        for value, fired, side in zip(self.values, self.fired, self.sides.T, strict=True):
            found.setdefault(tuple(side.tolist()), {}).setdefault(bool(fired), float(value))
        return found


@cache
def walks(rule_id: str) -> tuple[Walk, ...]:
    """Every example with every number that the condition reads moved, one at a time; a number that
    the example leaves out, too."""
    return tuple(_walks(next(rule for rule in RULES if rule.id == rule_id)))


def _walks(rule: Rule) -> Iterator[Walk]:
    read = condition_reads(rule)
    for example in (*rule.fires, *rule.silent):
        for column in sorted(read & set(rule.columns)):
            if is_text(rule, column) or is_flag(rule, column):
                continue
            values = path(rule, column, example)
            one = Facts.of((example,), rule.columns)
            columns = {name: np.repeat(getattr(one, name), len(values)) for name in rule.columns}
            facts = Facts({**columns, column: values}, len(values))
            yield Walk(column, values, outcome(rule, facts), sides(rule, facts))


def swaps(rule: Rule) -> Iterator[Walk]:
    """Every example with every word or flag that the condition reads replaced by those of the other
    examples: shapes, element types, compute capabilities."""
    examples = (*rule.fires, *rule.silent)
    for column in sorted(condition_reads(rule) & set(rule.columns)):
        if not (is_text(rule, column) or is_flag(rule, column)):
            continue
        given = list(dict.fromkeys(one[column] for one in examples if column in one))
        for example in examples:
            facts = Facts.of(tuple({**example, column: value} for value in given), rule.columns)
            places = np.arange(float(len(given)))
            yield Walk(column, places, outcome(rule, facts), sides(rule, facts))


#: Thresholds of what several rules ask; an example of each need not cross them.
SHARED = {
    *HEADROOM,
    *MATRIX_WORK,
    *CREDIBLE,
    *WHOLE_TILES,
    *LATE_HOST,
    *SHORT_LAUNCHES,
    "may_reach",
}

# What the comparison decided, by thresholds of its own: the card repeats their numbers.
DECIDED_BY_COMPARE = {
    "cmp-improved",
    "cmp-not-comparable",
    "cmp-step-regressed",
    "cmp-category-regressed",
    "cmp-kernel-regressed",
}


@EACH
def test_the_outcome_changes_at_thresholds_only(rule: Rule) -> None:
    """WHEN a column moves, from 0 to 10^16, THEN the rule fires or does not by the sides of the
    thresholds on its card, and by nothing else that moves."""
    for walk in walks(rule.id):
        for both in walk.outcomes().values():
            assert len(both) == 1, f"{walk.column}: outcome -> value {both}"


@EACH
def test_every_threshold_decides(rule: Rule) -> None:
    """THEN for each threshold there are two values, on either side of it and on the same side of all
    others, of which one fires."""
    decides: set[int] = set()
    for walk in (*walks(rule.id), *swaps(rule)):
        met = {sides: next(iter(both)) for sides, both in walk.outcomes().items()}
        for sides, fired in met.items():
            for place, side in enumerate(sides):
                across = (*sides[:place], not side, *sides[place + 1 :])
                if met.get(across, fired) != fired:
                    decides.add(place)
    idle = {name for place, name in enumerate(rule.limits) if place not in decides}
    assert not idle - SHARED


@EACH
def test_the_condition_on_the_card_has_the_numbers_of_the_thresholds(rule: Rule) -> None:
    """Each threshold's number stands in the condition, and no other number does; what a column of
    words is held against has none."""
    fields = {field for _, field, _, _ in Formatter().parse(rule.condition) if field}
    assert fields <= set(rule.limits), fields - set(rule.limits)
    own = {
        name for name, one in rule.limits.items() if one.value not in (0, 1) and name not in SHARED
    }
    assert own - fields == set()
    words = "".join(text for text, _, _, _ in Formatter().parse(rule.condition))
    told = [one for one in (rule.thresholds or {}).values() if isinstance(one, str)]
    numbers = re.findall(r"(?<![\w-])\d[\d.,]*(?![\w-])", " ".join((words, *told)))
    assert bool(numbers) == (rule.id in DECIDED_BY_COMPARE), numbers


@EACH
def test_a_changed_threshold_changes_the_outcome_and_the_card(rule: Rule) -> None:
    """GIVEN other numbers from a configuration THEN the rule is held against those."""
    for name, one in rule.limits.items():
        other = rule.with_limits({name: one.value * 3})
        assert other.limits[name].value == one.value * 3
        if f"{{{name}" in rule.condition and one.value:
            assert other.condition_words() != rule.condition_words()
    with pytest.raises(TraceroofError, match="has no threshold nosuch"):
        rule.with_limits({"nosuch": 1})


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
    assert set(rule.threshold_words()) <= set(rule.columns)
    for example in (*rule.fires, *rule.silent):
        assert set(example) <= set(rule.columns), set(example) - set(rule.columns)
    assert not set(rule.needs) & set(rule.uses)


@EACH
def test_texts_use_declared_columns_and_say_enough(rule: Rule) -> None:
    for text in (rule.because, rule.fix):
        fields = {field for _, field, _, _ in Formatter().parse(text) if field}
        assert fields <= set(rule.columns), fields - set(rule.columns)
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.id)
    for text in (rule.title, rule.why, rule.condition_words(), rule.because, rule.fix, rule.refute):
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
