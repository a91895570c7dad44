"""The figures of a timeline that rules read, on small recordings with known answers."""

import pytest

from tests.timeline.test_ranks import Row, of
from tests.timeline.test_timeline import US, only, run
from traceroof.timeline import Timeline

MS = 1_000_000


def test_parts_of_the_span_in_percent() -> None:
    """GIVEN a span of 100 with 40 idle, 30 communicating alone and 10 copying alone."""
    found = only([run(0, 20), run(20, 50, "communication"), run(90, 100, "memcpy")])
    assert found.facts["idle_pct"] == 40
    assert found.facts["exposed_communication_pct"] == 30
    assert found.facts["exposed_memcpy_pct"] == 10


def test_pauses_of_the_host_are_apart_from_late_launches() -> None:
    """GIVEN gaps of 0.4, 1 and 3 ms that late launches end: two pauses of 4 ms together."""
    starts = (0, 1.4, 3.4, 7.4)
    rows = [
        run(int(at * MS), int((at + 1) * MS), host_launch_ns=int(at * MS),
            host_launch_duration_ns=0)
        for at in starts
    ]  # fmt: skip
    facts = only(rows).facts
    assert (facts["pauses"], facts["pause_time_ns"]) == (2, 4 * MS)
    assert facts["late_launch_ns"] == pytest.approx(0.4 * MS)
    assert facts["late_launch_ns"] + facts["pause_time_ns"] == facts["idle_host_ns"]


def test_gaps_after_a_wait_are_counted() -> None:
    """GIVEN two waits that end after the GPU ran dry, and one that ended before."""
    rows = [
        run(at, at + 10_000, host_launch_ns=at - 100, host_launch_duration_ns=50)
        for at in (0, 50_000, 100_000, 150_000)
    ]
    waits = [
        ("cudaStreamSynchronize", 5_000, 20_000),
        ("cudaStreamSynchronize", 55_000, 70_000),
        ("cudaStreamSynchronize", 101_000, 102_000),
    ]
    assert only(rows, waits).facts["gaps_after_sync"] == 2


@pytest.mark.parametrize(
    ("collective", "factor"),
    [("allreduce", 2 * 3 / 4), ("_allgather_base", 3 / 4), ("broadcast", 1.0)],
)
def test_bus_bandwidth_is_that_of_the_fastest_large_collective(
    collective: str, factor: float
) -> None:
    """GIVEN 32 MiB among 4 ranks in 2 and 1 ms, and a small one: what a link carries in 1 ms."""
    size = 32 << 20
    rows = [
        run(start, end, "communication", message_bytes=bytes_, group_size=4, collective=collective)
        for start, end, bytes_ in (
            (0, 2 * MS, size),
            (3 * MS, 4 * MS, size),
            (5 * MS, 5 * MS + 1, 8),
        )
    ]
    facts = only(rows).facts
    assert facts["large_collectives"] == 2
    assert facts["large_collective_time_ns"] == 3 * MS
    assert facts["bus_bytes_per_s"] == pytest.approx(size * factor / 1e-3)


def test_no_bandwidth_without_a_group_or_a_large_message() -> None:
    rows = [run(0, 10, "communication", message_bytes=1 << 30), run(20, 30, "communication")]
    assert "bus_bytes_per_s" not in only(rows).facts


def test_forward_passes_of_data_parallel_are_counted() -> None:
    """The distributed one has a longer name and is none."""
    spans = [
        ("annotation", "DataParallel.forward", 0, 5),
        ("annotation", "DistributedDataParallel.forward", 5, 9),
    ]
    assert only([run(0, 10)], spans=spans).facts["data_parallel_calls"] == 1


def test_overlap_compares_equal_work_only() -> None:
    """GIVEN a kernel of one name that runs a small shape alone and a large one beside
    communication: no slowdown; WHEN both shapes are the same: 30 / 10."""

    def rows(shape: str) -> list[dict[str, object]]:
        alone = [run(at, at + 10, input_shapes="[[8]]") for at in (0, 20, 40)]
        under = [run(at, at + 30, input_shapes=shape) for at in (100, 140, 180)]
        return [*alone, *under, run(100, 220, "communication", kernel_name="n", stream=2)]

    assert "overlap_slowdown" not in only(rows("[[64]]")).facts
    assert only(rows("[[8]]")).facts["overlap_slowdown"] == 3


