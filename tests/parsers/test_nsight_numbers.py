"""Numbers, units and labels as Nsight Compute prints them."""

import math

import pytest

from traceroof.core.locales import DecimalSign, decimals, number, vote
from traceroof.parsers.nsight.metrics import is_whole, metric_name
from traceroof.parsers.nsight.numbers import split_instances, unit, whole

POINT, COMMA, UNDECIDED = DecimalSign.POINT, DecimalSign.COMMA, DecimalSign.UNDECIDED


@pytest.mark.parametrize(
    ("text", "sign", "value"),
    [
        ("0", POINT, 0.0),
        ("0.00", POINT, 0.0),
        ("61.84", POINT, 61.84),
        ("1,309,471,763.30", POINT, 1309471763.30),
        ("3995313115.40", POINT, 3995313115.40),
        ("12,34,567.80", POINT, 1234567.80),  # Indian grouping
        ("-2,191", POINT, -2191.0),
        ("\u22122,191", POINT, -2191.0),
        ("4.0e-05", POINT, 4.0e-05),
        ("100.39 %", POINT, 100.39),
        ("1\u202f234,50", COMMA, 1234.50),
        ("1\u00a0234,50", COMMA, 1234.50),
        ("1\u2019234.50", POINT, 1234.50),
        ("1.309.471.763,30", COMMA, 1309471763.30),
        ("1.309", COMMA, 1309.0),
    ],
)
def test_number(text: str, sign: DecimalSign, value: float) -> None:
    assert number(text, sign) == value


_NO_NUMBERS = (
    "", "n/a", "(!) nan", "nan", "inf", "-inf", "1,5", "1.2.3", "-", ".", "1e999", "0x1f", "1_000",
    "CachePreferNone",
)  # fmt: skip


@pytest.mark.parametrize("text", _NO_NUMBERS)
def test_what_is_no_number_is_nan(text: str) -> None:
    assert math.isnan(number(text, POINT))


def test_an_undecided_number_is_unknown_and_a_plain_one_is_not() -> None:
    assert math.isnan(number("1,234", UNDECIDED))
    assert number("1234", UNDECIDED) == 1234.0


@pytest.mark.parametrize(
    ("cells", "spreadsheet", "sign"),
    [
        (["1,309,471,763.30"], False, POINT),
        (["1,309,471"], False, POINT),  # a decimal sign comes once
        (["0.25"], False, POINT),
        (["0,25"], False, COMMA),
        (["1.309.471"], False, COMMA),
        (["1.309,5"], False, COMMA),
        (["1,309"], False, POINT),  # Nsight Compute never prints three decimals
        (["1,309"], True, UNDECIDED),
        (["1.309"], True, UNDECIDED),
        (["1,309", "0,5"], True, COMMA),
        (["1.309", "12,5", "7,25", "0.5"], False, COMMA),  # the majority
        (["7", "n/a", "CachePreferNone"], True, POINT),
    ],
)
def test_vote(cells: list[str], spreadsheet: bool, sign: DecimalSign) -> None:
    assert vote([(cell, False, False) for cell in cells], spreadsheet=spreadsheet).sign is sign


def test_a_count_decides_what_a_measurement_cannot() -> None:
    """GIVEN "1.309" for a number of threads THEN the point groups, for there is no 0.309 thread."""
    assert vote([("1.309", True, True)], spreadsheet=True).sign is COMMA
    assert vote([("1,309", True, True)], spreadsheet=True).sign is POINT


def test_decimals_printed() -> None:
    assert decimals("1,309.25", POINT) == 2
    assert decimals("1.309,2", COMMA) == 1
    assert decimals("17", POINT) == 0


def test_metric_instances() -> None:
    assert split_instances("12.50 (1; 2; 3)") == ("12.50", "1; 2; 3")
    assert split_instances("12.50 (7: 1; 8: 2)") == ("12.50", "7: 1; 8: 2")
    assert split_instances("12.50") == ("12.50", "")
    assert split_instances("(!) nan") == ("(!) nan", "")


