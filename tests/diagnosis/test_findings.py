"""Findings across scopes: what a timeline says of kernels, and figures of measured intervals."""

import re

import pytest

from tests.diagnosis.test_diagnosis import made, share
from tests.timeline.test_ranks import BEHIND, EARLY
from traceroof.core.kernel_table import kernel_table
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import Recording, Source
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding
from traceroof.rule import Rule

SLOT = 10_000


def gpu(device: int, busy: int, *, tiny_ns: int = SLOT) -> Recording:
    """One GPU over ten slots of 10 µs, ``busy`` of them filled, all with 50 % compute use: kernel
    ``k`` fills a slot, the last one belongs to the kernel ``tiny``."""
    starts = [*range(busy - 1), 9]
    durations = [*[SLOT] * (busy - 1), tiny_ns]
    # The last kernel ends with its slot, so that the span is always ten slots.
    ends = [(start + 1) * SLOT for start in starts]
    columns = {
        "kernel_name": [*["k"] * (busy - 1), "tiny"],
        "start_ns": [end - one for end, one in zip(ends, durations, strict=True)],
        "duration_ns": durations,
        "device": [device] * busy,
        "process_id": [device] * busy,
        "sm_throughput_pct": [50.0] * busy,
        "memory_throughput_pct": [10.0] * busy,
    }
    return Recording(
        "test", "timeline", kernel_table(columns), (Source(f"{device}.json", "test", busy),)
    )


IDLE = made(
    "idle",
    scope="timeline",
    needs=("idle_pct",),
    when=lambda t: t.idle_pct > 50,
    because="idle",
    saves=lambda t, peak: t.idle_pct / 100,
    hides={"kernel": lambda k: k.median_ns < 5_000},
)


def states(found: Diagnosis, rule: str) -> dict[str, tuple[str, str | None]]:
    return {
        one.subject: (one.state, one.suppressed_by) for one in found.findings if one.rule == rule
    }


def diagnosed(*gpus: Recording, rules: tuple[Rule, ...]) -> Diagnosis:
    return diagnose(merge(gpus), rules=list(rules))


def test_a_timeline_hides_what_it_explains() -> None:
    """GIVEN a GPU idle for 75.1 of 100 µs: a kernel of 4.9 µs is not worth a finding, one of 10 µs
    is; WHEN the GPU is busy both are."""
    rule = made(saves=share(1.0))
    idle = diagnosed(gpu(0, 3, tiny_ns=4_900), rules=(IDLE, rule))
    assert states(idle, "made") == {"k": ("fired", None), "tiny": ("suppressed", "idle")}
    busy = diagnosed(gpu(0, 9, tiny_ns=4_900), rules=(IDLE, rule))
    assert states(busy, "made") == {"k": ("fired", None), "tiny": ("fired", None)}


@pytest.mark.parametrize(
    ("busy", "state"),
    [((3, 9), ("suppressed", "idle")), ((3, 9, 9), ("fired", None))],
)
def test_it_hides_only_where_it_holds_for_half_of_the_time(
    busy: tuple[int, ...], state: tuple[str, str | None]
) -> None:
    """GIVEN one GPU of two, then one of three, that is idle most of the time."""
    gpus = [gpu(at, one, tiny_ns=4_000) for at, one in enumerate(busy)]
    found = diagnosed(*gpus, rules=(IDLE, made(saves=share(1.0))))
    assert states(found, "made")["tiny"] == state


def only(found: Diagnosis, rule: str) -> Finding:
    (one,) = [finding for finding in found.findings if finding.rule == rule]
    return one


def test_measured_intervals_have_a_bound_and_no_likely_figure() -> None:
    """No ceiling enters, so nothing is less sure for want of a calibration: 0.9, not 0.72."""
    found = only(diagnosed(gpu(0, 2), rules=(IDLE,)), "idle")
    assert (found.time_saved_bound_ns, found.time_saved_likely_ns) == (8 * SLOT, None)
    assert found.confidence == 0.9


def test_a_ceiling_that_enters_a_run_s_saving_gives_both_figures() -> None:
    rule = made(
        "use", scope="run", needs=("busiest_pct",), when=lambda k: k.busiest_pct > 0, because="use",
        saves=lambda k, peak: 1 - k.busiest_pct / (100 * peak.compute),
    )  # fmt: skip
    found = only(diagnosed(gpu(0, 2), rules=(rule,)), "use")
    assert found.time_saved_bound_ns == 5 * SLOT
    assert found.time_saved_likely_ns == round((1 - 0.5 / 0.8) * 10 * SLOT)
    assert found.confidence == 0.72


def test_communication_is_told_without_the_waiting_for_other_ranks() -> None:
    """GIVEN rank 0 waiting 80 of its 120 µs in collectives: 40 of 320 µs are transfer, 12.5 %."""
    parts = []
    for rank, rows in enumerate((EARLY, BEHIND)):
        kernels = kernel_table(
            {
                "kernel_name": [
                    "ncclDevKernel_AllReduce_Sum" if category == "communication" else "gemm_k"
                    for category, *_ in rows
                ],
                "start_ns": [start * 1_000 for _, start, _ in rows],
                "duration_ns": [(end - start) * 1_000 for _, start, end in rows],
                "rank": [rank] * len(rows),
                "device": [rank] * len(rows),
            }
        )
        parts.append(Recording("test", "timeline", kernels, (Source(f"{rank}", "test", 4),)))
    found = [one for one in diagnose(merge(parts)).findings if one.rule == "exposed-comm"]
    assert {one.subject: one.time_saved_bound_ns for one in found} == {
        "rank 0": 40_000, "rank 1": 40_000,
    }  # fmt: skip
    because = next(one.because for one in found if one.subject == "rank 0")
    assert re.search("waiting for other ranks: 80 µs", because)
