"""What a run says about its own measurement, from recordings with known answers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.runs import recording
from traceroof.core.facts import Facts
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.hardware.device_lookup import find
from traceroof.hardware.devices import Device
from traceroof.hardware.run_devices import devices_of
from traceroof.kernels import groups
from traceroof.kernels.categories import row_categories
from traceroof.scopes import measurement_quality
from traceroof.scopes.measurement_quality import OVER_PEAK, beyond_cache_pct, cached, over_peak
from traceroof.scopes.quality_columns import QUALITY_COLUMNS
from traceroof.timeline import timelines


def facts(made: Recording, **model: Any) -> dict[str, float | str]:
    categories = row_categories(made.kernels)
    grouped = groups.group(made.kernels, categories, model=model or None)
    gpus = [(one.info, one.known) for one in devices_of(made)]
    return dict(measurement_quality.facts_of(made, grouped, timelines(made, categories), gpus))


def test_every_fact_is_a_column() -> None:
    made = recording(
        {"kernel_name": ["k"] * 5, "duration_ns": [200_000] * 5, "sm_clock_hz": [1e9] * 5},
        devices=(DeviceInfo(name="NVIDIA A100-SXM4-80GB", sm_count=108),),
    )
    assert set(facts(made)) <= {entry.name for entry in QUALITY_COLUMNS}


# --- scatter and first launches ----------------------------------------------------------------


def test_shares_are_of_kernels_that_compute() -> None:
    """GIVEN 5 x 100 steady, 90 to 110 scattering by 7.4 %, and a collective of twice their time:
    THEN half of the computing time scatters."""
    made = recording(
        {
            "kernel_name": ["a"] * 5 + ["b"] * 5 + ["ncclDevKernel_AllReduce"] * 5,
            "duration_ns": [100] * 5 + [90, 95, 100, 105, 110] + [100, 400, 200, 250, 50],
        }
    )
    found = facts(made)
    assert found["scattered_pct"] == pytest.approx(50.0)
    assert found["repeated_pct"] == pytest.approx(100.0)
    assert found["typical_scatter_pct"] == pytest.approx(7.413)


def test_single_launches_do_not_tell() -> None:
    found = facts(recording({"kernel_name": ["a", "b"], "duration_ns": [10, 20]}))
    assert {"scattered_pct", "first_excess_pct", "collapsed_pct"} & set(found) == set()


def test_first_launches_cost_what_is_above_their_median() -> None:
    """30 then nine of 10: 20 beyond the median of 120."""
    found = facts(recording({"kernel_name": ["a"] * 10, "duration_ns": [30] + [10] * 9}))
    assert found["first_excess_pct"] == pytest.approx(20 / 120 * 100)


@pytest.mark.parametrize(("shapes", "pct"), [(None, 100.0), ("[[8, 8]]", 0.0)])
def test_a_name_is_collapsed_where_shapes_are_unknown(shapes: str | None, pct: float) -> None:
    """Twenty launches of 10 and twenty of 60: six-fold. With shapes known it is scatter instead."""
    columns: dict[str, Any] = {"kernel_name": ["a"] * 40, "duration_ns": [10, 60] * 20}
    if shapes:
        columns["input_shapes"] = [shapes] * 40
    found = facts(recording(columns))
    assert found["collapsed_pct"] == pct
    # Median 35, MAD 25: scatter is 106 %.
    assert found["scattered_pct"] == 100.0 - pct


@pytest.mark.parametrize(
    ("name", "is_cut"),
    [
        ("void gemm<float, 128, (Layout", True),
        ("a_kernel_with_dots...", True),
        ("void gemm<float, 128>(float*, int)", False),
        ("bool operator< <int>(T const&, T const&)", False),
        ("void f<(1 << 4), &T::operator->>(int)", False),
        ("ampere_sgemm_128x64_nn", False),
        ("--><!--<script>", False),
    ],
)
def test_names_that_were_cut(name: str, is_cut: bool) -> None:
    found = facts(recording({"kernel_name": [name], "duration_ns": [10]}))
    assert found["cut_names_pct"] == (100.0 if is_cut else 0.0)


# --- clocks ------------------------------------------------------------------------------------


def test_clocks_of_short_launches_do_not_count() -> None:
    """Below 100 µs the clock that Nsight Compute derives includes the start of the kernel."""
    columns = {
        "kernel_name": ["a", "b", "c"],
        "duration_ns": [99_999, 100_000, 100_000],
        "sm_clock_hz": [0.8e9, 1.0e9, 1.25e9],
    }
    found = facts(recording(columns))
    assert (found["slow_clock_hz"], found["fast_clock_hz"]) == (1.0e9, 1.25e9)
    assert found["clock_fall_pct"] == pytest.approx(20.0)


def test_one_odd_launch_of_many_does_not_make_a_fall() -> None:
    """One of 40 at half the clock takes less than a twentieth of the time."""
    columns = {
        "kernel_name": ["a"] * 40,
        "duration_ns": [200_000] * 40,
        "sm_clock_hz": [0.5e9] + [1.0e9] * 39,
    }
    assert facts(recording(columns))["clock_fall_pct"] == 0.0


def test_a_row_of_a_summary_weighs_as_many_launches() -> None:
    """1000 launches at 1.7 GHz and one at 1.0."""
    columns = {
        "kernel_name": ["a", "b"],
        "launch_count": [1000, 1],
        "duration_ns": [200_000] * 2,
        "sm_clock_hz": [1.7e9, 1.0e9],
    }
    assert facts(recording(columns))["clock_fall_pct"] == 0.0


A100 = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB", sm_count=108)


def test_clocks_that_move_by_one_factor_did_not_move() -> None:
    """GIVEN four launches of an A100 whose core and memory clock, cycles over time, differ by 8 % and have
    one ratio, 765 to 1215 MHz, THEN it is the time that was longer; GIVEN another ratio, clocks fell."""
    memory = [1166.43e6, 1155.16e6, 1259.85e6, 1231.44e6]
    columns: dict[str, Any] = {
        "kernel_name": ["k"] * 4,
        "duration_ns": [1_267_000_000, 2_698_000_000, 5_507_000_000, 1_869_000_000],
        "sm_clock_hz": [clock * 765 / 1215 for clock in memory],
        "dram_clock_hz": memory,
    }
    found = facts(recording(columns))
    assert (found["clock_fall_pct"], found["dram_clock_fall_pct"]) == (0.0, 0.0)
    columns["sm_clock_hz"] = [765e6] * 4
    # 1 - 1155.16 / 1259.85
    assert facts(recording(columns))["dram_clock_fall_pct"] == pytest.approx(8.31, abs=0.01)


@pytest.mark.parametrize("basis", ["timeline", "counter-tool"])
def test_a_locked_clock_is_not_held_against_the_boost(basis: Any) -> None:
    """The A100's boost is 1410 MHz; 1057.5 is three quarters of it, and about the base clock."""
    columns = {
        "kernel_name": ["a"], "duration_ns": [200_000], "device": [0], "sm_clock_hz": [1057.5e6],
        "peak_dram_bytes_per_s": [0.95 * 2039e9],
    }  # fmt: skip
    found = facts(recording(columns, time_basis=basis, devices=(A100,)))
    assert found["boost_clock_hz"] == 1410e6
    assert found.get("boost_share_pct") == (75.0 if basis == "timeline" else None)
    assert found["dram_rated_pct"] == pytest.approx(95.0)


