"""What the profiler's own rules mean in our terms."""

import json

import pyarrow as pa
import pytest

from tests.runs import recording
from traceroof.core.recording import VERDICTS
from traceroof.diagnosis.diagnose import diagnose
from traceroof.diagnosis.vendor_verdicts import classes_meant, verdicts_of_groups
from traceroof.kernels.bound_class import CLASSES
from traceroof.report.common import json as as_json
from traceroof.report.run import operator_card, terminal


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("This kernel grid is too small to fill the available resources", {"latency-bound", "launch-bound"}),
        ("This kernel exhibits low compute throughput and memory bandwidth utilization", {"latency-bound", "launch-bound"}),
        ("Compute and Memory are well-balanced: To reduce runtime, both must be reduced.", {"balanced"}),
        ("Memory is more heavily utilized than Compute: look at the section to identify the DRAM bottleneck", {"dram-bound", "memory-bound", "memory-leaning"}),
        ("Memory is more heavily utilized than Compute: look at the section to identify the L2 bottleneck", {"l2-bound", "memory-bound", "memory-leaning"}),
        ("Compute is more heavily utilized than Memory: look at the section", {"compute-leaning", "compute-bound"}),
        ("The kernel is utilizing greater than 80.0% of the available performance. Start by analyzing DRAM in the section", {"dram-bound", "memory-bound"}),
        ("nothing that we know", set()),
    ],
)  # fmt: skip
def test_speed_of_light_sentences(text: str, classes: set[str]) -> None:
    assert classes_meant("SOLBottleneck", "SpeedOfLight", text) == classes
    assert classes_meant(None, "SpeedOfLight", text) == classes, "text pages name no rule"
    assert classes_meant("CPIStall", "WarpStateStats", text) == set()
    assert classes <= set(CLASSES)


def test_the_same_advice_with_other_numbers_is_one_verdict_with_the_largest_estimate() -> None:
    rows = [
        {"row": 0, "rule": "A", "text": "12.5 cycles", "speedup_scope": "local", "speedup_pct": 10.0},
        {"row": 1, "rule": "A", "text": "99.0 cycles", "speedup_scope": "local", "speedup_pct": 30.0},
        {"row": 2, "rule": "A", "text": "1 cycles", "speedup_scope": "local", "speedup_pct": None},
        {"row": 3, "rule": "A", "text": "of a copy", "speedup_scope": None, "speedup_pct": None},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, VERDICTS)
    first, second = verdicts_of_groups(table, [0, 0, 1, -1], 2)
    assert [(one.text, one.speedup_pct, one.launches) for one in first] == [
        ("99.0 cycles", 30.0, 2)
    ]
    assert [(one.speedup_pct, one.launches) for one in second] == [(None, 1)]


def test_a_global_estimate_is_shown_capped_at_our_own_bound() -> None:
    """GIVEN a kernel whose busiest unit needs 60 % of its time WHEN the vendor's rules estimate
    70 % of the kernel, 30 % of it and 80 % of one unit THEN the first is shown as 40 %, the others
    as they are, and JSON keeps all that the vendor said."""
    rows = [
        {"row": 0, "rule": rule, "level": "OPT", "text": rule, "speedup_scope": scope,
         "speedup_pct": pct}
        for rule, scope, pct in (
            ("AchievedOccupancy", "global", 70.0),
            ("TheoreticalOccupancy", "global", 30.0),
            ("CPIStall", "local", 80.0),
        )
    ]  # fmt: skip
    run = recording(
        {"kernel_name": ["k"], "duration_ns": [1_000_000], "sm_throughput_pct": [60.0],
         "memory_throughput_pct": [20.0]},
        verdicts=pa.Table.from_pylist(rows, VERDICTS),
    )  # fmt: skip
    made = diagnose(run)
    (kernel,) = made.kernels
    assert [(one.speedup_pct, one.capped_pct, one.estimate_pct) for one in kernel.vendor] == [
        (70.0, 40.0, 40.0),
        (30.0, None, 30.0),
        (80.0, None, 80.0),
    ]
    assert [stands for _, stands, _ in operator_card.vendor(kernel)] == [
        "estimates 40 % (of the kernel's time, capped at our bound)",
        "estimates 30 % (of the kernel's time)",
        "estimates 80 % (of one unit's time)",
    ]
    (entry,) = json.loads(as_json.render(made))["kernels"]
    assert [(one["speedup_pct"], one["capped_pct"]) for one in entry["vendor"]] == [
        (70.0, 40.0),
        (30.0, None),
        (80.0, None),
    ]


def test_the_terminal_says_that_an_estimate_is_capped() -> None:
    """GIVEN 1 GB in 1 ms at 2 TB/s, so that half of the time could go WHEN the vendor estimates
    90 % THEN it reads 50 %."""
    rows = [{"row": 0, "rule": "AchievedOccupancy", "level": "OPT", "text": "gap",
             "speedup_scope": "global", "speedup_pct": 90.0}]  # fmt: skip
    run = recording(
        {"kernel_name": ["k"], "duration_ns": [1_000_000], "sm_throughput_pct": [20.0],
         "memory_throughput_pct": [50.0], "dram_throughput_pct": [50.0],
         "dram_read_bytes": [1e9], "dram_write_bytes": [0.0], "peak_dram_bytes_per_s": [2e12]},
        verdicts=pa.Table.from_pylist(rows, VERDICTS),
    )  # fmt: skip
    text = " ".join(terminal.render(diagnose(run)).split())
    assert "AchievedOccupancy (50 % of its time, capped)" in text.replace("\u00a0", " ")


def test_nothing_known_of_a_kernel_caps_nothing() -> None:
    rows = [{"row": 0, "rule": "A", "level": "OPT", "text": "a", "speedup_scope": "global",
             "speedup_pct": 90.0}]  # fmt: skip
    run = recording({"kernel_name": ["k"]}, verdicts=pa.Table.from_pylist(rows, VERDICTS))
    assert diagnose(run).kernels[0].vendor[0].estimate_pct == 90.0
