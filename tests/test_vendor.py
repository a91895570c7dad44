"""What the profiler's own rules mean in our terms."""

import pyarrow as pa
import pytest

from traceroof.classes import CLASSES
from traceroof.recording import VERDICTS
from traceroof.vendor import classes_meant, verdicts_of_groups


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("This kernel grid is too small to fill the available resources", {"latency-bound", "launch-bound"}),
        ("This kernel exhibits low compute throughput and memory bandwidth utilization", {"latency-bound", "launch-bound"}),
        ("Compute and Memory are well-balanced: To reduce runtime, both must be reduced.", {"balanced"}),
        ("Memory is more heavily utilized than Compute: look at the section to identify the DRAM bottleneck", {"dram-bound", "memory-leaning"}),
        ("Memory is more heavily utilized than Compute: look at the section to identify the L2 bottleneck", {"l2-bound", "memory-leaning"}),
        ("Compute is more heavily utilized than Memory: look at the section", {"compute-leaning", "compute-bound"}),
        ("The kernel is utilizing greater than 80.0% of the available performance. Start by analyzing DRAM in the section", {"dram-bound"}),
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
        ("12.5 cycles", 30.0, 2)
    ]
    assert [(one.speedup_pct, one.launches) for one in second] == [(None, 1)]
