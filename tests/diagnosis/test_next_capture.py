"""What to measure next: the capture that decides most of the time that nothing explains yet."""

from pathlib import Path

import pytest

import traceroof
from sample_traces.play_ncu import played
from tests.runs import recording
from traceroof.diagnosis.diagnose import diagnose


def test_kernels_without_a_class_come_first(samples: Path) -> None:
    """GIVEN a step whose three kernels without a class take 16.95 % of the kernel time (5,631.6 + 577.8
    + 257.8 of 38,154 us) WHEN asked THEN Nsight Compute's command for these three."""
    capture = traceroof.diagnose(samples / "torch/training.rank0.json").next_capture
    assert capture is not None
    assert capture.command is not None
    assert capture.command.startswith("ncu --csv")
    assert capture.kernels == (2, 15, 26)
    assert capture.missing[:2] == ("sm_throughput_pct", "memory_throughput_pct")
    assert capture.rules[0] == "class"
    assert capture.share == pytest.approx(0.1695, abs=0.0001)
    assert capture.adds
    assert capture.because.startswith("17.0 % of kernel time in 3 kernels is open: class")


def test_narrowed_to_a_kernel_it_is_that_kernel_s(samples: Path) -> None:
    """GIVEN a GEMM whose class comes from its shapes WHEN narrowed THEN counters for it alone, on the
    time above its roofline."""
    some = traceroof.diagnose(samples / "torch/training.rank0.json", kernel="3")
    capture, (kernel,) = some.next_capture, some.kernels
    assert capture is not None
    assert capture.command is not None
    assert capture.kernels == (3,)
    assert "coopA_TNT" in capture.command
    assert "coopA_NNT" not in capture.command
    assert kernel.roofline is not None
    assert kernel.time_ns is not None
    above = kernel.time_ns * (1 - kernel.roofline["utilisation"])
    assert capture.open_ns == pytest.approx(above, abs=1)
    assert capture.rules


def test_the_vendor_s_tool_is_asked(samples: Path) -> None:
    capture = traceroof.diagnose(samples / "rocprofv3/model-host").next_capture
    assert capture is not None
    assert capture.command is not None
    assert capture.command.startswith("rocprof-compute profile")


def test_the_same_is_not_asked_twice(samples: Path, tmp_path: Path) -> None:
    """GIVEN the counters that were asked for WHEN both files are diagnosed THEN these kernels have a
    class, and something else is next."""
    trace = samples / "torch/training.rank0.json"
    first = traceroof.diagnose(trace).next_capture
    assert first is not None
    assert first.command is not None
    more = tmp_path / "more.csv"
    more.write_text(played(first.command), "utf-8")
    second = traceroof.diagnose([trace, more]).next_capture
    assert second is None or second.missing != first.missing


def test_what_makes_the_measurement_unfit_is_taken_anew() -> None:
    """GIVEN a run of which nothing can be learnt WHEN asked THEN no command, but what to do."""
    short = diagnose(
        recording(
            {"kernel_name": ["k()"] * 2, "duration_ns": [2_000] * 2, "start_ns": [0, 3_000]},
            time_basis="timeline",
        )
    )
    lead, capture = short.advice[0].lead, short.next_capture
    assert lead.lowers is not None
    assert capture is not None
    assert (capture.command, capture.fix, capture.adds) == (None, lead.fix, False)


def test_nothing_is_open_where_no_kernel_ran() -> None:
    made = diagnose(recording({"kernel_name": [], "duration_ns": []}))
    assert made.next_capture is None
    assert made.to_dict()["next_capture"] is None
