"""Launches to kernel groups: exact sums, medians and weights, each with its arithmetic."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core import kernel_table
from traceroof.hardware.device_lookup import find
from traceroof.hardware.devices import Device
from traceroof.kernels import name_features
from traceroof.kernels.group_columns import GROUP_COLUMNS, VOCABULARY
from traceroof.kernels.groups import Groups, group
from traceroof.kernels.variability import SCATTER_COLUMNS


def grouped(
    columns: Mapping[str, Any],
    categories: Sequence[str] | None = None,
    devices: Mapping[int, Device] | None = None,
) -> Groups:
    """The groups of a kernel table; one kernel name for all rows where none is given."""
    length = len(next(iter(columns.values())))
    kernels = kernel_table.kernel_table({"kernel_name": ["k"] * length, **columns})
    return group(kernels, categories or ["other"] * length, devices)


def values(groups: Groups, name: str) -> list[Any]:
    facts = groups.facts.only((name,))
    return [facts.value(name, row) for row in range(len(groups))]


def a100() -> Device:
    """108 SMs, 1,555 GB/s; TFLOP/s: FP64 9.7, FP32 19.5, TF32 156, FP16 and BF16 312, INT8 624."""
    device = find("NVIDIA A100-SXM4-40GB")
    assert device is not None
    return device


# --- sums, means, medians ----------------------------------------------------------------------


def test_percentages_are_weighted_by_time() -> None:
    groups = grouped({"duration_ns": [100, 300], "sm_throughput_pct": [20.0, 60.0]})
    # (100 x 20 + 300 x 60) / 400 = 50; the plain mean would be 40.
    assert values(groups, "sm_throughput_pct") == [50.0]


def test_quantities_of_a_launch_are_averaged_per_launch() -> None:
    groups = grouped(
        {"duration_ns": [100, 300], "dram_bytes": [1000.0, 3000.0], "launch_count": [3, 1]}
    )
    # (3 x 1000 + 1 x 3000) / 4 and (3 x 100 + 300) / 4.
    assert values(groups, "dram_bytes") == [1500.0]
    assert values(groups, "duration_ns") == [150.0]
    # All bytes over all time: 6000 bytes in 600 ns.
    assert values(groups, "dram_bytes_per_s") == [pytest.approx(1e10)]


def test_a_row_of_a_summary_counts_once_per_launch() -> None:
    groups = grouped(
        {"duration_ns": [100, 700], "launch_count": [3, 1], "sm_throughput_pct": [10.0, 50.0]}
    )
    assert values(groups, "launches") == [4.0]
    assert values(groups, "time_ns") == [1000.0]
    # (300 x 10 + 700 x 50) / 1000.
    assert values(groups, "sm_throughput_pct") == [38.0]
    # Launches 100, 100, 100, 700: median 100, deviations 0, 0, 0, 600.
    assert values(groups, "median_ns") == [100.0]
    assert values(groups, "mad_ns") == [0.0]


@pytest.mark.parametrize(
    ("durations", "counts", "median", "deviation"),
    [
        ([10, 20, 90], [1, 1, 1], 20, 10),  # deviations 0, 10, 70
        ([10, 20, 40, 80], [1, 1, 1, 1], 30, 15),  # deviations 10, 10, 20, 50
        ([80, 10, 40, 20], [1, 1, 1, 1], 30, 15),
        ([10, 30], [2, 2], 20, 10),  # 10, 10, 30, 30: deviations all 10
        ([10, 30], [3, 2], 10, 0),  # 10, 10, 10, 30, 30
        ([10, None, 30], [1, 7, 1], 20, 10),  # an unknown duration has no place in the order
        ([7], [1], 7, 0),
    ],
)
def test_median_and_its_deviation(
    durations: list[int | None], counts: list[int], median: float, deviation: float
) -> None:
    groups = grouped({"duration_ns": durations, "launch_count": counts})
    assert values(groups, "median_ns") == [median]
    assert values(groups, "mad_ns") == [deviation]


def test_medians_of_interleaved_groups_do_not_mix() -> None:
    groups = grouped(
        {
            "kernel_name": ["a", "b", "a", "b", "a", "b"],
            "duration_ns": [1000, 10, 3000, 30, 2000, 20],
            "launch_count": [1, 1, 1, 5, 1, 1],
        }
    )
    # a: 1000, 2000, 3000; b: 10, 20 and five times 30.
    assert groups.names == ("a", "b")
    assert values(groups, "median_ns") == [2000.0, 30.0]
    assert values(groups, "mad_ns") == [1000.0, 0.0]


# --- unknown -----------------------------------------------------------------------------------


def test_unknown_percentages_take_no_part() -> None:
    groups = grouped({"duration_ns": [100, 900], "sm_throughput_pct": [20.0, None]})
    assert values(groups, "sm_throughput_pct") == [20.0]
    assert values(groups, "memory_pct") == [None]


def test_launches_without_a_duration_count_but_take_no_time() -> None:
    groups = grouped(
        {
            "kernel_name": ["a", "a", "b"],
            "duration_ns": [400, None, None],
            "sm_throughput_pct": [10.0, 90.0, 70.0],
        }
    )
    assert groups.names == ("a", "b")
    assert values(groups, "launches") == [2.0, 1.0]
    assert values(groups, "time_ns") == [400.0, None]
    assert values(groups, "share_pct") == [100.0, None]
    assert values(groups, "median_ns") == [400.0, None]
    # b has no time to weigh with, so its launches count equally.
    assert values(groups, "sm_throughput_pct") == [10.0, 70.0]


def test_a_table_without_kernels_has_no_groups() -> None:
    copies = grouped({"kind": ["memcpy", "memset"], "duration_ns": [5, 6]})
    assert len(copies) == 0
    assert copies.of_row.tolist() == [-1, -1]
    assert len(grouped({"kernel_name": [], "duration_ns": []})) == 0


# --- what is one group -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [
        ("kernel_name", "f", "g"),
        ("grid_x", 1, 2),
        ("block_z", 1, 2),
        ("input_shapes", "[[2, 3]]", "[[3, 2]]"),
        ("input_dtypes", '["float"]', '["half"]'),
        ("registers_per_thread", 32, 45),
        ("shared_memory_static_bytes", 1024.0, 9216.0),
        ("grid_y", 1, None),
    ],
)
def test_what_keeps_launches_apart(column: str, first: Any, second: Any) -> None:
    groups = grouped({column: [first, second, first], "duration_ns": [1, 5, 1]})
    assert len(groups) == 2
    assert groups.of_row.tolist() == [1, 0, 1]


def test_categories_keep_launches_apart() -> None:
    assert len(grouped({"duration_ns": [1, 1]}, ["gemm", "norm"])) == 2


@pytest.mark.parametrize(
    ("column", "first", "second"),
    [("stream", 7, 8), ("device", 0, 1), ("rank", 0, 1), ("registers_per_thread", 32, None)],
)
def test_what_does_not(column: str, first: Any, second: Any) -> None:
    assert len(grouped({column: [first, second], "duration_ns": [1, 1]})) == 1


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_an_unknown_constant_joins_no_group_where_several_are_known(order: Sequence[int]) -> None:
    """GIVEN launches with 32, 45 and an unknown number of registers, in any order
    THEN the third is neither the first nor the second."""
    registers, times = (32, 45, None), (1, 3, 5)
    groups = grouped(
        {
            "registers_per_thread": [registers[one] for one in order],
            "duration_ns": [times[one] for one in order],
        }
    )
    assert values(groups, "time_ns") == [5.0, 3.0, 1.0]


def test_spellings_of_one_kernel_are_one_group() -> None:
    spellings = ["void f<(int)4>(float *)", "void f<4>(float*)"]
    groups = grouped({"kernel_name": spellings, "duration_ns": [1, 1]})
    assert groups.names == ("void f<(int)4>(float *)",)


def test_groups_are_ordered_by_time_and_know_their_rows() -> None:
    groups = grouped(
        {
            "kernel_name": ["small", "copy", "big", "small", "even"],
            "kind": ["kernel", "memcpy", "kernel", "kernel", "kernel"],
            "duration_ns": [10, 1000, 60, 10, 20],
        }
    )
    assert groups.names == ("big", "small", "even")  # ties as they come in the file
    assert values(groups, "time_ns") == [60.0, 20.0, 20.0]
    assert values(groups, "share_pct") == [60.0, 20.0, 20.0]
    assert values(groups, "rank_by_time") == [1.0, 2.0, 3.0]
    assert groups.of_row.tolist() == [1, -1, 0, 1, 2]


def test_what_is_known_of_no_group_takes_no_memory() -> None:
    """GIVEN many kernels of which a file says the time alone THEN the columns that are the same for
    all of them, known or not, hold one value each."""
    names = [f"k{at}" for at in range(1000)]
    facts = grouped({"kernel_name": names, "duration_ns": list(range(1, 1001))}).facts
    full = {name for name in facts.names() if getattr(facts, name).strides != (0,)}
    assert {"time_ns", "share_pct", "rank_by_time", "median_ns"} <= full
    assert full & {"launches", "category", "sketched"} == set()


def test_numbers_that_name_something_are_never_averaged() -> None:
    groups = grouped(
        {
            "grid_x": [2**31 - 1, 2**31 - 1],
            "grid_y": [1, 1],
            "grid_z": [1, 1],
            "device": [0, 2],
            "stream": [7, 7],
            "duration_ns": [10**15 + 1, 3],
        }
    )
    assert values(groups, "grid_x") == [2**31 - 1]
    assert values(groups, "blocks") == [2**31 - 1]
    assert values(groups, "stream") == [7]
    assert values(groups, "device") == [None]


# --- what follows from the columns -------------------------------------------------------------


def test_every_column_says_what_it_is() -> None:
    assert len(VOCABULARY) == len(GROUP_COLUMNS) + len(SCATTER_COLUMNS) + len(kernel_table.COLUMNS)
    known = set(grouped({"duration_ns": [1]}).facts.names())
    from_the_name = {marker.column for marker in name_features.markers()} | {"tile_m", "tile_n"}
    from_shapes = {name for name in VOCABULARY if name.startswith("model")}
    from_shapes |= {"t_min_ns", "roof_pct", "traffic_ratio", "role"}
    computed = {entry.name for entry in GROUP_COLUMNS} - {"primary_class"} - from_the_name
    computed -= from_shapes | {"best_shape_ns", "best_shape", "least_instructions", "by_counters"}
    computed -= {"dram_chain_bytes", "dram_chain_with", "logged_clock_hz", "logged_clock_pct"}
    computed -= {"join_confidence", "join_level", "least_instructions", "mean_over_launches"}
    assert computed <= known
    assert known <= set(VOCABULARY)
    for entry in GROUP_COLUMNS:
        assert entry.meaning


def test_launch_shape() -> None:
    groups = grouped(
        {
            "grid_x": [4], "grid_y": [3], "grid_z": [2],
            "block_x": [32], "block_y": [8], "block_z": [1],
        }
    )  # fmt: skip
    assert values(groups, "blocks") == [24.0]
    assert values(groups, "threads_per_block") == [256.0]
    assert values(groups, "warp_size") == [32.0]


@pytest.mark.parametrize(
    ("columns", "waves"),
    [
        # The report's own figure, whatever else is known.
        ({"waves_per_sm": [6.4], "grid_x": [10]}, 6.4),
        # 864 blocks on 108 SMs that hold 4 each: 864 / 432. Zero is no limit.
        (
            {
                "grid_x": [864],
                "occupancy_limit_registers": [4.0],
                "occupancy_limit_warps": [8.0],
                "occupancy_limit_barriers": [0.0],
            },
            2.0,
        ),
        # Fewer blocks than SMs: 27 / 108, whatever the limits are.
        ({"grid_x": [27]}, 0.25),
        ({"grid_x": [108]}, None),
        ({"grid_x": [None]}, None),
    ],
)
def test_waves(columns: dict[str, list[Any]], waves: float | None) -> None:
    shape = {"grid_y": [1], "grid_z": [1]}
    groups = grouped({**shape, **columns}, devices={-1: a100()})
    assert values(groups, "sm_count") == [108.0]
    assert values(groups, "waves") == [waves]


def test_the_report_knows_its_multiprocessors_best() -> None:
    groups = grouped({"sm_count": [14.0], "duration_ns": [1]}, devices={-1: a100()})
    assert values(groups, "sm_count") == [14.0]


def test_dram_use_from_the_counter_or_from_bytes_and_peak() -> None:
    columns: dict[str, Any] = {
        "kernel_name": ["counter", "report", "device", "neither"],
        "duration_ns": [1000, 1000, 1000, 1000],
        "dram_throughput_pct": [70.0, None, None, None],
        "dram_read_bytes": [500_000.0, 500_000.0, 500_000.0, 500_000.0],
        "dram_write_bytes": [277_500.0, 277_500.0, 277_500.0, None],
        "peak_dram_bytes_per_s": [None, 1e12, None, None],
    }
    groups = grouped(columns, devices={-1: a100()})
    by_name = dict(zip(groups.names, values(groups, "dram_pct"), strict=True))
    # 777,500 bytes in 1 us are 777.5 GB/s: 77.75 % of 1 TB/s, 50 % of the A100's 1,555 GB/s.
    assert by_name == {
        "counter": 70.0,
        "report": pytest.approx(77.75),
        "device": pytest.approx(50.0),
        "neither": None,
    }
    bases = dict(zip(groups.names, values(groups, "dram_basis"), strict=True))
    assert bases == {
        "counter": "elapsed",
        "report": "report peak",
        "device": "nominal peak",
        "neither": None,
    }


@pytest.mark.parametrize(
    ("columns", "compute", "basis"),
    [
        ({"sm_throughput_pct": [40.0], "sm_busy_pct": [70.0]}, 40.0, "elapsed"),
        ({"sm_busy_pct": [70.0], "pipe_fma_pct": [75.0]}, 75.0, "pipe"),
        # 9.75e9 FLOP in 1 ms are 9.75 TFLOP/s, half of 19.5.
        ({"flop_fp32": [9.75e9]}, 50.0, "peak FLOP rate"),
        ({"memory_throughput_pct": [90.0]}, None, None),
    ],
)
def test_compute_use(columns: dict[str, list[Any]], compute: float | None, basis: str) -> None:
    groups = grouped({"duration_ns": [1_000_000], **columns}, devices={-1: a100()})
    found = values(groups, "compute_pct")[0]
    assert found is None if compute is None else found == pytest.approx(compute)
    assert values(groups, "compute_basis") == [basis]


def test_memory_use_and_the_busier_side() -> None:
    groups = grouped(
        {
            "kernel_name": ["a", "b", "c"],
            "duration_ns": [3, 2, 1],
            "sm_throughput_pct": [30.0, 30.0, 30.0],
            "memory_throughput_pct": [55.0, None, None],
            "dram_throughput_pct": [50.0, 20.0, None],
            "l2_throughput_pct": [None, 45.0, None],
        }
    )
    assert values(groups, "memory_pct") == [55.0, 45.0, None]
    # Half an answer is none.
    assert values(groups, "busiest_pct") == [55.0, 45.0, None]


def test_busiest_pipes() -> None:
    groups = grouped(
        {
            "kernel_name": ["a", "b", "c"],
            "duration_ns": [3, 2, 1],
            "pipe_fma_pct": [40.0, 10.0, None],
            "pipe_alu_pct": [60.0, None, None],
            "pipe_lsu_pct": [50.0, None, None],
        }
    )
    assert values(groups, "top_pipe") == ["alu", "fma", None]
    assert values(groups, "top_pipe_pct") == [60.0, 10.0, None]
    assert values(groups, "second_pipe_pct") == [50.0, None, None]


def test_operations_are_held_against_the_peak_of_their_own_precision() -> None:
    groups = grouped(
        {"duration_ns": [1_000_000], "flop_fp64": [4.85e9], "flop_fp32": [7.8e9]},
        devices={-1: a100()},
    )
    # FP64: 4.85 of 9.7 TFLOP/s; FP32, most of the operations: 7.8 of 19.5 TFLOP/s.
    assert values(groups, "flop_pct") == [pytest.approx(50.0)]
    assert values(groups, "flops") == [12.65e9]
    assert values(groups, "flop_dtype") == ["fp32"]
    assert values(groups, "flop_peak_per_s") == [19.5e12]


@pytest.mark.parametrize(
    ("dtype", "peak", "percent", "narrower"),
    [
        ("fp16", 312e12, 50.0, 2.0),  # 156 of 312 TFLOP/s; INT8 has 624
        ("tf32", 156e12, 100.0, 2.0),  # BF16 has 312
        ("int8", 624e12, 25.0, None),  # the A100 has nothing narrower
        ("fp64", 19.5e12, 800.0, None),  # the tensor rate of FP64, not the vector rate
        ("fp8_e4m3", None, None, None),  # not a type of the A100
        (None, None, None, None),
    ],
)
def test_tensor_operations(
    dtype: str | None, peak: float | None, percent: float | None, narrower: float | None
) -> None:
    groups = grouped(
        {"duration_ns": [1_000_000], "flop_tensor": [1.56e11], "tensor_dtype": [dtype]},
        devices={-1: a100()},
    )
    assert values(groups, "flop_dtype") == [dtype]
    assert values(groups, "flop_peak_per_s") == [peak]
    assert values(groups, "narrower_speedup") == [narrower]
    found = values(groups, "tensor_pct")[0]
    assert found is None if percent is None else found == pytest.approx(percent)


def test_the_tensor_pipe_counts_before_the_rate() -> None:
    groups = grouped(
        {
            "duration_ns": [1_000_000],
            "flop_tensor": [1.56e11],
            "tensor_dtype": ["fp16"],
            "pipe_tensor_pct": [61.0],
        },
        devices={-1: a100()},
    )
    assert values(groups, "tensor_pct") == [61.0]


def test_intensity_needs_bytes() -> None:
    groups = grouped(
        {
            "kernel_name": ["a", "b"],
            "duration_ns": [2, 1],
            "flop_fp32": [100.0, 100.0],
            "dram_bytes": [50.0, 0.0],
        }
    )
    assert values(groups, "intensity") == [2.0, None]


def test_peaks_of_the_device_that_ran_the_group() -> None:
    other = find("NVIDIA H100 80GB HBM3")
    assert other is not None
    columns: dict[str, Any] = {
        "kernel_name": ["on a", "on h", "on both"],
        "duration_ns": [30, 20, 10],
        "device": [0, 1, None],
    }
    groups = grouped(columns, devices={0: a100(), 1: other})
    assert values(groups, "dram_peak_bytes_per_s") == [1555e9, 3350e9, None]
    assert values(groups, "compute_capability") == [8.0, 9.0, None]
    # Where all devices are the same, it does not matter which one ran it.
    alike = grouped(columns, devices={0: a100(), 1: a100()})
    assert values(alike, "dram_peak_bytes_per_s") == [1555e9] * 3
    # A kernel of both devices has no single peak.
    both = grouped({"device": [0, 1], "duration_ns": [1, 1]}, devices={0: a100(), 1: other})
    assert values(both, "dram_peak_bytes_per_s") == [None]


# --- what holds for any table ------------------------------------------------------------------

_LAUNCH = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["kernel", "kernel", "memcpy"]),
    st.one_of(st.none(), st.integers(0, 10**6)),
    st.integers(1, 5),
    st.one_of(st.none(), st.floats(0, 100)),
)
_LAUNCHES = st.lists(_LAUNCH, min_size=1, max_size=30)
_SUMMED = ("launches", "time_ns", "median_ns", "mad_ns")


def _of(launches: Sequence[tuple[Any, ...]], scale: int = 1) -> tuple[Groups, Any]:
    names, kinds, durations, counts, percents = zip(*launches, strict=True)
    kernels = kernel_table.kernel_table(
        {
            "kernel_name": list(names),
            "kind": list(kinds),
            "duration_ns": [None if one is None else one * scale for one in durations],
            "launch_count": list(counts),
            "sm_throughput_pct": list(percents),
        }
    )
    return group(kernels, ["other"] * len(launches)), kernels


def _by_name(groups: Groups, *columns: str) -> dict[str, list[float | None]]:
    rows = zip(*(values(groups, column) for column in columns), strict=True)
    return {name: list(row) for name, row in zip(groups.names, rows, strict=True)}


@given(_LAUNCHES)
def test_nothing_is_lost_or_counted_twice(launches: list[tuple[Any, ...]]) -> None:
    groups, kernels = _of(launches)
    assert np.nansum(groups.facts.time_ns) == kernel_table.total_time_ns(kernels)
    assert sum(values(groups, "launches")) == kernel_table.launches(kernels)
    kinds = kernels["kind"].to_pylist()
    assert (groups.of_row >= 0).tolist() == [kind == "kernel" for kind in kinds]
    times = [-1.0 if time is None else time for time in values(groups, "time_ns")]
    assert [max(time, 0) for time in times] == sorted((max(t, 0) for t in times), reverse=True)


@given(_LAUNCHES, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    launches: list[tuple[Any, ...]], random: Any
) -> None:
    shuffled = launches.copy()
    random.shuffle(shuffled)
    first, second = _of(launches)[0], _of(shuffled)[0]
    assert _by_name(first, *_SUMMED) == _by_name(second, *_SUMMED)
    ours, theirs = (_by_name(one, "sm_throughput_pct") for one in (first, second))
    for name, (value,) in ours.items():
        (other,) = theirs[name]
        assert value is None and other is None or math.isclose(value or 0, other or 0, abs_tol=1e-9)


@given(_LAUNCHES, st.integers(2, 1000))
def test_a_slower_clock_scales_times_and_leaves_percentages(
    launches: list[tuple[Any, ...]], factor: int
) -> None:
    once, scaled = _of(launches)[0], _of(launches, factor)[0]
    assert values(scaled, "launches") == values(once, "launches")
    for name in ("time_ns", "median_ns", "mad_ns"):
        expected = [None if one is None else one * factor for one in values(once, name)]
        assert values(scaled, name) == expected
    np.testing.assert_allclose(
        scaled.facts.only(("sm_throughput_pct",)).sm_throughput_pct,
        once.facts.only(("sm_throughput_pct",)).sm_throughput_pct,
        atol=1e-9,  # percent: a mean of 0 % and others rounds differently with other weights
    )


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 10**9)), min_size=1, max_size=20))
def test_a_mean_lies_between_what_it_is_made_of(launches: list[tuple[float, int]]) -> None:
    percents, durations = zip(*launches, strict=True)
    groups = grouped({"duration_ns": list(durations), "sm_throughput_pct": list(percents)})
    mean = values(groups, "sm_throughput_pct")[0]
    assert min(percents) - 1e-9 <= mean <= max(percents) + 1e-9


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40))
def test_counts_and_single_rows_give_the_same_median(durations: list[int]) -> None:
    distinct = sorted(set(durations))
    single = grouped({"duration_ns": durations})
    counted = grouped(
        {"duration_ns": distinct, "launch_count": [durations.count(one) for one in distinct]}
    )
    assert values(single, "median_ns") == [float(np.median(durations))]
    assert values(counted, "median_ns") == values(single, "median_ns")
    assert values(counted, "mad_ns") == values(single, "mad_ns")
