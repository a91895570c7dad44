"""Every known problem has a rule, or a line that says why it has none."""

import tomllib
from pathlib import Path

from traceroof.docs import not_implemented
from traceroof.docs import rules as rules_page
from traceroof.plugins import rules

HERE = Path(__file__).parent
CATALOGUE = [
    line
    for line in (HERE / "catalogue.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


def test_every_known_problem_has_a_rule_or_a_reason() -> None:
    listed = [entry["id"] for entry in not_implemented()]
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


def test_the_page_of_rules_gives_the_reasons() -> None:
    page = rules_page()
    assert "## Deliberately not implemented" in page
    assert "## Not implemented yet" in page
    for entry in not_implemented():
        assert f"| `{entry['id']}` |" in page


def test_the_list_is_valid_toml_of_one_table(root: Path) -> None:
    text = (root / "rules" / "not_implemented.toml").read_text("utf-8")
    assert list(tomllib.loads(text)) == ["rule"]
