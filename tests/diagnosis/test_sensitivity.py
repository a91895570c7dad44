"""Findings and classes near their thresholds: what would change if those moved by a tenth."""

import json
from typing import Any

import numpy as np
import pytest

from tests.diagnosis.test_diagnosis import made
from tests.runs import recording
from traceroof.core.facts import Facts
from traceroof.core.kernel_table import SOURCES
from traceroof.diagnosis import sensitivity
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.explain import explain
from traceroof.diagnosis.finding_text import source_of
from traceroof.hardware.ceilings import UNCALIBRATED
from traceroof.plugins import rules
from traceroof.report.common import markdown as md
from traceroof.report.html import render
from traceroof.report.run import explanation
from traceroof.rule import Rule
from traceroof.scopes.subjects import vocabulary


def near(rule: Rule, *subjects: dict[str, Any]) -> list[str | None]:
    facts = Facts.of(subjects, (*rule.columns, sensitivity.CLASS_NEAR))
    return sensitivity.near(rule, facts, np.arange(len(subjects)))


def test_moved_leaves_small_counts_and_unknown_values() -> None:
    """A count of four has no neighbour within a tenth."""
    column = np.array([0.0, 1.0, 4.0, 5.0, 3.5, np.nan])
    np.testing.assert_allclose(
        sensitivity.moved(column, 1 / 0.9), [0, 1, 4, 5 / 0.9, 3.5 / 0.9, np.nan]
    )


@pytest.mark.parametrize(
    ("value", "metric"),
    [
        # A threshold of 60 that moves up by a tenth is 66.
        (60.1, "compute_pct"), (65.9, "compute_pct"), (66.1, None), (90.0, None),
    ],
)  # fmt: skip
def test_a_lower_limit_moves_up_to_the_value(value: float, metric: str | None) -> None:
    rule = made(needs=("compute_pct",), when=lambda k: k.compute_pct > 60)
    assert near(rule, {"compute_pct": value}) == [metric]


@pytest.mark.parametrize(("value", "metric"), [(59.9, "compute_pct"), (54.1, "compute_pct"), (53.9, None)])  # fmt: skip
def test_an_upper_limit_moves_down_to_the_value(value: float, metric: str | None) -> None:
    """60 becomes 54."""
    rule = made(needs=("compute_pct",), when=lambda k: k.compute_pct < 60)
    assert near(rule, {"compute_pct": value}) == [metric]


def test_subjects_are_asked_one_by_one_and_the_first_column_is_named() -> None:
    rule = made(
        needs=("compute_pct", "memory_pct"),
        when=lambda k: (k.compute_pct < 60) & (k.memory_pct < 60),
    )
    assert near(
        rule,
        {"compute_pct": 59.0, "memory_pct": 59.0},
        {"compute_pct": 10.0, "memory_pct": 59.0},
        {"compute_pct": 10.0, "memory_pct": 10.0},
    ) == ["compute_pct", "memory_pct", None]


def test_a_finding_with_two_reasons_hangs_on_both() -> None:
    """Either of two limits holds: one alone may move, both may not."""
    rule = made(
        needs=("compute_pct", "memory_pct"),
        when=lambda k: (k.compute_pct > 60) | (k.memory_pct > 60),
    )
    assert near(rule, {"compute_pct": 61.0, "memory_pct": 61.0}) == [sensitivity.SEVERAL]


def test_who_is_concerned_is_a_threshold_too() -> None:
    rule = made(
        needs=("compute_pct",), uses=("memory_pct",), when=lambda k: k.compute_pct > 10,
        applies=lambda k: ~(k.memory_pct >= 60),
    )  # fmt: skip
    assert near(rule, {"compute_pct": 50.0, "memory_pct": 59.0}) == ["memory_pct"]


def test_a_class_that_nearly_is_another_is_a_threshold() -> None:
    rule = made(
        needs=("primary_class",), uses=("duration_ns",),
        when=lambda k: k.primary_class == "dram-bound",
    )  # fmt: skip
    nearly, surely = {"class_near": "memory-leaning"}, {"class_near": None}
    primary = {"primary_class": "dram-bound"}
    assert near(rule, {**primary, **nearly}, {**primary, **surely}) == ["primary_class", None]


def test_what_names_an_architecture_does_not_move() -> None:
    rule = made(needs=("compute_capability",), when=lambda k: k.compute_capability >= 8.0)
    assert near(rule, {"compute_capability": 8.0}) == [None]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_every_card_can_be_asked(rule: Rule) -> None:
    """On its own examples, and only with a column that it declares."""
    found = near(rule, *map(dict, rule.fires))
    assert len(found) == len(rule.fires)
    assert set(found) <= {None, sensitivity.SEVERAL, *rule.columns}


