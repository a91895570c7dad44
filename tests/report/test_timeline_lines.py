"""Timelines in words, and findings that several timelines share."""

import pytest

from tests.diagnosis.test_findings import SLOT, diagnosed, gpu
from tests.runs import recording
from tests.timeline.test_ranks import BEHIND, EARLY, Row
from traceroof.core.kernel_table import kernel_table
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Source
from traceroof.core.units import quantity
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.report.html.fixes import fixes as fixes_of
from traceroof.report.run import markdown, summary, terminal
from traceroof.report.run.timeline_lines import timeline_lines
from traceroof.report.run.verdict import verdict


def ranks(*per_rank: list[Row], shift: int = 0) -> Diagnosis:
    """Ranks of one run; times in µs, the clock of the last rank drifts by ``shift`` per launch."""
    parts = []
    for rank, rows in enumerate(per_rank):
        drift = shift if rank == len(per_rank) - 1 else 0
        kernels = kernel_table(
            {
                "kernel_name": [
                    "ncclDevKernel_AllReduce_Sum" if category == "communication" else "gemm_k"
                    for category, *_ in rows
                ],
                "start_ns": [(start + at * drift) * 1_000 for at, (_, start, _) in enumerate(rows)],
                "duration_ns": [(end - start) * 1_000 for _, start, end in rows],
                "rank": [rank] * len(rows),
                "device": [rank] * len(rows),
                "step": ["step 1"] * 2 + ["step 2"] * 2,
            }
        )
        parts.append(Recording("test", "timeline", kernels, (Source(f"{rank}", "test", 4),)))
    return diagnose(merge(parts), rules=())


def test_one_gpu() -> None:
    """GIVEN two of ten slots of 10 µs filled, with nothing known of the host."""
    lines = dict(timeline_lines(diagnosed(gpu(0, 2), rules=())))
    assert lines == {
        "GPU": "busy 20.0 % of 100 µs",
        "Idle": "80.0 %: launch not recorded 80.0 %",
    }


def test_a_busy_gpu_is_the_limit_itself() -> None:
    lines = dict(timeline_lines(diagnosed(gpu(0, 10), rules=())))
    assert lines == {"GPU": "busy 100.0 % of 100 µs: its kernels are the limit", "Idle": "0.0 %"}


def test_several_gpus_are_told_as_a_range() -> None:
    lines = dict(timeline_lines(diagnosed(gpu(0, 2), gpu(1, 6), rules=())))
    assert lines["GPUs"] == "2, busy 20.0 % to 60.0 % of 100 µs"
    assert lines["Idle"].startswith("60.0 %: ")


def test_communication_steps_and_ranks() -> None:
    """GIVEN two ranks of 320 µs; rank 0 communicates for 120 µs, 80 of them waiting for rank 1,
    which communicates for 40; the means are 80 and 40 µs."""
    lines = dict(timeline_lines(ranks(EARLY, BEHIND)))
    assert lines["Moving data"] == "communication 25.0 %, 25.0 % exposed"
    assert lines["Steps"] == "2, median 160 µs on rank 0"
    assert lines["Ranks"] == (
        "2, waiting for each other 40 µs on average, 50.0 % of their communication; "
        "100.0 % for rank 1"
    )


def test_clocks_that_disagree_are_said() -> None:
    """GIVEN a clock that runs off by 1 ms a launch: the two collectives are 2 ms apart, 1 ms
    either side of the middle."""
    lines = dict(timeline_lines(ranks(EARLY, BEHIND, shift=1_000)))
    assert lines["Ranks"] == (
        "2, clocks apart by 1 ms after alignment (limit 100 µs): waiting is not judged"
    )


def test_a_run_without_times_has_no_lines() -> None:
    kernels = kernel_table({"kernel_name": ["a"], "duration_ns": [5]})
    found = diagnose(Recording("test", "counter-tool", kernels, (Source("a", "test", 1),)))
    assert timeline_lines(found) == []


