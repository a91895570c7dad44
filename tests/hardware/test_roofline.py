"""The roofline arithmetic against published figures, and what must hold for all numbers."""

import math
from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.hardware.ceilings import NOMINAL, UNCALIBRATED, Attainable
from traceroof.hardware.device_lookup import find
from traceroof.hardware.roofline import (
    DEFAULT_BANDWIDTH_SHARE,
    DEFAULT_FLOPS_SHARE,
    T_FLOOR_NS,
    attainable,
    intensity,
    ridge,
    roofline,
    t_min_ns,
    utilisation,
)

# --- oracles: FLOP, bytes and intensity of whole operators, by hand ------------------------------


@pytest.mark.parametrize(
    ("flops", "bytes", "expected"),
    [
        (2 * 4096**3, 3 * 4096**2 * 2, 1365.333333),  # GEMM 4096^3, FP16
        (2 * 4096**3, 3 * 4096**2 * 4, 682.666667),  # the same, FP32
        (2 * 4096**3, 2 * 4096**2 + 2 * 4096**2, 2048),  # FP8 in, BF16 out
        (2 * 4096**2, 2 * (4096**2 + 2 * 4096), 0.999512),  # matrix times vector, FP16
        (2 * 16 * 4096**2, 2 * (4096**2 + 2 * 16 * 4096), 15.875969),  # 16 rows
        (7_398_752_256, 25_763_840, 287.175835),  # conv 3x3, N32 C64->64 56x56, FP16
        (462_422_016, 102_765_056, 4.499798),  # depthwise conv 3x3, N32 C256 56x56, FP16
        (274_877_906_944, 134_217_728, 2048),  # attention prefill B1 H32 S4096 d128, FP16
        (67_108_864, 67_125_248, 0.999756),  # attention decode B1 H32 S4096 d128
        (268_435_456, 1_610_612_736, 1 / 6),  # add of two FP16 tensors
        (0, 1_073_741_824, 0),  # copy
    ],
)
def test_intensity(flops: int, bytes: int, expected: float) -> None:
    assert intensity(flops, bytes) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("A100-SXM4-80GB", 153.0),  # 312 / 2.039
        ("H100-SXM5-80GB", 295.3),  # 989.4 / 3.35
        ("H200-SXM-141GB", 206.1),  # 989.4 / 4.8
        ("L40S", 419.0),  # 362 / 0.864
        ("RTX-4090", 163.9),  # 165.2 / 1.008
        ("H20-96GB", 37.0),  # 148 / 4
        ("T4", 203.1),  # 65 / 0.32
    ],
)
def test_ridge_of_devices(name: str, expected: float) -> None:
    device = find(name)
    assert device is not None
    point = ridge(device.peak("fp16"), device.dram_bandwidth_bytes_per_s)
    assert point == pytest.approx(expected, abs=0.05)


def test_attainable_below_the_ridge() -> None:
    """GIVEN intensity 5 at ridge 150 WHEN attainable THEN 5 / 150 = 3.33 % of the peak."""
    assert ridge(300e12, 2e12) == 150
    assert attainable(5, 300e12, 2e12) == 10e12
    assert (attainable(5, 300e12, 2e12) or 0) / 300e12 == pytest.approx(0.0333, abs=5e-5)
    assert attainable(150, 300e12, 2e12) == 300e12
    assert attainable(1e6, 300e12, 2e12) == 300e12
    assert attainable(0, 300e12, 2e12) == 0


@pytest.mark.parametrize(
    ("bytes", "bandwidth", "expected_ms"),
    [
        # AdamW over 7e9 parameters: 28 B each (read 14, write 14)
        (28 * 7e9, 2039e9, 96.13),
        (28 * 7e9, 2039e9 * 0.85, 113.09),
        (28 * 7e9, 3350e9, 58.51),
        (28 * 7e9, 4800e9, 40.83),
        # weights of 6.738e9 parameters read once a token: FP16, INT8, INT4; then 70.55e9
        (2 * 6.738e9, 2039e9, 6.609),
        (6.738e9, 3350e9, 2.011),
        (0.5 * 6.738e9, 864e9, 3.899),
        (2 * 70.55e9, 1008e9, 139.980),
        # ten passes, each reading and writing 512 MiB, at 2 and at 1.7 TB/s
        (10 * 2 * 2**29, 2e12, 5.36870912),
        (10 * 2 * 2**29, 0.85 * 2e12, 6.316128376470588),
        # inputs, weights and outputs of a linear layer on [65536, 4096], FP16
        (1_107_296_256, 2e12, 0.5536),
    ],
)
def test_memory_time(bytes: float, bandwidth: float, expected_ms: float) -> None:
    time = t_min_ns(bytes, 0, bandwidth, None)
    assert time is not None
    assert time / 1e6 == pytest.approx(expected_ms, rel=3e-4)


