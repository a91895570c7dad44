"""Calculations as text."""

import numpy as np
import pytest

from traceroof.core.facts import unknown
from traceroof.core.tracing import (
    CEILING,
    COLUMN,
    Traced,
    each,
    one_of,
    term_of,
)
from traceroof.diagnosis.formulas import (
    Check,
    checks,
    number,
    unit_of,
    written,
)

NAN = float("nan")


def leaf(name: str, value: float | str | None, unit: str = "") -> Traced:
    return Traced.of(value, COLUMN, name, unit)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unknown"), (NAN, "unknown"), (True, "yes"), (False, "no"), ("gemm", "gemm"),
        ("", '""'), (61.84, "61.84"), (0.123456, "0.1235"), (12345.6, "12,346"), (100.0, "100"),
        (2.5e9, "2,500,000,000"), (1.23456e-7, "1.235e-7"), (0.5, "0.5"), (1.5e15, "1.5e15"),
    ],
)  # fmt: skip
def test_numbers(value: object, text: str) -> None:
    assert number(value) == text


def test_a_formula_with_names_and_with_numbers() -> None:
    memory = Traced.of(0.85, CEILING, "memory")
    share = term_of(1 - leaf("dram_pct", 61.8) / (100 * memory))
    assert written(share) == "1 − dram_pct / (100 × memory ceiling)"
    # 1 - 61.8 / 85 = 0.272941...
    assert written(share, values=True) == "1 − 61.8 / (100 × 0.85)"
    assert share.value == pytest.approx(0.2729, abs=1e-4)


def test_brackets_only_where_they_change_something() -> None:
    a, b, c = (leaf(name, 2.0) for name in "abc")
    assert written(term_of(a - (b - c))) == "a − (b − c)"
    assert written(term_of(a - b - c)) == "a − b − c"
    assert written(term_of(a * (b + c))) == "a × (b + c)"
    assert written(term_of(a / (b * c))) == "a / (b × c)"
    assert written(term_of(a * b / c)) == "a × b / c"
    assert written(term_of(-a + np.abs(b))) == "−a + |b|"
    assert written(term_of(np.ceil(a) % b)) == "ceil(a) mod b"


def test_only_the_branch_taken_is_printed() -> None:
    few, many = leaf("blocks", 8.0), leaf("sm_count", 108.0)
    empty = np.where(few < many, 1 - few / many, leaf("waves", 0.1))
    assert written(term_of(empty)) == "1 − blocks / sm_count"


def test_unknown_parts_of_a_largest_are_left_out() -> None:
    a, b, c = leaf("a", 3.0), leaf("b", NAN), leaf("c", 4.0)
    assert written(term_of(np.fmax(np.fmax(a, b), c))) == "max(a, c)"
    assert written(term_of(np.fmin(a, b))) == "a"
    # Unknown stays unknown where numpy says so.
    assert written(term_of(np.maximum(a, b)), values=True) == "max(3, unknown)"


def test_numbers_among_themselves_are_worked_out() -> None:
    a = leaf("a", 3.0)
    assert written(term_of(a / (100 * np.asarray(0.85)))) == "a / 85"
    assert written(term_of(1 * a / 1 - 0 + np.nan_to_num(leaf("b", NAN)))) == "a"


def test_a_condition_is_taken_apart() -> None:
    kind, use, other = leaf("class", "dram-bound"), leaf("use", 61.8), leaf("other", NAN)
    condition = term_of(
        one_of(kind, "dram-bound") & ((use > 80) | (other < 5)) & ~(use > 90) & ~(other >= 80)
    )
    assert checks(condition) == (
        Check("class is dram-bound", "dram-bound", True),
        Check("any of these", "", False, "any", (
            Check("use > 80", "61.8 > 80", False),
            Check("other < 5", "unknown", False),
        )),
        Check("use ≤ 90", "61.8 ≤ 90", True),
        # What is unknown is not at 80 or above.
        Check("other < 80, or unknown", "unknown", True),
    )  # fmt: skip


def test_what_must_not_hold_is_turned_round() -> None:
    kind, use = leaf("class", "copy"), leaf("use", 50.0)
    assert checks(term_of(~one_of(kind, "copy", "communication"))) == (
        Check("class is none of copy, communication", "copy", False),
    )
    both = term_of(~((use > 40) & (use < 60)))
    assert [(one.join, one.holds) for one in checks(both)] == [("any", False)]
    assert checks(term_of(~unknown(use))) == (Check("use is known", "50", True),)
    assert checks(term_of(unknown(kind))) == (Check("class is unknown", "copy", False),)
    flag = each(kind, lambda value: value == "copy", "a copy", kind=bool)
    assert checks(term_of(~flag)) == (Check("not a copy", "yes", False),)
    assert checks(term_of((kind == "copy") & (kind != "gone"))) == (
        Check("class = copy", "copy", True),
        Check("class ≠ gone", "copy", True),
    )


def test_times_are_compared_as_times() -> None:
    idle, span = leaf("idle_ns", 1.58e9, "ns"), leaf("span_ns", 2e9, "ns")
    assert checks(term_of(idle >= 0.5 * span)) == (
        Check("idle_ns ≥ 0.5 × span_ns", "1.58 s ≥ 0.5 × 2 s = 1 s", True),
    )
    assert checks(term_of(leaf("median_ns", 2000.0, "ns") < 5000)) == (
        Check("median_ns < 5 µs", "2 µs < 5 µs", True),
    )
    # A share of two times has no unit, and a count of one kind is no time.
    assert unit_of(term_of(idle / span)) == ""
    assert unit_of(term_of(idle * span)) == "mixed"
    copies = leaf("copies", 3.0, "copy")
    assert unit_of(term_of(np.fmin(copies * 5000, idle))) == "mixed"
    assert checks(term_of(np.fmin(copies * 5000, idle) > 10)) == (
        Check("min(copies × 5,000, idle_ns) > 10",
              "min(3 × 5,000, 1,580,000,000) = 15,000 > 10", True),
    )  # fmt: skip


def test_a_condition_of_one_truth() -> None:
    use = leaf("use", 50.0)
    assert checks(term_of((use > 40) & np.ones(1, dtype=bool))) == (
        Check("use > 40", "50 > 40", True),
    )
    assert checks(term_of(np.ones(1, dtype=bool))) == (Check("yes", "yes", True),)
