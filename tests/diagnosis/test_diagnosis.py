"""Findings: what they are worth, what they silence, what could not be judged; the JSON contract."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.runs import recording
from traceroof import patterns
from traceroof.core import kernel_table
from traceroof.core.recording import VERDICTS, DeviceInfo
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.findings import Finding
from traceroof.errors import TraceroofError
from traceroof.hardware.ceilings import Attainable
from traceroof.rule import Rule
from traceroof.scopes.host_sums import HOST_SUM_COLUMNS
from traceroof.scopes.quality_columns import QUALITY_COLUMNS
from traceroof.scopes.subjects import CATEGORY_COLUMNS, RUN_COLUMNS, vocabulary
from traceroof.timeline.ranks import RANK_COLUMNS

# 1,555 GB/s, 19.5 TFLOP/s FP32 (traceroof/devices.toml).
A100 = DeviceInfo(name="NVIDIA A100-SXM4-40GB")


def made(id: str = "made", **changes: Any) -> Rule:
    """A rule that fires wherever compute use is known and saves a tenth of the time."""
    fields: dict[str, Any] = {
        "title": "made up",
        "scope": "kernel",
        "why": "why",
        "condition": "always",
        "needs": ("sm_throughput_pct",),
        "when": lambda k: k.sm_throughput_pct >= 0,
        "because": "compute runs at {sm_throughput_pct}",
        "topic": "latency",
        "fix": "fix",
        "refute": "refute",
        "saves": share(0.1),
        "kind": "hard",
        "grade": "observed",
        "layer": "hardware",
        "references": ("none",),
        "fires": (),
        "silent": (),
    }
    return Rule(id=id, **{**fields, **changes})


def share(part: float) -> Callable[[Any, Attainable], Any]:
    """A ``saves`` that is the same part of every subject's time."""
    return lambda k, peak: np.full(len(k), part)


def to_the_wall(k: Any, peak: Attainable) -> Any:
    """A ``saves`` that ends where compute does."""
    return np.full(len(k), 0.5) * peak.compute


def run_of(*durations: int | None, **columns: Any) -> Any:
    """A recording of kernels a, b, c, ... with 50 % compute use."""
    names = [chr(ord("a") + number) for number in range(len(durations))]
    known = {
        "kernel_name": names,
        "duration_ns": list(durations),
        "sm_throughput_pct": [50.0] * len(durations),
    }
    return recording({**known, **columns})


def only(diagnosis: Diagnosis) -> Finding:
    """The one finding that there is."""
    (finding,) = diagnosis.findings
    return finding


# --- what a finding is worth -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "severity"),
    [
        (1.0, "high"),
        (0.1, "high"),
        (0.0999, "medium"),
        (0.03, "medium"),
        (0.0299, "low"),
        (0.005, "low"),
    ],
)
def test_severity_comes_from_the_share_of_the_run(part: float, severity: str) -> None:
    finding = only(diagnose(run_of(1_000_000), rules=[made(saves=share(part))]))
    assert finding.severity == severity
    assert finding.time_saved_bound_ns == round(part * 1_000_000)


def test_what_saves_less_than_half_a_percent_is_only_counted() -> None:
    diagnosis = diagnose(run_of(1_000_000), rules=[made(saves=share(0.0049))])
    assert diagnosis.findings == ()
    assert diagnosis.hidden_findings == 1


def test_severity_is_measured_against_all_kernels() -> None:
    # Half of b: 0.5 x 100 = 50 of 1000, 5 %. Half of c: 4 of 1000, 0.4 %, which is listed because
    # somebody profiled c for its own sake.
    diagnosis = diagnose(run_of(892, 100, 8), rules=[made(saves=share(0.5))])
    severities = [(f.subject, f.severity) for f in diagnosis.findings]
    assert severities == [("a", "high"), ("b", "medium"), ("c", "info")]
    assert diagnosis.hidden_findings == 0


def test_what_saves_little_of_the_run_and_of_its_kernel_is_only_counted() -> None:
    diagnosis = diagnose(run_of(892, 100, 8), rules=[made(saves=share(0.04))])
    assert [f.subject for f in diagnosis.findings] == ["a"]  # 36 of 1000; 4 and 0.3 of b and c
    assert diagnosis.hidden_findings == 2


