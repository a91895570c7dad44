"""Every known problem and statement has a rule, or a line that says why it has none."""

import tomllib
from pathlib import Path

from docs.generate import STATES, accounted_for, coverage, not_implemented
from traceroof.plugins import rules

HERE = Path(__file__).parent
CATALOGUE = [
    line
    for line in (HERE / "catalogue.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_every_known_problem_has_a_rule_or_a_reason() -> None:
    listed = [entry["id"] for entry in (*not_implemented(), *accounted_for())]
    implemented = {rule.id for rule in rules()}
    assert len(CATALOGUE) == len(set(CATALOGUE)) > 100
    assert set(CATALOGUE) - implemented - set(listed) == set()
    assert set(listed) & implemented == set(), "has a rule by now: take it off the list"
    assert set(listed) <= set(CATALOGUE)
    assert len(listed) == len(set(listed))


def test_reasons_are_sentences() -> None:
    for entry in not_implemented():
        assert set(entry) == {"id", "state", "why"}
        assert entry["state"] in ("deliberate", "later")
        assert entry["why"].endswith(".")
        assert entry["why"][0].isupper()


def test_the_page_of_coverage_gives_the_reasons() -> None:
    page = coverage()
    assert "## Deliberately not implemented" in page
    for entry in not_implemented():
        assert f"| `{entry['id']}` |" in page
    for title in STATES.values():
        assert f"### {title}" in page
    for entry in accounted_for():
        assert f"| {entry['id']} |" in page


def test_statements_say_where_and_why(root: Path) -> None:
    known = {rule.id for rule in rules()} | {entry["id"] for entry in not_implemented()}
    ruled = {rule.id for rule in rules()}
    ruled |= {entry["id"] for entry in not_implemented() if entry["state"] == "later"}
    for entry in accounted_for():
        assert set(entry) <= {"id", "state", "says", "where", "why"}
        assert entry["state"] in STATES
        for sentence in (entry["says"], entry.get("why", "Fine.")):
            assert sentence.endswith(".")
            assert sentence[0].isupper() or sentence[0].isdigit()
        if entry["state"] in ("deliberate", "wrong"):
            assert entry["why"]
        places = entry.get("where", [])
        assert places or entry["state"] == "deliberate"
        for place in places:
            assert (root / place).exists() if "/" in place else place in known, place
        if entry["state"] in ("rule", "advice"):
            assert ruled.intersection(places), entry["id"]


def test_the_list_is_valid_toml_of_one_table(root: Path) -> None:
    text = (root / "docs" / "not_implemented.toml").read_text("utf-8")
    assert list(tomllib.loads(text)) == ["rule"]