@pytest.mark.parametrize(
    ("compute", "memory", "primary", "other", "by"),
    [
        # 58 x 1/0.9 = 64.4 is above 60, and 54 below 20 points away from 20.
        (20.0, 58.0, "latency-bound", "memory-leaning", "memory_pct"),
        (20.0, 50.0, "latency-bound", None, None),
        (62.0, 20.0, "compute-leaning", "latency-bound", "compute_pct"),
        # 70 / 1.1 = 63.6 is 12.6 points above 51, and 51 / 0.9 = 56.7 is 13.3 below 70.
        (70.0, 51.0, "compute-leaning", None, None),
        # 12 points apart; 60 / 0.9 = 66.7 leaves 5.3, but compute is asked first: 72 / 1.1 = 65.5.
        (72.0, 60.0, "compute-leaning", "balanced", "compute_pct"),
    ],
)
def test_the_class_that_it_nearly_is(
    compute: float, memory: float, primary: str, other: str | None, by: str | None
) -> None:
    found = diagnose(
        recording({"kernel_name": ["k"], "duration_ns": [100_000],
                   "sm_throughput_pct": [compute], "memory_throughput_pct": [memory]})
    ).kernels[0]  # fmt: skip
    assert found.primary_class == primary
    near_to = found.class_near
    assert (near_to and near_to.primary_class, near_to and near_to.metric) == (other, by)


def test_a_link_has_one_class() -> None:
    facts = Facts.of(({"category": "communication", "compute_pct": 59.0, "memory_pct": 59.0},),
                     ("category", "compute_pct", "memory_pct"))  # fmt: skip
    other, by = sensitivity.near_classes(facts, UNCALIBRATED)
    assert (other.tolist(), by.tolist()) == ([None], [None])


def hanging() -> Diagnosis:
    """A kernel at 58 % of memory: latency-bound, nearly not."""
    return diagnose(
        recording({"kernel_name": ["k"], "duration_ns": [100_000],
                   "sm_throughput_pct": [20.0], "memory_throughput_pct": [58.0]})
    )  # fmt: skip


def test_a_finding_says_what_it_hangs_on() -> None:
    finding = next(one for one in hanging().fired() if one.rule == "latency-bound")
    hangs = finding.near_threshold
    assert hangs is not None
    assert (hangs.metric, hangs.value, hangs.unit) == ("memory_pct", 58.0, "%")
    assert hangs.says == "near the threshold (memory_pct 58 %: < 60 %)"
    entry = next(one for one in hanging().to_dict()["findings"] if one["rule"] == "latency-bound")
    assert entry["near_threshold"] == {
        "metric": "memory_pct", "value": 58.0, "unit": "%", "threshold": "< 60 %",
        "says": hangs.says,
    }  # fmt: skip
    assert json.loads(json.dumps(hanging().to_dict()))["kernels"][0]["class_near"] == {
        "class": "memory-leaning", "metric": "memory_pct",
    }  # fmt: skip


def test_less_than_all_is_no_threshold() -> None:
    """GIVEN two kernels, one with 98 % of the time: over 50, and not all."""
    found = diagnose(
        recording({"kernel_name": ["k", "l"], "duration_ns": [98_000, 2_000],
                   "sm_throughput_pct": [20.0, 20.0], "memory_throughput_pct": [30.0, 30.0]})
    )  # fmt: skip
    (finding,) = [one for one in found.fired() if one.rule == "single-kernel-dominates"]
    assert finding.near_threshold is None
    card = next(one for one in rules() if one.id == finding.rule)
    assert near(card, {"share_pct": 98.0}, {"share_pct": 54.0}) == [None, "share_pct"]


def test_people_read_it_where_a_finding_is_explained() -> None:
    says = "near the threshold (memory_pct 58 %: < 60 %)"
    explained = explain(hanging(), "latency-bound")
    assert says in explanation.render(explained)
    assert md.text(says) in explanation.render_markdown(explained)
    assert "near the threshold (memory_pct 58 %: &lt; 60 %)" in render.render(hanging())


def test_columns_have_an_origin() -> None:
    """GIVEN every column that any rule reads WHEN asked where it comes from THEN a known word; the
    ones that readers ask about are what they should be."""
    for rule in rules():
        for name in rule.columns:
            column = vocabulary(rule.scope)[name]
            assert source_of(column, column.basis) in SOURCES
    kernel = vocabulary("kernel")
    expected = {
        "dram_throughput_pct": "counter", "stall_long_scoreboard": "counter",
        "achieved_occupancy_pct": "counter", "registers_per_thread": "launch",
        "model_flops": "model", "roof_pct": "model", "name_tensor_core": "name",
        "category": "name", "time_ns": "clock", "median_ns": "clock", "tf32_speedup": "device",
        "dram_peak_bytes_per_s": "device", "traffic_ratio": "model", "sm_count": "device",
        "input_shapes": "name", "busiest_pct": "derived",
    }  # fmt: skip
    assert {name: source_of(kernel[name], "") for name in expected} == expected
    timeline = vocabulary("timeline")
    for name in ("idle_host_ns", "sync_calls", "exposed_communication_pct"):
        assert source_of(timeline[name], "") == "clock"


@pytest.mark.parametrize(
    ("basis", "origin"),
    [("elapsed", "counter"), ("nominal peak", "derived"), ("model, nominal peak", "model")],
)
def test_a_column_with_several_sources_goes_by_its_basis(basis: str, origin: str) -> None:
    assert source_of(vocabulary("kernel")["dram_pct"], basis) == origin