def test_information_is_listed_by_the_time_that_it_speaks_of() -> None:
    rule = made(severity="info", saves=share(0.0))
    diagnosis = diagnose(run_of(996, 4), rules=[rule])
    assert [(f.subject, f.severity) for f in diagnosis.findings] == [("a", "info")]
    assert diagnosis.hidden_findings == 1


def test_what_cannot_be_estimated_has_no_figure_and_raises_no_alarm() -> None:
    for kind in ("hard", "conditional", "option"):
        for saves in (None, share(math.nan)):
            finding = only(diagnose(run_of(1_000_000), rules=[made(saves=saves, kind=kind)]))
            assert finding.time_saved_bound_ns is None
            assert finding.time_saved_likely_ns is None
            assert finding.severity == "info"


def test_a_kernel_without_a_time_has_no_figure() -> None:
    finding = only(diagnose(run_of(None), rules=[made()]))
    assert finding.time_saved_bound_ns is None
    assert finding.severity == "info"


def test_two_figures() -> None:
    def saves(k: Any, peak: Attainable) -> Any:
        return 1 - k.sm_throughput_pct / (100 * np.asarray(peak.compute))

    # 1 - 0.5 and 1 - 0.5 / 0.8.
    finding = only(diagnose(run_of(1_000_000), rules=[made(saves=saves)]))
    assert finding.time_saved_bound_ns == 500_000
    assert finding.time_saved_likely_ns == 375_000
    # Calibrated to 0.625 of the peak: 1 - 0.5 / 0.625.
    measured = Attainable(memory=0.9, compute=0.625)
    finding = only(diagnose(run_of(1_000_000), rules=[made(saves=saves)], attainable=measured))
    assert finding.time_saved_likely_ns == 200_000


def test_likely_is_never_more_than_at_most() -> None:
    def saves(k: Any, peak: Attainable) -> Any:
        return np.full(len(k), 0.2 if peak.compute == 1 else 0.9)

    finding = only(diagnose(run_of(1_000_000), rules=[made(saves=saves)]))
    assert finding.time_saved_bound_ns == 200_000
    assert finding.time_saved_likely_ns == 200_000


# --- a conditional bound leaves room for the kernel's own bytes and operations -------------------


def capped(columns: dict[str, Any], kind: str = "conditional", **more: Any) -> Finding:
    known = {"kernel_name": ["k"], "sm_throughput_pct": [50.0], "duration_ns": [1_000_000]}
    run = recording({**known, **columns}, devices=(A100,), **more)
    return only(diagnose(run, rules=[made(saves=share(0.9), kind=kind)]))


def test_bytes_cap_a_conditional_bound() -> None:
    # 777.5 MB take 0.5 ms at 1,555 GB/s; copies reach 1,382 on this GPU.
    finding = capped({"dram_bytes": [777.5e6]})
    assert finding.time_saved_bound_ns == 500_000
    assert finding.time_saved_likely_ns == round(1e6 * (1 - 0.5 * 1555 / 1382))


def test_operations_cap_a_conditional_bound() -> None:
    # 9.75 GFLOP take 0.5 ms at 19.5 TFLOP/s and 0.625 ms at 80 % of it.
    finding = capped({"flop_fp32": [9.75e9]})
    assert finding.time_saved_bound_ns == 500_000
    assert finding.time_saved_likely_ns == 375_000


def test_a_launch_takes_its_time() -> None:
    # Ten launches of 3 us: 1.6 us each stay, the least that any launch takes.
    finding = capped({"duration_ns": [3000], "launch_count": [10]})
    assert finding.time_saved_bound_ns == 14_000
    # A launch of unknown duration takes no part, neither in the time nor in what must stay.
    columns = {
        "kernel_name": ["k", "k"],
        "sm_throughput_pct": [50.0, 50.0],
        "duration_ns": [3000, None],
        "launch_count": [10, 90],
    }
    assert capped(columns).time_saved_bound_ns == 14_000


@pytest.mark.parametrize("kind", ["hard", "option"])
def test_other_bounds_are_the_rules_own(kind: str) -> None:
    assert capped({"dram_bytes": [777.5e6]}, kind).time_saved_bound_ns == 900_000


# --- what findings together can save -----------------------------------------------------------


def test_one_kernel_counts_its_largest_bound_and_kernels_add() -> None:
    rules = [made("a-tenth"), made("half", saves=share(0.5)), made("none", saves=None)]
    totals = diagnose(run_of(600, 400), rules=rules).totals
    assert totals.time_saved_bound_ns == 300 + 200
    assert totals.time_saved_likely_ns == 300 + 200
    assert (
        diagnose(run_of(600), rules=[made("none", saves=None)]).totals.time_saved_bound_ns is None
    )


