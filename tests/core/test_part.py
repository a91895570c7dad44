"""A part of a recording, chosen by steps, by a range, by a rank."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.timeline.test_timeline import recording, run
from traceroof.core.part import Part, part_of
from traceroof.core.recording import Recording
from traceroof.errors import TraceroofError
from traceroof.timeline import timelines

US = 1_000


def two_ranks() -> Recording:
    """Ranks 0 and 1 (processes 7 and 8): steps 5, 6, 7 of 100 us, each with a kernel of 40 us
    launched 10 us before it; in step 6 of rank 0 one whose launch is not known."""
    rows: list[dict[str, Any]] = []
    for rank in (0, 1):
        for place in range(3):
            start = (100 * place + 20) * US
            rows.append(
                run(start, start + 40 * US, rank=rank, process_id=7 + rank, device=rank,
                    step=f"ProfilerStep#{5 + place}", host_launch_ns=start - 10 * US,
                    host_launch_duration_ns=5 * US)
            )  # fmt: skip
    rows.insert(2, run(165 * US, 170 * US, rank=0, device=0))
    spans = [
        ("step", f"ProfilerStep#{5 + at}", 100 * at * US, 100 * (at + 1) * US) for at in range(3)
    ]
    spans += [
        ("annotation", "forward", (100 * at + 5) * US, (100 * at + 20 + at) * US) for at in range(3)
    ]
    calls = [("aten::mm", (100 * at + 8) * US, (100 * at + 16) * US) for at in range(3)]
    return recording(rows, calls, spans)


def starts(found: Recording) -> list[int]:
    return [one // US for one in found.kernels["start_ns"].to_pylist()]


@pytest.mark.parametrize(
    ("steps", "kept"),
    [("6", [120, 120]), ("6:7", [120, 165, 220, 120, 220]), (":5", [20, 20]), ("7:", [220, 220])],
)
def test_steps_by_number_both_ends_included(steps: str, kept: list[int]) -> None:
    found = part_of(two_ranks(), Part(steps=steps))
    assert starts(found) == kept
    assert found.sources[0].launches == len(kept)
    assert "judged: " in str(found.notes[-1])


def test_what_no_step_launched_stays_between_steps() -> None:
    """165 us lies between the kernels of steps 6 and 7 of its file."""
    assert 165 in starts(part_of(two_ranks(), Part(steps="6:7")))
    assert 165 not in starts(part_of(two_ranks(), Part(steps="5:6")))


def test_what_another_step_left_to_run_is_busy_time_and_no_step() -> None:
    """GIVEN a kernel of step 5 that runs at 130 us, in step 6, and one at 90 us, before it WHEN step 6
    is judged THEN the first is busy time of no step, and the call of the second lost no record."""
    rows = [
        run(begin * US, (begin + 5) * US, step=f"ProfilerStep#{step}", correlation_id=number,
            host_launch_ns=(30 + number) * US, host_launch_duration_ns=US)
        for number, (step, begin) in enumerate([(5, 20), (5, 90), (5, 130), (6, 120), (6, 140)], 1)
    ]  # fmt: skip
    calls = [("cudaLaunchKernel", (30 + at) * US, (31 + at) * US) for at in range(1, 6)]
    given = recording(rows, calls)
    ids = pa.array(range(1, 6), pa.int64())
    at = given.host_calls.schema.get_field_index("correlation_id")
    given = replace(given, host_calls=given.host_calls.set_column(at, "correlation_id", ids))
    found = part_of(given, Part(steps="6"))
    assert sorted(starts(found)) == [120, 130, 140]
    assert found.host_calls["correlation_id"].to_pylist() == [3, 4, 5]
    (one,) = timelines(found, ["gemm"] * 3)
    assert (one.busy_ns, one.idle_ns) == (15 * US, 10 * US)
    assert [step.name for step in one.steps] == ["ProfilerStep#6"]


def test_a_rank_with_what_its_process_did() -> None:
    found = part_of(two_ranks(), Part(rank=1))
    assert starts(found) == [20, 120, 220]
    assert found.host_calls.num_rows == 0  # they are process 7's
    assert part_of(two_ranks(), Part(rank=0)).host_calls.num_rows == 3


def test_a_range_is_one_of_its_occurrences() -> None:
    """Ranges of 15, 16 and 17 us: the second is the median one."""
    assert starts(part_of(two_ranks(), Part(rank=0, range="forward"))) == [120]
    assert starts(part_of(two_ranks(), Part(rank=0, range="FORW@3"))) == [220]


def test_the_timeline_of_a_part_is_its_own() -> None:
    found = part_of(two_ranks(), Part(rank=0, steps="5"))
    (one,) = timelines(found, ["gemm"])
    assert (one.span_ns, one.idle_ns, [step.name for step in one.steps]) == (
        40 * US, 0, ["ProfilerStep#5"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("part", "why", "hint"),
    [
        (Part(steps="9"), "no step of this recording is in 9", "ProfilerStep#5, ProfilerStep#6"),
        (Part(steps="x"), "--steps x names no steps", "A:B"),
        (Part(rank=3), "there is no rank 3", "ranks: 0, 1"),
        (Part(range="nope"), "no range is called nope", "forward"),
        (Part(range="forward@4"), "no occurrence 4 of forward", "occurs 3 times"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(part: Part, why: str, hint: str) -> None:
    with pytest.raises(TraceroofError, match=why) as caught:
        part_of(two_ranks(), part)
    assert hint in (caught.value.hint or "")
