"""Hot lines of a kernel, and the lines that findings name: shares, bounds, and what is not known."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.runs import recording
from traceroof.core.recording import Recording
from traceroof.core.source_lines import source_table
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.lines import KernelLines, lines_of_groups
from traceroof.diagnosis.narrow import of_kernels
from traceroof.ingest.combine import combine
from traceroof.report.run.summary import commands

FILE = "/src/gemv.cu"
LOADS, WAITS = "samples_long_scoreboard", "samples_wait"


def source(*rows: dict[str, Any]) -> pa.Table:
    """A source table; a row is of launch 0 and function f unless it says otherwise."""
    filled = [{"row": 0, "function": "_Z1fPf", **row} for row in rows]
    names = {name for row in filled for name in row}
    return source_table({name: [row.get(name) for row in filled] for name in names}, len(rows))


def kernel(table: pa.Table, time: float = 1_000) -> KernelLines:
    found = lines_of_groups(table, [0], [time]).kernel(0)
    assert found is not None
    return found


def sampled(line: int | None, samples: int, **more: Any) -> dict[str, Any]:
    return {"file": FILE if line else None, "line": line, "samples": samples, **more}


# --- the lines of a kernel ---------------------------------------------------------------------


def test_instructions_of_a_line_are_added() -> None:
    """GIVEN 60 + 20 samples at line 41 and 20 at line 7 THEN 41 has 80 % of them and of the time,
    its stalls are parts of its 80 samples, and its instruction is the one with 60."""
    found = kernel(
        source(
            sampled(41, 60, address=16, instruction="LDG", **{LOADS: 60, WAITS: 0}),
            sampled(7, 20, address=32, instruction="FADD", **{LOADS: 5, WAITS: 15}),
            sampled(41, 20, address=48, instruction="STG", **{LOADS: 0, WAITS: 20}),
        )
    )
    first, second = found.lines
    assert (first.place, first.file, first.line) == ("gemv.cu:41", FILE, 41)
    assert (first.share, first.time_ns) == (0.8, 800)
    assert (first.address, first.text) == (16, "LDG")
    assert first.stalls == (("long_scoreboard", 0.75), ("wait", 0.25))
    assert first.counts["samples"] == 80
    assert (second.place, second.share, second.time_ns) == ("gemv.cu:7", 0.2, 200)
    assert (found.samples, found.lines_known, found.covered) == (100, 1.0, None)


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"file": FILE, "line": 41, "address": 16}, "gemv.cu:41"),
        ({"file": r"C:\src\gemv.cu", "line": 41}, "gemv.cu:41"),
        ({"line": 41}, "line 41"),
        ({"address": 576}, "f+0x240"),
        ({"address": 576, "ptx_line": 132}, "f+0x240"),
        ({"address": 16, "function": "void at::f<at::g<int>, 4>(int)"}, "f+0x10"),
        ({"ptx_line": 132, "ptx": "ret;"}, "f PTX:132"),
        ({"function": None, "instruction": "s_endpgm"}, "s_endpgm"),
    ],
)
def test_places(row: dict[str, Any], place: str) -> None:
    assert kernel(source({"samples": 1, **row})).lines[0].place == place


def test_launches_of_a_kernel_are_added() -> None:
    table = source(sampled(41, 60), {**sampled(41, 40), "row": 1}, {**sampled(41, 7), "row": 2})
    made = lines_of_groups(table, [0, 0, 1], [1_000, 500])
    first, second = made.kernel(0), made.kernel(1)
    assert first is not None
    assert second is not None
    assert (first.samples, second.samples) == (100, 7)
    assert lines_of_groups(table, [-1, -1, -1], []).kernel(0) is None


def test_a_row_without_a_line_stands_alone() -> None:
    found = kernel(source(sampled(41, 30), sampled(None, 70, address=0)))
    assert [one.place for one in found.lines] == ["f+0x0", "gemv.cu:41"]
    assert found.lines_known == 0.3


def test_what_was_sampled_in_part_has_no_times() -> None:
    """GIVEN 89 of the 100 samples that were due THEN the time of a line is not known."""
    whole = kernel(source(sampled(41, 90, expected_samples=100.0)))
    part = kernel(source(sampled(41, 89, expected_samples=100.0)))
    assert (whole.covered, whole.caveat, whole.lines[0].time_ns) == (0.9, "", 1_000)
    assert part.covered == 0.89
    assert part.lines[0].time_ns is None
    assert part.caveat.startswith("only 89.0 % of the kernel's time was sampled")


def test_counts_without_samples_order_the_lines() -> None:
    found = kernel(
        source({"line": 1, "instructions": 5}, {"line": 2, "instructions": 9}, {"line": 3})
    )
    assert [one.line for one in found.lines] == [2, 1, 3]
    assert [one.share for one in found.lines] == [None] * 3
    # What no instruction of the line has is unknown, not 0.
    assert found.lines[2].counts == {}
    assert found.lines_known is None


# --- findings ----------------------------------------------------------------------------------


def judged(columns: dict[str, Any], *rows: dict[str, Any]) -> Diagnosis:
    shape = {f"{what}_{axis}": [1] for what in ("grid", "block") for axis in "yz"}
    made = recording(
        {"kernel_name": ["f(float *)"], "duration_ns": [1_000_000], "grid_x": [2048],
         "block_x": [256], "registers_per_thread": [32], **shape,
         **{name: [value] for name, value in columns.items()}}
    )  # fmt: skip
    return diagnose(replace(made, source_lines=source(*rows)))


UNCOALESCED = {
    "l2_throughput_pct": 80.0, "memory_throughput_pct": 80.0, "sm_throughput_pct": 10.0,
    "dram_throughput_pct": 40.0, "load_sectors_per_request": 16.0,
}  # fmt: skip


def test_stalls_name_the_line_where_they_are() -> None:
    diagnosis = judged(
        {"stall_long_scoreboard": 0.8, "stall_wait": 0.2, "sm_throughput_pct": 10.0,
         "memory_throughput_pct": 20.0, "dram_throughput_pct": 20.0},
        sampled(41, 75, **{LOADS: 60}), sampled(7, 20, **{LOADS: 18}), sampled(9, 5, **{LOADS: 2}),
    )  # fmt: skip
    [wait] = [one for one in diagnosis.fired() if one.rule == "stall-long-scoreboard"]
    # 60, 18 and 2 of 80 samples that wait for loads; the last has under 5 % and is not named.
    assert [(one.place, one.share) for one in wait.lines] == [
        ("gemv.cu:41", 0.75),
        ("gemv.cu:7", 0.225),
    ]
    assert wait.because.endswith("; gemv.cu:41 is where they wait: 75.0 % of these samples")
    assert wait.where.source == "gemv.cu:41"
    [entry] = [one for one in diagnosis.advice if wait in one.found]
    assert commands(entry)[1:] == ["--card 1", "--lines 1"]
    bound = wait.time_saved_bound_ns
    assert bound is not None
    assert [one.bound_ns for one in wait.lines] == [int(bound * 0.75), int(bound * 0.225)]


def test_samples_of_a_part_say_so() -> None:
    diagnosis = judged(
        {"stall_long_scoreboard": 0.8, "sm_throughput_pct": 10.0, "memory_throughput_pct": 20.0,
         "dram_throughput_pct": 20.0},
        sampled(41, 20, expected_samples=1000.0, **{LOADS: 20}),
    )  # fmt: skip
    [wait] = [one for one in diagnosis.fired() if one.rule == "stall-long-scoreboard"]
    assert wait.because.endswith("(of the 2.0 % of its time that was sampled)")
    assert [one.bound_ns for one in wait.lines] == [None]


# Rule -> counts of two lines, share of the first, and what is said of it.
_MEASURES: dict[str, tuple[Any, Any, float, str]] = {
    "uncoalesced-global": (
        {"global_sectors": 96, "global_sectors_ideal": 30}, {"global_sectors": 64, "global_sectors_ideal": 30},
        66 / 100, "gemv.cu:41 moves 3.2 × what its accesses need: 66.0 % of the excess",
    ),
    "smem-bank-conflict": (
        {"shared_wavefronts": 40, "shared_wavefronts_ideal": 10}, {"shared_wavefronts": 20, "shared_wavefronts_ideal": 10},
        30 / 40, "gemv.cu:41 takes 4.0 × what its accesses need: 75.0 % of the excess",
    ),
    "register-spill": (
        {"local_sectors": 90}, {"local_sectors": 10},
        0.9, "gemv.cu:41 moves 90.0 % of the local-memory sectors",
    ),
    "thread-divergence": (
        {"instructions": 10, "thread_instructions": 80, "thread_instructions_predicated": 70},
        {"instructions": 10, "thread_instructions": 240, "thread_instructions_predicated": 200},
        240 / 320, "gemv.cu:41 runs with 8.0 of 32 threads active: 75.0 % of the idle lanes",
    ),
    "divergent-branches": (
        {"divergent_branches": 8}, {"divergent_branches": 2},
        0.8, "gemv.cu:41 has 80.0 % of the divergent branches",
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", list(_MEASURES))
def test_counted_findings_name_the_line(rule: str) -> None:
    first, second, share, says = _MEASURES[rule]
    lines = lines_of_groups(
        source(sampled(41, 1, **first), sampled(7, 1, **second)), [0], [1_000_000]
    )
    finding = next(one for one in diagnose(_plain()).findings if one.scope == "kernel")
    named = lines.named(
        replace(finding, rule=rule, state="fired", subject_index=0, time_saved_bound_ns=999)
    )
    assert named.lines[0].share == pytest.approx(share)
    assert named.because.endswith(says)
    assert sum(one.bound_ns or 0 for one in named.lines) <= 999


def test_lanes_that_are_predicated_off() -> None:
    """GIVEN warps whose threads are all active and mostly predicated off at one line THEN that is
    what the line loses."""
    table = source(
        sampled(41, 1, instructions=10, thread_instructions=320, thread_instructions_predicated=80),
        sampled(7, 1, instructions=10, thread_instructions=300, thread_instructions_predicated=300),
    )
    finding = next(one for one in diagnose(_plain()).findings if one.scope == "kernel")
    finding = replace(finding, rule="thread-divergence", state="fired", subject_index=0)
    named = lines_of_groups(table, [0], [1_000]).named(finding)
    # 240 of 240 + 20 lanes.
    assert named.lines[0].share == pytest.approx(240 / 260)
    assert "8.0 of 32 threads active and not predicated off" in named.because


def _plain() -> Recording:
    return recording({"kernel_name": ["f(float *)"], "duration_ns": [1_000_000]})


@pytest.mark.parametrize(
    ("rule", "state", "index"),
    [
        ("uncoalesced-global", "clear", 0),
        ("uncoalesced-global", "fired", 1),  # another kernel
        ("uncoalesced-global", "fired", None),
        ("low-occupancy", "fired", 0),  # nothing that a line has
        ("stall-unheard-of", "fired", 0),
        ("register-spill", "fired", 0),  # none counted
    ],
)
def test_findings_that_no_line_has_stay_as_they_are(
    rule: str, state: Any, index: int | None
) -> None:
    lines = lines_of_groups(
        source(sampled(41, 1, global_sectors=9, global_sectors_ideal=3)), [0], [1_000]
    )
    finding = next(one for one in diagnose(_plain()).findings if one.scope == "kernel")
    finding = replace(finding, rule=rule, state=state, subject_index=index)
    assert lines.named(finding) is finding


def test_lines_of_counters_beside_a_timeline() -> None:
    """GIVEN two launches of 3 ms on a timeline and the counters of one that took 1 ms under the
    profiler THEN its lines have shares of the 6 ms."""
    shape = {f"{what}_{axis}": [2] for what in ("grid", "block") for axis in "xyz"}
    counted = recording({"kernel_name": ["f(float *)"], "duration_ns": [1_000_000], **shape})
    counted = replace(counted, source_lines=source(sampled(41, 75), sampled(7, 25)))
    twice = {name: values * 2 for name, values in shape.items()}
    timeline = recording(
        {"kernel_name": ["f(float *)"] * 2, "start_ns": [0, 4_000_000],
         "duration_ns": [3_000_000] * 2, **twice},
        time_basis="timeline",
    )  # fmt: skip
    [kernel] = diagnose(combine([timeline, counted])).kernels
    assert kernel.source_lines is not None
    assert [(one.line, one.time_ns) for one in kernel.source_lines.lines] == [
        (41, 4_500_000), (7, 1_500_000),
    ]  # fmt: skip


def test_narrowing_keeps_the_lines_of_the_kernel() -> None:
    made = recording({"kernel_name": ["f()", "g()"], "duration_ns": [9_000, 1_000]})
    table = source({**sampled(41, 5), "row": 1})
    narrowed = of_kernels(diagnose(replace(made, source_lines=table)), (1,))
    assert narrowed.kernels[0].source_lines is not None
    assert narrowed.kernels[0].source_lines.samples == 5
