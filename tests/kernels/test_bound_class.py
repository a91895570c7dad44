"""Exactly one class for every kernel group, by the order of the questions."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceroof.core.facts import Facts
from traceroof.hardware.ceilings import NOMINAL, UNCALIBRATED, Attainable
from traceroof.kernels.bound_class import CLASSES, COLUMNS, primary_class


def class_of(**known: Any) -> str:
    """The class of a kernel of 1 ms that is the longest of the run unless said otherwise."""
    subject = {"category": "other", "median_ns": 1e6, "rank_by_time": 1.0, **BASES, **known}
    return str(primary_class(Facts.of((subject,), COLUMNS))[0])


BASES = {"dram_basis": "elapsed", "compute_basis": "elapsed"}


# --- every branch, on both sides of its threshold ----------------------------------------------


@pytest.mark.parametrize(
    ("category", "expected"),
    [("communication", "communication"), ("memcpy", "copy"), ("memset", "copy")],
)
def test_links_are_not_judged_by_dram(category: str, expected: str) -> None:
    assert class_of(category=category, dram_pct=95.0, compute_pct=90.0, memory_pct=95.0) == expected
    assert class_of(category=category) == expected


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, "not-evaluable"),
        ({"compute_pct": 79.9}, "not-evaluable"),
        ({"memory_pct": 99.0}, "not-evaluable"),
        ({"dram_pct": 80.0}, "not-evaluable"),
        ({"l2_throughput_pct": 79.9}, "not-evaluable"),
        # One unit at its wall is enough: nothing else can be the limit.
        ({"compute_pct": 80.0}, "compute-bound"),
        ({"dram_pct": 80.1}, "dram-bound"),
        ({"l2_throughput_pct": 80.0}, "l2-bound"),
        ({"l1_pct": 80.0}, "l1-bound"),
    ],
)
def test_what_the_file_must_hold(known: Mapping[str, float], expected: str) -> None:
    assert class_of(**known) == expected


@pytest.mark.parametrize(
    ("median_ns", "rank", "expected"),
    [
        (4999.0, 2.0, "launch-bound"),
        (5000.0, 2.0, "dram-bound"),
        (4999.0, 1.0, "dram-bound"),
        (None, 2.0, "dram-bound"),
    ],
)
def test_short_kernels_unless_they_are_the_longest(
    median_ns: float | None, rank: float, expected: str
) -> None:
    known = {"dram_pct": 90.0, "memory_pct": 90.0, "compute_pct": 10.0}
    assert class_of(median_ns=median_ns, rank_by_time=rank, **known) == expected


@pytest.mark.parametrize(
    ("dram", "compute", "expected"),
    [
        (80.0, 20.0, "memory-leaning"),
        (80.1, 20.0, "dram-bound"),
        (20.0, 79.9, "compute-leaning"),
        (20.0, 80.0, "compute-bound"),
        # Both at their wall: the larger, or both within 5 points.
        (90.0, 84.9, "dram-bound"),
        (90.0, 85.0, "balanced"),
        (85.0, 90.0, "balanced"),
        (85.0, 90.1, "compute-bound"),
        # Only one at its wall, however near the other.
        (80.0, 80.0, "compute-bound"),
        (80.1, 79.9, "dram-bound"),
    ],
)
def test_walls_of_dram_and_compute(dram: float, compute: float, expected: str) -> None:
    assert class_of(dram_pct=dram, memory_pct=dram, compute_pct=compute) == expected


def test_a_busy_l1_of_an_idle_kernel_is_no_wall() -> None:
    known = {"compute_pct": 30.0, "dram_pct": 10.0, "l1_pct": 85.0}
    assert class_of(memory_pct=59.9, **known) == "latency-bound"
    assert class_of(memory_pct=60.0, **known) == "l1-bound"


@pytest.mark.parametrize(
    ("l2", "l1", "dram", "expected"),
    [
        (80.0, 30.0, 59.9, "l2-bound"),
        (79.9, 30.0, 59.9, "memory-leaning"),
        (80.0, 30.0, 60.0, "memory-leaning"),
        (30.0, 80.0, 59.9, "l1-bound"),
        (30.0, 80.0, 60.0, "memory-leaning"),
        (85.0, 90.0, 10.0, "l1-bound"),
        (90.0, 85.0, 10.0, "l2-bound"),
        (90.0, 90.0, 10.0, "l2-bound"),
        (None, 90.0, None, "l1-bound"),
        (90.0, None, None, "l2-bound"),
    ],
)
def test_walls_of_the_caches(
    l2: float | None, l1: float | None, dram: float | None, expected: str
) -> None:
    assert (
        class_of(
            l2_throughput_pct=l2,
            l1_pct=l1,
            dram_pct=dram,
            memory_pct=75.0,
            compute_pct=30.0,
        )
        == expected
    )


@pytest.mark.parametrize(
    ("compute", "memory", "expected"),
    [
        (60.0, 50.0, "compute-leaning"),
        (60.0, 50.1, "balanced"),
        (50.0, 60.0, "memory-leaning"),
        (50.1, 60.0, "balanced"),
        (59.9, 59.9, "latency-bound"),
        (60.0, 59.9, "balanced"),
        (0.0, 0.0, "latency-bound"),
        (0.0, 60.0, "memory-leaning"),
        # Memory at 80 % and more is at its wall; which level, nobody knows.
        (20.0, 79.9, "memory-leaning"),
        (20.0, 80.0, "memory-bound"),
    ],
)
def test_leaning_and_waiting(compute: float, memory: float, expected: str) -> None:
    assert class_of(compute_pct=compute, memory_pct=memory) == expected


def test_memory_at_its_wall_leans_where_dram_is_known_and_is_not() -> None:
    known = {"compute_pct": 20.0, "memory_pct": 95.0, "dram_pct": 70.0}
    assert class_of(**known) == "memory-leaning"
    assert class_of(**{**known, "compute_pct": 85.0, "dram_pct": None}) == "compute-bound"


@pytest.mark.parametrize(
    ("attainable", "dram", "expected"),
    [
        # 0.9 x 85 % = 76.5 % where nothing was calibrated, 0.9 x 94 % = 84.6 % where it was.
        (UNCALIBRATED, 76.5, "dram-bound"),
        (UNCALIBRATED, 76.4, "memory-leaning"),
        (Attainable(memory=0.94, compute=0.80), 84.7, "dram-bound"),
        (Attainable(memory=0.94, compute=0.80), 84.5, "memory-leaning"),
        (NOMINAL, 90.0, "dram-bound"),
        (NOMINAL, 89.9, "memory-leaning"),
    ],
)
@pytest.mark.parametrize("basis", ["nominal peak", "report peak"])
def test_bandwidth_held_against_a_peak(
    attainable: Attainable, dram: float, expected: str, basis: str
) -> None:
    subject = {"dram_pct": dram, "memory_pct": dram, "compute_pct": 10.0, "dram_basis": basis}
    assert primary_class(Facts.of((subject,), COLUMNS), attainable)[0] == expected


@pytest.mark.parametrize(
    ("attainable", "compute", "expected"),
    [
        # 0.9 x 80 % = 72 %.
        (UNCALIBRATED, 72.1, "compute-bound"),
        (UNCALIBRATED, 71.9, "compute-leaning"),
        (NOMINAL, 89.9, "compute-leaning"),
    ],
)
def test_flop_rate_held_against_a_peak(
    attainable: Attainable, compute: float, expected: str
) -> None:
    subject = {"compute_pct": compute, "memory_pct": 10.0, "compute_basis": "peak FLOP rate"}
    assert primary_class(Facts.of((subject,), COLUMNS), attainable)[0] == expected


# --- what holds for any facts ------------------------------------------------------------------

_PERCENT = st.one_of(
    st.none(),
    st.floats(0, 120),
    st.sampled_from([0.0, 59.9, 60.0, 70.0, 72.0, 75.0, 76.5, 79.9, 80.0, 80.1, 85.0, 90.0]),
)
_SUBJECT = st.fixed_dictionaries(
    {
        "category": st.sampled_from(["gemm", "other", "communication", "memcpy", "memset"]),
        "median_ns": st.one_of(st.none(), st.sampled_from([1.0, 4999.0, 5000.0, 1e9])),
        "rank_by_time": st.sampled_from([1.0, 2.0, 9.0]),
        "dram_basis": st.sampled_from(["elapsed", "nominal peak", "report peak", None]),
        "compute_basis": st.sampled_from(["elapsed", "pipe", "peak FLOP rate", None]),
        **{
            name: _PERCENT
            for name in COLUMNS
            if name.endswith("_pct")
        },
    }
)  # fmt: skip


def in_words(k: Mapping[str, Any], memory_share: float = 0.85, compute_share: float = 0.80) -> str:
    """The same order of questions, asked of one kernel at a time."""
    if k["category"] == "communication":
        return "communication"
    if k["category"] in ("memcpy", "memset"):
        return "copy"
    nothing = -math.inf
    compute, memory, dram, l2, l1 = (
        nothing if k[name] is None else k[name]
        for name in ("compute_pct", "memory_pct", "dram_pct", "l2_throughput_pct",
                     "l1_pct")
    )  # fmt: skip
    measured = k["dram_basis"] == "elapsed"
    at_dram = dram > 80 if measured else dram >= 0.9 * 100 * memory_share
    by_rate = k["compute_basis"] in ("peak FLOP rate", "model, nominal peak")
    at_compute = compute >= (0.9 * 100 * compute_share if by_rate else 80)
    # L1 percentages cover its active cycles only: memory as a whole must be busy too.
    at_l1 = l1 >= 80 and (k["memory_pct"] is None or memory >= 60)
    at_cache = (l2 >= 80 or at_l1) and dram < 60
    # Compute use that is that of loads and stores is no second wall beside L1's.
    loads = k["load_path_pct"] is not None
    at_compute = at_compute and not (loads and at_l1)
    # A few counted operations prove no idle compute.
    rate_alone = k["compute_basis"] == "peak FLOP rate" and max(compute, memory) < 60
    both_known = compute > nothing and memory > nothing and not rate_alone
    if not (both_known or at_dram or at_compute or at_cache):
        return "not-evaluable"
    if k["median_ns"] is not None and k["median_ns"] < 5000 and k["rank_by_time"] > 1:
        return "launch-bound"
    if at_dram and at_compute:
        if abs(dram - compute) <= 5:
            return "balanced"
        return "dram-bound" if dram > compute else "compute-bound"
    if at_dram:
        return "dram-bound"
    if at_compute:
        return "compute-bound"
    if at_cache:
        return "l2-bound" if l2 >= 80 and not (at_l1 and l1 > l2) else "l1-bound"
    if memory >= 80 and dram == nothing:
        return "memory-bound"
    if max(compute, memory) >= 60 and loads:
        return "memory-leaning"
    if max(compute, memory) >= 60:
        if abs(compute - memory) < 10:
            return "balanced"
        return "memory-leaning" if memory > compute else "compute-leaning"
    by_shapes = k["compute_basis"] == k["dram_basis"] == "model, nominal peak"
    return "below-roof" if by_shapes else "latency-bound"


@given(st.lists(_SUBJECT, min_size=1, max_size=20))
def test_every_kernel_gets_the_class_of_the_first_question_that_holds(
    subjects: list[dict[str, Any]],
) -> None:
    found = primary_class(Facts.of(tuple(subjects), COLUMNS)).tolist()
    assert found == [in_words(subject) for subject in subjects]
    assert set(found) <= set(CLASSES)


@given(_SUBJECT, st.sampled_from(COLUMNS))
def test_a_column_that_is_not_there_is_unknown(subject: dict[str, Any], left_out: str) -> None:
    columns = {name: value for name, value in subject.items() if name != left_out}
    unknown = {**subject, left_out: None}
    names = tuple(columns)
    assert (
        primary_class(Facts.of((columns,), names)).tolist()
        == primary_class(Facts.of((unknown,), COLUMNS)).tolist()
    )


def test_no_kernels_no_classes() -> None:
    assert primary_class(Facts.of((), COLUMNS)).tolist() == []


def test_every_class_says_what_it_means() -> None:
    assert set(CLASSES) == {
        "dram-bound", "l2-bound", "l1-bound", "memory-bound", "compute-bound", "memory-leaning",
        "compute-leaning", "balanced", "latency-bound", "below-roof", "launch-bound", "communication", "copy",
        "not-evaluable",
    }  # fmt: skip
    assert all(CLASSES.values())
