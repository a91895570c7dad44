"""How a rule came to what it says: the figures are those of the finding."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.runs import recording, two_kernels
from traceroof import plugins
from traceroof.core.facts import Column, Facts, Mask
from traceroof.core.units import quantity
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.diagnosis import Diagnosis
from traceroof.diagnosis.explain import entry, explain
from traceroof.diagnosis.explanation import Explanation
from traceroof.diagnosis.narrow import of_kernels
from traceroof.errors import TraceroofError
from traceroof.ingest.detect import read
from traceroof.report.common import json as json_report
from traceroof.report.run import explanation
from traceroof.rule import Attainable, Rule


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return diagnose(two_kernels())


def one(diagnosis: Diagnosis, wanted: str) -> Explanation:
    (answer,) = explain(diagnosis, wanted).answers
    return answer


def test_a_finding_step_by_step(diagnosis: Diagnosis) -> None:
    """GIVEN a copy at 90 % of the DRAM peak for 90 µs WHEN its wall is explained THEN at most
    1 - 90 / 100 of 90 µs = 9 µs go, and nothing is likely to (90 % is above 85 %)."""
    found = one(diagnosis, "dram-at-wall")
    assert (found.subject, found.number, found.state) == ("copy<float>(float *)", 1, "fired")
    assert [(check.text, check.figures, check.holds) for check in found.concerns] == [
        ("primary_class is none of communication, copy", "dram-bound", True)
    ]
    (condition,) = found.condition
    assert condition.join == "any"
    assert condition.holds
    first, second = condition.parts
    assert [(part.text, part.figures) for part in first.parts] == [
        ("dram_pct > 80", "90 > 80"),
        ("dram_basis ≠ nominal peak", "elapsed"),
        ("dram_basis ≠ report peak", "elapsed"),
    ]
    assert (second.text, second.holds) == ("primary_class is dram-bound", True)
    share, time = found.bound
    assert share.formula == "1 − dram_pct / (100 × memory ceiling)"
    assert (share.figures, share.result) == ("1 − 90 / (100 × 1)", "0.1")
    assert (time.figures, time.result) == ("0.1 × 90 µs", "9 µs")
    # 1 - 90 / 85 = -0.0588
    assert found.likely[0].figures == "1 − 90 / (100 × 0.85)"
    assert found.likely[0].result == "-0.05882, kept within 0 and 1: 0"
    assert found.finding is not None
    assert found.finding.time_saved_bound_ns == 9_000
    assert found.finding.time_saved_likely_ns == 0
    assert found.outcomes == "fired on 1, clear on 1 of 2 kernels"
    assert found.severity == "info: always, whatever it saves"


def test_a_rule_that_did_not_fire_says_why(diagnosis: Diagnosis) -> None:
    found = one(diagnosis, "dram-at-wall:2")
    assert found.state == "clear"
    assert found.finding is None
    assert not found.bound
    assert found.says == "did not fire: none of what it looks for holds"
    assert one(diagnosis, "latency-bound:copy").says == (
        "does not apply: primary_class is one of latency-bound, not-evaluable does not hold "
        "(dram-bound)"
    )


def test_a_rule_that_lacks_a_column_names_it_and_the_command(diagnosis: Diagnosis) -> None:
    found = one(diagnosis, "tail-wave:2")
    assert found.state == "not-evaluable"
    assert found.says == "could not be judged: waves unknown"
    assert found.missing == ("waves",)
    assert found.command is not None
    assert found.command.startswith("ncu ")


def test_a_silenced_finding_names_what_silences_it() -> None:
    samples = Path(__file__).parents[2] / "sample_traces"
    run = diagnose(read([samples / "nsight_compute/transformer_layer.raw.csv"]))
    silenced = next(found for found in run.findings if found.state == "suppressed")
    assert silenced.subject_index is not None
    found = one(run, f"{silenced.rule}:{silenced.subject_index + 1}")
    assert found.state == "suppressed"
    assert found.says == f"fired, but {silenced.suppressed_by} says it better"


def test_conditional_savings_end_where_the_work_needs_the_time() -> None:
    """GIVEN 8 blocks on 100 multiprocessors and 1 GB in 1 ms at 2 TB/s WHEN small-grid is explained
    THEN the grid leaves 92 % empty, but the bytes need 0.5 ms: half of the time is all."""
    run = diagnose(
        recording(
            {
                "kernel_name": ["k()"], "duration_ns": [1_000_000], "sm_throughput_pct": [5.0],
                "memory_throughput_pct": [5.0], "dram_bytes": [1e9], "sm_count": [100],
                "peak_dram_bytes_per_s": [2e12],
                "grid_x": [8], "grid_y": [1], "grid_z": [1],
            }
        )
    )  # fmt: skip
    found = one(run, "small-grid")
    share, time, cap = found.bound
    assert share.result == "0.92"
    assert time.result == "920 µs"
    assert cap.result == "500 µs"
    assert found.finding is not None
    assert found.finding.time_saved_bound_ns == 500_000
    # 1e9 / (2e12 * 0.85) = 588 µs: 412 µs of the millisecond remain.
    assert found.finding.time_saved_likely_ns == pytest.approx(411_765, abs=1)
    assert found.likely[-1].result == "412 µs"
    assert found.severity.startswith("high: 50.0 % of 1 ms")


def saved_of(found: Explanation) -> str:
    return found.bound[-1].result if found.bound else ""


@pytest.mark.parametrize(
    "sample",
    [
        "nsight_compute/transformer_layer.raw.csv", "torch/decode.json", "torch/training.rank0.json",
        "rocprof_compute/MI210", "rocprofv3/model-host",
    ],
)  # fmt: skip
def test_every_finding_is_explained_with_its_own_figures(sample: str, samples: Path) -> None:
    run = diagnose(read([samples / sample]))
    explained = 0
    for found in run.findings:
        if found.subject_index is None:
            continue
        answer = one(run, f"{found.rule}:{found.subject_index + 1}")
        assert answer.state == found.state
        if found.state == "not-evaluable":
            assert answer.missing == found.missing
            continue
        assert answer.traced
        assert all(check.holds for check in (*answer.concerns, *answer.condition))
        if found.time_saved_bound_ns is not None:
            # The last step is the figure of the finding, to three digits.
            assert saved_of(answer) == quantity(found.time_saved_bound_ns, "ns") or (
                abs(found.time_saved_bound_ns) < 1_000
            )
        product = np.prod([factor for _, factor in found.confidence_factors])
        assert found.confidence == pytest.approx(product, abs=0.006)
        explained += 1
        for text in (
            explanation.render(explain(run, f"{found.rule}:{found.subject_index + 1}"), width=80),
            explanation.render_markdown(explain(run, f"{found.rule}:{found.subject_index + 1}")),
        ):
            assert "nan" not in text.lower().split()
    assert explained


def test_an_entry_of_the_advice_by_its_number(diagnosis: Diagnosis) -> None:
    lead = diagnosis.advice[0].lead
    assert lead.subject_index is not None
    assert entry(diagnosis, 1) == f"{lead.rule}:{lead.subject_index + 1}"
    with pytest.raises(TraceroofError, match="there is no entry 9"):
        entry(diagnosis, 9)


def test_what_cannot_be_explained_is_said(diagnosis: Diagnosis) -> None:
    for wanted, says in (
        ("small-gird", "no rule is called small-gird"),
        ("small-grid:3", "there is no kernel 3: this run has 2 kernels"),
        ("small-grid:qqq", "no kernel has 'qqq' in its name"),
        ("host-bound", "host-bound judges timelines, and this run has none"),
        ("cmp-bytes-up", "judges what changed between two runs"),
    ):
        with pytest.raises(TraceroofError, match=says):
            explain(diagnosis, wanted)


def test_json_form(diagnosis: Diagnosis) -> None:
    made = json.loads(json_report.render(explain(diagnosis, "dram-at-wall")))
    assert made["schema"] == "traceroof/explanation/1"
    (answer,) = made["explanations"]
    assert answer["bound"][0]["result"] == "0.1"
    assert answer["condition"][0]["parts"][0]["parts"][0]["figures"] == "90 > 80"


def _asarray(k: Facts) -> Mask:
    """A condition of a plug-in that drops what its columns remember."""
    return np.asarray(np.asarray(k.dram_pct) > 80)


def _breaks(k: Facts, peak: Attainable) -> Column:
    """A formula that numpy cannot hand over."""
    return np.array([float(value) for value in k.dram_pct.tolist()]) / 1000


def test_a_plug_in_that_cannot_be_followed_is_still_explained() -> None:
    built_in = next(rule for rule in plugins.rules() if rule.id == "dram-at-wall")
    rule: Rule = replace(built_in, id="plain", when=_asarray, applies=None, saves=_breaks)
    found = one(diagnose(two_kernels(), rules=[rule]), "plain")
    assert found.state == "fired"
    assert not found.traced
    # 90 / 1000 of 90 µs
    assert found.bound[-1].result == "8.10 µs"
    text = explanation.render(explain(diagnose(two_kernels(), rules=[rule]), "plain"))
    assert "could not be followed" in text
    assert "DRAM use is above 80 %" in text


def test_kernels_by_themselves(diagnosis: Diagnosis) -> None:
    """GIVEN two kernels WHEN the second is taken alone THEN it keeps its number and the totals
    are the run's, and a rule that lacks a column says so for this kernel."""
    narrow = of_kernels(diagnosis, (1,))
    (kernel,) = narrow.kernels
    assert (kernel.kernel, kernel.number) == ("wait|<b>`x`@me(int)", 2)
    assert narrow.totals == diagnosis.totals
    assert {found.subject_index for found in narrow.findings} == {0}
    assert {found.subject for found in narrow.findings} == {kernel.kernel}
    alone = {found.rule for found in narrow.findings if found.state == "fired"}
    before = {found.rule for found in diagnosis.fired() if found.subject_index == 1}
    assert before
    assert before <= alone
    assert any(found.state == "not-evaluable" for found in narrow.findings)
    # A kernel alone can be explained like any other.
    assert one(narrow, "latency-bound").subject == kernel.kernel


def test_without_grounds_nothing_is_explained(diagnosis: Diagnosis) -> None:
    bare = replace(diagnosis, grounds=None)
    with pytest.raises(ValueError, match="no grounds"):
        explain(bare, "dram-at-wall")
    with pytest.raises(ValueError, match="no grounds"):
        of_kernels(bare, (0,))
