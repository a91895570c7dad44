"""Numbers as people read them."""

import pytest

from traceroof.core.units import (
    Sentence,
    digits,
    one_line,
    percent,
    quantity,
)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (21_058_944, "ns", "21.1 ms"),
        (999, "ns", "999 ns"),
        (999.9, "ns", "1.00 µs"),
        (0, "ns", "0 ns"),
        (-2_191, "byte", "-2.19 kB"),
        (1.7555e12, "byte/s", "1.76 TB/s"),
        (312e12, "FLOP/s", "312 TFLOP/s"),
        (61.84, "%", "61.8 %"),
        (0.004, "%", "0.004 %"),
        (None, "ns", "unknown"),
        (1_234_567, "launch", "1,234,567"),
        (37, "register/thread", "37 register/thread"),
        (1.5, "", "1.50"),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_digits_keep_three() -> None:
    assert [digits(v) for v in (1234.5, 99.94, 9.994, 0.12345, 7.0)] == [
        "1,234", "99.9", "9.99", "0.123", "7",
    ]  # fmt: skip


def test_percent_lines_up() -> None:
    assert [percent(v) for v in (1.0, 0.766, 0.06, 0.0004, 0.0, None)] == [
        "100.0 %", "76.6 %", "6.0 %", "<0.1 %", "0.0 %", "unknown",
    ]  # fmt: skip


def test_sentences_fill_in_units_unless_a_format_is_given() -> None:
    sentence = Sentence({"duration_ns": "ns", "dram_pct": "%"})
    values = {"duration_ns": 1_500.0, "dram_pct": None, "kind": "kernel"}
    assert sentence.fill("{duration_ns}, {duration_ns:.0f}, {dram_pct}, {kind}", values) == (
        "1.50 µs, 1500, unknown, kernel"
    )


def test_control_characters_never_reach_a_terminal() -> None:
    assert one_line("a\x1b[31mb\nc") == r"a\x1b[31mb\nc"


def test_a_clause_is_left_out_where_something_in_it_is_unknown() -> None:
    sentence = Sentence({"waves": "", "blocks": "", "sm_count": ""})
    template = "{waves} waves[ ({blocks} blocks, {sm_count} SMs)]"
    values = {"waves": 0.5, "blocks": 54.0, "sm_count": 108.0}
    assert sentence.fill(template, values) == "0.5 waves (54 blocks, 108 SMs)"
    assert sentence.fill(template, {**values, "sm_count": None}) == "0.5 waves"


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "data"), (None, "data"), (0.1, "data: 0.1 % from a cache")]
)
def test_nothing_found_is_no_evidence(value: float | None, text: str) -> None:
    assert Sentence({"p": "%"}).fill("data[: {p:some} from a cache]", {"p": value}) == text


@pytest.mark.parametrize(
    ("number", "template", "text"),
    [
        (1.0, "{n} launches of it", "1 launch of it"),
        (1.0, "dry {n:,.0f} times after", "dry 1 time after"),
        (21.0, "{n} launches", "21 launches"),
        (0.1, "{n} waves", "0.1 waves"),
        (1001.0, "{n} calls", "1,001 calls"),
        (1.0, "{n} times the time", "1 times the time"),
    ],
)
def test_one_is_singular(number: float, template: str, text: str) -> None:
    assert Sentence({"n": ""}).fill(template, {"n": number}) == text
