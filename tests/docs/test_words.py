"""Private terms that are gone do not come back; CONTRIBUTING.md says what stands for each."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

# What people read: pages, help, messages, cards.
_GONE = (
    r"the time that went by",
    r"host launched late",
    r"waiting for other work",
    r"runs dry",
    r"\bhygiene\b",
    r"what its files did not say",
    r"may unpack to",
    r"finds the comment again",
    r"what severity is decided by",
    r"by this fix at most",
    r"launch(es)? of \S+ \S+ in the median",
    r"\bcomposition\b",
    r"\b(none|nothing) is decided",
    r"runs per side decide (the rest|more)",
    r"fits the (runs|measured noise)",
    r"grows more than \S+ times",
    r"is no file here",
    r"Wrong if:",
    r"Is it a question here",
    r"Judge the kernels accordingly",
    r"one (entry|row) a (kernel|category|timeline|rank|dispatch|counter)",
    r"\btells no (date|time)\b",
    r"that are none left out",
    r"first use, first memory",
    r"(is|are) no (rate|unit for|metric|offset|severity|recordings|complete JSON)\b",
)


def _texts(root: Path) -> Iterator[Path]:
    yield root / "README.md"
    yield from sorted((root / "docs").rglob("*.md"))
    for folder in ("traceroof", "parsers", "rules"):
        for ending in ("*.py", "*.toml", "*.html", "*.js"):
            yield from sorted((root / folder).rglob(ending))


@pytest.mark.parametrize("term", _GONE)
def test_a_term_that_is_gone_stays_gone(term: str, root: Path) -> None:
    pattern = re.compile(term, re.IGNORECASE)
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in _texts(root)
        if "node_modules" not in path.parts and not path.name.endswith(".min.js")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found