def test_silenced_findings_save_nothing() -> None:
    rules = [made("loud", suppresses=("quiet",)), made("quiet", saves=share(0.9))]
    assert diagnose(run_of(1000), rules=rules).totals.time_saved_bound_ns == 100


_PARTS = st.one_of(st.just(math.nan), st.floats(-1, 2))


@given(
    st.lists(st.one_of(st.none(), st.integers(0, 10**12)), min_size=1, max_size=8),
    st.lists(
        st.tuples(_PARTS, _PARTS, st.sampled_from(["hard", "conditional", "option"])), max_size=4
    ),
)
def test_savings_never_exceed_the_run(
    durations: list[int | None], parts: list[tuple[float, float, str]]
) -> None:
    def saves(at_most: float, likely: float) -> Callable[[Any, Attainable], Any]:
        return lambda k, peak: np.full(len(k), at_most if peak.compute == 1 else likely)

    rules = [
        made(f"rule-{number}", saves=saves(at_most, likely), kind=kind)
        for number, (at_most, likely, kind) in enumerate(parts)
    ]
    diagnosis = diagnose(run_of(*durations), rules=rules)
    times = {kernel.kernel: kernel.time_ns or 0 for kernel in diagnosis.kernels}
    for finding in diagnosis.findings:
        bound = finding.time_saved_bound_ns
        likely = finding.time_saved_likely_ns
        assert bound is None or 0 <= bound <= times[finding.subject]
        assert likely is None or bound is None or 0 <= likely <= bound
    totals = diagnosis.totals
    assert (totals.time_saved_bound_ns or 0) <= totals.kernel_time_ns
    assert (totals.time_saved_likely_ns or 0) <= (totals.time_saved_bound_ns or 0)


# --- confidence --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "confidence"),
    [
        ({"saves": to_the_wall}, 0.72),  # 0.9 observed x 0.8 for ceilings that nobody measured
        ({"saves": to_the_wall, "grade": "derived"}, 0.56),
        ({"saves": to_the_wall, "grade": "inferred"}, 0.40),
        ({}, 0.9),  # a share that is the same whatever is attainable: no ceiling enters
        ({"saves": None}, 0.9),
        ({"saves": to_the_wall, "trust": lambda k: np.full(len(k), 0.5)}, 0.36),
    ],
)
def test_confidence(changes: dict[str, Any], confidence: float) -> None:
    assert only(diagnose(run_of(1000), rules=[made(**changes)])).confidence == confidence


def test_a_calibrated_ceiling_is_trusted() -> None:
    calibrated = Attainable(memory=0.9, compute=0.8)
    assert only(diagnose(run_of(1000), rules=[made()], attainable=calibrated)).confidence == 0.9


@pytest.mark.parametrize(("launches", "confidence"), [(4, 0.45), (5, 0.9)])
def test_few_launches_of_a_timeline_are_trusted_less(launches: int, confidence: float) -> None:
    columns = {
        "kernel_name": ["k"],
        "duration_ns": [1000],
        "launch_count": [launches],
        "sm_throughput_pct": [50.0],
    }
    timeline = recording(columns, time_basis="timeline")
    assert only(diagnose(timeline, rules=[made()])).confidence == confidence
    # A counter tool replays the kernel: its counters do not scatter so.
    assert only(diagnose(recording(columns), rules=[made()])).confidence == 0.9


# --- states ------------------------------------------------------------------------------------


def test_a_rule_silences_others_on_the_same_kernel_only() -> None:
    loud = made("loud", suppresses=("quiet-*", "loud"), when=lambda k: k.sm_throughput_pct > 60)
    rules = [made("quiet-one"), loud, made("other")]
    run = run_of(600, 400, sm_throughput_pct=[90.0, 30.0])
    states = {
        (f.rule, f.subject): (f.state, f.suppressed_by) for f in diagnose(run, rules=rules).findings
    }
    assert states == {
        ("loud", "a"): ("fired", None),
        ("quiet-one", "a"): ("suppressed", "loud"),
        ("quiet-one", "b"): ("fired", None),
        ("other", "a"): ("fired", None),
        ("other", "b"): ("fired", None),
    }


