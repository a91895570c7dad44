"""The advice: disjoint entries, specific before general, ordered by what is to be expected."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import kernel_table
from traceroof.core.topics import LATE_RANK, SLOW_LINK
from traceroof.diagnosis.advice import Entry, advice_of
from traceroof.diagnosis.findings import Finding, Lowered
from traceroof.diagnosis.nothing_to_gain import LITTLE, NO_TIME, OPEN, OpenTime
from traceroof.diagnosis.savings import Pool, pool_of
from traceroof.diagnosis.totals import pool_of_run
from traceroof.errors import TraceroofError
from traceroof.kernels.groups import Groups
from traceroof.kernels.variants import of_rows
from traceroof.timeline import Timeline

# Three kernels of 60, 30 and 10 µs: two products and a norm.
TIMES = np.array([60_000.0, 30_000.0, 10_000.0])
CATEGORIES = ("gemm", "gemm", "norm")


def timeline(**more: Any) -> Timeline:
    """200 µs, of which 100 µs busy, 60 µs idle for the host and 40 µs in exposed communication."""
    given: dict[str, Any] = {
        "rank": None, "process": 1, "device": 0, "sources": (0,), "start_ns": 0, "span_ns": 200_000,
        "busy_ns": 140_000, "idle_ns": 60_000, "compute_ns": 100_000, "communication_ns": 40_000,
        "exposed_communication_ns": 40_000, "memcpy_ns": 0, "exposed_memcpy_ns": 0,
        "idle_by_cause": {"host": 50_000, "allocate": 10_000},
    }  # fmt: skip
    return Timeline(**{**given, **more})


def pool(*lines: Timeline) -> Pool:
    return pool_of(TIMES, CATEGORIES, lines)


def finding(rule: str, topic: str, bound: int | None, **more: Any) -> Finding:
    given: dict[str, Any] = {
        "state": "fired", "scope": "kernel", "subject": "k0", "subject_index": 0,
        "severity": "medium", "confidence": 0.5, "kind": "hard", "role": "cause",
        "time_saved_likely_ns": None, "because": "because", "fix": "fix", "refute": "refute",
        "title": rule,
    }  # fmt: skip
    return Finding(rule=rule, topic=topic, time_saved_bound_ns=bound, **{**given, **more})


def on(index: int) -> dict[str, Any]:
    return {"subject": f"k{index}", "subject_index": index}


def of_line(rule: str, topic: str, bound: int, index: int = 0, **more: Any) -> Finding:
    return finding(rule, topic, bound, **{"scope": "timeline", **on(index), **more})


def told(entries: tuple[Entry, ...]) -> list[tuple[str, int | None, list[str]]]:
    return [(one.lead.rule, one.bound_ns, [f.rule for f in one.folded]) for one in entries]


def test_the_same_fix_on_two_kernels_is_one_entry_with_one_figure() -> None:
    found = [
        finding("slow", "gemm-efficiency", 20_000, **on(0)),
        finding("slow", "gemm-efficiency", 10_000, confidence=0.8, **on(1)),
    ]
    (entry,) = advice_of(found, pool())
    assert entry.subjects == ("k0", "k1")
    assert (entry.bound_ns, entry.confidence) == (30_000, 0.6)  # (20 x 0.5 + 10 x 0.8) / 30
    assert entry.expected_ns == 18_000
    assert (entry.share, entry.share_of) == (0.3, "kernel")
    assert entry.to_dict()["findings"] == ["slow:1", "slow:2"]


def test_a_second_fix_has_what_it_saves_beyond_the_first() -> None:
    """GIVEN 40 µs and 45 µs of the same 60 µs: the second adds 5, under a fifth of its 45."""
    found = [
        finding("first", "gemm-efficiency", 40_000, confidence=0.9),
        finding("second", "gemm-shape", 45_000),
        finding("other", "unfused-norm", 8_000, **on(2)),
    ]
    assert told(advice_of(found, pool())) == [
        ("first", 40_000, ["second"]),
        ("other", 8_000, []),
    ]


def test_a_slow_link_and_late_ranks_add_up() -> None:
    """GIVEN 40 µs of exposed communication, of which a link costs 20 and late ranks 15 THEN each has
    its own, and the 5 that are left are for what hides communication."""
    found = [
        finding("link", "slow-link", 20_000, confidence=0.9, scope="run"),
        finding("late", "late-rank", 15_000, confidence=0.9, scope="run"),
        of_line("hide", "exposed-communication", 5_000),
    ]
    apart = {SLOW_LINK: 20_000.0, LATE_RANK: 15_000.0}
    split = pool_of(TIMES, CATEGORIES, [timeline()], apart=apart)
    assert split.capacity[split.cells["communication"]] == 5_000
    assert told(advice_of(found, split)) == [
        ("link", 20_000, []),
        ("late", 15_000, []),
        ("hide", 5_000, []),
    ]


def test_what_is_left_is_an_entry_from_a_fifth_on() -> None:
    found = [
        finding("first", "gemm-efficiency", 40_000, confidence=0.9),
        finding("second", "gemm-shape", 50_000),
    ]
    assert told(advice_of(found, pool())) == [("first", 40_000, []), ("second", 10_000, [])]


def test_entries_are_ordered_by_likely_times_confidence() -> None:
    """30 x 0.5 = 15; 20 x 0.9 = 18; the one likely to save 10 of its 30: 10 x 0.9 = 9."""
    found = [
        finding("a", "gemm-efficiency", 30_000),
        finding("b", "gemm-shape", 20_000, confidence=0.9, **on(1)),
        of_line("c", "allocation", 10_000, time_saved_likely_ns=5_000, confidence=0.9),
    ]
    entries = advice_of(found, pool(timeline()))
    assert [(one.lead.rule, one.expected_ns) for one in entries] == [
        ("b", 18_000), ("a", 15_000), ("c", 4_500),
    ]  # fmt: skip


def test_idle_time_is_promised_once() -> None:
    """Two causes of the same 50 µs are one entry; another cause has its own time."""
    found = [
        of_line("launches", "host-bound-launch", 50_000),
        of_line("host", "host-bound-other", 45_000),
        of_line("malloc", "allocation", 10_000),
    ]
    assert told(advice_of(found, pool(timeline()))) == [
        ("launches", 50_000, ["host"]),
        ("malloc", 10_000, []),
    ]


def test_a_description_is_an_entry_only_where_no_cause_is_known() -> None:
    idle = of_line("idle", "idle", 60_000, confidence=0.9, role="class")
    cause = of_line("host", "host-bound-other", 45_000)
    assert told(advice_of([idle, cause], pool(timeline()))) == [("host", 45_000, ["idle"])]
    small = of_line("host", "host-bound-other", 5_000)
    assert told(advice_of([idle, small], pool(timeline()))) == [
        ("idle", 55_000, []),
        ("host", 5_000, []),
    ]


def test_kernels_side_by_side_promise_no_more_than_the_time_in_which_they_compute() -> None:
    """GIVEN 100 µs of kernels in 50 µs of computing, two streams: 60 + 30 µs are 50 at most."""
    line = timeline(busy_ns=90_000, compute_ns=50_000, idle_ns=110_000)
    found = [
        finding("a", "gemm-efficiency", 60_000),
        finding("b", "gemm-shape", 30_000, **on(1)),
    ]
    entries = advice_of(found, pool(line))
    assert sum(one.bound_ns or 0 for one in entries) == 50_000


def test_of_several_timelines_the_worst_stands_for_all() -> None:
    lines = (timeline(rank=0), timeline(rank=1, span_ns=210_000, idle_ns=70_000))
    found = [
        of_line("host", "host-bound-other", 40_000, 0),
        of_line("host", "host-bound-other", 50_000, 1),
    ]
    (entry,) = advice_of(found, pool(*lines))
    assert (entry.subjects, entry.bound_ns) == (("k1",), 50_000)
    assert entry.share == pytest.approx(50 / 210)


def test_time_that_passes_once_is_outside_the_sum() -> None:
    found = [
        of_line("first-launches", "cold-start", 50_000, confidence=0.9),
        of_line("malloc", "allocation", 10_000),
    ]
    line = timeline(idle_by_cause={"cold": 50_000, "allocate": 10_000})
    first, second = advice_of(found, pool(line))
    assert (first.topic, first.once, first.bound_ns) == ("cold-start", True, 50_000)
    assert (second.topic, second.once) == ("allocation", False)


@pytest.mark.parametrize(("share", "comes_first"), [(0.5, True), (0.49, False)])
def test_what_makes_the_recording_unfit_comes_first(share: float, comes_first: bool) -> None:
    lost = replace(
        finding("lost", "lost-records", None, scope="run", subject="run", subject_index=0),
        lowers=Lowered(3, share),
    )
    entries = advice_of([lost, finding("a", "gemm-efficiency", 30_000)], pool())
    assert [one.lead.rule for one in entries] == (["lost"] if comes_first else []) + ["a"]


def test_too_little_to_judge_leaves_what_passes_once() -> None:
    few = replace(
        finding("few", "too-short-to-judge", None, scope="run", subject="run", subject_index=0),
        lowers=Lowered(0, 0.0, urgent=True),
    )
    cold = of_line("first-launches", "cold-start", 50_000)
    entries = advice_of([few, cold, finding("a", "gemm-shape", 9_000)], pool(timeline()))
    assert [one.topic for one in entries] == ["too-short-to-judge", "cold-start"]


def test_what_is_likely_to_save_nothing_is_no_entry() -> None:
    found = [
        finding("a", "gemm-efficiency", 30_000),
        finding("b", "gemm-shape", 20_000, time_saved_likely_ns=0, **on(1)),
    ]
    assert told(advice_of(found, pool())) == [("a", 30_000, [])]


def test_noise_is_no_reason_to_come_first() -> None:
    noisy = replace(
        finding("noisy", "measurement", None, scope="run", subject="run", subject_index=0),
        lowers=Lowered(3, 0.9),
    )
    entries = advice_of([noisy, finding("a", "gemm-efficiency", 30_000)], pool())
    assert [one.lead.rule for one in entries] == ["a"]


def test_another_element_type_is_one_entry_for_the_run() -> None:
    found = [
        finding("no-tf32", "gemm-precision", 30_000, kind="option", **on(0)),
        finding("wide", "gemm-precision", 20_000, kind="option", **on(1)),
    ]
    (entry,) = advice_of(found, pool())
    assert (entry.bound_ns, entry.subjects) == (50_000, ("k0", "k1"))


def test_little_to_gain_is_said_in_one_entry() -> None:
    """1.5 x 0.5 and 2 x 0.5 of 100 µs are 1.75 %, under the 2 % from which a change is worth it."""
    found = [
        finding("a", "gemm-efficiency", 1_500),
        finding("b", "gemm-shape", 2_000, **on(1)),
    ]
    (entry,) = advice_of(found, pool())
    assert (entry.topic, entry.lead.rule, entry.bound_ns) == ("nothing-to-gain", LITTLE, 3_500)
    assert entry.to_dict()["findings"] == []
    assert entry.to_dict()["includes"] == ["b:2", "a:1"]


def test_little_is_little_of_the_time_in_which_the_gpu_works() -> None:
    """GIVEN 1 ms of waiting for nothing known around 140 µs of work: 3 µs are 2.1 % of the work."""
    waits = timeline(span_ns=1_200_000, idle_ns=1_060_000, idle_by_cause={"unknown": 1_060_000})
    (entry,) = advice_of([finding("a", "gemm-efficiency", 6_000)], pool(waits))
    assert entry.topic == "gemm-efficiency"
    (entry,) = advice_of([finding("a", "gemm-efficiency", 5_000)], pool(waits))
    assert entry.topic == "nothing-to-gain"


def test_where_nothing_else_is_to_say_what_is_at_its_wall_is() -> None:
    wall = {"severity": "info", "role": "class", "informs": True}
    found = [
        finding("at-wall", "dram-wall", None, **wall, **on(0)),
        finding("at-wall", "dram-wall", None, **wall, **on(1)),
        finding("known", "summary", None, **wall, **on(2)),
    ]
    (entry,) = advice_of(found, pool())
    assert (entry.topic, entry.subjects, entry.bound_ns) == ("dram-wall", ("k0", "k1"), None)


def test_what_only_informs_saves_nothing() -> None:
    """GIVEN tensor cores at their wall, which another element type would leave by 40 µs."""
    wall = finding("wall", "math-pipe", 40_000, informs=True, role="class", severity="info")
    cause = finding("a", "gemm-efficiency", 30_000, **on(1))
    assert told(advice_of([wall, cause], pool())) == [("a", 30_000, [])]
    assert told(advice_of([wall], pool())) == [("wall", None, [])]


def test_what_cannot_be_told_of_most_of_the_time_comes_before_little_to_gain() -> None:
    """GIVEN 90 of 100 µs that nobody can judge, and 1 µs to be had elsewhere."""
    blind = {"severity": "info", "role": "class", "informs": True}
    found = [
        finding("blind", "not-enough-metrics", None, **blind, **on(0)),
        finding("blind", "not-enough-metrics", None, **blind, **on(1)),
        finding("a", "unfused-norm", 1_000, **on(2)),
    ]
    assert told(advice_of(found, pool())) == [("blind", None, ["a"])]
    assert told(advice_of(found[1:], pool())) == [(LITTLE, 1_000, ["a"])]


def test_what_saves_nothing_of_its_own_goes_to_its_kernel() -> None:
    found = [
        finding("a", "gemm-efficiency", 30_000),
        finding("spills", "spills", None),
        finding("alone", "spills", None, **on(2)),
    ]
    assert told(advice_of(found, pool())) == [("a", 30_000, ["spills"]), ("alone", None, [])]


def unexplained(*rows: int) -> OpenTime:
    """What is said of kernels without a class."""
    said = finding(OPEN, "gemm-efficiency", None, severity="info", scope="run", subject="run")
    return OpenTime(rows, said)


def test_where_nothing_fired_the_kernels_without_a_class_are_the_advice() -> None:
    (entry,) = advice_of([], pool(), unexplained=unexplained(0, 1))
    assert (entry.topic, entry.lead.rule, entry.bound_ns) == ("gemm-efficiency", OPEN, None)
    assert entry.to_dict()["findings"] == []


@pytest.mark.parametrize(
    ("bound", "order"),
    [
        # 10 µs x 0.5 are less than a tenth of the 80 µs that nothing explains; 20 µs x 0.5 are not.
        (10_000, [OPEN, "a"]),
        (20_000, ["a", OPEN]),
        # 60 of the 90 µs are explained: 30 µs are no half of the run.
        (60_000, ["a"]),
        # 1.5 of 100 µs are little, whatever else is unknown.
        (1_500, [OPEN]),
    ],
)
def test_time_that_nothing_explains_comes_first_where_all_else_is_small(
    bound: int, order: list[str]
) -> None:
    """GIVEN 100 µs of kernels, 90 of them without a class, of which a rule saves a part."""
    entries = advice_of([finding("a", "gemm-shape", bound)], pool(), unexplained=unexplained(0, 1))
    assert [one.lead.rule for one in entries] == order
    assert sum(one.bound_ns or 0 for one in entries) <= bound


def test_a_timeline_without_much_to_gain_says_so_before_what_is_not_known() -> None:
    """GIVEN a GPU busy for 100 of 101 µs, 90 of them in kernels without a class, and 0.75 µs expected
    from what was found THEN the good news come first: how the GPU is kept busy was judged."""
    busy = timeline(
        span_ns=101_000, busy_ns=100_000, idle_ns=1_000, communication_ns=0,
        exposed_communication_ns=0, idle_by_cause={"host": 1_000},
    )  # fmt: skip
    entries = advice_of(
        [finding("a", "gemm-shape", 1_500)], pool(busy), unexplained=unexplained(0, 1)
    )
    assert [one.lead.rule for one in entries] == ["little-to-gain", OPEN]
    assert [one.rule for one in entries[0].folded] == ["a"]


@pytest.mark.parametrize(("bound", "first"), [(5_900, "blind"), (6_100, "a")])
def test_what_was_not_judged_comes_first_where_all_else_is_small(bound: int, first: str) -> None:
    """GIVEN a kernel of 60 of 100 µs whose metrics tell no class, beside a saving of which half is
    expected: 5.9 µs are less than a tenth of the 60 µs, 6.1 µs are not."""
    blind = {"severity": "info", "role": "class", "informs": True}
    found = [
        finding("a", "gemm-shape", 2 * bound, **on(1)),
        finding("blind", "not-enough-metrics", None, **blind, **on(0)),
    ]
    assert advice_of(found, pool())[0].lead.rule == first


def test_copies_that_were_not_judged_do_not_come_first() -> None:
    """GIVEN copies by the runtime in place of that kernel, and 5.9 µs expected of another."""
    blind = {"severity": "info", "role": "class", "informs": True}
    found = [
        finding("a", "gemm-shape", 11_800, **on(1)),
        finding("blind", "not-enough-metrics", None, **blind, **on(0)),
    ]
    copies = pool_of(TIMES, ("memcpy", "gemm", "norm"), ())
    assert advice_of(found, copies)[0].lead.rule == "a"


def test_causes_without_a_figure_come_after_what_says_that_nothing_is_known() -> None:
    """GIVEN spills on a kernel of which neither the time nor the class is known THEN that comes first;
    where the times of other kernels are known, it is no news; beside a saving, that saving comes first."""
    blind = {"severity": "info", "role": "class", "informs": True}
    found = [
        finding(NO_TIME, "not-enough-metrics", None, **blind, **on(0)),
        finding("spills", "spills", None, **on(0)),
    ]
    untimed = pool_of(np.full(3, np.nan), CATEGORIES, ())
    assert [one.lead.rule for one in advice_of(found, untimed)] == [NO_TIME, "spills"]
    assert [one.lead.rule for one in advice_of(found, pool())] == ["spills"]
    found.append(finding("a", "gemm-efficiency", 30_000, **on(1)))
    assert [one.lead.rule for one in advice_of(found, pool())] == ["a", "spills"]


def test_of_half_the_wall_time_or_less_nothing_is_said() -> None:
    """GIVEN 90 µs without a class in 200 µs of wall time."""
    assert advice_of([], pool(timeline()), unexplained=unexplained(0, 1)) == ()


def test_too_little_to_judge_leaves_nothing_to_explain() -> None:
    few = replace(
        finding("few", "too-short-to-judge", None, scope="run", subject="run"),
        lowers=Lowered(1, 0.9),
    )
    entries = advice_of([few], pool(), unexplained=unexplained(0, 1))
    assert [one.lead.rule for one in entries] == ["few"]


def test_a_wall_is_said_where_the_only_cause_on_its_kernel_saves_nothing() -> None:
    """GIVEN a kernel at the wall of memory whose waste costs no time."""
    wall = {"severity": "info", "role": "class", "informs": True}
    found = [
        finding("waste", "uncoalesced", 16_000, time_saved_likely_ns=0),
        finding("at-wall", "dram-wall", 20_000, **wall),
    ]
    assert told(advice_of(found, pool())) == [("at-wall", None, [])]


# --- real files --------------------------------------------------------------------------------


def profiles(corpus: Path) -> Iterator[Path]:
    for folder in ("torch", "pair", "amd", "ncu_csv", "nvprof"):
        yield from sorted((corpus / folder).iterdir())


@pytest.mark.corpus
def test_no_time_is_promised_twice_on_any_real_file(corpus: Path) -> None:
    """The bounds add up to no more than the wall time, without a timeline the kernel time."""
    judged = 0
    for path in profiles(corpus):
        try:
            found = traceroof.diagnose(path, calibrated=False)
        except TraceroofError:
            continue
        whole = found.totals.wall_ns or found.totals.kernel_time_ns
        promised = [one.bound_ns or 0 for one in found.advice if not one.once]
        assert sum(promised) <= whole + len(promised), path.name
        assert all(one.share is None or 0 <= one.share <= 1 for one in found.advice), path.name
        named = [name for one in found.advice for name in one.to_dict()["findings"]]
        assert len(named) == len(set(named)), f"{path.name}: a finding in two entries"
        assert json.dumps(found.to_dict())
        judged += bool(promised)
    assert judged >= 50


def test_short_and_long_waits_for_the_host_are_two_times() -> None:
    """GIVEN 50 µs of waits for the host, 30 of them in long ones WHEN a fix for each is listed THEN
    neither takes the time of the other."""
    line = timeline(facts={"pause_time_ns": 30_000.0})
    entries = advice_of(
        [
            of_line("host-bound", "host-bound-other", 30_000),
            of_line("launch-bound", "host-bound-launch", 20_000),
        ],
        pool(line),
    )
    assert told(entries) == [("host-bound", 30_000, []), ("launch-bound", 20_000, [])]


def test_the_same_time_on_two_gpus_is_saved_once() -> None:
    """GIVEN two GPUs that wait 50 and 40 µs for the host, side by side WHEN a fix is found on each
    THEN the second one is folded into the first: the wall time holds its saving already."""
    entries = advice_of(
        [
            of_line("launch-bound", "host-bound-launch", 50_000, index=0),
            of_line("cuda-graph-candidate", "small-kernels-graph", 40_000, index=1),
        ],
        pool(timeline(), timeline(device=1, idle_by_cause={"host": 40_000})),
    )
    assert told(entries) == [("launch-bound", 50_000, ["cuda-graph-candidate"])]


def test_timelines_that_nothing_tells_apart_share_a_kernel() -> None:
    """GIVEN three files that name no rank, process or GPU, each with a kernel of 10 µs on a clock that
    begins at 0 THEN what one timeline can save of the kernel is 10 of the 30 µs."""
    kernels = kernel_table(
        {
            "kernel_name": ["k"] * 3,
            "start_ns": [0] * 3,
            "duration_ns": [10_000] * 3,
            "source": [0, 1, 2],
        }
    )
    facts = Facts(
        {"time_ns": np.array([30_000.0]), "category": np.array(["gemm"], dtype=object)}, 1
    )
    grouped = Groups(facts=facts, names=("k",), of_row=np.zeros(3, dtype=np.int64))
    alike = timeline(process=None, device=None, facts={"kernel_time_ns": 10_000})
    lines = [replace(alike, sources=(source,)) for source in range(3)]
    made = pool_of_run(of_rows(kernels), grouped, lines)
    assert made.capacity[0] == pytest.approx(10_000)
    named = [replace(one, rank=rank) for rank, one in enumerate(lines)]
    ranks = kernels.set_column(
        kernels.schema.get_field_index("rank"), kernels.schema.field("rank"), [[0, 1, 2]]
    )
    assert pool_of_run(of_rows(ranks), grouped, named).capacity[0] == pytest.approx(10_000)


def test_launches_too_short_are_why_there_is_little_to_gain() -> None:
    """GIVEN launches with too little work, which are 60 of 100 µs and whose entry saves 1 %, beside one
    of 0.5 % THEN that entry is the advice; of 30 of 100 µs it says too little."""
    other = finding("a", "gemm-efficiency", 500, **on(2))
    short = finding("short", "problem-too-small", 1_000, **on(0))
    assert told(advice_of([short, other], pool())) == [("short", 1_000, ["a"])]
    assert told(advice_of([replace(short, **on(1)), other], pool())) == [
        (LITTLE, 1_500, ["short", "a"])
    ]
