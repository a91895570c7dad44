"""A rule of a plug-in that breaks is one sentence, and the other rules go on."""

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import traceroof
from traceroof import plugins
from traceroof.cli.main import app
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.explain import explain
from traceroof.diagnosis.narrow import of_kernels
from traceroof.errors import TraceroofError
from traceroof.rule import Rule

SAMPLE = "nsight_compute/transformer_layer.raw.csv"


def broken(**changed: Any) -> Rule:
    """A rule as somebody else wrote it."""
    (sound,) = (one for one in plugins.rules() if one.id == "small-grid")
    return replace(sound, id="theirs", suppresses=(), **changed)


def _divides(facts: Any) -> Any:
    raise ZeroDivisionError("no such\nluck")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            lambda: broken(needs=("wave",)),
            "it reads wave, which is not a column; did you mean waves",
        ),
        (lambda: broken(when=_divides), "ZeroDivisionError: no such luck"),
        (lambda: broken(when=lambda k: k.nothing > 1), "no column nothing here"),
        (lambda: broken(saves=lambda k, a: _divides(k)), "ZeroDivisionError"),
    ],
)
def test_a_rule_that_breaks_says_so_and_others_go_on(
    rule: Callable[[], Rule], says: str, samples: Path
) -> None:
    """GIVEN a rule with a wrong column or formula among all WHEN a run is judged THEN one finding
    names it, and all others are as without it."""
    run = traceroof.read(samples / SAMPLE)
    made = diagnose(run, rules=[*plugins.rules(), rule()])
    (failed,) = (one for one in made.findings if one.failed)
    assert (failed.rule, failed.state) == ("theirs", "not-evaluable")
    assert failed.failed
    assert failed.failed.startswith("the rule theirs of this program failed: ")
    assert says in failed.failed
    assert "\n" not in failed.failed
    assert failed.failed in made.notes
    usual = diagnose(run)
    assert [one for one in made.findings if not one.failed] == list(usual.findings)
    assert made.advice == usual.advice
    assert of_kernels(made, [0]).kernels[0] == of_kernels(usual, [0]).kernels[0]
    with pytest.raises(TraceroofError, match="the rule theirs"):
        explain(made, "theirs")


def test_a_rule_of_ours_that_breaks_is_not_hidden(
    samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GIVEN one of our own rules with a defect WHEN judged THEN the defect itself, for a report."""
    monkeypatch.setattr(plugins, "file_of", lambda rule: "rules/theirs.py")
    run = traceroof.read(samples / SAMPLE)
    with pytest.raises(ZeroDivisionError):
        diagnose(run, rules=[broken(when=_divides)])


def test_the_command_ends_with_2_and_names_rule_and_file(
    samples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN an installed plug-in whose rule breaks WHEN diagnosed THEN the report, one sentence on
    stderr, exit 2."""
    entry = EntryPoint("x", "their_package.rules:RULES", "traceroof.rules")
    rule = broken(when=_divides)
    monkeypatch.setattr(EntryPoint, "load", lambda self: [rule])
    monkeypatch.setattr(
        plugins, "_entry_points", lambda group: [entry] if group == "traceroof.rules" else []
    )
    for cached in (plugins.rules, plugins._rules):
        cached.cache_clear()
    try:
        code = app(["diagnose", str(samples / SAMPLE)], standalone_mode=False)
    finally:
        monkeypatch.undo()
        for cached in (plugins.rules, plugins._rules):
            cached.cache_clear()
    printed = capsys.readouterr()
    assert code == 2
    assert "Worth trying" in printed.out
    assert printed.err == (
        "traceroof: the rule theirs of their_package.rules:RULES failed: "
        "ZeroDivisionError: no such luck\n"
    )