# --- caches and peaks --------------------------------------------------------------------------


def made(**columns: float) -> Facts:
    names = (*OVER_PEAK, *measurement_quality.CACHED, *columns)
    return Facts.of((columns,), tuple(dict.fromkeys(names)))


@pytest.mark.parametrize(
    ("columns", "is_cached", "peak"),
    [
        # 1.5 times what DRAM can move, all of which fits into 40 MB of L2.
        ({"model_dram_pct": 150.0, "model_bytes": 30e6, "last_cache_bytes": 40e6}, True, 0.0),
        # 150 % of 800 MB: L2 can save 80 of them, and 135 % remain.
        ({"model_dram_pct": 150.0, "model_bytes": 800e6, "last_cache_bytes": 40e6}, False, 135.0),
        ({"model_dram_pct": 100.0, "model_bytes": 30e6, "last_cache_bytes": 40e6}, False, 0.0),
        ({"model_dram_pct": 150.0, "model_bytes": 800e6}, True, 0.0),
        ({"traffic_ratio": 0.49}, True, np.nan),
        ({"traffic_ratio": 0.5}, False, np.nan),
        ({"l2_hit_pct": 91.0, "dram_pct": 19.0}, False, 19.0),
        (
            {"l2_hit_pct": 91.0, "dram_pct": 19.0, "model_intensity": 1.0, "model_ridge": 150.0},
            True,
            19.0,
        ),
        (
            {"l2_hit_pct": 91.0, "dram_pct": 19.0, "model_intensity": 200.0, "model_ridge": 150.0},
            False,
            19.0,
        ),
        # What the model put into the DRAM column is the cache's as well.
        (
            {
                "model_dram_pct": 104.0,
                "dram_pct": 104.0,
                "model_bytes": 1e6,
                "last_cache_bytes": 4e6,
            },
            True,
            0.0,
        ),
        ({"dram_pct": 104.0}, False, 104.0),
        ({"model_flop_pct": 141.0, "compute_pct": 80.0}, False, 141.0),
        # Measured by the profiler itself on this device, and stored by a calibration of another run.
        (
            {
                "flop_attainable": 1.28,
                "roof_flops_per_s": 10e12,
                "calibrated_fp32_flops_per_s": 12.8e12,
            },
            False,
            128.0,
        ),
        ({"calibrated_dram_bytes_per_s": 2.1e12, "dram_peak_bytes_per_s": 2e12}, False, 105.0),
        ({"flop_attainable": 1.28, "roof_flops_per_s": 10e12}, False, np.nan),
        ({"dram_attainable": 1.02, "dram_peak_bytes_per_s": 2e12}, False, np.nan),
    ],
)
def test_cache_or_peak(columns: dict[str, float], is_cached: bool, peak: float) -> None:
    k = made(**columns)
    assert cached(k).tolist() == [is_cached]
    np.testing.assert_allclose(over_peak(k), [peak])
    assert not (beyond_cache_pct(k) < 0).any()