def test_findings_are_ranked_by_what_they_are_worth() -> None:
    rules = [
        made("loud", saves=share(0.2), suppresses=("quiet",)),
        made("quiet", saves=share(0.9)),
        made("doubtful", saves=share(0.3), grade="inferred"),
        made("blind", needs=("l2_hit_pct",), when=lambda k: k.l2_hit_pct > 0, because="because"),
        made("clear", when=lambda k: k.sm_throughput_pct > 99),
    ]
    found = diagnose(run_of(1000), rules=rules).findings
    # 0.2 x 0.72 = 0.144 outranks 0.3 x 0.40 = 0.12.
    assert [(f.rule, f.state) for f in found] == [
        ("loud", "fired"),
        ("doubtful", "fired"),
        ("quiet", "suppressed"),
        ("blind", "not-evaluable"),
    ]


BLIND: dict[str, Any] = {
    "needs": ("issue_active", "dram_bytes"),
    "when": lambda k: k.issue_active > 0,
    "because": "because",
}


def test_kernels_that_lack_something_are_one_finding_with_the_command() -> None:
    run = run_of(
        600,
        300,
        99,
        1,
        kernel_name=["void ns::a<4>(int)", "b(float*)", "c", "d"],
        issue_active=[None, 0.5, 0.5, None],
        dram_bytes=[None, None, 10.0, None],
    )
    blind, fired = sorted(diagnose(run, rules=[made(**BLIND)]).findings, key=lambda f: f.state)[
        ::-1
    ]
    assert (fired.state, fired.subject) == ("fired", "c")
    assert blind.state == "not-evaluable"
    # d is a thousandth of the time: too little to collect anything for.
    assert blind.subject == "2 kernels"
    assert blind.subject_index is None
    assert blind.missing == ("issue_active", "dram_bytes")
    assert blind.because == "missing: issue_active, dram_bytes"
    assert blind.severity == "info"
    assert blind.time_saved_bound_ns is None
    assert blind.command == (
        "ncu --csv --page raw --metrics smsp__issue_active.avg.per_cycle_active,"
        "dram__bytes_read.sum,dram__bytes_write.sum "
        "--kernel-name 'regex:^(a|b)$' YOUR_PROGRAM > more.csv"
    )


def test_one_kernel_that_lacks_something_is_named() -> None:
    run = run_of(500, 500, issue_active=[0.5, None], dram_bytes=[1.0, 1.0])
    blind = diagnose(run, rules=[made(**BLIND)]).not_evaluable()[0]
    assert (blind.subject, blind.subject_index) == ("b", 1)
    assert blind.missing == ("issue_active",)


def test_the_command_is_the_one_of_the_vendor() -> None:
    run = recording(
        {"kernel_name": ["gemm.kd"], "duration_ns": [1000]},
        devices=(DeviceInfo(name="AMD Instinct MI300X", gfx_target="gfx942"),),
    )
    rule = made(needs=("sm_throughput_pct",))
    command = only(diagnose(run, rules=[rule])).command
    assert command == "rocprof-compute profile -n more -k gemm -b 2 -- YOUR_PROGRAM"


def test_what_a_rule_is_not_about_is_clear_not_unknown() -> None:
    rule = made(**BLIND, applies=lambda k: k.issue_active > 0)
    assert diagnose(run_of(1000), rules=[rule]).findings == ()


# --- what a finding shows ----------------------------------------------------------------------


def test_evidence_has_units_thresholds_and_what_percentages_are_of() -> None:
    rule = made(
        needs=("sm_throughput_pct",),
        uses=("dram_pct", "compute_pct", "pipe_fma_pct", "l2_hit_pct", "duration_ns", "top_pipe"),
        thresholds={"sm_throughput_pct": ">= 0"},
        because="compute at {sm_throughput_pct:.0f}, {top_pipe} at {pipe_fma_pct}, L2 {l2_hit_pct}",
        fix="spend {duration_ns} better",
    )
    run = run_of(
        1500,
        dram_bytes=[1166.25e3],
        pipe_fma_pct=[33.333],
        pipe_basis=["active"],
        peak_dram_bytes_per_s=[1.555e12],
    )
    finding = only(diagnose(run, rules=[rule]))
    assert finding.because == "compute at 50, fma at 33.3 %, L2 unknown"
    assert finding.fix == "spend 1.50 µs better"
    shown = {e.metric: (e.value, e.unit, e.threshold, e.basis) for e in finding.evidence}
    # 1166.25 kB in 1.5 us are 777.5 GB/s; what is unknown is no evidence.
    assert shown == {
        "sm_throughput_pct": (50.0, "%", ">= 0", "elapsed"),
        "dram_pct": (pytest.approx(50.0), "%", "", "report peak"),
        "compute_pct": (50.0, "%", "", "elapsed"),
        "pipe_fma_pct": (33.333, "%", "", "active"),
        "duration_ns": (1500.0, "ns", "", ""),
        "top_pipe": ("fma", "", "", ""),
    }