def test_compute_time() -> None:
    """GIVEN 2 * 65536 * 4096^2 FLOP WHEN at 300 and 312 TFLOP/s THEN 7.33 and 7.05 ms."""
    flops, bytes = 2 * 65536 * 4096**2, 1_107_296_256
    assert t_min_ns(bytes, flops, 2e12, 300e12) == pytest.approx(7.33e6, rel=1e-3)
    assert t_min_ns(bytes, flops, 2e12, 312e12) == pytest.approx(7.05e6, rel=1e-3)


def test_bandwidth_share_of_decoding() -> None:
    """GIVEN 15 token/s of 6.738e9 FP16 weights WHEN on 2039 GB/s THEN 202.1 GB/s, 9.9 %."""
    token = roofline(
        flops=2 * 6.738e9,
        bytes=2 * 6.738e9,
        time_ns=1e9 / 15,
        peak_flops_per_s=312e12,
        peak_bytes_per_s=2039e9,
        dtype="fp16",
        ceiling_basis="device-table",
        traffic_basis="model",
    )
    assert token.achieved_bytes_per_s == pytest.approx(202.1e9, rel=1e-3)
    assert token.utilisation == pytest.approx(0.099, abs=5e-4)


# --- what is unknown, and edges -----------------------------------------------------------------


def test_floor() -> None:
    """GIVEN next to no work WHEN timed THEN the 2 us that a kernel costs, unless there is none."""
    assert t_min_ns(1, 1, 1e12, 1e12) == T_FLOOR_NS == 2000
    assert t_min_ns(0, 0, None, None) == 2000
    assert t_min_ns(1e6, 0, 1e12, None, floor_ns=0) == 1000


def test_no_work_needs_no_ceiling() -> None:
    assert t_min_ns(1e9, 0, 1e12, None) == 1e6
    assert t_min_ns(0, 1e9, None, 1e12) == 1e6
    assert t_min_ns(1e9, 1, 1e12, None) is None


UNKNOWN = [None, math.nan, math.inf, -1.0]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_unknown_stays_unknown(unknown: float | None) -> None:
    """GIVEN one unknown input WHEN computed THEN the result is unknown, never zero or a guess."""
    assert intensity(unknown, 1) is intensity(1, unknown) is None
    assert ridge(unknown, 1) is ridge(1, unknown) is None
    assert (
        attainable(unknown, 1, 1) is attainable(1, unknown, 1) is attainable(1, 1, unknown) is None
    )
    assert t_min_ns(unknown, 1, 1, 1) is t_min_ns(1, unknown, 1, 1) is None
    assert t_min_ns(1, 1, unknown, 1) is t_min_ns(1, 1, 1, unknown) is None
    assert utilisation(unknown, 1) is utilisation(1, unknown) is None


def test_division_by_zero() -> None:
    """GIVEN no bytes, no bandwidth or no time WHEN divided THEN unknown, not infinite."""
    assert intensity(1e9, 0) is None
    assert ridge(1e12, 0) is None
    assert utilisation(1000, 0) is None
    assert t_min_ns(1, 1, 0, 1) is None


def test_utilisation_is_not_clipped() -> None:
    """GIVEN a kernel faster than its roof WHEN compared THEN above 1, so that the error shows."""
    assert utilisation(3000, 2000) == 1.5


# --- the two figures ----------------------------------------------------------------------------


def test_likely_shares_without_calibration() -> None:
    assert (DEFAULT_BANDWIDTH_SHARE, DEFAULT_FLOPS_SHARE) == (0.85, 0.80)
    assert Attainable(0.85, 0.80) == UNCALIBRATED
    assert Attainable(1.0, 1.0) == NOMINAL


# --- the whole row ------------------------------------------------------------------------------


