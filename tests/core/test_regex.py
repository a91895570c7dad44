"""Patterns that are compiled when they are used."""

import re

import pytest

from traceroof.core import regex


def test_a_pattern_works_like_a_compiled_one() -> None:
    pattern = regex.compile(r"sm(\d+) _", re.VERBOSE | re.IGNORECASE)
    assert [found[1] for found in pattern.finditer("SM80_x sm90_y")] == ["80", "90"]
    assert pattern.sub("", "SM80_x") == "x"
    assert pattern.pattern == r"sm(\d+) _"
    assert regex.compile(rb"^a").match(b"ab") is not None


def test_nothing_is_compiled_before_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    original = re.compile

    def counted(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return original(pattern, flags)

    monkeypatch.setattr(re, "compile", counted)
    pattern = regex.compile("ab+")
    assert compiled == []
    assert pattern.search("xabb")
    assert pattern.search("nothing") is None
    assert pattern.fullmatch("abbb")
    assert compiled == ["ab+"]


def test_nothing_is_compiled_for_a_text_that_lacks_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    original = re.compile

    def counted(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return original(pattern, flags)

    monkeypatch.setattr(re, "compile", counted)
    pattern = regex.compile(r"gemm|conv\d", re.IGNORECASE)
    search = pattern.search
    assert search("elementwise") is None
    assert pattern.fullmatch("copy") is None
    assert compiled == []
    assert search("sGEMM")
    assert pattern.match("conv2")
    assert search("elementwise") is None
    assert compiled == [r"gemm|conv\d"]
    # Beyond ASCII small letters are another matter: the Kelvin sign is a k.
    assert regex.compile("kernel", re.IGNORECASE).search("\N{KELVIN SIGN}ernel")