# --- totals, categories, run -------------------------------------------------------------------


def categorised() -> Any:
    return recording(
        {
            "kernel_name": [
                "ampere_sgemm_128x64_nn",
                "ampere_sgemm_128x64_nn",
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
                "[CUDA memcpy DtoH]",
                "softmax_warp_forward",
            ],
            "kind": ["kernel", "kernel", "kernel", "memcpy", "kernel"],
            "duration_ns": [300, 500, 100, 50, None],
            "launch_count": [1, 1, 1, 1, 3],
        }
    )


def test_categories_add_up_to_all_gpu_time() -> None:
    diagnosis = diagnose(categorised(), rules=[])
    found = [(c.category, c.launches, c.time_ns) for c in diagnosis.categories]
    assert found == [
        ("gemm", 2, 800),
        ("communication", 1, 100),
        ("memcpy", 1, 50),
        ("softmax", 3, 0),
    ]
    shares = [category.share for category in diagnosis.categories]
    assert shares == [pytest.approx(one / 950) for one in (800, 100, 50, 0)]
    assert sum(c.time_ns for c in diagnosis.categories) == kernel_table.total_time_ns(
        categorised().kernels, kind=None
    )


def test_totals_count_kernels_and_name_what_is_left_out() -> None:
    diagnosis = diagnose(categorised(), rules=[])
    assert diagnosis.totals.launches == 6
    assert diagnosis.totals.kernel_time_ns == 900
    assert diagnosis.totals.unknown_durations == 3
    assert diagnosis.notes[0].startswith("3 of 6 launches have no known duration")


def test_a_rule_may_judge_the_run_or_a_category() -> None:
    run = run_of(
        750,
        250,
        sm_throughput_pct=[40.0, 80.0],
        memory_throughput_pct=[20.0, 10.0],
    )
    whole = made(
        "whole",
        scope="run",
        needs=("busiest_pct", "kernel_time_ns"),
        when=lambda k: k.busiest_pct > 0,
        because="{busiest_pct} of {kernel_time_ns}",
    )
    part = made(
        "part",
        scope="category",
        needs=("share_pct",),
        when=lambda k: k.share_pct > 50,
        because="{share_pct}",
    )
    found = {f.rule: f for f in diagnose(run, rules=[whole, part]).findings}
    # (750 x 40 + 250 x 80) / 1000.
    assert found["whole"].because == "50 % of 1 µs"
    assert (found["whole"].subject, found["whole"].time_saved_bound_ns) == ("run", 100)
    assert (found["part"].subject, found["part"].because) == ("other", "100 %")
    # Both save the same 100 ns, which count once.
    assert diagnose(run, rules=[whole, part]).totals.time_saved_bound_ns == 100


def test_scopes_have_their_columns() -> None:
    run = (
        *RUN_COLUMNS, *RANK_COLUMNS, *patterns.RUN_COLUMNS, *QUALITY_COLUMNS, *HOST_SUM_COLUMNS,
    )  # fmt: skip
    assert set(vocabulary("run")) == {entry.name for entry in run}
    category = (*CATEGORY_COLUMNS, *patterns.CATEGORY_COLUMNS)
    assert set(vocabulary("category")) == {entry.name for entry in category}
    assert {"dram_pct", "stall_wait", "primary_class"} <= set(vocabulary("kernel"))


def test_a_device_can_be_named_where_the_file_does_not() -> None:
    run = run_of(1_000_000, dram_bytes=[777.5e6])
    assert "dram_pct" not in diagnose(run, rules=[]).kernels[0].metrics
    named = diagnose(run, device="A100-SXM4-40GB", rules=[])
    assert named.kernels[0].metrics["dram_pct"] == pytest.approx(50.0)
    assert [device.name for device in named.devices] == ["A100-SXM4-40GB"]
    with pytest.raises(TraceroofError, match="nonsense is not one GPU") as raised:
        diagnose(run, device="nonsense")
    assert "traceroof devices" in raised.value.hint


