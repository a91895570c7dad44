"""A comparison narrowed to some kernels: verdicts as among all, shares of the whole."""

from datetime import date
from pathlib import Path

import pytest

import traceroof
from tests.sides import PROGRAM, repeated
from traceroof.compare import compare, gates
from traceroof.compare.narrow import narrowed
from traceroof.errors import TraceroofError
from traceroof.report.compare import markdown, terminal

FIVE = (1.0, 1.01, 0.99, 1.005, 0.995)
#: copy_medium takes 34 x 50 us = 1.7 of 6 ms; 40 us make it 1.36 ms: -0.34 ms.
FASTER = {**PROGRAM, "copy_medium(float*)": (34, 40_000)}
BOTH = {**FASTER, "sgemm_big(float*)": (10, 480_000)}
TODAY = date(2026, 1, 1)


def test_the_verdict_is_that_of_the_kernels() -> None:
    """GIVEN a copy 20 % faster and a GEMM 20 % slower WHEN compared THEN slower; WHEN narrowed to the
    copy THEN faster, with the verdict, the share and the q of the comparison of all."""
    whole = compare(repeated(FIVE, PROGRAM), repeated(FIVE, BOTH))
    copy = narrowed(whole, "copy")
    assert (whole.verdict, copy.verdict) == ("regressed", "improved")
    (change,) = copy.kernels
    assert change in whole.kernels
    assert change.of_total == pytest.approx(-0.34 / 6, rel=0.01)
    assert narrowed(whole, "small").verdict == "unchanged"
    assert narrowed(whole, "*").verdict == "regressed"
    assert copy.to_dict()["narrowed"] == {"wanted": "copy", "kernels": 1, "of_kernels": 3}
    assert whole.to_dict()["narrowed"] is None


def test_reports_say_it() -> None:
    copy = narrowed(compare(repeated(FIVE, PROGRAM), repeated(FIVE, BOTH)), "copy")
    text = terminal.render(copy, width=120)
    assert text.startswith("FASTER: copy_medium -20.0 % (1.70 → 1.36 ms), -5.7 % of kernel")
    assert "1 of 3 kernels (copy)" in text
    assert "Categories" not in text
    assert "sgemm" not in text
    page = markdown.render(copy)
    assert "**faster**, copy" in page
    assert "sgemm" not in page.partition("Rule and provenance")[0]


def test_findings_keep_their_kernel() -> None:
    """GIVEN findings on all kernels WHEN narrowed THEN each is about the kernel that it was about."""
    whole = compare(repeated(FIVE, PROGRAM), repeated(FIVE, BOTH))
    for one in whole.kernels:
        some = narrowed(whole, one.name)
        expected = [finding.rule for finding in whole.about(one)]
        assert [finding.rule for finding in some.about(one)] == expected
        assert len(some.fired()) == len(expected)


def test_gates_look_at_the_kernels_alone() -> None:
    whole = compare(repeated(FIVE, PROGRAM), repeated(FIVE, BOTH))
    assert gates.failures(whole, ["regression"], TODAY)
    assert not gates.failures(narrowed(whole, "copy"), ["regression"], TODAY)
    assert gates.failures(narrowed(whole, "sgemm"), ["regression"], TODAY) == [
        "regression: sgemm_big"
    ]


def test_one_run_a_side_is_inconclusive_and_says_what_is_missing() -> None:
    made = narrowed(compare(repeated((1.0,), PROGRAM), repeated((1.0,), FASTER)), "copy")
    assert made.verdict == "inconclusive"
    assert made.why_open == made.kernels[0].reason != ""
    assert f"inconclusive: {made.why_open}" in gates.failures(made, ["inconclusive"], TODAY)
    assert made.why_open in " ".join(terminal.render(made).split())


def test_a_kernel_that_was_renamed_is_meant_by_either_name() -> None:
    head = {**PROGRAM, "small_v2(float*)": PROGRAM["small(float*)"]}
    del head["small(float*)"]
    whole = compare(repeated(FIVE, PROGRAM), repeated(FIVE, head))
    for name in ("small_v2", "small(float*)"):
        assert any("small" in one.name for one in narrowed(whole, name).kernels)
    with pytest.raises(TraceroofError, match="no kernel has 'nothing' in its name"):
        narrowed(whole, "nothing")


def test_as_a_library_call(samples: Path) -> None:
    trace = samples / "torch/training.rank0.json"
    made = traceroof.compare(trace, trace, kernel="multi_tensor")
    assert (made.verdict, len(made.kernels)) == ("unchanged", 1)


def test_a_number_is_that_of_the_head() -> None:
    """GIVEN kernels whose order by change is not that by time WHEN one is named by its number THEN it is
    the one that `diagnose` of the head gives this number."""
    whole = compare(repeated(FIVE, PROGRAM), repeated(FIVE, FASTER))
    assert whole.kernels[0].name == "copy_medium(float*)"
    for kernel in whole.head.kernels:
        (change,) = narrowed(whole, f"#{kernel.number}").kernels
        assert change.name == kernel.kernel
    with pytest.raises(TraceroofError, match="there is no kernel 9 in side, which has 3 kernels"):
        narrowed(whole, "9")
