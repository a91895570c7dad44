"""Searching a pattern in many texts finds what ``re`` finds."""

import re

import numpy as np
import pytest

from traceroof.core import text_search
from traceroof.core.text_search import Texts
from traceroof.kernels import categories, name_features
from traceroof.patterns import roles

PIECES = [
    "", "a", "ab\n", "f16_", "rsqrt_kernel", "sqrt_kernel", "Gemm", "GEMM<float, 4>", "ſimd", "K",
    "a\x1cb", "a b", "naïve", "x" * 50, "align8", "align16", "\udc80", "at::native::naive(int)",
    "sqrt\ufffd", "\ufffdGemm",
]  # fmt: skip
#: Enough texts that they are searched as a column.
MANY = [f"{one}{two}" for one in PIECES for two in PIECES] * 2
SAMPLES = [
    *(sample for row in categories.kernel_patterns() for sample in row.samples),
    *(sample for row in name_features.markers() for sample in row.samples),
]
ALL = [*MANY, *SAMPLES, *(sample.upper() for sample in SAMPLES)]

PATTERNS = [
    *(one for row in categories.kernel_patterns() for one in (row.pattern, row.within) if one),
    *(row.pattern for row in name_features.markers()),
    *(one for row in roles.roles() for one in (row.operator, row.kernel, row.within) if one),
    *(re.compile(one) for one in (
        r"(?<!r)sqrt", r"a$", r"^a\Z", r"\bb", r"a\Bb", r"\s", r"[\s\d]b", r"[^a]", r"[^\s]b", r"x{30}",
        r"x{3,40}+", r"(?>a|ab)b", r"(?i:gemm)<", r"(?P<n>a)b", r"a|", r".\n", r"\d{1,3}_$", r"\Wb",
        r"(a)\1", r"[^\W]f",
    )),
    re.compile("K", re.IGNORECASE),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(PATTERNS)))
def test_finds_what_re_finds(number: int) -> None:
    """GIVEN every pattern of the tables WHEN searched in many texts THEN as ``re`` does."""
    pattern = PATTERNS[number]
    right = [pattern.search(text) is not None for text in ALL]
    assert Texts(ALL).found(pattern).tolist() == right
    few = ALL[:: len(ALL) // 100]
    assert Texts(few).found(pattern).tolist() == [pattern.search(one) is not None for one in few]


def test_words_of_the_last_of_very_many_texts_are_known() -> None:
    """GIVEN one text with a word among more than are looked at at once THEN it is found."""
    texts = Texts([*(f"kernel_{at}" for at in range(3 * 4096)), "rsqrt_kernel"])
    assert np.flatnonzero(texts.found(re.compile("rsqrt"))).tolist() == [3 * 4096]


def test_only_among() -> None:
    """GIVEN rows to look at THEN no other is found."""
    among = np.arange(len(ALL)) % 2 == 0
    pattern = re.compile("gemm", re.IGNORECASE)
    right = [at % 2 == 0 and pattern.search(text) is not None for at, text in enumerate(ALL)]
    assert Texts(ALL).found(pattern, among).tolist() == right


def test_the_tables_need_no_search_by_re() -> None:
    """GIVEN the patterns of the tables THEN RE2 takes every one."""
    tables = [one for one in PATTERNS if not isinstance(one, re.Pattern)]
    assert len(tables) > 100
    assert all(text_search._written(one.pattern, one.flags) for one in tables)


@pytest.mark.parametrize(
    ("pattern", "exact", "words"),
    [
        (r"gemm", True, {"gemm"}),
        (r"(?i)GEMM|Conv2d", True, {"gemm", "conv"}),
        (r"^(?:flash|fmha)_\w+fwd_kernel", True, {"fwd_kernel"}),
        (r"(?:soft)?max", True, {"max"}),
        (r"a|\d", True, None),  # a digit alone is found
        (r"(?:naive)*", True, None),
        (r"(?<!r)sqrt(?![a-z])", True, {"sqrt"}),
        (r"a(?<!r)sqrt", False, {"sqrt"}),  # finds arsqrt, too
        (r"(?:sqrt(?=_)|b)", True, {"sqrt", "b"}),
        (r"conv2d_fwd", True, {"d_fwd"}),
        (r"x{30}", False, {"x"}),  # finds 20 of them, too
        (r"a++b", False, {"a"}),
    ],
)
def test_what_a_pattern_needs(pattern: str, exact: bool, words: set[str] | None) -> None:
    """GIVEN a pattern THEN whether RE2 finds the same, and a word that what it finds must hold."""
    written = text_search._written(pattern, re.compile(pattern).flags)
    assert written is not None
    assert (written.exact, written.words) == (exact, words and frozenset(words))


@pytest.mark.parametrize("flags", [re.MULTILINE, re.DOTALL])
def test_flags_that_change_what_signs_mean(flags: re.RegexFlag) -> None:
    """GIVEN a flag under which "$" or "." means more WHEN searched THEN as ``re`` does."""
    pattern = re.compile(r"a$|b.c", flags)
    texts = ["a\nb", "b\nc", "ab"] * 200
    assert Texts(texts).found(pattern).tolist() == [bool(pattern.search(one)) for one in texts]
