"""What subjects are called, and what timelines are told beside their own figures."""

import pytest

from traceroof.scopes.subjects import of_timelines, timeline_names
from traceroof.timeline import Timeline
from traceroof.timeline.idle import Gap


def line(
    rank: int | None = None,
    device: int | None = None,
    process: int | None = None,
    start: int = 0,
    gaps: tuple[Gap, ...] = (),
) -> Timeline:
    return Timeline(
        rank=rank, process=process, device=device, sources=(0,), start_ns=start, span_ns=10,
        busy_ns=10, idle_ns=0, compute_ns=10, communication_ns=0, exposed_communication_ns=0,
        memcpy_ns=0, exposed_memcpy_ns=0, idle_by_cause={}, gaps=gaps, facts={"span_ns": 10.0},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ([line(rank=3, device=1)], ["GPU 1"]),
        ([line()], ["GPU"]),
        ([line(0, 5, 70), line(1, 6, 71)], ["rank 0", "rank 1"]),
        ([line(None, 5, 70), line(None, 6, 70)], ["GPU 5", "GPU 6"]),
        ([line(None, 5, 70), line(None, 5, 71)], ["process 70", "process 71"]),
        ([line(0, 5), line(0, 6), line(1, 5)], ["rank 0, GPU 5", "rank 0, GPU 6", "rank 1, GPU 5"]),
    ],
)
def test_the_fewest_words_that_tell_timelines_apart(
    found: list[Timeline], names: list[str]
) -> None:
    assert timeline_names(found) == names


def test_two_windows_of_one_gpu_have_names_of_their_own() -> None:
    found = [line(0, 1, 7, start=5), line(0, 1, 7, start=900)]
    assert len({*timeline_names(found)}) == 2


def test_the_worst_late_launch_says_what_the_host_did() -> None:
    """The longest gap of that cause counts, and a call that nobody recorded is said to be one."""
    gaps = (
        Gap(0, 90, "sync", "a", "b", "cudaStreamSynchronize"),
        Gap(0, 50, "host", "a", "b", "aten::linear"),
        Gap(0, 40, "host", "a", "b", None),
    )
    facts = of_timelines([line(gaps=gaps), line(gaps=gaps[2:]), line(gaps=gaps[:1])]).facts
    assert facts.late_gap_ns.tolist()[:2] == [50, 40]
    assert facts.late_gap_host.tolist() == ["aten::linear", "code that was not recorded", None]
    assert facts.value("late_gap_ns", 2) is None
    assert facts.value("waiting_ns", 0) is None
