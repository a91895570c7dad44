"""Rules on the measurement: where they fire, what they make less sure, and where they are told."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traceroof
from tests.diagnosis.test_diagnosis import made, share, to_the_wall
from tests.runs import recording
from traceroof.core.facts import Facts
from traceroof.core.merge_recordings import merge
from traceroof.core.recording import DeviceInfo, Recording
from traceroof.diagnosis import caveats
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.explain import explain
from traceroof.diagnosis.findings import Finding, Lowered
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import MeasuredRate
from traceroof.plugins import rules
from traceroof.report.common import json as as_json
from traceroof.report.html import render as html
from traceroof.report.run import (
    csv,
    markdown,
    terminal,
)
from traceroof.rule import Doubt, Rule
from traceroof.scopes.subjects import vocabulary

HYGIENE = [rule for rule in rules() if rule.doubts]


def only(found: Diagnosis, rule: str) -> Finding:
    (one,) = [finding for finding in found.findings if finding.rule == rule]
    return one


# --- the cards ---------------------------------------------------------------------------------


#: Rules on the measurement that judge a kernel or a timeline, and not the run as a whole.
OF_ONE = {"amd-short-kernel", "blocking-launches", "lost-records", "recording-skew"}
#: Rules on sums of host calls, which a timeline would tell apart.
OF_HOST = {"launch-calls-outlast-kernels", "allocations-outlast-kernels"}
OF_COPIES = {
    "copies-outlast-kernels",
    "copies-without-kernels",
    "managed-memory-migrates",
    "pages-move-under-kernels",
}


def test_they_save_nothing_themselves_and_only_inform() -> None:
    assert len(HYGIENE) == 23
    of_others = {rule.id for rule in HYGIENE if not rule.id.startswith("run-")}
    assert of_others == OF_ONE | OF_HOST | OF_COPIES
    for rule in HYGIENE:
        # A recording that shows another program than the user's is to be made again.
        void = rule.id in {"blocking-launches", "lost-records"}
        assert rule.severity == ("high" if void else "info")
        assert not void or rule.urgent
        # The profiler's own work on the host can be left out.
        assert rule.saves is None or rule.id == "run-profiler-overhead"


@pytest.mark.parametrize("rule", HYGIENE, ids=lambda rule: rule.id)
def test_doubts_read_columns_of_their_scope_and_concern_some_rule(rule: Rule) -> None:
    for doubt in rule.doubts:
        assert set(doubt.reads) <= set(vocabulary(doubt.scope))
        assert doubt.what
        concerned = [other.id for other in rules() if doubt.concerns(other)]
        assert concerned
        assert not set(concerned) & {other.id for other in HYGIENE}
        # Nothing known of the subject or the run is no reason for doubt, nor an error.
        unknown = Facts.of(({},), doubt.reads)
        with np.errstate(all="ignore"):
            factor = np.asarray(doubt.factor(unknown, Facts.of(({},), rule.columns)))
        assert np.isnan(factor).all() or ((factor > 0) & (factor <= 1)).all()


@pytest.mark.parametrize(
    ("rule", "scope", "subject", "own", "remains"),
    [
        # 25 of 100 ns are the first launch's; twice the median is no warm-up.
        ("run-warmup", "kernel", {"first_ratio": 2.1, "first_excess_ns": 25, "time_ns": 100}, {}, 0.75),
        ("run-warmup", "kernel", {"first_ratio": 2.0, "first_excess_ns": 25, "time_ns": 100}, {}, 1.0),
        ("run-variance", "kernel", {"scatter_pct": 5.0}, {}, 1.0),
        ("run-variance", "kernel", {"scatter_pct": 40.0}, {}, 0.6),
        ("run-variance", "kernel", {"scatter_pct": 400.0}, {}, 0.5),
        ("run-variance", "kernel", {"scatter_pct": 40.0, "category": "communication"}, {}, 1.0),
        ("run-variance", "kernel", {"scatter_pct": 40.0, "spread": 5.1}, {}, 1.0),
        ("run-name-collapsed", "kernel", {"scatter_pct": 40.0, "spread": 5.1}, {}, 0.6),
        ("run-name-collapsed", "kernel", {"spread": 5.0}, {}, 1.0),
        ("run-name-collapsed", "kernel", {"spread": 9.0, "input_shapes": "[]"}, {}, 1.0),
        ("run-clock-throttled", "kernel", {"sm_clock_hz": 1.2e9}, {"fast_clock_hz": 1.5e9}, 0.8),
        ("run-clock-throttled", "kernel",
         {"sm_clock_hz": 1.2e9, "primary_class": "dram-bound"}, {"fast_clock_hz": 1.5e9}, 1.0),
        ("run-clock-throttled", "kernel", {},
         {"fast_clock_hz": 1.0e9, "boost_share_pct": 70.0}, 0.7),
        # Half of the boost clock is half, and not half of half; 0.9 of the boost needs no 0.8.
        ("run-clock-throttled", "kernel", {"sm_clock_hz": 1.0e9},
         {"fast_clock_hz": 2.0e9, "boost_share_pct": 50.0, "boost_clock_hz": 2.0e9}, 0.5),
        ("run-clock-throttled", "kernel", {"sm_clock_hz": 1.8e9},
         {"fast_clock_hz": 1.8e9, "boost_share_pct": 80.0, "boost_clock_hz": 2.0e9}, 0.9),
        # Who is bound by DRAM follows the memory clock: its own, the run's fall, or its rating.
        ("run-clock-throttled", "kernel",
         {"primary_class": "dram-bound", "dram_clock_hz": 1.2e9}, {"fast_dram_clock_hz": 1.5e9}, 0.8),
        ("run-clock-throttled", "kernel", {"primary_class": "dram-bound"},
         {"dram_clock_fall_pct": 40.0}, 0.6),
        ("run-clock-throttled", "kernel", {"primary_class": "compute-bound"},
         {"dram_clock_fall_pct": 40.0}, 1.0),
        ("run-clock-throttled", "kernel", {"primary_class": "dram-bound"},
         {"dram_rated_pct": 85.0}, 0.85),
        # A part of the memory is no clock.
        ("run-clock-throttled", "kernel", {"primary_class": "dram-bound"},
         {"dram_rated_pct": 50.0}, 1.0),
        # The clocks of another kind of GPU say nothing; those of another card of the same kind do.
        ("run-clock-throttled", "kernel", {"sm_clock_hz": 1.2e9, "device": 1},
         {"fast_clock_hz": 1.5e9, "clock_gpu": 0, "gpu_kinds": 2}, 1.0),
        ("run-clock-throttled", "kernel", {"sm_clock_hz": 1.2e9, "device": 0},
         {"fast_clock_hz": 1.5e9, "clock_gpu": 0, "gpu_kinds": 2}, 0.8),
        ("run-clock-throttled", "kernel", {"sm_clock_hz": 1.2e9, "device": 1},
         {"fast_clock_hz": 1.5e9, "clock_gpu": 0, "gpu_kinds": 1}, 0.8),
        ("run-l2-resident", "kernel", {"traffic_ratio": 0.4}, {"working_set_pct": 300.0}, 0.5),
        ("run-l2-resident", "kernel", {"traffic_ratio": 1.0}, {"working_set_pct": 300.0}, 1.0),
        ("run-l2-resident", "kernel", {}, {"working_set_pct": 79.0}, 0.5),
        ("run-peak-suspect", "kernel", {"compute_pct": 101.0}, {"over_peak_pct": 101.0}, 0.5),
        ("run-peak-suspect", "kernel", {"compute_pct": 50.0}, {"over_peak_pct": 110.0}, 1.0),
        ("run-peak-suspect", "kernel", {"compute_pct": 50.0}, {"over_peak_pct": 110.1}, 0.7),
        # Counted over all cycles with work, launch and flush included: most of them under 50 µs.
        ("amd-short-kernel", "kernel",
         {"vendor": "amd", "median_ns": 49e3, "compute_basis": "pipe"}, {}, 0.6),
        ("amd-short-kernel", "kernel",
         {"vendor": "amd", "median_ns": 0.9e6, "achieved_occupancy_pct": 30.0}, {}, 0.9),
        ("amd-short-kernel", "kernel",
         {"vendor": "amd", "median_ns": 1e6, "compute_basis": "pipe"}, {}, 1.0),
        ("amd-short-kernel", "kernel",
         {"vendor": "amd", "median_ns": 49e3, "compute_basis": "peak FLOP rate"}, {}, 1.0),
        ("amd-short-kernel", "kernel",
         {"vendor": "nvidia", "median_ns": 49e3, "compute_basis": "pipe"}, {}, 1.0),
        ("run-short-window", "timeline", {}, {"window_ns": 99e6, "steady_steps": 2.0}, 0.7),
        ("run-short-window", "timeline", {}, {"window_ns": 99e6}, 0.7),
        ("run-short-window", "timeline", {}, {"window_ns": 99e6, "steady_steps": 3.0}, 0.9),
        ("run-short-window", "timeline", {}, {"window_ns": 100e6, "steady_steps": 2.0}, 0.9),
        ("run-few-launches", "timeline", {}, {}, 0.5),
        ("run-graphs-whole", "category", {}, {"whole_graphs_pct": 30.0}, 0.7),
        # What is lost may have run in any gap; where half is lost, the other half of the card
        # silences, see below.
        ("lost-records", "timeline", {"lost_pct": 30.0}, {}, 0.7),
        ("lost-records", "timeline", {}, {}, 1.0),
        # Of several timelines the worst counts for the run.
        ("lost-records", "run", {}, {"lost_pct": 30.0}, 0.7),
        ("blocking-launches", "timeline", {}, {}, 0.2),
        ("recording-skew", "timeline", {"start_skew_ns": 25, "whole_span_ns": 100}, {}, 0.75),
        ("run-profiler-overhead", "timeline", {"profiler_time_ns": 15, "span_ns": 100}, {}, 1.0),
        ("run-profiler-overhead", "timeline", {"profiler_time_ns": 16, "span_ns": 100}, {}, 0.5),
        ("run-profiler-overhead", "timeline", {"stack_files": 1, "span_ns": 100}, {}, 0.5),
        ("run-time-unreconciled", "kernel", {}, {"busy_share_pct": 80.0}, 0.8),
        ("run-time-unreconciled", "category", {}, {"busy_share_pct": 80.0}, 0.8),
        ("run-partitioned-device", "kernel", {}, {"sm_share_pct": 50.0}, 0.8),
        ("run-mixed-denominators", "kernel", {"compute_basis": "pipe"},
         {"mixed_use": "compute", "main_basis": "elapsed", "gpu_kinds": 1.0}, 0.8),
        ("run-mixed-denominators", "kernel", {"compute_basis": "elapsed", "dram_basis": "elapsed"},
         {"mixed_use": "compute", "main_basis": "elapsed", "gpu_kinds": 1.0}, 1.0),
        ("run-mixed-denominators", "kernel", {"dram_basis": "nominal peak"},
         {"mixed_use": "DRAM", "main_basis": "report peak"}, 0.8),
        ("run-mixed-denominators", "kernel", {}, {"gpu_kinds": 2.0}, 0.5),
    ],
)  # fmt: skip
def test_what_remains(
    rule: str, scope: str, subject: dict[str, Any], own: dict[str, Any], remains: float
) -> None:
    (card,) = [one for one in HYGIENE if one.id == rule]
    doubts = [one for one in card.doubts if one.scope == scope and not one.silences]
    assert doubts
    factors = [
        np.broadcast_to(
            one.factor(Facts.of((subject,), one.reads), Facts.of((own,), card.columns)), 1
        )
        for one in doubts
    ]
    np.testing.assert_allclose(np.prod(factors, axis=0), [remains])


def test_warm_up_is_doubted_on_kernels_only() -> None:
    """Timelines are judged without their warm-up steps and their cold start."""
    (card,) = [one for one in HYGIENE if one.id == "run-warmup"]
    assert {one.scope for one in card.doubts} == {"kernel"}


def test_a_mixed_basis_of_dram_leaves_alone_who_reads_compute_only() -> None:
    """GIVEN kernels whose DRAM use alone has another basis THEN rules of compute keep their
    confidence; those of DRAM, and of the busier side, lose a fifth of it."""
    (card,) = [one for one in HYGIENE if one.id == "run-mixed-denominators"]
    subject = {"compute_basis": "elapsed", "dram_basis": "nominal peak"}
    own = Facts.of(
        ({"mixed_use": "DRAM", "main_basis": "elapsed", "gpu_kinds": 1.0},), card.columns
    )

    def left(name: str) -> float:
        (rule,) = [one for one in rules() if one.id == name]
        factors = [
            float(np.broadcast_to(one.factor(Facts.of((subject,), one.reads), own), 1)[0])
            for one in card.doubts
            if one.concerns(rule)
        ]
        return float(np.prod(factors))

    assert left("compute-fma-bound") == left("thread-divergence") == 1.0
    assert left("dram-at-wall") == left("latency-bound") == 0.8


def test_doubts_multiply_to_a_fifth_at_least() -> None:
    """GIVEN two doubts of 0.3 on the same finding THEN 0.2 of its 0.9 remains, not 0.09, and what
    the confidence is the product of says so."""
    doubtful = tuple(
        made(
            f"run-{name}", scope="run", needs=("launches",), when=lambda k: k.launches > 0,
            because=name, severity="info", saves=None,
            doubts=(
                Doubt(
                    scope="kernel", what=name, columns=("category",),
                    factor=lambda k, run: np.full(len(k), 0.3),
                ),
            ),
        )
        for name in ("one", "two")
    )  # fmt: skip
    plain = made(needs=("category",), when=lambda k: np.ones(len(k), dtype=bool), because="x")
    alone = [one for one in diagnose(two(), rules=[plain]).fired() if one.rule == "made"]
    found = [one for one in diagnose(two(), rules=[*doubtful, plain]).fired() if one.rule == "made"]
    assert [one.confidence for one in found] == [round(0.2 * one.confidence, 2) for one in alone]
    for one in found:
        product = np.prod([factor for _, factor in one.confidence_factors])
        assert one.confidence == pytest.approx(product, abs=0.006)
        assert [doubt.factor for doubt in one.doubted_by] == [0.3, 0.3]


# --- the mechanism -----------------------------------------------------------------------------

DOUBTFUL = made(
    "doubtful",
    scope="run",
    needs=("launches",),
    when=lambda k: k.launches > 0,
    because="doubtful",
    severity="info",
    doubts=(
        Doubt(
            scope="kernel",
            what="the first kernel is odd",
            reads=("rank_by_time",),
            factor=lambda k, run: np.where(k.rank_by_time == 1, 0.5, 1.0),
        ),
        Doubt(
            scope="kernel",
            what="DRAM is in doubt",
            columns=("dram_*",),
            factor=lambda k, run: np.full(len(k), 0.01),
        ),
    ),
)


def two() -> Recording:
    """90 and 10 ns; five launches each, so that their number is no reason for doubt."""
    return recording(
        {
            "kernel_name": ["a"] * 5 + ["b"] * 5, "duration_ns": [90] * 5 + [10] * 5,
            "sm_throughput_pct": [50.0] * 10, "memory_throughput_pct": [10.0] * 10,
            "dram_throughput_pct": [10.0] * 10,
        }
    )  # fmt: skip


def test_confidence_falls_where_the_figure_is_in_doubt() -> None:
    """0.9 observed x 0.8 for assumed ceilings is 0.72; half of it for the first kernel."""
    found = diagnose(two(), rules=[DOUBTFUL, made(saves=to_the_wall)])
    one, other = (finding for finding in found.fired() if finding.rule == "made")
    assert (one.subject, one.confidence, other.confidence) == ("a", 0.36, 0.72)
    assert [(d.rule, d.factor, d.what) for d in one.doubted_by] == [
        ("doubtful", 0.5, "the first kernel is odd")
    ]
    assert other.doubted_by == ()
    assert one.confidence_factors[-1] == ("doubtful: the first kernel is odd", 0.5)
    product = np.prod([factor for _, factor in one.confidence_factors])
    assert product == pytest.approx(one.confidence)
    # Half of the 225 ns on the first kernel, of 250 ns in all.
    assert only(found, "doubtful").lowers == Lowered(1, 225 * 0.5 / 250)


def test_no_rule_takes_more_than_four_fifths() -> None:
    on_dram = made(
        "on-dram", needs=("dram_pct",), when=lambda k: k.dram_pct > 0, because="x", saves=None
    )
    found = diagnose(two(), rules=[DOUBTFUL, on_dram])
    assert {f.confidence for f in found.fired() if f.rule == "on-dram"} == {0.18}
    # Nothing saves time, so that every finding weighs the same.
    lowers = only(found, "doubtful").lowers
    assert lowers is not None
    assert lowers.findings == 2
    assert lowers.share == pytest.approx(0.8)


def test_a_rule_that_is_clear_doubts_nothing() -> None:
    from dataclasses import replace

    clear = replace(DOUBTFUL, when=lambda k: k.launches > 99)
    found = diagnose(two(), rules=[clear, made(saves=to_the_wall)])
    assert {f.confidence for f in found.fired()} == {0.72}


def test_rules_without_savings_are_doubted_by_what_they_read_only() -> None:
    informs = made("informs", severity="info", saves=None)
    found = diagnose(two(), rules=[DOUBTFUL, informs])
    assert {f.doubted_by for f in found.fired() if f.rule == "informs"} == {()}


def on_dram(**more: Any) -> Rule:
    return made("on-dram", when=lambda k: np.ones(len(k), dtype=bool), because="x", **more)


def test_a_doubt_that_leaves_nothing_silences_what_needs_the_figure() -> None:
    """GIVEN a doubt of factor 0 on DRAM figures of the first kernel THEN a rule that needs one is
    suppressed there and silences nobody; one that only uses it, and the other kernel, stay."""
    nothing = made(
        "run-nothing", scope="run", needs=("launches",), when=lambda k: k.launches > 0,
        because="nothing", severity="info", saves=None,
        doubts=(
            Doubt(
                scope="kernel", what="no DRAM", reads=("rank_by_time",), columns=("dram_*",),
                factor=lambda k, run: np.where(k.rank_by_time == 1, 0.0, 1.0), silences=True,
            ),
        ),
    )  # fmt: skip
    needs = on_dram(needs=("dram_pct",), saves=share(0.5), suppresses=("uses",))
    uses = made(
        "uses", needs=("rank_by_time",), uses=("dram_pct",), saves=share(0.5), because="y",
        when=lambda k: np.ones(len(k), dtype=bool),
    )  # fmt: skip
    found = diagnose(two(), rules=[nothing, needs, uses])
    states = {
        (one.rule, one.subject): (one.state, one.suppressed_by)
        for one in found.findings
        if one.scope == "kernel"
    }
    assert states == {
        ("on-dram", "a"): ("suppressed", "run-nothing"),
        ("on-dram", "b"): ("fired", None),
        ("uses", "a"): ("fired", None),
        ("uses", "b"): ("suppressed", "on-dram"),
    }
    # 225 of the 225 + 25 + 225 ns that spoke or would have.
    lowers = only(found, "run-nothing").lowers
    assert lowers is not None
    assert lowers.findings == 1
    assert lowers.share == pytest.approx(225 / 475)
    by = {one.subject: one for one in found.findings if one.rule == "on-dram"}
    assert by["a"].confidence == by["b"].confidence
    (said,) = (one.says for one in explain(found, "on-dram:1").answers)
    assert said == "fired, but is suppressed by run-nothing: no DRAM"


def test_what_no_roofline_holds_is_silenced() -> None:
    """GIVEN the cards WHEN a group exceeds a peak by more than a tenth, or has its bytes from a
    cache THEN rules of the roofline, and of DRAM, are silenced on it, and no others. WHEN half of
    the records are lost THEN rules on idle time and exposed communication are, and no others."""
    silent: dict[str, set[str]] = {}
    for rule in HYGIENE:
        for doubt in rule.doubts:
            if doubt.silences:
                concerned = {other.id for other in rules() if doubt.concerns(other)}
                silent.setdefault(rule.id, set()).update(concerned)
    assert set(silent) == {"run-peak-suspect", "run-l2-resident", "lost-records"}
    roofline = {"roofline-headroom", "roofline-at-wall", "attn-decode-kv", "depthwise-conv"}
    assert roofline <= silent["run-peak-suspect"] & silent["run-l2-resident"]
    assert {"dram-at-wall", "excess-traffic", "l2-reuse-low"} <= silent["run-l2-resident"]
    others = {"latency-bound", "compute-tensor-bound", "stall-long-scoreboard", "small-grid"}
    assert not others & set().union(*silent.values())
    assert {"gpu-idle-share", "launch-bound", "exposed-comm"} <= silent["lost-records"]
    assert not silent["lost-records"] & (roofline | {"dram-at-wall"})


@pytest.mark.parametrize(
    ("rule", "subject", "factor"),
    [
        ("run-peak-suspect", {"compute_pct": 110.1}, 0.0),
        ("run-peak-suspect", {"compute_pct": 110.0}, 1.0),
        ("run-l2-resident", {"traffic_ratio": 0.49}, 0.0),
        ("run-l2-resident", {"traffic_ratio": 0.5}, 1.0),
        ("lost-records", {"lost_pct": 50.0}, 0.0),
        ("lost-records", {"lost_pct": 49.9}, 1.0),
    ],
)
def test_where_nothing_is_left(rule: str, subject: dict[str, Any], factor: float) -> None:
    (card,) = [one for one in HYGIENE if one.id == rule]
    (doubt,) = [one for one in card.doubts if one.silences and one.scope != "run"]
    # Small data alone silences nobody.
    own = Facts.of(({"working_set_pct": 10.0, "over_peak_pct": 150.0},), card.columns)
    assert doubt.factor(Facts.of((subject,), doubt.reads), own) == [factor]


# --- where it is told --------------------------------------------------------------------------


def test_what_matters_comes_first_and_the_rest_last() -> None:
    """The first makes all findings weigh 45 % less, the second nothing: it concerns no finding."""
    matters = diagnose(two(), rules=[DOUBTFUL, made(saves=to_the_wall)])
    assert [one.finding.rule for one in caveats.care(matters)] == ["doubtful"]
    assert {one.lead.rule for one in matters.advice} == {"made"}
    alone = diagnose(two(), rules=[DOUBTFUL])
    assert caveats.care(alone) == []
    assert alone.advice == ()


@pytest.mark.parametrize(
    "render", [terminal.render, markdown.render, html.render], ids=["terminal", "markdown", "html"]
)
def test_every_report_for_people_says_it_before_the_fixes(render: Any) -> None:
    found = diagnose(two(), rules=[DOUBTFUL, made(saves=to_the_wall)])
    text = " ".join(render(found).split())
    assert text.index("Read with care") < text.index("1 finding") < text.index("0.4,")
    assert "weighted by saving, falls by 45.0 %" in text.replace("\u00a0", " ")
    # 0.36 on 225 ns and 0.72 on 25 ns.
    assert "confidence 0.4, lowered by doubtful" in text
    alone = render(diagnose(two(), rules=[DOUBTFUL]))
    assert "Read with care" not in alone


def test_json_and_csv_have_it() -> None:
    found = diagnose(two(), rules=[DOUBTFUL, made(saves=to_the_wall)])
    by_rule = {one["rule"]: one for one in json.loads(as_json.render(found))["findings"][::-1]}
    assert by_rule["made"]["doubted_by"] == [
        {"rule": "doubtful", "factor": 0.5, "what": "the first kernel is odd"}
    ]
    assert by_rule["doubtful"]["lowers"] == {"findings": 1, "share": 0.45, "urgent": False}
    assert by_rule["made"]["lowers"] is None
    assert csv.render(found)


# --- each rule on a run that has what it looks for -----------------------------------------------

A100 = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB", sm_count=108)


def launches(count: int, **columns: Any) -> dict[str, Any]:
    """``count`` launches of a kernel of 1 ms, far from every wall of an A100."""
    base: dict[str, Any] = {
        "kernel_name": "k", "duration_ns": 1_000_000, "device": 0, "sm_throughput_pct": 40.0,
        "memory_throughput_pct": 30.0, "dram_throughput_pct": 30.0, "grid_x": 1080, "grid_y": 1,
        "grid_z": 1, "block_x": 256, "block_y": 1, "block_z": 1,
    }  # fmt: skip
    return {
        name: values if isinstance(values, list) else [values] * count
        for name, values in {**base, **columns}.items()
    }


def fired(columns: dict[str, Any], **more: Any) -> dict[str, Finding]:
    found = diagnose(recording(columns, **{"devices": (A100,), **more}))
    return {one.rule: one for one in found.fired() if one.rule.startswith("run-")}


def test_a_clean_run_is_clean() -> None:
    assert fired(launches(6)) == {}
    steps = [str(number) for number in range(6)]
    starts = [number * 50_000_000 for number in range(6)]
    clean = launches(6, start_ns=starts, step=steps, duration_ns=40_000_000, stream=7)
    assert fired(clean, time_basis="timeline") == {}


def test_scatter() -> None:
    """90 to 110: 7.4 % of the median."""
    times = [900_000, 950_000, 1_000_000, 1_050_000, 1_100_000]
    assert set(fired(launches(5, duration_ns=times))) == {"run-variance"}


def test_first_launch() -> None:
    assert set(fired(launches(20, duration_ns=[3_000_000] + [1_000_000] * 19))) == {"run-warmup"}


def test_falling_clock_lowers_the_slower_kernels() -> None:
    """Latency-bound kernels at 1.41 and at 1.1 GHz: the slower keeps 1.1 / 1.41 = 0.78."""
    names = ["fast"] * 5 + ["slow"] * 5
    clocks = [1.41e9] * 5 + [1.1e9] * 5
    found = diagnose(
        recording(launches(10, kernel_name=names, sm_clock_hz=clocks), devices=(A100,))
    )
    assert only(found, "run-clock-throttled").state == "fired"
    by = {f.subject: f for f in found.fired() if f.rule == "latency-bound"}
    assert by["fast"].doubted_by == ()
    (doubt,) = by["slow"].doubted_by
    assert (doubt.rule, doubt.factor) == ("run-clock-throttled", round(1.1 / 1.41, 3))


H100 = DeviceInfo(index=1, name="NVIDIA H100 80GB HBM3", sm_count=132)


def test_two_kinds_of_gpu_each_steady() -> None:
    """GIVEN an A100 at 1.41 GHz and an H100 at 1.98, whose kernels take 1 and 0.6 ms each time:
    THEN no clock fell and no time scatters; the peaks differ, and that is said."""
    columns = launches(
        40, device=[0, 1] * 20, duration_ns=[1_000_000, 600_000] * 20,
        sm_clock_hz=[1.41e9, 1.98e9] * 20, dram_clock_hz=[1.6e9, 2.6e9] * 20,
    )  # fmt: skip
    assert set(fired(columns, devices=(A100, H100))) == {"run-mixed-denominators"}


def test_the_gpu_whose_clock_fell_is_found_among_others() -> None:
    """GIVEN the same with an H100 whose second half runs at 1.5 of 2 GHz: a fall of 25 %."""
    columns = launches(
        40, kernel_name=["a", "b"] * 20, device=[0, 1] * 20,
        sm_clock_hz=[1.41e9, 2.0e9] * 10 + [1.41e9, 1.5e9] * 10,
    )  # fmt: skip
    throttled = fired(columns, devices=(A100, H100))["run-clock-throttled"]
    assert "from 1.50 GHz to 2 GHz, a fall of 25 %" in throttled.because
    assert {one.metric: one.value for one in throttled.evidence}["clock_gpu"] == 1.0


@pytest.mark.parametrize(
    ("rated", "rule"), [(0.85, "run-clock-throttled"), (0.5, "run-partitioned-device")]
)
def test_a_dram_peak_below_its_rating_needs_no_core_clock(rated: float, rule: str) -> None:
    """No clock of the core and no count of multiprocessors is known."""
    unknown = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB")
    columns = launches(6, peak_dram_bytes_per_s=rated * 2039e9)
    found = fired(columns, devices=(unknown,))
    assert rule in found
    assert f"peak is {rated:.0%}".replace("%", " %") in found[rule].because


def test_a_stored_calibration_is_no_exceeded_peak() -> None:
    """A copy that reached 101.5 % of nominal on some day says nothing about this run."""
    stored = MeasuredRate(
        device="A100-SXM4-80GB", time_basis="counter-tool", rate="copy",
        per_s=1.015 * 2039e9, nominal_per_s=2039e9, probe="memcpy",
    )  # fmt: skip
    found = diagnose(recording(launches(6), devices=(A100,)), calibration=(stored,))
    assert found.calibration == (stored,)
    assert "run-peak-suspect" not in {one.rule for one in found.fired()}


def test_what_the_profiler_measured_above_nominal_is_one() -> None:
    columns = launches(6, calibrated_dram_bytes_per_s=1.1 * 2039e9)
    (finding,) = fired(columns).values()
    assert finding.rule == "run-peak-suspect"
    assert "DRAM by the profiler's own measurement is at 110 % of its peak" in finding.because


def test_the_infinity_cache_explains_what_fits_into_it() -> None:
    """GIVEN a MI300X (256 MiB of it, 32 MiB of L2) WHEN 100 MB in and 100 MB out take half of the
    time that 5.3 TB/s allow THEN they came from a cache; 2 GB each way did not."""
    mi300x = DeviceInfo(index=0, name="AMD Instinct MI300X", gfx_target="gfx942", sm_count=304)

    def rules_on(elements: int) -> set[str]:
        columns = {
            "kernel_name": ["void elementwise_kernel<4>(int)"] * 6, "device": [0] * 6,
            "operator": ["aten::mul"] * 6, "input_shapes": [json.dumps([[elements], []])] * 6,
            "input_dtypes": ['["float","Scalar"]'] * 6,
            "duration_ns": [round(8 * elements / (2 * 5.3e12) * 1e9)] * 6,
        }  # fmt: skip
        return set(fired(columns, devices=(mi300x,)))

    assert rules_on(25_000_000) == {"run-l2-resident"}
    assert "run-peak-suspect" in rules_on(500_000_000)


def test_exceeded_peak() -> None:
    found = fired(launches(5, sm_throughput_pct=104.0))
    assert set(found) == {"run-peak-suspect"}
    assert "104 %" in found["run-peak-suspect"].because


def test_partition() -> None:
    half = DeviceInfo(index=0, name="NVIDIA A100-SXM4-80GB", sm_count=54)
    found = fired(launches(5), devices=(half,))
    assert set(found) == {"run-partitioned-device"}
    assert "54 of 108" in found["run-partitioned-device"].because


def test_mixed_bases() -> None:
    columns = launches(10, kernel_name=["a"] * 5 + ["b"] * 5)
    columns["sm_throughput_pct"] = [40.0] * 5 + [None] * 5
    columns["pipe_fma_pct"] = [None] * 5 + [40.0] * 5
    found = fired(columns)
    assert set(found) == {"run-mixed-denominators"}
    assert "50 % of the kernel time is measured against" in found["run-mixed-denominators"].because


def test_what_overlaps_on_its_own_stream_is_urgent() -> None:
    """GIVEN a GPU whose 10 launches of 1 ms stand twice on one stream: half overlaps."""
    starts = [number // 2 * 1_000_000 for number in range(20)]
    found = fired(launches(20, start_ns=starts, stream=7), time_basis="timeline")
    overlap = found["run-time-unreconciled"]
    assert "50 % overlaps on its own stream" in overlap.because
    assert overlap.lowers is not None
    assert overlap.lowers.urgent


def test_collapsed_name() -> None:
    found = fired(launches(40, duration_ns=[1_000_000, 6_000_000] * 20))
    assert set(found) == {"run-name-collapsed"}


def test_short_window_and_overlap() -> None:
    starts = [number // 2 * 1_000_000 for number in range(10)]
    found = fired(launches(10, start_ns=starts, stream=[1, 2] * 5), time_basis="timeline")
    assert set(found) == {"run-short-window", "run-time-unreconciled"}
    # Two streams side by side: half of the time added up is busy time.
    assert "the GPU was busy for 50 % of that sum" in found["run-time-unreconciled"].because


def test_a_handful_of_launches_is_told_first() -> None:
    """GIVEN 9 launches of 1 ms back to back: 9 ms in all, below 10 launches and 10 ms."""
    starts = [number * 1_000_000 for number in range(9)]
    columns = launches(9, start_ns=starts, stream=7)
    found = fired(columns, time_basis="timeline")
    assert set(found) == {"run-short-window", "run-few-launches"}
    lowers = found["run-few-launches"].lowers
    assert lowers is not None
    assert lowers.urgent


@pytest.mark.parametrize("base", [735 / 2490, 585 / 1590])
def test_a_base_clock_is_no_throttling(base: float) -> None:
    """GIVEN counters at the lowest base clocks of NVIDIA GPUs: an L40's is 735 of 2,490 MHz, a
    T4's 585 of 1,590 (data sheets)."""
    assert fired(launches(6, sm_clock_hz=base * 1.41e9)) == {}