def test_roofline() -> None:
    """GIVEN a GEMM 4096^3 in FP16 on A100 80 GB in 0.6 ms WHEN placed THEN compute-bound, 73 %."""
    flops, bytes = 2 * 4096**3, 100_663_296
    made = roofline(
        flops=flops,
        bytes=bytes,
        time_ns=600_000,
        peak_flops_per_s=312e12,
        peak_bytes_per_s=2039e9,
        dtype="fp16",
        ceiling_basis="report",
        traffic_basis="measured",
    )
    assert made.intensity == pytest.approx(1365.333333)
    assert made.ridge == pytest.approx(153.0, abs=0.05)
    assert made.attainable_flops_per_s == 312e12
    assert made.achieved_flops_per_s == pytest.approx(229.0649e12, rel=1e-6)  # flops / 0.6 ms
    assert made.achieved_bytes_per_s == pytest.approx(167.77216e9)
    assert made.t_min_ns == pytest.approx(440_509.5, rel=1e-6)  # flops / 312 TFLOP/s
    assert made.utilisation == pytest.approx(0.734182, rel=1e-5)
    assert (made.dtype, made.ceiling_basis, made.traffic_basis) == ("fp16", "report", "measured")


def test_roofline_of_the_unknown() -> None:
    """GIVEN a report without traffic WHEN placed THEN what needs it is None, the rest is there."""
    made = asdict(
        roofline(
            flops=1e9,
            bytes=None,
            time_ns=1e6,
            peak_flops_per_s=1e12,
            peak_bytes_per_s=math.nan,
            dtype=None,
            ceiling_basis="device-table",
            traffic_basis="model",
        )
    )
    known = {"flops", "achieved_flops_per_s", "peak_flops_per_s", "ceiling_basis", "traffic_basis"}
    assert {key for key, value in made.items() if value is not None} == known
    assert made["achieved_flops_per_s"] == 1e12


# --- properties ---------------------------------------------------------------------------------

amounts = st.floats(0, 1e20)
rates = st.floats(1, 1e18)


@given(amounts, rates, rates)
def test_attainable_is_below_both_roofs(position: float, peak: float, bandwidth: float) -> None:
    rate = attainable(position, peak, bandwidth)
    assert rate is not None
    assert rate <= peak
    assert rate <= bandwidth * position
    assert rate in (peak, bandwidth * position)


@given(rates, rates)
def test_the_roofs_meet_at_the_ridge(peak: float, bandwidth: float) -> None:
    assert attainable(ridge(peak, bandwidth), peak, bandwidth) == pytest.approx(peak)


@given(st.lists(amounts, min_size=2, max_size=5), amounts, rates, rates)
def test_t_min_grows_with_work(
    works: list[float], other: float, bandwidth: float, peak: float
) -> None:
    for less, more in pairwise(sorted(works)):
        assert (t_min_ns(less, other, bandwidth, peak) or 0) <= (
            t_min_ns(more, other, bandwidth, peak) or 0
        )
        assert (t_min_ns(other, less, bandwidth, peak) or 0) <= (
            t_min_ns(other, more, bandwidth, peak) or 0
        )


@given(st.lists(rates, min_size=2, max_size=5), amounts, amounts)
def test_t_min_shrinks_with_the_ceilings(speeds: list[float], bytes: float, flops: float) -> None:
    for slow, fast in pairwise(sorted(speeds)):
        assert (t_min_ns(bytes, flops, slow, 1e15) or 0) >= (
            t_min_ns(bytes, flops, fast, 1e15) or 0
        )
        assert (t_min_ns(bytes, flops, 1e12, slow) or 0) >= (
            t_min_ns(bytes, flops, 1e12, fast) or 0
        )


anything = st.none() | st.floats() | st.integers(-(10**30), 10**30)


@given(anything, anything, anything, anything, anything)
def test_roofline_holds_only_json_numbers(
    flops: float | None,
    bytes: float | None,
    time: float | None,
    peak: float | None,
    bandwidth: float | None,
) -> None:
    """GIVEN any numbers WHEN placed THEN every figure is None or finite and not negative."""
    made = roofline(
        flops=flops,
        bytes=bytes,
        time_ns=time,
        peak_flops_per_s=peak,
        peak_bytes_per_s=bandwidth,
        dtype=None,
        ceiling_basis="calibrated",
        traffic_basis="model",
    )
    for value in asdict(made).values():
        assert value is None or isinstance(value, str) or (math.isfinite(value) and value >= 0)