def test_the_peak_that_is_exceeded_most_is_named() -> None:
    columns = {
        "kernel_name": ["a", "b"], "duration_ns": [10, 30],
        "sm_throughput_pct": [104.0, 80.0], "dram_throughput_pct": [20.0, 101.0],
        "memory_throughput_pct": [20.0, 90.0],
    }  # fmt: skip
    found = facts(recording(columns))
    assert (found["over_peak_pct"], found["over_peak_of"]) == (104.0, "compute")
    assert found["over_peak_time_pct"] == 100.0


@pytest.mark.parametrize(("steps", "of", "pct"), [(4, "a step", 25.0), (0, "the run", 100.0)])
def test_the_working_set_is_of_a_step_or_of_the_run(steps: int, of: str, pct: float) -> None:
    """GIVEN four launches of 10 MB each and an L2 of 40 MB."""
    ns = 1_000
    columns: dict[str, Any] = {
        "kernel_name": ["k"] * 4,
        "duration_ns": [ns] * 4,
        "start_ns": [ns * number for number in range(4)],
        "device": [0] * 4,
    }
    if steps:
        columns["step"] = [str(number) for number in range(4)]
    made = recording(columns, time_basis="timeline", devices=(A100,))
    categories = row_categories(made.kernels)
    grouped = groups.group(made.kernels, categories)
    known = {name: getattr(grouped.facts, name) for name in grouped.facts.names()}
    known |= {"model_bytes": np.array([10e6]), "l2_cache_bytes": np.array([40e6])}
    grouped = replace(grouped, facts=Facts(known, 1))
    found = measurement_quality.facts_of(made, grouped, timelines(made, categories), [])
    assert found["working_set_of"] == of
    assert found["working_set_pct"] == pytest.approx(pct)


# --- bases and devices -------------------------------------------------------------------------


