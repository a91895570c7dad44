"""Comparisons of runs in which times are unknown: no verdict rests on what was not timed."""

import re
from pathlib import Path

import pytest

from traceroof.compare import compare
from traceroof.compare.gates import failures
from traceroof.core.recording import Run
from traceroof.ingest.detect import read
from traceroof.report.common import json
from traceroof.report.compare import markdown, terminal


def run(root: Path, name: str) -> Run:
    return Run(read([root / "tests/field_cases/hostile" / name]), name)


@pytest.mark.parametrize(
    ("base", "head"), [("faster_base", "faster_head"), ("cmp_base", "cmp_head")]
)
def test_a_time_known_on_one_side_only(root: Path, base: str, head: str) -> None:
    """GIVEN a kernel whose time only one side knows THEN inconclusive, and the gate does not pass."""
    for left, right in ((base, head), (head, base)):
        found = compare(run(root, f"{left}.csv"), run(root, f"{right}.csv"))
        assert found.verdict == "inconclusive"
        assert found.total.delta_ns is None
        assert failures(found, ["regression"]) == [
            "kernel time cannot be judged: some durations are unknown"
        ]


def test_no_nan_is_printed(root: Path) -> None:
    found = compare(run(root, "faster_base.csv"), run(root, "faster_head.csv"))
    texts = [terminal.render(found), markdown.render(found), json.render(found, top=None)]
    assert not [text for text in texts if re.search(r"\bnan\b", text, re.IGNORECASE)]
