"""A diagnosis narrowed to some kernels: they alone, with the shares of the whole run."""

import re
from pathlib import Path

import pytest

import traceroof
from tests.runs import two_kernels
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.narrow import narrowed
from traceroof.errors import TraceroofError
from traceroof.report.run import markdown, terminal


def test_shares_stay_those_of_the_run() -> None:
    """GIVEN a copy of 90 of 100 us and a kernel that waits, 10 of 100 us, WHEN narrowed to the second
    THEN it takes 10 % of the kernel time, and what is saved on it is a share of the 100 us."""
    whole = diagnose(two_kernels())
    some = narrowed(whole, "wait")
    (kernel,) = some.kernels
    assert (kernel.number, kernel.share, kernel.primary_class) == (2, 0.1, "latency-bound")
    assert some.totals.kernel_time_ns == 100_000
    assert some.narrowed is not None
    assert (some.narrowed.kernels, some.narrowed.of_kernels) == (1, 2)
    for entry in some.advice:
        assert entry.share_of == "kernel"
        if entry.bound_ns is not None:
            # At most the 10 us that the kernel takes.
            assert entry.share == pytest.approx(entry.bound_ns / 100_000)
            assert entry.bound_ns <= 10_000
    assert some.headline.startswith("This kernel takes 10.0 % of the kernel time; it is latency-")
    assert {one.subject_index for one in some.findings if one.scope == "kernel"} == {0}


def test_reports_say_what_they_are_narrowed_to() -> None:
    some = narrowed(diagnose(two_kernels()), "wait")
    text = terminal.render(some)
    assert "Narrowed to 1 of 2 kernels (wait): 10 µs in 1 launch, 10.0 % of kernel time." in text
    assert "Shares are of the whole run." in text
    assert " #2  wait" in text
    assert "Time by category" not in text
    page = markdown.render(some)
    assert "Narrowed to 1 of 2 kernels" in page
    assert re.search(r"^\| 2 \| `+ ?wait", page, re.MULTILINE)
    made = some.to_dict()
    assert made["narrowed"] == {"wanted": "wait", "kernels": 1, "of_kernels": 2}
    assert diagnose(two_kernels()).to_dict()["narrowed"] is None


def test_several_kernels_and_none(samples: Path) -> None:
    some = traceroof.diagnose(samples / "torch/training.rank0.json", kernel="nvjet")
    # 15 of the 30 kernels of the trace are named nvjet_..., 45.7 % of its kernel time.
    assert len(some.kernels) == 15
    assert some.headline.startswith("15 kernels (nvjet) take 45.7 % of the kernel time: ")
    with pytest.raises(TraceroofError, match="no kernel has 'nvjte' in its name"):
        traceroof.diagnose(samples / "torch/training.rank0.json", kernel="nvjte")


def test_what_was_found_on_the_communication_goes_with_its_kernels(samples: Path) -> None:
    """GIVEN communication of which 6.93 of 34.5 ms run alone WHEN narrowed to the only collective THEN
    that finding and its saving are there; WHEN narrowed to a GEMM THEN they are not."""
    trace = samples / "torch/training.rank0.json"
    nccl = traceroof.diagnose(trace, kernel="nccl")
    assert [one.lead.rule for one in nccl.advice] == ["exposed-comm"]
    assert nccl.advice[0].bound_ns == pytest.approx(6_930_000, rel=0.001)
    assert nccl.advice[0].share_of == "wall"
    assert not traceroof.diagnose(trace, kernel="3").advice


def test_part_of_a_category_saves_its_part(samples: Path) -> None:
    """GIVEN a finding on a category WHEN narrowed to one of its kernels THEN no more is saved than
    that kernel's part of the category's time, and no more than its own time."""
    whole = traceroof.diagnose(samples / "nsight_systems/training.sqlite")
    for at, kernel in enumerate(whole.kernels[:6], start=1):
        some = narrowed(whole, str(at))
        saved = sum(one.bound_ns or 0 for one in some.advice if not one.once)
        assert saved <= (kernel.time_ns or 0)