def test_bases_are_weighed_by_time() -> None:
    """GIVEN 90 ns with the throughput of the SM, 10 ns with one pipe only."""
    columns = {
        "kernel_name": ["a", "b"], "duration_ns": [90, 10],
        "sm_throughput_pct": [50.0, None], "pipe_fma_pct": [None, 50.0],
        "dram_throughput_pct": [10.0, 10.0],
    }  # fmt: skip
    found = facts(recording(columns))
    assert found["other_basis_pct"] == pytest.approx(10.0)
    assert [found[name] for name in ("mixed_use", "main_basis", "other_basis")] == [
        "compute", "elapsed", "pipe",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("info", "share"),
    [
        (DeviceInfo(name="NVIDIA A100-SXM4-80GB", sm_count=108), 100.0),
        # An unnamed share, as under MPS or in a green context.
        (DeviceInfo(name="NVIDIA A100-SXM4-80GB", sm_count=54), 50.0),
        (DeviceInfo(name="NVIDIA A100-SXM4-40GB MIG 1g.5gb", sm_count=14), 14 / 108 * 100),
        (DeviceInfo(name="AMD Instinct MI300X", gfx_target="gfx942", sm_count=38), 12.5),
        (DeviceInfo(gfx_target="gfx942", sm_count=38), None),
        # Both kinds of H100 print this name: the smaller is whole.
        (DeviceInfo(name="NVIDIA H100", sm_count=114), 100.0),
        (DeviceInfo(name="Some GPU", sm_count=54), None),
        # HIP counts pairs of compute units on RDNA.
        (DeviceInfo(name="AMD Radeon RX 7900 XTX", gfx_target="gfx1100", sm_count=48), None),
    ],
)
def test_a_part_of_a_device(info: DeviceInfo, share: float | None) -> None:
    columns = {"kernel_name": ["a"], "duration_ns": [10]}
    found = facts(recording(columns, devices=(info,))).get("sm_share_pct")
    if info.name is None and (device := find(gfx_target="gfx942", sm_count=38)) is not None:
        share = share_by_table_name(device)
    assert found == (None if share is None else pytest.approx(share))


def share_by_table_name(device: Device) -> float:
    """ "MI300X (38 of 304 CUs)": 38 of 304."""
    part, whole = (int(text) for text in device.name.split("(")[1].split(" CUs")[0].split(" of "))
    return part / whole * 100


def test_only_gpus_that_worked_count() -> None:
    """An agent table lists the integrated GPU beside the card that was used."""
    columns = {"kernel_name": ["a"], "duration_ns": [10], "device": [1]}
    listed = (DeviceInfo(index=0, name="gfx90c"), DeviceInfo(index=1, name="AMD Instinct MI210"))
    assert facts(recording(columns, devices=listed))["gpu_kinds"] == 1.0
    both = {"kernel_name": ["a", "b"], "duration_ns": [10, 10], "device": [0, 1]}
    assert facts(recording(both, devices=listed))["gpu_kinds"] == 2.0


# --- timelines ---------------------------------------------------------------------------------


def timeline(starts: list[int], ends: list[int], **columns: Any) -> dict[str, float | str]:
    times = {"start_ns": starts, "duration_ns": np.subtract(ends, starts).tolist()}
    names = {"kernel_name": [f"k{number}" for number in range(len(starts))]}
    return facts(recording({**names, **times, **columns}, time_basis="timeline"))


def test_overlap_counts_what_is_added_up_beyond_the_busy_time() -> None:
    """GIVEN 0-100 on one stream and 50-100 on another: 150 ns of work in 100."""
    found = timeline([0, 50], [100, 100], stream=[1, 2])
    assert found["overlap_pct"] == pytest.approx(50.0)
    assert found["busy_share_pct"] == pytest.approx(100 / 150 * 100)
    assert found["stream_overlap_pct"] == 0.0


def test_overlap_within_a_stream_is_told_apart() -> None:
    """GIVEN 0-100, 20-60 inside it, 90-150 beside its end, all on stream 7, and another stream:
    40 + 10 of 300 ns ran beside something of their own stream."""
    found = timeline([0, 20, 90, 0], [100, 60, 150, 100], stream=[7, 7, 7, 9])
    assert found["stream_overlap_pct"] == pytest.approx(50 / 300 * 100)


def test_unknown_streams_do_not_overlap() -> None:
    assert timeline([0, 20], [100, 60])["stream_overlap_pct"] == 0.0


def test_the_window_and_its_steps() -> None:
    """GIVEN a first step of 4 ms and three of 1 ms: one of warm-up is set apart, 4 of 7 ms."""
    ms = 1_000_000
    starts, ends = [0, 4 * ms, 5 * ms, 6 * ms], [4 * ms, 5 * ms, 6 * ms, 7 * ms]
    found = timeline(starts, ends, step=["0", "1", "2", "3"])
    assert (found["window_ns"], found["steady_steps"]) == (7e6, 3.0)
    assert found["warm_up_pct"] == pytest.approx(4 / 7 * 100)
    assert "steady_steps" not in timeline([0], [1_000])


def test_a_counter_tool_has_no_window() -> None:
    found = facts(recording({"kernel_name": ["a"], "start_ns": [0], "duration_ns": [10]}))
    assert {"window_ns", "overlap_pct", "warm_up_pct"} & set(found) == set()