def test_a_rule_is_told_once_for_all_timelines() -> None:
    """GIVEN three GPUs idle for 80, 60 and 40 %: the worst stands for all."""
    found = diagnose(merge([gpu(0, 4), gpu(1, 2), gpu(2, 6)]))
    (idle,) = [one for one in found.advice if one.lead.rule == "idle-in-short-gaps"]
    assert idle.subjects == ("GPU 1",)
    assert (idle.bound_ns, idle.share) == (8 * SLOT, 0.8)
    assert len([one for one in found.fired() if one.rule == "idle-in-short-gaps"]) == 3
    text = terminal.render(found, top=None)
    assert text.count("The GPU goes idle between kernels") == 1
    assert "at most 80 µs (80.0 %)" in " ".join(text.split())
    comment = markdown.render(found, top=None)
    assert comment.count("The GPU goes idle between kernels") == 1
    assert "- **Idle**: 60.0 %" in comment


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_wrap_at_the_width(width: int) -> None:
    text = terminal.render(ranks(EARLY, BEHIND, shift=1_000), width=width)
    # A command is one line, so that it can be copied.
    lines = [line for line in text.splitlines() if "collect it: " not in line]
    assert max(len(line) for line in lines) <= width
    assert "Ranks" in text


def test_savings_are_shares_of_the_wall_time() -> None:
    """GPU 0 runs 2 of its 10 slots, GPU 1 8 of 10, side by side: the wall time is 10 slots."""
    found = diagnose(merge([gpu(0, 2), gpu(1, 8)]))
    assert (found.totals.wall_ns, found.totals.span_ns) == (10 * SLOT, 20 * SLOT)
    assert summary.whole(found) == 10 * SLOT
    # GPU 0 has 8 idle ones, and the page says the same.
    assert found.advice[0].bound_ns == 8 * SLOT
    assert fixes_of(found)[0].share == "80.0 %"
    (_, saved, _) = verdict(found).figures
    assert saved.value == quantity(sum(one.bound_ns or 0 for one in found.advice), "ns")


def test_severity_and_share_have_one_base() -> None:
    """GIVEN a kernel that could be rid of 70 % of its 20 µs, in 1 s mostly idle: 1.4e-5 of it."""
    found = diagnose(
        recording(
            {
                "kernel_name": ["wait()", "wait()"], "start_ns": [0, 999_990_000],
                "duration_ns": [10_000, 10_000], "sm_throughput_pct": [10.0, 10.0],
                "memory_throughput_pct": [30.0, 30.0], "dram_throughput_pct": [30.0, 30.0],
            },
            time_basis="timeline",
        )
    )  # fmt: skip
    assert summary.whole(found) == 1_000_000_000
    assert found.totals.wall_ns == 1_000_000_000
    small = [one for one in found.advice if one.lead.scope == "kernel"]
    assert all(one.share == (one.bound_ns or 0) / 1e9 for one in small)


def test_where_too_little_ran_no_share_is_told() -> None:
    """GIVEN two kernels of 10 µs WHEN the lines are written THEN they count, and give no percentage."""
    found = diagnose(gpu(0, 2))
    assert dict(timeline_lines(found)) == {
        "GPU": "2 activities in 100 µs: too little ran to say where the time goes"
    }
    assert found.headline == "Too little ran to say where the time goes."


def test_a_wait_for_work_from_before_the_recording_is_set_apart() -> None:
    """GIVEN a kernel of 10 µs, a second one launched at 20 µs that is held until 4 ms, and 39 more of
    10 µs at once WHEN the lines are written THEN the wait has its own name, and the GPU is busy for
    410 of the 420 µs beside it (10 µs of launching)."""
    starts = [0, *range(4_000, 4_400, 10)]
    rows = {
        "kernel_name": ["k"] * 41,
        "start_ns": [one * 1_000 for one in starts],
        "duration_ns": [10_000] * 41,
        "host_launch_ns": [10_000 + at for at in range(41)],
        "host_launch_duration_ns": [1] * 41,
    }
    made = Recording("test", "timeline", kernel_table(rows), (Source("a", "test", 4),))
    lines = dict(timeline_lines(diagnose(made)))
    assert lines["GPU"].endswith("; after a wait for work that was not recorded, 97.6 %")
    assert lines["Idle"] == ("90.7 %: queued behind work that was not recorded 90.5 %")
    assert lines["Gaps"] == "3.99 ms queued behind work that was not recorded"