def test_far_below_any_base_clock_is_a_limit() -> None:
    """An A100 at 0.4 of 1.41 GHz, 28.4 %."""
    assert set(fired(launches(6, sm_clock_hz=0.4e9))) == {"run-clock-throttled"}


# --- real files --------------------------------------------------------------------------------


def units(corpus: Path) -> Iterator[Path]:
    for folder in ("ncu_csv", "pair", "torch", "amd"):
        yield from sorted((corpus / folder).iterdir())


#: Every rule on the measurement -> on how many of the 111 files and folders that are read it fires.
COUNTS = {
    # Copies of rocprof v1, in a summary of their own.
    "copies-without-kernels": 1,
    # Excerpts, unit-test files and single steps.
    "run-short-window": 28,
    # Unit tests, documentation, runs of one small kernel, and copies of the runtime alone.
    "run-few-launches": 15,
    "run-variance": 11,
    # Recorded with stacks, as the files' own metadata say.
    "run-profiler-overhead": 9,
    "run-time-unreconciled": 10,
    "run-name-collapsed": 1,
    "run-warmup": 1,
    "run-l2-resident": 1,
    # Counters of AMD with kernels under 1 ms.
    "amd-short-kernel": 6,
    "lost-records": 2,
    "recording-skew": 1,
}


