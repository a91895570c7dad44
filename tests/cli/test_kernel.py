"""``--kernel`` narrows ``diagnose`` and ``compare``: every format, the gate, the explanation."""

import json
from pathlib import Path

from tests.cli.test_cli import run

TRACE = "torch/training.rank0.json"


def test_diagnose_of_one_kernel(samples: Path, tmp_path: Path) -> None:
    """GIVEN a step of 30 kernels WHEN narrowed to the optimizer's THEN it alone is listed, with its
    number and share of the whole."""
    asked = ("diagnose", samples / TRACE, "--kernel", "multi_tensor", "--no-calibration")
    made = json.loads(run(*asked, "--format", "json", cwd=tmp_path).stdout)
    assert made["narrowed"] == {"wanted": "multi_tensor", "kernels": 1, "of_kernels": 30}
    (kernel,) = made["kernels"]
    assert (kernel["number"], round(kernel["share"], 3)) == (2, 0.148)
    assert made["totals"]["launches"] == 192
    rows = run(*asked, "--format", "csv", cwd=tmp_path).stdout.splitlines()
    assert len(rows) == 2
    explained = run(*asked, "--explain", "not-enough-metrics", cwd=tmp_path).stdout
    assert "multi_tensor" in explained


def test_the_gate_looks_at_the_kernel_alone(samples: Path, tmp_path: Path) -> None:
    sample = samples / "nsight_compute/transformer_layer.raw.csv"
    gate = ("--fail-on", "low")
    whole = run("diagnose", sample, *gate, cwd=tmp_path, expect=1).stderr
    assert "gate failed" in whole
    run("diagnose", sample, "--kernel", "ncclDev", *gate, cwd=tmp_path)
    run("diagnose", sample, "--kernel", "gatherTopK", *gate, cwd=tmp_path, expect=1)


def test_compare_of_one_kernel(samples: Path, tmp_path: Path) -> None:
    trace = samples / TRACE
    text = run("compare", trace, trace, "--kernel", "nccl", cwd=tmp_path).stdout
    assert text.startswith("NO CHANGE: nccl")
    assert "multi_tensor" not in text


def test_what_cannot_be_meant(samples: Path, tmp_path: Path) -> None:
    """GIVEN a name that no kernel has, or two options that choose kernels, THEN one sentence."""
    trace = samples / TRACE
    said = run("diagnose", trace, "--kernel", "flahs_fwd", cwd=tmp_path, expect=2).stderr
    assert "no kernel has 'flahs_fwd' in its name" in said
    assert "did you mean" in said
    said = run("diagnose", trace, "--kernel", "1", "--card", "1", cwd=tmp_path, expect=2).stderr
    assert "--kernel and --card answer two questions" in said
