"""What is attainable: measured on the device where a file says it, assumed elsewhere."""

from typing import Any

import numpy as np
import pytest

from tests.runs import recording
from traceroof.calibration.apply import with_calibration
from traceroof.core.facts import Facts
from traceroof.core.recording import DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.hardware import ceiling_words, ceilings
from traceroof.hardware.ceilings import UNCALIBRATED, Attainable

COLUMNS = (
    "dram_attainable", "flop_attainable", "flop_pct", "compute_basis", "compute_pct", "memory_pct",
    "calibrated_dram_bytes_per_s", "time_ns",
)  # fmt: skip


def facts(*rows: dict[str, Any]) -> Facts:
    return Facts.of(rows, COLUMNS)


def test_without_a_measurement_the_usual_shares_hold() -> None:
    attainable, measured = ceilings.of_groups(facts({"compute_pct": 50.0, "memory_pct": 20.0}))
    assert attainable is UNCALIBRATED
    assert measured.tolist() == [False]


def test_each_group_has_the_ceiling_that_was_measured_for_it() -> None:
    attainable, measured = ceilings.of_groups(
        facts(
            {"dram_attainable": 0.8, "memory_pct": 60.0, "compute_pct": 10.0},
            {"memory_pct": 60.0, "compute_pct": 10.0},
            # The compute side is the busier one, and its ceiling is assumed.
            {"dram_attainable": 0.8, "memory_pct": 30.0, "compute_pct": 60.0},
        )
    )
    assert np.asarray(attainable.memory).tolist() == [0.8, 0.85, 0.8]
    assert np.asarray(attainable.compute).tolist() == [0.8, 0.8, 0.8]
    assert measured.tolist() == [True, False, False]


def test_a_measured_flop_rate_counts_where_use_is_a_flop_rate() -> None:
    rate = {"compute_basis": "peak FLOP rate", "compute_pct": 30.0, "memory_pct": 5.0}
    attainable, measured = ceilings.of_groups(
        facts(
            {**rate, "flop_attainable": 0.4, "flop_pct": 30.0},
            # More than was measured was reached: then that is attainable.
            {**rate, "flop_attainable": 0.4, "flop_pct": 50.0},
            # Busy cycles of a pipe are no rate.
            {**rate, "compute_basis": "elapsed", "flop_attainable": 0.4, "flop_pct": 30.0},
        )
    )
    assert np.asarray(attainable.compute).tolist() == [0.4, 0.5, 0.8]
    assert measured.tolist() == [True, True, False]


def test_the_run_has_the_mean_by_time() -> None:
    mean = ceilings.overall(Attainable(np.array([0.8, 0.9]), 0.8), np.array([300.0, 100.0]))
    assert mean.memory == pytest.approx(0.825)
    assert mean.compute == pytest.approx(0.8)
    assert ceilings.overall(Attainable(np.array([0.8]), 0.8), np.array([np.nan])) == UNCALIBRATED


def test_the_report_says_which_ceilings() -> None:
    assert ceiling_words.describe(facts({})) == (
        "at most: nominal dense peaks; likely: 85 % of nominal bandwidth and 80 % of nominal "
        "FLOP rate, both assumed"
    )
    known = {"dram_attainable": 0.848, "calibrated_dram_bytes_per_s": 1.389e12}
    assert ceiling_words.describe(facts(known)) == (
        "at most: nominal dense peaks; likely: 1.39 TB/s of DRAM as measured on this device "
        "(84.8 % of nominal) and 80 % of nominal FLOP rate (assumed)"
    )
    both = ceiling_words.describe(facts(known, {}))
    assert "of nominal), elsewhere 85 % of nominal bandwidth (assumed) and 80 %" in both


def test_published_rates_stand_where_nobody_measured() -> None:
    """MI300X: 708 of 1,307.4 TFLOP/s in BF16 (TraceLens), 4,199 of 5,300 GB/s reading (RRZE)."""
    rows = (
        {"compute_basis": "model, nominal peak", "roof_dtype": "bf16", "compute_pct": 30.0,
         "roof_flops_per_s": 1307.4e12, "dram_peak_bytes_per_s": 5.3e12, "model": "reduction"},
        {"dram_attainable": 0.9, "dram_peak_bytes_per_s": 5.3e12, "model": "reduction"},
    )  # fmt: skip
    names = (*COLUMNS, "roof_dtype", "roof_flops_per_s", "dram_peak_bytes_per_s", "model")
    found = with_calibration(Facts.of(rows, names), ["MI300X"] * 2, (), "timeline")
    np.testing.assert_allclose(found.flop_attainable, [708 / 1307.4, np.nan])
    np.testing.assert_allclose(found.dram_attainable, [4199 / 5300, 0.9])
    assert found.dram_from.tolist() == ["published", "measured"]
    attainable, measured = ceilings.of_groups(found)
    np.testing.assert_allclose(attainable.compute, [708 / 1307.4, 0.8])
    # They were measured on another card: trusted like an assumption.
    assert measured.tolist() == [False, True]
    said = ceiling_words.describe(found)
    assert "bandwidth as published for it (read 4.20 TB/s, 79.2 % of nominal)" in said
    assert "FLOP rates as published for it (bf16 708 TFLOP/s)" in said
    # Clocks of counter tools may be locked, memory's is not.
    counted = with_calibration(Facts.of(rows, names), ["MI300X"] * 2, (), "counters")
    assert np.isnan(counted.flop_attainable).all()
    assert counted.dram_from.tolist() == ["published", "measured"]


def _streaming(**more: Any) -> dict[str, Any]:
    # 0.7 MB in 1 µs: 700 GB/s, 70 % of 1 TB/s.
    return {
        "kernel_name": ["stream"], "duration_ns": [100_000], "dram_bytes": [70e6],
        "peak_dram_bytes_per_s": [1e12], "sm_throughput_pct": [10.0], **more,
    }  # fmt: skip


def test_the_class_and_the_likely_saving_use_the_measured_ceiling() -> None:
    device = DeviceInfo(vendor="amd")
    assumed = diagnose(recording(_streaming(), devices=(device,)))
    # 70 % is below 0.9 x 85 %; at 75 % measured it is above 0.9 x 75 %.
    measured = diagnose(
        recording(_streaming(calibrated_dram_bytes_per_s=[0.75e12]), devices=(device,))
    )
    assert assumed.kernels[0].primary_class == "memory-leaning"
    assert measured.kernels[0].primary_class == "dram-bound"
    wall = next(one for one in measured.findings if one.rule == "dram-at-wall")
    # 100 µs x (1 - 0.70 / 0.75) and x (1 - 0.70).
    assert wall.time_saved_likely_ns == 6_667
    assert wall.time_saved_bound_ns == 30_000
    assert wall.confidence == 0.9
    leaning = next(one for one in assumed.findings if one.rule == "dram-leaning-headroom")
    assert leaning.confidence == 0.72