def test_overlap_says_nothing_from_a_small_part_of_it() -> None:
    """GIVEN equal kernels for 45 of 1,045 ns beside communication: less than a quarter."""
    alone = [run(at, at + 10, kernel_name="a") for at in (0, 20, 40)]
    under = [run(at, at + 15, kernel_name="a") for at in (100, 120, 140)]
    other = run(200, 1200, kernel_name="b")
    rows = [*alone, *under, other, run(100, 1300, "communication", kernel_name="n", stream=2)]
    assert "overlap_slowdown" not in only(rows).facts


def test_imbalance_that_changes_sides_is_seen_step_by_step() -> None:
    """GIVEN ranks that compute 100 and 140 µs, then 140 and 100: the same in all, but each step
    goes at the pace of 140 where the mean is 120."""
    first: list[Row] = [("gemm", 0, 100), ("gemm", 150, 290)]
    second: list[Row] = [("gemm", 0, 140), ("gemm", 150, 250)]
    found = of([first, second], [0, 0], step=["step 1", "step 2"])
    assert found is not None
    assert found.facts["compute_imbalance"] == 0
    assert found.facts["step_imbalance"] == pytest.approx(20 / 120)
    assert found.facts["compute_over_mean_ns"] == 40_000


@pytest.mark.parametrize(("after_ns", "cause"), [(MS - 1, "sync"), (MS, "host")])
def test_what_the_host_does_long_after_a_wait_is_its_own(after_ns: int, cause: str) -> None:
    """GIVEN a wait that ends at 103 µs, when the GPU has run dry at 100, and a launch 1 ms later."""
    launch = 103_000 + after_ns
    rows = [
        run(0, 100_000, host_launch_ns=0, host_launch_duration_ns=5_000),
        run(launch + 9_000, launch + 50_000, host_launch_ns=launch, host_launch_duration_ns=5_000),
    ]
    found = only(rows, [("cudaStreamSynchronize", 20_000, 103_000)])
    # The wait took 83 µs: without it the host would have been so much earlier.
    charged = 83_000 if cause == "sync" else launch - 100_000
    assert found.idle_by_cause[cause] == charged


def test_a_long_wait_before_a_short_gap_costs_the_gap_and_the_launch() -> None:
    """GIVEN a wait of 83 µs until 103 µs, and a launch at 110 that takes effect at 119 WHEN the 19 µs
    since 100 µs are divided THEN all of them are the wait's."""
    rows = [
        run(0, 100_000, host_launch_ns=0, host_launch_duration_ns=5_000),
        run(119_000, 150_000, host_launch_ns=110_000, host_launch_duration_ns=5_000),
    ]
    found = only(rows, [("cudaStreamSynchronize", 20_000, 103_000)])
    assert found.idle_by_cause["sync"] == 19_000


def test_before_the_first_kernel_of_a_cold_process_all_is_set_up() -> None:
    """GIVEN a copy, 40 ms in which nothing was recorded, and a first launch call of 2 ms WHEN its idle
    time is divided THEN all until that launch took effect is cold; without such a call it is the
    host's."""
    copy = run(0, MS, "memcpy", host_launch_ns=0, host_launch_duration_ns=5_000)

    def with_first(launch_ns: int) -> Timeline:
        first = run(
            43 * MS,
            44 * MS,
            host_launch_ns=41 * MS,
            host_launch_duration_ns=launch_ns,
            kernel_name="first",
        )
        return only([copy, first])

    assert with_first(2 * MS).idle_by_cause["cold"] == 42 * MS
    assert with_first(5_000).idle_by_cause["cold"] == 0


@pytest.mark.parametrize(("at", "cause"), [(50, "cold"), (900, "unknown")])
def test_a_start_without_host_calls_shows_by_its_gaps(at: int, cause: str) -> None:
    """GIVEN 1,000 kernels of 10 µs, and one gap of 500 ms before the one at a place WHEN no launch was
    recorded THEN it is the start where a twentieth of the kernels came before it, and of unknown
    cause near the end."""
    rows = [
        run(start + 10_000 * one, start + 10_000 * (one + 1))
        for one in range(1_000)
        for start in [500 * MS if one >= at else 0]
    ]
    found = only(rows)
    assert found.idle_by_cause[cause] == 500 * MS == found.idle_ns