@pytest.mark.corpus
def test_what_fires_on_real_files(corpus: Path) -> None:
    found: Counter[str] = Counter()
    files: dict[str, set[str]] = {}
    for path in units(corpus):
        try:
            diagnosis = traceroof.diagnose(path)
        except TraceroofError:
            continue
        for rule in {one.rule for one in diagnosis.fired() if one.lowers}:
            found[rule] += 1
            files.setdefault(rule, set()).add(path.name)
    assert found == COUNTS
    # A model of two layers: everything that a step touches is 4 % of the cache.
    assert {"bmm1_MI300X_A1", "vcopy_MI200"} <= files["amd-short-kernel"]
    assert files["run-l2-resident"] == {"hta_amd_mi250_minitoy_rocm6.2.json.gz"}
    # Grouped products of one persistent grid for every number of tokens.
    assert "deepseek_profile-data_train_h800.json" in files["run-name-collapsed"]
    # Thinned out to a sample.
    assert files["lost-records"] == {"hta_sampled_rank-0.json.gz", "hta_sampled_rank-1.json.gz"}
    assert files["recording-skew"] == {"dlrm_8ranks"}
    # 722 ms of cudaMalloc in 5.2 s, hardly any later.
    assert files["run-warmup"] == {"kineto_tb_2021-01_resnet50_autograd_api.pt.trace.json.gz"}
    # A healthy training step, 5 of them in 480 ms.
    assert not any("hta_ns_resolution_rank-0.pt.trace.json.gz" in names for names in files.values())


