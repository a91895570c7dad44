"""The words that a text must hold for a pattern to fit it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.regex_words import required_words


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("gemm", {"gemm"}),
        ("GEMM_kernel", {"gemm_kernel"}),
        ("foo|bar", {"foo", "bar"}),
        # The longest that each branch needs.
        ("a.conv|xy?z", {"conv", "x"}),
        ("(fused|apply)_rope", {"fused", "apply"}),
        ("(f|a)_rope", {"_rope"}),
        ("flash_?attn", {"flash"}),
        ("ab+c", {"ab"}),
        ("(abc){2,3}d", {"abc"}),
        ("(abc){0,3}de", {"de"}),
        # What must stand beside counts, what must not does not.
        ("(?<![a-z])nms(?!x)", {"nms"}),
        ("(?=.*kernel)a", {"kernel"}),
        (r"at::native\(", {"at::native("}),
        (r"\bcopy\b", {"copy"}),
    ],
)
def test_the_words_of_a_pattern(pattern: str, words: set[str]) -> None:
    assert required_words(pattern) == frozenset(words)


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]+", "x?", "foo|", ".*", r"\d", "(a|b?)", r"\x41bc", "(?P=name)a", "(a", "(?x) a"],
)
def test_where_none_is_needed_or_the_scan_does_not_understand(pattern: str) -> None:
    assert required_words(pattern) is None


def test_blanks_and_comments_of_a_verbose_pattern_are_none_of_it() -> None:
    assert required_words("ab c  # or so\n | [#] de", re.VERBOSE) == frozenset({"abc", "de"})
    assert required_words("ab c") == frozenset({"ab c"})


_ATOM = st.sampled_from(
    [
        "a",
        "B",
        "ab",
        "[ab]",
        ".",
        r"\d",
        r"\.",
        "(?:a|b)",
        "(ab|c)",
        "^",
        "$",
        "(?!b)",
        "(?=a)",
        "(a)",
    ]
)
_PATTERN = st.lists(
    st.tuples(_ATOM, st.sampled_from(["", "", "?", "*", "+", "{0,2}", "{1,2}", "{2}"])), max_size=5
).map(lambda pairs: "".join(atom + many for atom, many in pairs))


@given(st.lists(_PATTERN, min_size=1, max_size=3).map("|".join), st.text("abcAB.1", max_size=8))
def test_a_text_that_fits_holds_one_of_them(pattern: str, text: str) -> None:
    """GIVEN any pattern WHEN it fits a text, small letters or not THEN a word of it is in there."""
    try:
        found = re.search(pattern, text, re.IGNORECASE)
    except re.error:
        return
    words = required_words(pattern, re.IGNORECASE)
    if found and words is not None:
        assert any(word in text.lower() for word in words)
