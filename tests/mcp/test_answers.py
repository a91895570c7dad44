"""Every answer fits; what does not fit follows with the cursor."""

from typing import Any

import pytest

from traceroof.errors import TraceroofError
from traceroof.mcp.answers import MOST_BYTES, Answer, page, sentence, size, text


def whole(answer: Answer) -> tuple[dict[str, Any], list[int]]:
    """All pages put together, and the bytes of each."""
    made: dict[str, Any] = {}
    sizes: list[int] = []
    more = None
    while True:
        one = page(answer, more)
        sizes.append(size(one))
        more = one.pop("more", None)
        for name, value in one.items():
            made[name] = made[name] + value if isinstance(value, list) and name in made else value
        if more is None:
            return made, sizes


def test_pages_hold_everything_once_and_in_order() -> None:
    """GIVEN 500 + 500 items of two lists WHEN read page by page THEN all of them, in order, the head on
    the first page alone, and no page above 8,000 bytes."""
    parts = [("a", {"number": at, "name": "ä" * 20}) for at in range(500)]
    parts += [("b", {"number": at}) for at in range(500)]
    answer = Answer({"headline": "…"}, parts, ("a", "b"))
    made, sizes = whole(answer)
    assert [one["number"] for one in made["a"]] == list(range(500))
    assert [one["number"] for one in made["b"]] == list(range(500))
    assert max(sizes) <= MOST_BYTES
    assert len(sizes) > 3
    assert "headline" not in page(answer, "10")


@pytest.mark.parametrize(
    "item",
    [
        {"name": "x" * 100_000},
        {"name": "\u20ac" * 100_000},
        {"names": ["x" * 50] * 10_000},
        {"deep": {f"key {at}": {"a": "b" * 300} for at in range(3_000)}},
        {"k" * 50_000: 1},
        ["y" * 9_000] * 3,
    ],
)
def test_what_is_too_long_is_cut(item: Any) -> None:
    """GIVEN one item, or a head, that is longer than any answer WHEN asked THEN it fits."""
    made = page(Answer({"head": item}, [("list", item)] * 5, ("list",)))
    assert size(made) <= MOST_BYTES
    assert made["list"] or made["more"]


def test_nothing_but_json() -> None:
    """GIVEN what JSON does not have WHEN asked THEN null, plain numbers and texts on one line."""
    made = page(
        Answer({"nan": float("nan"), "inf": float("inf"), "n": 1523325.0, "s": 1 / 3, "t": (1,)})
    )
    assert text(made) == '{"nan": null, "inf": null, "n": 1523325, "s": 0.33333, "t": [1]}'
    assert "\n" not in page(Answer({"a": "b\nc\u202ed"}))["a"]


@pytest.mark.parametrize("more", ["", "-1", "0", "99", "abc", "1e3", "9" * 5_000, "\u0663"])
def test_a_cursor_that_is_none(more: str) -> None:
    with pytest.raises(TraceroofError, match="is not a cursor of this answer"):
        page(Answer({}, [("a", 1), ("a", 2)]), more)


def test_an_error_is_one_line() -> None:
    said = sentence(TraceroofError("a\nb" * 1_000, "c"))
    assert "\n" not in said
    assert len(said) <= 600
    assert sentence(TraceroofError("what is wrong", "what to do")) == "what is wrong; what to do"