@pytest.mark.corpus
def test_a_wrong_device_shows(corpus: Path) -> None:
    """GIVEN a trace of an A100 that is said to be a T4, with a fifth of its peaks."""
    path = corpus / "torch" / "hta_trace_diff_control_a100.json.gz"
    assert "run-peak-suspect" not in {one.rule for one in traceroof.diagnose(path).fired()}
    wrong = traceroof.diagnose(path, device="T4")
    suspect = only(wrong, "run-peak-suspect")
    assert suspect.state == "fired"
    # Nothing on a roofline is left to be doubted, and the advice must begin with it all the same.
    assert suspect.lowers == Lowered(0, 0.0, urgent=True)
    assert wrong.advice[0].lead == suspect
    # Told there, and not a second time.
    assert suspect.rule not in {one.finding.rule for one in caveats.care(wrong)}


@pytest.mark.corpus
def test_one_file_given_twice_is_one_recording(corpus: Path, tmp_path: Path) -> None:
    """Under its own name or another: nothing is added up twice, and nothing overlaps."""
    path = corpus / "torch" / "astrasim_megatron_tp8_rank1_a100.json"
    other = tmp_path / "other.json"
    other.write_bytes(path.read_bytes())
    once = traceroof.diagnose(path)
    assert only(once, "run-short-window").state == "fired"
    for again in (path, other):
        twice = traceroof.diagnose([path, again])
        assert twice.totals == once.totals
        rules_of = [{one.rule for one in found.fired()} for found in (once, twice)]
        assert rules_of[0] == rules_of[1]


@pytest.mark.corpus
def test_two_gpus_in_one_run_are_told(corpus: Path) -> None:
    """A T4 and a GB200, two files of Nsight Compute."""
    files = [
        corpus / "ncu_csv" / "brycelelbach__nsightful__copy_blocked.csv",
        *(corpus / "ncu_csv").glob("microsoft__superbenchmark__cublaslt_ncu*"),
    ]
    with pytest.raises(
        TraceroofError, match=r"copy_blocked\.csv .* 7\.5, .*cublaslt_ncu\.log .* 10\.0"
    ):
        traceroof.diagnose(files)
    both = diagnose(merge([traceroof.read(one).recording for one in files]))
    assert "GPU that the kernels ran on: 2" in only(both, "run-mixed-denominators").because