@pytest.mark.parametrize(("steady_gap_ms", "cause"), [(0, "cold"), (200, "unknown")])
def test_before_the_first_kernel_a_short_recording_without_host_calls_is_starting(
    steady_gap_ms: int, cause: str
) -> None:
    """GIVEN a copy, the first kernel 500 ms later, another one after a gap WHEN no launch was recorded
    THEN the wait for the first kernel is the start, unless more than a fifth of the time in long
    gaps comes later."""
    later = 501 + steady_gap_ms
    rows = [
        run(0, 10_000, "memcpy"),
        run(500 * MS, 501 * MS),
        run(later * MS, (later + 1) * MS),
    ]
    found = only(rows)
    assert found.idle_by_cause[cause] >= 499 * MS
    assert found.facts["long_idle_unknown_ns"] == (0 if cause == "cold" else found.idle_ns)


@pytest.mark.parametrize(("pause_ms", "counts"), [(3, True), (8, False)])
def test_pauses_among_more_short_waits_are_launching(pause_ms: int, counts: bool) -> None:
    """GIVEN nine late launches of 0.5 ms each and one pause WHEN the pause is less than the 4.5 ms of
    the others THEN it is more of the same, else a cause of its own."""
    rows, at = [run(0, 10_000, host_launch_ns=-5_000, host_launch_duration_ns=1_000)], 10_000
    for wait in [500_000] * 9 + [pause_ms * MS]:
        at += wait
        rows.append(run(at, at + 10_000, host_launch_ns=at - 2_000, host_launch_duration_ns=1_000))
        at += 10_000
    facts = only(rows).facts
    assert ("launch_pauses_ns" in facts) == counts
    assert facts["pause_time_ns"] == pytest.approx(pause_ms * MS, abs=2_000)


@pytest.mark.parametrize(
    ("times", "growth"),
    [
        # Each 20 launches: slower by a fifth, quarter by quarter.
        ([100, 105, 112, 120], 20.0),
        # It changes once and goes back: no drift.
        ([100, 130, 100, 120], 0.0),
        ([120, 115, 110, 100], 0.0),
    ],
)
def test_equal_kernels_that_get_slower(times: list[int], growth: float) -> None:
    """GIVEN five launches of each time, us, of one kernel WHEN the quarters are compared THEN a rise
    from quarter to quarter is drift."""
    rows, at = [], 0
    for time in times:
        for _ in range(5):
            rows.append(run(at, at + time * US))
            at += (time + 1) * US
    facts = only(rows).facts
    assert facts["kernel_growth_pct"] == pytest.approx(growth)
    excess = sum(5 * (time - times[0]) for time in times) if growth else 0
    assert facts["kernel_growth_ns"] == pytest.approx(excess * US)


def test_what_few_kernels_do_again_shows_no_drift() -> None:
    """GIVEN 16 equal launches of 40 us beside one kernel of 1 ms WHEN the equal ones are less than
    half of the kernel time THEN nothing is said; nor of 15 launches."""
    equal = [run(50 * US * at, (50 * at + 40) * US) for at in range(16)]
    other = run(900 * US, 1_900 * US, kernel_name="other")
    assert "kernel_growth_pct" in only(equal).facts
    assert "kernel_growth_pct" not in only([*equal, other]).facts
    assert "kernel_growth_pct" not in only(equal[1:]).facts


@pytest.mark.parametrize(
    ("operators", "named"),
    [
        (["aten::item", "aten::item"], "aten::item"),
        (["aten::item", "aten::nonzero"], "aten::item"),
        (["aten::item", "aten::nonzero", "aten::to"], None),
        ([None, None], None),
    ],
)
def test_the_operator_behind_the_waits(operators: list[str | None], named: str | None) -> None:
    """GIVEN copies that the host waits for, each with a kernel 20 µs later WHEN one operator made
    half of them or more THEN it is named."""
    rows = []
    for at, operator in enumerate(operators):
        begin = at * MS
        rows += [
            run(
                begin, begin + 50_000, "memcpy", operator_path=operator,
                host_launch_ns=begin, host_launch_duration_ns=52_000,
            ),
            run(
                begin + 70_000, begin + MS, host_launch_ns=begin + 65_000,
                host_launch_duration_ns=1_000,
            ),
        ]  # fmt: skip
    assert only(rows).sync_operator == named