def test_an_unknown_device_is_said() -> None:
    run = recording({"kernel_name": ["k"]}, devices=(DeviceInfo(name="GPU of the future"),))
    assert any("GPU of the future is not in" in note for note in diagnose(run, rules=[]).notes)


def test_what_the_vendor_says_stands_beside_ours() -> None:
    text = "This kernel exhibits low compute throughput and memory bandwidth utilization"
    verdicts = VERDICTS.empty_table().from_pylist(
        [{"row": 0, "rule": "SOLBottleneck", "level": "OPT", "section": "", "text": text}],
        schema=VERDICTS,
    )
    columns = {"kernel_name": ["k"], "duration_ns": [1000], "sm_throughput_pct": [90.0]}
    kernel = diagnose(recording(columns, verdicts=verdicts), rules=[]).kernels[0]
    assert kernel.primary_class == "compute-bound"
    assert [verdict.text for verdict in kernel.disagreements] == [text]


def test_an_empty_recording_is_diagnosed() -> None:
    diagnosis = diagnose(recording({"kernel_name": []}))
    assert diagnosis.kernels == ()
    assert diagnosis.totals.kernel_time_ns == 0
    assert [f.state for f in diagnosis.findings if f.state == "fired"] == []
    json.dumps(diagnosis.to_dict(), allow_nan=False)


# --- the JSON contract -------------------------------------------------------------------------

# DESIGN §6, word for word; additions are free, renames are not.
CONTRACT: dict[str, Sequence[str]] = {
    "": ("schema", "run", "totals", "timelines", "categories", "kernels", "findings"),
    "run": ("id", "name", "sources", "devices"),
    "source": ("path", "format", "launches", "notes"),
    "device": ("name", "architecture"),
    "totals": (
        "launches",
        "kernel_time_ns",
        "span_ns",
        "gpu_busy_ns",
        "gpu_idle_ns",
        "exposed_communication_ns",
    ),
    "category": ("category", "launches", "time_ns", "share"),
    "kernel": (
        "kernel",
        "category",
        "class",
        "launches",
        "time_ns",
        "share",
        "median_ns",
        "metrics",
        "roofline",
    ),
    "finding": (
        "rule",
        "state",
        "subject",
        "severity",
        "confidence",
        "kind",
        "time_saved_bound_ns",
        "time_saved_likely_ns",
        "because",
        "fix",
        "evidence",
    ),
    "evidence": ("metric", "value", "unit", "threshold", "basis"),
}


def test_the_json_has_every_key_of_the_contract() -> None:
    run = recording(
        {
            "kernel_name": ["k"],
            "duration_ns": [1_000_000],
            "sm_throughput_pct": [20.0],
            "memory_throughput_pct": [30.0],
            "dram_bytes": [777.5e6],
            "flop_fp32": [1e9],
        },
        devices=(A100,),
    )
    payload = json.loads(json.dumps(diagnose(run).to_dict(), allow_nan=False))
    objects = {
        "": [payload],
        "run": [payload["run"]],
        "source": payload["run"]["sources"],
        "device": payload["run"]["devices"],
        "totals": [payload["totals"]],
        "category": payload["categories"],
        "kernel": payload["kernels"],
        "finding": payload["findings"],
        "evidence": [e for finding in payload["findings"] for e in finding["evidence"]],
    }
    for what, keys in CONTRACT.items():
        assert objects[what], what
        for one in objects[what]:
            assert set(keys) <= set(one), (what, set(keys) - set(one))
    assert payload["schema"] == "traceroof/diagnosis/1"
    assert payload["kernels"][0]["class"] == "latency-bound"
    assert payload["kernels"][0]["roofline"] is not None
    states = {finding["state"] for finding in payload["findings"]}
    assert states <= {"fired", "suppressed", "not-evaluable"}


def test_top_cuts_only_where_it_is_asked_for() -> None:
    diagnosis = diagnose(run_of(500, 300, 200), rules=[made()])
    assert [len(diagnosis.to_dict()[part]) for part in ("kernels", "findings")] == [3, 3]
    assert [len(diagnosis.to_dict(top=2)[part]) for part in ("kernels", "findings")] == [2, 2]
