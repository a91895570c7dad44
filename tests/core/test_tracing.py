"""Columns that remember how they were made: the formula printed is the one that was computed."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from traceroof.core.facts import Facts, unknown
from traceroof.core.tracing import (
    CEILING,
    COLUMN,
    EACH,
    IS_UNKNOWN,
    NUMBER,
    ONE_OF,
    WHERE,
    Term,
    Traced,
    each,
    one_of,
    term_of,
)
from traceroof.plugins import rules
from traceroof.rule import Attainable, Rule

RULES = rules()
EVERY = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)

_CEILINGS = {"memory": 0.85, "compute": 0.8}


def traced(example: Mapping[str, Any], names: tuple[str, ...]) -> tuple[Facts, Facts]:
    """An example as facts, plain and with columns that remember."""
    plain = Facts.of((example,), names)
    columns = {name: getattr(plain, name)[0] for name in names}
    leaves = {name: Traced.of(value, COLUMN, name) for name, value in columns.items()}
    return plain, Facts(leaves, 1)


def functions(rule: Rule) -> Iterable[tuple[str, Callable[..., Any], bool]]:
    """The functions of a rule, and whether each takes ceilings."""
    for name in ("applies", "when", "saves", "likely", "trust"):
        function = getattr(rule, name)
        if function is not None:
            yield name, function, name in ("saves", "likely")


def evaluated(term: Term, columns: Mapping[str, Any]) -> Any:
    """What the term comes to on other values of its columns: an independent computation."""
    if term.op == NUMBER:
        return np.array([term.value])
    if term.op == CEILING:
        return np.array([_CEILINGS[term.name]])
    if term.op == COLUMN:
        value = columns[term.name]
        return np.array([value], dtype=object if isinstance(value, str | None) else float)
    args = [evaluated(arg, columns) for arg in term.args]
    if term.op == EACH:
        assert term.function is not None
        return np.array([term.function(args[0][0])])
    if term.op == ONE_OF:
        return np.array([args[0][0] in term.choices])
    if term.op == IS_UNKNOWN:
        return unknown(args[0])
    if term.op == WHERE:
        return np.where(*args)
    if term.op in ("equal", "not_equal"):
        same = args[0] == args[1]
        return same if term.op == "equal" else args[0] != args[1]
    return getattr(np, term.op)(*args)


def alike(one: Any, other: Any) -> bool:
    return bool(np.isclose(float(one), float(other), rtol=1e-12, atol=0, equal_nan=True))


@EVERY
def test_a_rule_computes_the_same_and_leaves_its_arithmetic_behind(rule: Rule) -> None:
    """Were a part of a formula lost on the way (np.asarray), its value would stand in the term as
    a number, and the term would not follow other examples."""
    examples = (*rule.fires, *rule.silent)
    plain_peaks = Attainable(np.array([0.85]), np.array([0.8]))
    for _, function, takes_peaks in functions(rule):
        results, terms = [], []
        for example in examples:
            plain, seen = (rule.sees(one) for one in traced(example, rule.columns))
            leaves = Attainable(
                Traced.of(0.85, CEILING, "memory"), Traced.of(0.8, CEILING, "compute")
            )
            with np.errstate(all="ignore"):
                expected = function(plain, *([plain_peaks] if takes_peaks else []))
                found = function(seen, *([leaves] if takes_peaks else []))
            results.append(np.asarray(expected)[0])
            terms.append(term_of(found))
            assert alike(terms[-1].value, results[-1])
        for term in terms:
            for example, expected in zip(examples, results, strict=True):
                plain, _ = traced(example, rule.columns)
                columns = {name: getattr(plain, name)[0] for name in rule.columns}
                with np.errstate(all="ignore"):
                    assert alike(evaluated(term, columns)[0], expected)


@EVERY
def test_no_condition_needs_a_fallback(rule: Rule) -> None:
    """Every built-in condition reads columns that the trace can name."""
    _, seen = traced(rule.fires[0], rule.columns)
    with np.errstate(all="ignore"):
        assert list(term_of(rule.when(rule.sees(seen))).leaves())


def test_numpy_carries_terms_through() -> None:
    a, b = Traced.of(3.0, COLUMN, "a"), Traced.of(4.0, COLUMN, "b")
    assert term_of(np.asanyarray(1 - np.fmax(a, b) / 100)).value == pytest.approx(0.96)
    assert term_of(np.where(a > b, a, b)).op == WHERE
    assert term_of(np.select([a > 5, b > 3], [1.0, 2.0], default=0.0)).value == 2.0
    assert term_of(np.nan_to_num(Traced.of(float("nan"), COLUMN, "c"))).value == 0.0
    assert term_of(np.clip(a, 0, 1)).value == 1.0
    assert term_of(np.max(a)) == a.term
    # A mask that starts as plain truths and takes more in.
    mask = np.zeros(1, dtype=bool)
    mask |= a < b
    assert [leaf.name for leaf in term_of(mask).leaves()] == ["a", "b"]


def test_what_numpy_has_no_word_for_is_named() -> None:
    shape = Traced.of("M=8", COLUMN, "shape")
    size = term_of(each(shape, lambda text: float(text[2:]), "M of the shape"))
    assert (size.op, size.name, size.value) == (EACH, "M of the shape", 8.0)
    assert term_of(one_of(shape, "M=7", "M=8")).value is True
    # Plain columns stay plain.
    assert each(np.array(["M=8"]), len, "length").tolist() == [3.0]
    assert one_of(np.array(["a", None], dtype=object), "a").tolist() == [True, False]


def test_an_unknown_number_compares_with_text() -> None:
    unknown_number = Traced.of(float("nan"), COLUMN, "class")
    assert term_of(unknown_number == "dram-bound").value is False
    assert term_of(unknown_number != "dram-bound").value is True


def test_reductions_and_pairs_are_plain() -> None:
    a = Traced.of(3.0, COLUMN, "a")
    assert np.add.reduce(a) == 3.0
    assert [float(part[0]) for part in np.divmod(a, 2)] == [1.0, 1.0]
    assert np.stack([a, a]).tolist() == [[3.0], [3.0]]
    # A view is another array: what it is made from is not known.
    assert term_of(a[:1]).op == NUMBER


@pytest.mark.parametrize(
    "computed",
    [
        lambda k: np.divide(k.a, k.b, out=np.zeros(1), where=k.b > 0),
        lambda k: np.divide(k.a, k.b, out=np.full(1, 7.0), where=np.array([False])),
        lambda k: _set(k.a * 2, k.a > 0, 5.0),
        lambda k: np.nan_to_num(k.n, True, 3.0),
        lambda k: np.fmax.reduce(np.stack([k.a, k.b])),
    ],
    ids=["divide where", "divide nowhere", "set", "nan by place", "reduce"],
)
def test_what_plug_ins_may_write_keeps_its_value(computed: Any) -> None:
    """A formula may be lost on the way, the value may not."""
    values = {"a": 3.0, "b": -2.0, "n": np.nan}
    plain = Facts({name: np.array([one]) for name, one in values.items()}, 1)
    traced = Facts({name: Traced.of(one, COLUMN, name) for name, one in values.items()}, 1)
    assert term_of(computed(traced)).value == np.asarray(computed(plain)).reshape(-1)[0]


def _set(values: Any, where: Any, to: float) -> Any:
    values[where] = to
    return values
