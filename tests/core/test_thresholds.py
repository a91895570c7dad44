"""Thresholds as data: what they compare, and how they are printed."""

import numpy as np
import pytest

from traceroof.core.facts import Facts
from traceroof.core.thresholds import Threshold, above, at_least, at_most, below


def met(threshold: Threshold, **columns: list[float]) -> list[bool]:
    given = {name: np.array(values) for name, values in columns.items()}
    facts = Facts(given, len(next(iter(given.values()))), {"waves": threshold})
    return [bool(one) for one in facts.meets("waves")]


def test_a_column_is_held_against_the_number_and_unknown_does_not_pass() -> None:
    values = [0.5, 1.0, 1.5, np.nan]
    assert met(below(1), waves=values) == [True, False, False, False]
    assert met(at_most(1), waves=values) == [True, True, False, False]
    assert met(above(1), waves=values) == [False, False, True, False]
    assert met(at_least(1), waves=values) == [False, True, True, False]


def test_an_unknown_passes_where_that_is_said() -> None:
    values = [79.9, 80.0, np.nan]
    assert met(below(80, or_unknown=True), waves=values) == [True, False, True]
    assert met(at_least(80, or_unknown=True), waves=values) == [False, True, True]


def test_a_multiple_of_another_column_and_a_measure() -> None:
    """GIVEN 2 blocks per multiprocessor THEN 215 of 108 are below and 216 are not."""
    two_each = below(2, column="blocks", of="sm_count")
    assert met(two_each, blocks=[215.0, 216.0], sm_count=[108.0, 108.0]) == [True, False]
    whole = at_most(0.9, of=lambda k: np.ceil(k.waves))
    assert met(whole, waves=[1.8, 1.81]) == [True, False]
    rest = above(0, measure=lambda k: np.mod(k.waves, 32))
    assert met(rest, waves=[96.0, 100.0]) == [False, True]


@pytest.mark.parametrize(
    ("name", "threshold", "text"),
    [
        ("waves", below(1), "< 1"),
        ("memory_pct", below(60), "< 60 %"),
        ("median_ns", at_least(50_000), ">= 50 µs"),
        ("bus_bytes_per_s", below(15e9), "< 15 GB/s"),
        ("idle_ns", at_least(0.05, of="span_ns"), ">= 5 % of the span"),
        ("blocks", at_least(1, of="sm_count"), ">= the multiprocessors"),
        ("blocks", below(2, of="sm_count"), "< 2 × the multiprocessors"),
        ("dram_bytes", above(1.05, of="least"), "> 1.05 × least"),
        ("waves", at_most(0.9, of=np.ceil, words="{op} {value} of a wave"), "<= 0.9 of a wave"),
    ],
)
def test_the_text_is_made_from_the_number(name: str, threshold: Threshold, text: str) -> None:
    assert threshold.text(name) == text


def test_a_sentence_gets_the_number_in_its_format() -> None:
    assert f"{above(0.3).amount('stall_barrier'):.0%}" == "30 %"
    assert f"{at_least(80).amount('dram_pct')}" == "80 %"
    assert f"{at_least(0.05, of='span_ns').amount('idle_ns'):.1%}" == "5.0 %"
