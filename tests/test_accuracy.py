"""docs/accuracy.md: the page is what the command makes of the corpus, and the command is strict."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.accuracy import Section
from benchmarks.thresholds import moved, moved_rules, moved_together
from traceroof.core.facts import Facts
from traceroof.plugins import rules
from traceroof.rule import judge


@pytest.mark.corpus
def test_the_page_is_what_the_command_makes(corpus: Path, root: Path) -> None:
    """Nothing unexplained, no explanation left over, no finding that hangs on a threshold and does
    not say so; `make accuracy` writes the page anew."""
    made, wrong = accuracy.page(corpus)
    assert wrong == []
    assert (root / "docs" / "accuracy.md").read_text("utf-8") == made


def only(make: Callable[[Path], Section], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "COMPARISONS", (make,))


def compared(ours: float, theirs: float) -> Callable[[Path], Section]:
    def make(folder: Path) -> Section:
        section = Section("Made", [])
        section.compare("made", "case", "figure", ours == theirs, f"{ours}", f"{theirs}")
        return section

    return make


def explained(*entries: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "DATA", {"explained": list(entries)})


def test_an_unexplained_difference_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(compared(1, 2), monkeypatch)
    explained(monkeypatch=monkeypatch)
    assert accuracy.main([]) == 1
    out, err = capsys.readouterr()
    assert "NOT EXPLAINED" in out
    assert err == "made: case, figure: ours 1, theirs 2: not explained\n"


def test_an_explained_difference_is_listed_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(compared(1, 2), monkeypatch)
    explained({"table": "made", "case": "ca*", "why": "Theirs is twice."}, monkeypatch=monkeypatch)
    assert accuracy.main([]) == 0
    assert "| case | figure | 1 | 2 | Theirs is twice. |" in capsys.readouterr().out


def test_an_explanation_of_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    only(compared(1, 1), monkeypatch)
    explained({"table": "made", "why": "Theirs is twice."}, monkeypatch=monkeypatch)
    assert accuracy.main([]) == 1
    assert "explains what does not differ" in capsys.readouterr().err


_LIMIT = 0.7


def below(facts: Facts) -> bool:
    """Two numbers of its own and one of its module; 100 converts, 1 is no threshold."""
    return bool(facts.a < 60 and facts.b / 100 < _LIMIT and facts.c * 1 > 7.5)


def asked(function: Callable[[Facts], bool], a: float, b: float, c: float) -> bool:
    return function(Facts({"a": np.array(a), "b": np.array(b), "c": np.array(c)}, 1))


def test_each_number_of_a_condition_is_moved_alone() -> None:
    """GIVEN 59 < 60, 0.69 < 0.7 and 7.6 > 7.5 WHEN one of the numbers moves THEN 60 -> 54 and
    0.7 -> 0.63 lose it downwards, 7.5 -> 8.25 upwards."""
    assert asked(below, 59, 69, 7.6)
    assert [asked(one, 59, 69, 7.6) for one in moved(below, 0.9)] == [False, True, False]
    assert [asked(one, 59, 69, 7.6) for one in moved(below, 1.1)] == [True, False, True]
    assert asked(below, 59, 69, 7.6), "the function itself is as it was"


def test_all_numbers_move_together() -> None:
    assert asked(moved_together(below, 1.1), 65, 76, 8.3)
    assert not asked(below, 65, 69, 8.3)


def test_a_number_that_a_family_closes_over_is_moved() -> None:
    """GIVEN l2-reuse-low, whose limit of 50 % belongs to a family: at 49 % it goes with 45."""
    rule = next(one for one in rules() if one.id == "l2-reuse-low")
    example = {**rule.fires[0], "l2_hit_pct": 49.0, "traffic_ratio": 5.0}
    facts = Facts.of((example,), rule.columns)
    assert judge(rule, facts).fired.all()
    assert not all(judge(one, facts).fired.all() for one in moved_rules(rule))