def test_whole_numbers() -> None:
    assert [whole(text) for text in ("7", "7.0", "7.00", "1,024", " 3 ")] == [7, 7, 7, 1024, 3]
    assert [whole(text) for text in ("", None, "7.5", "x", "-1", "9" * 30)] == [None] * 6


@pytest.mark.parametrize(
    ("text", "base", "scale"),
    [
        ("nsecond", "ns", 1.0),
        ("ns", "ns", 1.0),
        ("usecond", "ns", 1e3),
        ("us", "ns", 1e3),
        ("µs", "ns", 1e3),
        ("msecond", "ns", 1e6),
        ("ms", "ns", 1e6),
        ("second", "ns", 1e9),
        ("s", "ns", 1e9),
        ("byte", "byte", 1.0),
        ("Kbyte", "byte", 1e3),  # decimal: 32768 byte prints as 32.77 Kbyte
        ("Mbyte", "byte", 1e6),
        ("Gbyte", "byte", 1e9),
        ("Tbyte/s", "byte/s", 1e12),
        ("byte/second", "byte/s", 1.0),
        ("Gbyte/second", "byte/s", 1e9),
        ("Kbyte/block", "byte/block", 1e3),
        ("hz", "Hz", 1.0),
        ("Ghz", "Hz", 1e9),
        ("cycle/second", "Hz", 1.0),
        ("cycle/nsecond", "Hz", 1e9),
        ("cycle/usecond", "Hz", 1e6),
        ("inst/cycle", "inst/cycle", 1.0),
        ("register/thread", "register/thread", 1.0),
        ("%", "%", 1.0),
        ("", "", 1.0),
        ("-", "", 1.0),
        ("sector", "sector", 1.0),
        ("banana", "banana", 1.0),
    ],
)
def test_unit(text: str, base: str, scale: float) -> None:
    assert unit(text) == (base, scale)


@pytest.mark.parametrize(
    ("section", "body", "label", "unit_text", "metric"),
    [
        ("GPU Speed Of Light Throughput", "", "Memory Throughput", "%",
         "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"),
        ("Memory Workload Analysis", "", "Memory Throughput", "Gbyte/s",
         "dram__bytes.sum.per_second"),
        ("GPU Speed Of Light", "", "SOL SM", "%",
         "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("GPU Speed Of Light", "", "SOL FB", "%",
         "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        ("GPU Speed Of Light", "", "Memory Frequency", "cycle/nsecond",
         "dram__cycles_elapsed.avg.per_second"),
        ("SpeedOfLight", "", "SM Frequency", "hz", "gpc__cycles_elapsed.avg.per_second"),
        ("GPU Speed Of Light Roofline Chart", "Single Precision Achieved Value", "SM Frequency",
         "hz", "smsp__cycles_elapsed.avg.per_second"),
        ("GPU Speed Of Light Roofline Chart", "Single Precision Roofline", "SM Frequency",
         "hz", "sm__cycles_elapsed.avg.per_second"),
        ("Anything", "", "dram__bytes.sum", "byte", "dram__bytes.sum"),
        ("Occupancy", "", "Achieved Occupancy (sm__warps_active.avg.pct_of_peak_sustained_active)",
         "%", "sm__warps_active.avg.pct_of_peak_sustained_active"),
        ("", "", "Memory Throughput", "byte/s", "dram__bytes.sum.per_second"),
        ("", "", "Registers Per Thread", "register/thread", "launch__registers_per_thread"),
        ("", "", "SM Frequency", "hz", None),  # several metrics could be meant
        ("Occupancy", "", "Wholly New Label", "", None),
    ],
)  # fmt: skip
def test_metric_behind_a_label(
    section: str, body: str, label: str, unit_text: str, metric: str | None
) -> None:
    assert metric_name(section, body, label, unit_text) == metric


def test_what_can_only_be_whole() -> None:
    assert is_whole("launch__thread_count", "thread") is False  # no ending says that it is a sum
    assert is_whole("dram__bytes.sum", "byte") is True
    assert is_whole("dram__bytes.sum", "Mbyte") is False
    assert is_whole("launch__registers_per_thread", "register/thread") is True
    assert is_whole("sm__cycles_active.avg", "cycle") is False
